"""Landlock: the kernel's rules on files, TCP, signals and sockets for an ordinary process.

By raw system calls, as PyPI has only a pre-release. Numbers and structures are those of
include/uapi/linux/landlock.h; what each ABI brought is in
https://docs.kernel.org/userspace-api/landlock.html
"""

import os
import stat
import struct
from collections.abc import Iterable

from . import kernel

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE, MAKE_DIR, MAKE_REG = 1 << 4, 1 << 5, 1 << 7, 1 << 8
TRUNCATE = 1 << 14
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | 1 << 15  # rights that a file can have
READ = READ_FILE | READ_DIR
WRITE = READ | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | TRUNCATE
HANDLED = {1: (1 << 13) - 1, 2: 1 << 13, 3: TRUNCATE, 5: 1 << 15}  # ABI -> rights it knows
BIND_TCP, CONNECT_TCP = 1, 2  # from ABI 4 on
ABSTRACT_SOCKETS, SIGNALS = 1, 2  # from ABI 6 on
ASK_VERSION, PATH_BENEATH = 1, 1
CREATE, ADD, RESTRICT = 444, 445, 446  # numbers of the system calls, on all processors


def abi() -> int:
    """What this kernel's Landlock is able to do; 0 where there is none."""
    try:
        return kernel.syscall(CREATE, "landlock", None, 0, ASK_VERSION)
    except OSError:
        return 0


def restrict(read: Iterable[str], write: Iterable[str]) -> None:
    """Allow this process, for good, to read below some paths, and to write below some.

    Paths that are not there are left out. No TCP, no signals to and no abstract sockets of
    other processes, where the kernel's ABI has these.
    """
    version = abi()
    handled = sum(rights for since, rights in HANDLED.items() if since <= version)
    rules = struct.pack("Q", handled)  # struct landlock_ruleset_attr, as long as the ABI knows it
    if version >= 4:
        rules += struct.pack("Q", BIND_TCP | CONNECT_TCP)
    if version >= 6:
        rules += struct.pack("Q", ABSTRACT_SOCKETS | SIGNALS)
    ruleset = kernel.syscall(CREATE, "landlock", rules, len(rules), 0)
    try:
        for rights, paths in ((READ, read), (WRITE, write)):
            for path in paths:
                _allow(ruleset, path, rights & handled)
        kernel.prctl(kernel.SET_NO_NEW_PRIVS, 1)
        kernel.syscall(RESTRICT, "landlock", ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(parent).st_mode):
            rights &= OF_FILES
        rule = struct.pack("=Qi", rights, parent)  # struct landlock_path_beneath_attr, packed
        kernel.syscall(ADD, f"landlock on {path}", ruleset, PATH_BENEATH, rule, 0)
    finally:
        os.close(parent)
