"""Run a command as root of a container has it: Docker's default capabilities and system calls.

No namespaces are made: what is imitated is what such a root may not do.
https://docs.docker.com/engine/security/seccomp/ and the list of capabilities in
https://docs.docker.com/engine/containers/run/, "Runtime privilege and Linux capabilities".
"""

import errno
import os
import sys

import pyseccomp

CAPABILITIES = (
    "chown dac_override fowner fsetid kill setgid setuid setpcap net_bind_service "
    "net_raw sys_chroot mknod audit_write setfcap"
).split()
DENIED_CALLS = (
    "unshare setns mount umount2 pivot_root move_mount fsopen fsmount open_tree "
    "mount_setattr bpf perf_event_open keyctl add_key"
).split()
# The flags of `clone` that make a namespace: CLONE_NEW* in linux/sched.h.
NAMESPACES = (
    0x00020000,
    0x02000000,
    0x04000000,
    0x08000000,
    0x10000000,
    0x20000000,
    0x40000000,
)

denied = pyseccomp.ERRNO(errno.EPERM)
unknown = pyseccomp.ERRNO(errno.ENOSYS)
filter = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
for name in DENIED_CALLS:
    filter.add_rule(denied, name)
for flag in NAMESPACES:
    has_flag = pyseccomp.Arg(0, pyseccomp.MASKED_EQ, flag, flag)
    filter.add_rule(denied, "clone", has_flag)
filter.add_rule(unknown, "clone3")
filter.load()

bounds = "-all"
for name in CAPABILITIES:
    bounds += f",+{name}"
options = [f"--bounding-set={bounds}", "--inh-caps=-all"]
os.execvp("setpriv", ["setpriv", *options, *sys.argv[1:]])
