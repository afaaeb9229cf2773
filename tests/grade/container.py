"""Run a command as root of a container has it: Docker's default capabilities and system calls.

No namespaces are made: what is imitated is what such a root may not do.
https://docs.docker.com/engine/security/seccomp/ and the list of capabilities in
https://docs.docker.com/engine/containers/run/, "Runtime privilege and Linux capabilities".
"""

import errno
import os
import sys

import pyseccomp

KEPT = "chown dac_override fowner fsetid kill setgid setuid setpcap net_bind_service net_raw"
KEPT += " sys_chroot mknod audit_write setfcap"
DENIED = "unshare setns mount umount2 pivot_root move_mount fsopen fsmount open_tree mount_setattr"
DENIED += " bpf perf_event_open keyctl add_key"
NAMESPACES = 0x7E020000  # CLONE_NEW*

filter = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
for name in DENIED.split():
    filter.add_rule(pyseccomp.ERRNO(errno.EPERM), name)
for bit in (1 << place for place in range(32) if NAMESPACES & 1 << place):
    masked = pyseccomp.Arg(0, pyseccomp.MASKED_EQ, bit, bit)
    filter.add_rule(pyseccomp.ERRNO(errno.EPERM), "clone", masked)
filter.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "clone3")
filter.load()
bounds = ",".join(["-all", *(f"+{name}" for name in KEPT.split())])
os.execvp(
    "setpriv", ["setpriv", f"--bounding-set={bounds}", "--inh-caps=-all", *sys.argv[1:]]
)
