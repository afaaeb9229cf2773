"""Shutting a process in, but for the filter of system calls: limits, and rules on files.

Nothing can undo this: it ends with the process. The kernel's calls for which Python has no name
are made by ctypes. Their numbers and structures are in include/uapi/linux/prctl.h and
landlock.h. https://docs.kernel.org/userspace-api/landlock.html says what each ABI of Landlock
brought.
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
# prctl
SET_PDEATHSIG = 1
SET_CHILD_SUBREAPER = 36
SET_NO_NEW_PRIVS = 38

# Landlock's rights on files
EXECUTE = 1 << 0
WRITE_FILE = 1 << 1
READ_FILE = 1 << 2
READ_DIR = 1 << 3
REMOVE_DIR = 1 << 4
REMOVE_FILE = 1 << 5
MAKE_DIR = 1 << 7
MAKE_REG = 1 << 8
TRUNCATE = 1 << 14
IOCTL_DEV = 1 << 15
RIGHTS_OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
READ = READ_FILE | READ_DIR
WRITE = READ | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | TRUNCATE
# The rights that Landlock can handle, by the ABI that brought them
HANDLED = {1: (1 << 13) - 1, 2: 1 << 13, 3: TRUNCATE, 5: IOCTL_DEV}
BIND_AND_CONNECT_TCP = 3  # from ABI 4 on
ABSTRACT_SOCKETS_AND_SIGNALS = 3  # from ABI 6 on

ASK_VERSION = 1
PATH_BENEATH = 1
# The numbers of Landlock's system calls, on all processors
CREATE = 444
ADD = 445
RESTRICT = 446

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def call(name: str, *arguments: object) -> int:
    """Call a function of libc. Integers are passed as 64 bits wide. Raises OSError."""
    wide = []
    for argument in arguments:
        is_number = isinstance(argument, int)
        wide.append(ctypes.c_long(argument) if is_number else argument)
    result = getattr(libc, name)(*wide)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name} {arguments[0]}: {os.strerror(number)}")
    return result


def enter(room: Mapping[str, Any], memory: int) -> None:
    """Shut this process in.

    `room` says what it may `read`, whether its user is `alone`, and whether it is
    `wrapped`. `memory` is the most bytes of its own that it may have: what is shared has
    a file, or is refused.
    """
    limits = {
        resource.RLIMIT_DATA: memory,
        resource.RLIMIT_FSIZE: DISK << 20,
        resource.RLIMIT_NOFILE: OPEN_FILES,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
    }
    if room["alone"]:  # all threads of a user count together, whoever runs them
        limits[resource.RLIMIT_NPROC] = THREADS
    for kind, value in limits.items():
        resource.setrlimit(kind, (value, value))
    call("prctl", SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    call("prctl", SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    try:
        restrict(room["read"], [os.getcwd(), *DEVICES])
    except NotImplementedError:
        if not room["wrapped"]:  # else it has a root of its own
            raise


def restrict(read: Iterable[str], write: Iterable[str]) -> None:
    """Let this process only read below some paths, and write below others, by Landlock.

    It may also use no TCP, send no signals to others and connect to no abstract sockets
    of theirs, where the ABI has these. Raises NotImplementedError where there is no
    Landlock.
    """
    try:
        version = call("syscall", CREATE, None, 0, ASK_VERSION)
    except OSError as error:
        fault = f"this kernel has no Landlock ({error.strerror})"
        raise NotImplementedError(fault) from None
    handled = 0
    for since, rights in HANDLED.items():
        if since <= version:
            handled |= rights
    ruleset = _create_ruleset(handled, version)
    for path in read:
        _add_rule(ruleset, path, READ & handled)
    for path in write:
        _add_rule(ruleset, path, WRITE & handled)
    call("syscall", RESTRICT, ruleset, 0)
    os.close(ruleset)


def _create_ruleset(handled: int, version: int) -> int:
    """Return the file descriptor of a new ruleset, which allows nothing of `handled`."""
    # struct landlock_ruleset_attr, as long as the ABI knows it: files, ports, scopes
    fields = [handled]
    if version >= 4:
        fields.append(BIND_AND_CONNECT_TCP)
    if version >= 6:
        fields.append(ABSTRACT_SOCKETS_AND_SIGNALS)
    attributes = struct.pack("Q" * len(fields), *fields)
    return call("syscall", CREATE, attributes, len(attributes), 0)


def _add_rule(ruleset: int, path: str, rights: int) -> None:
    if not os.path.exists(path):
        return
    parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    if not stat.S_ISDIR(os.fstat(parent).st_mode):
        rights &= RIGHTS_OF_FILES
    rule = struct.pack("=Qi", rights, parent)  # struct landlock_path_beneath_attr
    call("syscall", ADD, ruleset, PATH_BENEATH, rule, 0)
    os.close(parent)
