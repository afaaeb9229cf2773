"""Which system calls a notebook's cells may make: a list, and all else is refused."""

import errno
import fcntl
import mmap
import os
import socket
import termios
import tomllib
from pathlib import Path

import pyseccomp as lib

CALLS = tomllib.loads(
    Path(__file__).with_name("calls.toml").read_text(encoding="utf-8")
)
CLONE_THREAD = 0x10000
TMPFILE = 0o20000000  # __O_TMPFILE: a file without a name, which nobody would find
SOCK_TYPE, LOW = 0xF, 0xFFFFFFFF
NAMES = vars(fcntl) | vars(termios)


def load() -> None:
    """Filter, for good, the calls of this process and of all its threads. May raise OSError."""
    pid, masked = os.getpid(), lib.MASKED_EQ
    refuse = lib.ERRNO(errno.EPERM)
    filter = lib.SyscallFilter(lib.ERRNO(errno.ENOSYS))
    filter.set_attr(
        lib.Attr.ACT_BADARCH, lib.KILL_PROCESS
    )  # 32-bit calls, which no list names
    filter.set_attr(lib.Attr.CTL_TSYNC, 1)

    def rule(action: int, name: str, *arguments: tuple) -> None:
        if (
            lib.resolve_syscall(lib.Arch.NATIVE, name) >= 0
        ):  # some processors lack old ones
            filter.add_rule(action, name, *[lib.Arg(*each) for each in arguments])

    actions = {"allowed": lib.ALLOW, "pretended": lib.ERRNO(0), "refused": refuse}
    for kind, action in actions.items():
        for name in CALLS[kind].split():
            rule(action, name)
    # Threads, and no processes. clone3, whose flags are out of a filter's sight, is unknown here.
    rule(lib.ALLOW, "clone", (0, masked, CLONE_THREAD, CLONE_THREAD))
    rule(refuse, "clone", (0, masked, CLONE_THREAD, 0))
    # No signals but to itself.
    rule(lib.ALLOW, "kill", (0, masked, LOW, pid))
    rule(refuse, "kill", (0, lib.NE, pid))
    rule(lib.ALLOW, "tgkill", (0, masked, LOW, pid))
    for whose in (0, pid):
        rule(lib.ALLOW, "prlimit64", (0, masked, LOW, whose))
    # Files have names, and memory that is shared has a file.
    for name, place in (("open", 1), ("openat", 2)):
        rule(lib.ALLOW, name, (place, masked, TMPFILE, 0))
        rule(lib.ERRNO(errno.EOPNOTSUPP), name, (place, masked, TMPFILE, TMPFILE))
    shared = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS
    for flags in (0, mmap.MAP_SHARED, mmap.MAP_ANONYMOUS):
        rule(lib.ALLOW, "mmap", (3, masked, shared, flags))
    rule(refuse, "mmap", (3, masked, shared, shared))
    # A pair of ends for an event loop to wake itself: connected for good, so no address.
    kind = (1, masked, SOCK_TYPE, socket.SOCK_STREAM)
    rule(lib.ALLOW, "socketpair", (0, lib.EQ, socket.AF_UNIX), kind)
    rule(lib.ALLOW, "sendto", (4, lib.EQ, 0))
    for name, asked in CALLS["asked"].items():
        for value in asked["values"]:
            rule(
                lib.ALLOW, name, (asked["place"], masked, LOW, NAMES.get(value, value))
            )
    filter.load()
