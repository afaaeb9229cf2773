"""Shutting a process in: namespaces with a root of their own, another user, limits, Landlock.

A `Room` says what there is inside. All of this is undone by nobody: it ends with the process.
"""

import base64
import os
import resource
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from . import kernel, landlock, seccomp

MIB = 1 << 20
FILES = 4096  # how many there may be in a session's folder
OPEN_FILES, THREADS = 256, 64
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")


@dataclass
class Room:
    """What a session is given; plain data, as it crosses processes."""

    read: list[str] = field(default_factory=list)  # files and folders that may be read
    folder: str = ""  # one of its own outside, where its root is built, or which it writes into
    memory: int = 1024  # MiB, of its cgroup
    disk: int = 64  # MiB
    output: int = 1 << 20  # characters that a cell may print
    user: int | None = None  # who it becomes; None: it stays who it is
    namespaces: bool = False
    bubblewrap: bool = False  # the helper is in it already, and has all its sessions there
    filter: str = ""  # of system calls, in base64, where the agent's number is known: it is 1
    landlock: bool = True
    seccomp: bool = True  # off only in tests, which show that it is needed


def leave() -> bool:
    """Leave all namespaces; the next child is the first process of the new ones.

    Who may not do that becomes the owner of a namespace of users first, where that is allowed;
    True if so. Raises OSError if this machine does not let it.
    """
    flags = kernel.NEWNS | kernel.NEWPID | kernel.NEWNET | kernel.NEWIPC | kernel.NEWUTS
    flags |= kernel.NEWCGROUP
    try:
        kernel.unshare(flags)
        return False
    except PermissionError:
        uid, gid = os.geteuid(), os.getegid()
        kernel.unshare(kernel.NEWUSER)
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{uid} {uid} 1"),
            ("gid_map", f"{gid} {gid} 1"),
        ):
            Path("/proc/self", name).write_text(text)
        kernel.unshare(flags)
        return True


def lay_out(path: str) -> Iterator[tuple[str, str | None]]:
    """What must be made so that `path` is there: (path, what its link says, or None) each.

    A path through symbolic links is there only with each of them.
    """
    seen = Path("/")
    for part in Path(path).parts[1:]:
        seen /= part
        if seen.is_symlink():
            link = os.readlink(seen)
            yield str(seen), link
            whole = os.path.normpath(seen.parent / link / Path(path).relative_to(seen))
            yield from lay_out(whole)
            return
    if seen.exists():
        yield str(seen), None


def places(paths: list[str]) -> tuple[dict[str, str], list[str]]:
    """The links {path: what it says} and the real files and folders of `paths`, none in another."""
    links: dict[str, str] = {}
    real: set[str] = set()
    for path in paths:
        for each, link in lay_out(path):
            if link is None:
                real.add(each)
            else:
                links[each] = link
    kept: list[str] = []
    for each in sorted(real):
        if not any(Path(each).is_relative_to(other) for other in kept):
            kept.append(each)
    outside = {
        path: link
        for path, link in links.items()
        if not any(Path(path).is_relative_to(each) for each in kept)
    }
    return outside, kept


def make_root(room: Room) -> None:
    """Make a root of which nothing can be written but a small /tmp, and enter it."""
    try:
        kernel.mount("none", "/", None, kernel.REC | kernel.PRIVATE)
    except OSError:
        pass  # within a chroot; whether our mounts are seen outside is asked by the probe
    root, safe = room.folder, kernel.NOSUID | kernel.NODEV
    kernel.mount("tmpfs", root, "tmpfs", safe, "size=1m,nr_inodes=4096,mode=0755")
    Path(root, "tmp").mkdir()  # first, as what may be read may lie below it
    options = f"size={room.disk}m,nr_inodes={FILES},mode=1777"
    kernel.mount("tmpfs", root + "/tmp", "tmpfs", safe | kernel.NOEXEC, options)
    links, real = places([*room.read, *DEVICES])
    for path in real:
        target = Path(root + path)
        if os.path.isdir(path):
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.touch()
        kernel.mount(path, str(target), None, kernel.BIND | kernel.REC)
        if path not in DEVICES:
            kernel.read_only(str(target))
    for path, link in links.items():
        Path(root + path).parent.mkdir(parents=True, exist_ok=True)
        os.symlink(link, root + path)
    flags = kernel.REMOUNT | kernel.BIND | kernel.RDONLY | safe
    kernel.mount("none", root, None, flags)
    kernel.enter_root(root)


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
        resource.RLIMIT_FSIZE: room.disk * MIB,
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
    if room.namespaces:
        make_root(room)
    become(room.user)
    die_with_parent()
    os.chdir("/tmp" if room.namespaces else room.folder)
    if room.landlock and (landlock.abi() or not room.namespaces):  # the others need it
        landlock.restrict(["/"] if room.namespaces else room.read, [os.getcwd(), *DEVICES])


def shut(room: Room) -> None:
    """Load the filter of system calls."""
    if room.seccomp:
        filter = base64.b64decode(room.filter) if room.filter else seccomp.program(os.getpid())
        seccomp.load(filter)
