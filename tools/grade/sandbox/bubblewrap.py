"""The command that puts a worker's helper into bubblewrap, where it then forks its sessions.

All sessions of a worker share its namespaces, one after another; what keeps a session from the
helper, and from what comes after it, are the filter, Landlock and its folder's removal.
"""

import os
import shutil
from pathlib import Path

from tools.grade.sandbox.inside import DEVICES, DISK

NOBODY = 65534
LDCONFIG = "/sbin/ldconfig"  # by which Python finds libseccomp


def command(read: list[str], user: int | None) -> list[str]:
    """bubblewrap with its options. Raises RuntimeError if it is not installed.

    Root becomes `user` first; where that is None, bubblewrap gives up root's capabilities,
    which it would keep.
    """
    program, setpriv = shutil.which("bwrap"), shutil.which("setpriv")
    if program is None or setpriv is None:
        raise RuntimeError("not installed; 'apt-get install bubblewrap' brings it")
    words = [program, "--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL"]
    words += ["--new-session", "--as-pid-1", "--hostname", "sandbox"]
    words += ["--size", str(DISK << 20), "--tmpfs", "/tmp"]  # before what is in it
    for path in outermost([*read, LDCONFIG]):
        words += ["--ro-bind", os.path.realpath(path), path]
    for path in DEVICES:
        words += ["--dev-bind", path, path]
    words += ["--remount-ro", "/", "--chdir", "/tmp"]
    if user is not None:
        become = [f"--reuid={user}", f"--regid={user}", "--clear-groups", "--no-new-privs"]
        return [setpriv, *become, *words]
    return [*words, "--uid", str(NOBODY), "--gid", str(NOBODY)] if os.geteuid() == 0 else words


def outermost(paths: list[str]) -> list[str]:
    """The paths that are in no other of them."""
    kept: list[str] = []
    for path in sorted(paths):
        if not any(Path(path).is_relative_to(other) for other in kept):
            kept.append(path)
    return kept
