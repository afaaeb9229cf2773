"""Calls to the Linux kernel that Python 3.11 has no name for, by ctypes; each raises OSError."""

import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

# include/uapi/linux/prctl.h
SET_PDEATHSIG, CAPBSET_DROP, SET_CHILD_SUBREAPER, SET_NO_NEW_PRIVS = 1, 24, 36, 38


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
    try:
        for number in range(64):
            prctl(CAPBSET_DROP, number)
    except OSError:
        pass  # EINVAL after the last; EPERM: who has none can drop none


def clear_capabilities() -> None:
    """Give up all capabilities of this process."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
    empty = (ctypes.c_uint32 * 6)()
    check(libc.capset(ctypes.byref(header), ctypes.byref(empty)), "capset")
