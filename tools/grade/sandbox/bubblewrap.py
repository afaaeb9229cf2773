"""The command that puts a worker's helper into bubblewrap, where it then forks its sessions.

It is for machines that let bubblewrap make namespaces and nobody else, as Ubuntu's AppArmor
does. All sessions of a worker share these namespaces, one after another; what keeps a session
from the helper, and from what comes after it, are the filter, Landlock and its folder's removal.
"""

import os
import shutil

from tools.grade.sandbox import places

NOBODY = 65534


def command(read: list[str], user: int | None, disk: int) -> list[str]:
    """bubblewrap with its options. Raises RuntimeError if it is not installed.

    Root becomes `user` first; where that is None, bubblewrap gives up root's capabilities,
    which it would keep.
    """
    from tools.grade.sandbox.inside import confine  # which there is on Linux alone

    program, setpriv = shutil.which("bwrap"), shutil.which("setpriv")
    if program is None or setpriv is None:
        raise RuntimeError("not installed; 'apt-get install bubblewrap' brings it")
    words = [program, "--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL"]
    words += ["--new-session", "--as-pid-1", "--hostname", "sandbox", "--clearenv"]
    words += ["--size", str(disk << 20), "--tmpfs", "/tmp"]  # before what is in it
    links, real = confine.places([*read, places.LDCONFIG])
    for path in real:
        words += ["--ro-bind", path, path]
    for path in confine.DEVICES:
        words += ["--dev-bind", path, path]
    for path, link in links.items():
        words += ["--symlink", link, path]
    words += ["--remount-ro", "/", "--chdir", "/tmp"]
    if user is not None:
        become = [f"--reuid={user}", f"--regid={user}", "--clear-groups", "--no-new-privs"]
        return [setpriv, *become, *words]
    return [*words, "--uid", str(NOBODY), "--gid", str(NOBODY)] if os.geteuid() == 0 else words
