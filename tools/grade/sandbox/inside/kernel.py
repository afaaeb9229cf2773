"""Calls to the Linux kernel that Python 3.11 has no name for, by ctypes; each raises OSError."""

import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

# Numbers that all processors share, from 424 on: include/uapi/asm-generic/unistd.h
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446
SECCOMP = {"x86_64": 317, "aarch64": 277}
CAPSET = {"x86_64": 126, "aarch64": 91}

# include/uapi/linux/prctl.h
SET_PDEATHSIG, SET_NO_NEW_PRIVS, CAPBSET_DROP, SET_CHILD_SUBREAPER = 1, 38, 24, 36


def check(answer: int, what: str) -> int:
    """`answer`, or OSError that names `what` if the call failed."""
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return answer


def syscall(number: int, what: str, *arguments: object) -> int:
    """Call the kernel by number; integers are passed as 64 bits wide."""
    wide = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return check(libc.syscall(ctypes.c_long(number), *wide), what)


def prctl(option: int, value: int = 0) -> int:
    """`prctl(option, value, 0, 0, 0)`."""
    zero = ctypes.c_ulong(0)
    return check(libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero), f"prctl {option}")


def drop_bounding_set() -> None:
    """Let nothing that this process might execute have a capability."""
    number = 0
    while True:
        try:
            prctl(CAPBSET_DROP, number)
        except OSError:  # EINVAL after the last; EPERM: who has none can drop none
            return
        number += 1


def clear_capabilities() -> None:
    """Give up all capabilities of this process."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
    none = (ctypes.c_uint32 * 6)()
    syscall(CAPSET[os.uname().machine], "capset", ctypes.byref(header), ctypes.byref(none))
