"""Run a command as root of a container has it: Docker's default capabilities and system calls.

No namespaces are made: what is imitated is what such a root may not do.
https://docs.docker.com/engine/security/seccomp/ and the list of capabilities in
https://docs.docker.com/engine/containers/run/, "Runtime privilege and Linux capabilities".
"""

import ctypes
import errno
import os
import sys

import pyseccomp

# include/uapi/linux/capability.h
KEPT = {
    "chown": 0,
    "dac_override": 1,
    "fowner": 3,
    "fsetid": 4,
    "kill": 5,
    "setgid": 6,
    "setuid": 7,
    "setpcap": 8,
    "net_bind_service": 10,
    "net_raw": 13,
    "sys_chroot": 18,
    "mknod": 27,
    "audit_write": 29,
    "setfcap": 31,
}
LAST_CAPABILITY, CAPBSET_DROP = 40, 24
NAMESPACES = 0x7E020000  # CLONE_NEW*
DENIED = ("unshare", "setns", "mount", "umount2", "pivot_root", "move_mount", "fsopen", "fsmount")
DENIED += ("open_tree", "mount_setattr", "bpf", "perf_event_open", "keyctl", "add_key")


def shut() -> None:
    """Give up what Docker's default takes from root; there is no way back."""
    filter = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    for name in DENIED:
        filter.add_rule(pyseccomp.ERRNO(errno.EPERM), name)
    for bit in (1 << n for n in range(32)):
        if NAMESPACES & bit:
            masked = pyseccomp.Arg(0, pyseccomp.MASKED_EQ, bit, bit)
            filter.add_rule(pyseccomp.ERRNO(errno.EPERM), "clone", masked)
    filter.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "clone3")
    filter.load()
    libc = ctypes.CDLL(None)
    for number in range(LAST_CAPABILITY + 1):
        if number not in KEPT.values():
            libc.prctl(CAPBSET_DROP, number, 0, 0, 0)


if __name__ == "__main__":
    shut()
    os.execvp(sys.argv[1], sys.argv[1:])
