"""Shutting a process in, but for the filter of system calls: limits, and rules on what it reaches.

All of this is undone by nobody: it ends with the process. The kernel's calls for which Python has
no name are made by ctypes. Their numbers and structures are in include/uapi/linux/prctl.h and
landlock.h; what each ABI of Landlock brought is in https://docs.kernel.org/userspace-api/landlock.html
"""

import ctypes
import os
import resource
import signal
import stat
import struct
from collections.abc import Iterable, Mapping
from typing import Any

from . import DEVICES, DISK, THREADS

OPEN_FILES = 256
SET_PDEATHSIG, SET_CHILD_SUBREAPER, SET_NO_NEW_PRIVS = 1, 36, 38  # prctl

# Landlock: rights on files, by the ABI that brought them
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE = (
    1 << bit for bit in range(6)
)
MAKE_DIR, MAKE_REG, TRUNCATE, IOCTL_DEV = 1 << 7, 1 << 8, 1 << 14, 1 << 15
OF_FILES = (
    EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
)  # rights that a file can have
READ = READ_FILE | READ_DIR
WRITE = READ | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | TRUNCATE
HANDLED = {1: (1 << 13) - 1, 2: 1 << 13, 3: TRUNCATE, 5: IOCTL_DEV}
BIND_AND_CONNECT_TCP = 3  # from ABI 4 on
ABSTRACT_SOCKETS_AND_SIGNALS = 3  # from ABI 6 on
ASK_VERSION, PATH_BENEATH = 1, 1
CREATE, ADD, RESTRICT = 444, 445, 446  # numbers of the system calls, on all processors

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def call(name: str, *arguments: object) -> int:
    """Call a function of libc; integers are passed as 64 bits wide. Raises OSError."""
    wide = [
        ctypes.c_long(word) if isinstance(word, int) else word for word in arguments
    ]
    answer = getattr(libc, name)(*wide)
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name} {arguments[0]}: {os.strerror(number)}")
    return answer


def enter(room: Mapping[str, Any], memory: int) -> None:
    """Shut this process in. `room` says what it may `read`, if its user is `alone`, if it is
    `wrapped`; `memory` the most bytes of its own: what is shared has a file, or is refused."""
    limits = {"DATA": memory, "FSIZE": DISK << 20, "NOFILE": OPEN_FILES}
    limits |= {"CORE": 0, "MEMLOCK": 0, "MSGQUEUE": 0}
    if room["alone"]:  # a person's threads count together, whoever runs them
        limits["NPROC"] = THREADS
    for name, value in limits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))
    call("prctl", SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    call("prctl", SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    try:
        restrict(room["read"], [os.getcwd(), *DEVICES])
    except NotImplementedError:
        if not room["wrapped"]:  # else it has a root of its own
            raise


def restrict(read: Iterable[str], write: Iterable[str]) -> None:
    """By Landlock: read below these paths that are there, and write below those. No TCP, no signals
    to and no abstract sockets of others, where the ABI has these. May raise NotImplementedError."""
    try:
        version = call("syscall", CREATE, None, 0, ASK_VERSION)
    except OSError as error:
        raise NotImplementedError(
            f"this kernel has no Landlock ({error.strerror})"
        ) from None
    handled = sum(rights for since, rights in HANDLED.items() if since <= version)
    # struct landlock_ruleset_attr, as long as the ABI knows it: files, ports, scopes
    rules = struct.pack(
        "QQQ", handled, BIND_AND_CONNECT_TCP, ABSTRACT_SOCKETS_AND_SIGNALS
    )
    known = 8 * (1 + (version >= 4) + (version >= 6))
    ruleset = call("syscall", CREATE, rules, known, 0)
    for allowed, paths in ((READ & handled, read), (WRITE & handled, write)):
        for path in filter(os.path.exists, paths):
            parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
            is_folder = stat.S_ISDIR(os.fstat(parent).st_mode)
            rights = allowed if is_folder else allowed & OF_FILES
            rule = struct.pack(
                "=Qi", rights, parent
            )  # struct landlock_path_beneath_attr, packed
            call("syscall", ADD, ruleset, PATH_BENEATH, rule, 0)
            os.close(parent)
    call("syscall", RESTRICT, ruleset, 0)
    os.close(ruleset)
