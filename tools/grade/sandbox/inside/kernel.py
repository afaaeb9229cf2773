"""Calls to the Linux kernel that Python 3.11 has no name for, by ctypes; each raises OSError."""

import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

# Numbers that all processors share, from 424 on: include/uapi/asm-generic/unistd.h
MOUNT_SETATTR, LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 442, 444, 445, 446
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
SECCOMP = {"x86_64": 317, "aarch64": 277}
CAPSET = {"x86_64": 126, "aarch64": 91}

# include/uapi/linux/sched.h
NEWNS, NEWCGROUP, NEWUTS, NEWIPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000

# include/uapi/linux/prctl.h
SET_PDEATHSIG, SET_NO_NEW_PRIVS, CAPBSET_DROP, SET_CHILD_SUBREAPER = 1, 38, 24, 36

# include/uapi/linux/mount.h
RDONLY, NOSUID, NODEV, NOEXEC = 1, 2, 4, 8
REMOUNT, BIND, REC, PRIVATE = 32, 4096, 16384, 1 << 18
DETACH = 2


def machine() -> str:
    """The processor's name, as the tables of numbers have it."""
    return os.uname().machine


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


def unshare(flags: int) -> None:
    """Leave the namespaces that `flags` name; `os.unshare` is in Python from 3.12 on."""
    check(libc.unshare(flags), "unshare")


def prctl(option: int, value: int = 0) -> int:
    """`prctl(option, value, 0, 0, 0)`."""
    zero = ctypes.c_ulong(0)
    return check(libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero), f"prctl {option}")


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    """`mount(2)`."""
    names = [each.encode() if each else None for each in (source, target, kind)]
    answer = libc.mount(*names, ctypes.c_ulong(flags), options.encode() or None)
    check(answer, f"mount on {target}")


class MountAttr(ctypes.Structure):
    """`struct mount_attr` of include/uapi/linux/mount.h."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns")]


def read_only(path: str) -> None:
    """Make the mount at `path`, and all mounts below it, read-only, without setuid and devices."""
    wanted = MountAttr(set=RDONLY | NOSUID | NODEV)  # MOUNT_ATTR_* have the same bits
    everywhere, here = 0x8000, -100  # AT_RECURSIVE, AT_FDCWD
    size = ctypes.sizeof(wanted)
    arguments = (here, path.encode(), everywhere, ctypes.byref(wanted), size)
    syscall(MOUNT_SETATTR, f"read-only {path}", *arguments)


def enter_root(folder: str) -> None:
    """Make `folder`, a mount, the root; the old one is gone, or hidden within a chroot."""
    os.chdir(folder)
    try:
        syscall(PIVOT_ROOT[machine()], "pivot_root", b".", b".")
    except OSError:  # the root of a chroot is no mount, and cannot be put aside
        os.chroot(".")
    else:
        check(libc.umount2(b".", DETACH), "umount of the old root")
    os.chdir("/")


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
    syscall(CAPSET[machine()], "capset", ctypes.byref(header), ctypes.byref(none))
