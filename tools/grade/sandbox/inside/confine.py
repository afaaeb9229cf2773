"""Shutting a process in: another user, limits, Landlock, a filter of system calls.

A `Room` says what there is inside. All of this is undone by nobody: it ends with the process.
"""

import os
import resource
import signal
from dataclasses import dataclass, field

from . import DEVICES, DISK, kernel, landlock, seccomp

MIB = 1 << 20
OPEN_FILES, THREADS = 256, 64


@dataclass
class Room:
    """What a session is given; plain data, as it crosses processes."""

    read: list[str] = field(default_factory=list)  # files and folders that may be read
    folder: str = ""  # of its own, which it may write into
    user: int | None = None  # who it becomes; None: it stays who it is
    landlock: bool = True  # off where the kernel has none and bubblewrap is around
    seccomp: bool = True  # off only in tests, which show that it is needed


def become(user: int | None) -> None:
    """Become a user of no name and no groups, if one is given, without any capability."""
    kernel.drop_bounding_set()
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    kernel.clear_capabilities()
    kernel.prctl(kernel.SET_NO_NEW_PRIVS, 1)


def limit(room: Room) -> None:
    """Limits that the kernel keeps for this process; that of memory comes later."""
    limits = {
        resource.RLIMIT_FSIZE: DISK * MIB,
        resource.RLIMIT_NOFILE: OPEN_FILES,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
    }
    if room.user is not None:  # an ordinary user's threads count together, whoever runs them
        limits[resource.RLIMIT_NPROC] = THREADS
    for kind, value in limits.items():
        resource.setrlimit(kind, (value, value))


def limit_memory(most: int) -> None:
    """Have at most so many bytes of memory of its own; what is shared has a file, or is refused."""
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def die_with_parent() -> None:
    """Be killed when the parent ends; to be said after the user was changed, which unsays it."""
    kernel.prctl(kernel.SET_PDEATHSIG, signal.SIGKILL)


def enter(room: Room) -> None:
    """Shut this process in, but for the filter of system calls, which `shut` loads.

    The working directory becomes the folder that may be written.
    """
    limit(room)
    become(room.user)
    die_with_parent()
    os.chdir(room.folder)
    if room.landlock:
        landlock.restrict(room.read, [os.getcwd(), *DEVICES])


def shut(room: Room) -> None:
    """Load the filter of system calls."""
    if room.seccomp:
        seccomp.load(seccomp.program(os.getpid()))
