"""Shutting a process in: another user, limits, Landlock, a filter of system calls.

All of this is undone by nobody: it ends with the process.
"""

import os
import resource
import signal
from collections.abc import Mapping
from typing import Any

from . import DEVICES, DISK, THREADS, kernel, landlock

OPEN_FILES = 256


def enter(room: Mapping[str, Any], memory: int) -> None:
    """Shut this process in, but for the filter of system calls.

    `room` is what the helper was told: what may be `read`, the `user` to become, whether it is
    `wrapped` by bubblewrap, what a test leaves out. `memory` is the most bytes of its own that it
    may have: what is shared has a file, or is refused. The working directory may be written.
    """
    limit(room["user"], memory)
    become(room["user"])
    kernel.prctl(kernel.SET_PDEATHSIG, signal.SIGKILL)  # a change of user would unsay it
    needless = room["wrapped"] and not landlock.abi()
    if not needless and room["without"] != "landlock":
        landlock.restrict(room["read"], [os.getcwd(), *DEVICES])


def limit(user: int | None, memory: int) -> None:
    """Limits that the kernel keeps for this process."""
    limits = {
        resource.RLIMIT_DATA: memory,
        resource.RLIMIT_FSIZE: DISK << 20,
        resource.RLIMIT_NOFILE: OPEN_FILES,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
    }
    if user is not None:  # an ordinary user's threads count together, whoever runs them
        limits[resource.RLIMIT_NPROC] = THREADS
    for kind, value in limits.items():
        resource.setrlimit(kind, (value, value))


def become(user: int | None) -> None:
    """Become a user of no name and no groups, if one is given, without any capability."""
    kernel.drop_bounding_set()
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    kernel.clear_capabilities()
    kernel.prctl(kernel.SET_NO_NEW_PRIVS, 1)
