"""The filter of system calls: a notebook's cells may make those of a list, and no others."""

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
SOCK_TYPE = 0xF
LOW = 0xFFFFFFFF
NAMES = vars(fcntl) | vars(termios)

# What a rule compares: the place of an argument, and how it compares it with which values.
Argument = tuple[int, ...]


class Filter:
    """A filter that refuses whatever no rule allows."""

    def __init__(self) -> None:
        self._filter = lib.SyscallFilter(lib.ERRNO(errno.ENOSYS))
        # 32-bit calls, which no list names
        self._filter.set_attr(lib.Attr.ACT_BADARCH, lib.KILL_PROCESS)
        self._filter.set_attr(lib.Attr.CTL_TSYNC, 1)  # all threads

    def add(self, action: int, name: str, *arguments: Argument) -> None:
        """Add a rule for the calls of this name whose arguments compare as told."""
        if lib.resolve_syscall(lib.Arch.NATIVE, name) < 0:
            return  # some processors lack old calls
        compared = [lib.Arg(*argument) for argument in arguments]
        self._filter.add_rule(action, name, *compared)

    def allow(self, name: str, *arguments: Argument) -> None:
        self.add(lib.ALLOW, name, *arguments)

    def load(self) -> None:
        self._filter.load()


def load() -> None:
    """Filter the calls of this process and of all its threads, for good. May raise OSError."""
    filter = Filter()
    refused = lib.ERRNO(errno.EPERM)
    actions = {"allowed": lib.ALLOW, "pretended": lib.ERRNO(0), "refused": refused}
    for kind, action in actions.items():
        for name in CALLS[kind].split():
            filter.add(action, name)
    _add_processes(filter, refused)
    _add_memory(filter, refused)
    _add_files_and_sockets(filter)
    filter.load()


def _add_processes(filter: Filter, refused: int) -> None:
    pid = os.getpid()
    # Threads, and no processes. clone3, whose flags a filter cannot see, is unknown here.
    filter.allow("clone", (0, lib.MASKED_EQ, CLONE_THREAD, CLONE_THREAD))
    filter.add(refused, "clone", (0, lib.MASKED_EQ, CLONE_THREAD, 0))
    # Signals to itself alone.
    filter.allow("kill", (0, lib.MASKED_EQ, LOW, pid))
    filter.add(refused, "kill", (0, lib.NE, pid))
    filter.allow("tgkill", (0, lib.MASKED_EQ, LOW, pid))
    for whose in (0, pid):
        filter.allow("prlimit64", (0, lib.MASKED_EQ, LOW, whose))


def _add_memory(filter: Filter, refused: int) -> None:
    """Memory that is shared has a file, which is seen from outside."""
    shared = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS
    for flags in (0, mmap.MAP_SHARED, mmap.MAP_ANONYMOUS):
        filter.allow("mmap", (3, lib.MASKED_EQ, shared, flags))
    filter.add(refused, "mmap", (3, lib.MASKED_EQ, shared, shared))


def _add_files_and_sockets(filter: Filter) -> None:
    unsupported = lib.ERRNO(errno.EOPNOTSUPP)
    for name, place in (("open", 1), ("openat", 2)):  # files have names
        filter.allow(name, (place, lib.MASKED_EQ, TMPFILE, 0))
        filter.add(unsupported, name, (place, lib.MASKED_EQ, TMPFILE, TMPFILE))
    # A pair of ends by which an event loop wakes itself. It stays connected, so that
    # nothing can be sent to an address.
    is_local = (0, lib.EQ, socket.AF_UNIX)
    is_stream = (1, lib.MASKED_EQ, SOCK_TYPE, socket.SOCK_STREAM)
    filter.allow("socketpair", is_local, is_stream)
    filter.allow("sendto", (4, lib.EQ, 0))
    for name, argument in CALLS["asked"].items():
        for value in argument["values"]:
            number = NAMES.get(value, value)
            filter.allow(name, (argument["place"], lib.MASKED_EQ, LOW, number))
