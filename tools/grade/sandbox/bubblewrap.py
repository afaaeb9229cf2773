"""The command that puts a worker's helper into bubblewrap, where it then forks its sessions.

All sessions of a worker share its namespaces, one after another; what keeps a session from the
helper, and from what comes after it, are the filter, Landlock and its folder's removal.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from tools.grade.sandbox import places
from tools.grade.sandbox.inside import DEVICES

NOBODY = 65534


def command(read: list[str], user: int | None, disk: int) -> list[str]:
    """bubblewrap with its options. Raises RuntimeError if it is not installed.

    Root becomes `user` first; where that is None, bubblewrap gives up root's capabilities,
    which it would keep.
    """
    program, setpriv = shutil.which("bwrap"), shutil.which("setpriv")
    if program is None or setpriv is None:
        raise RuntimeError("not installed; 'apt-get install bubblewrap' brings it")
    words = [program, "--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL"]
    words += ["--new-session", "--as-pid-1", "--hostname", "sandbox", "--clearenv"]
    words += ["--size", str(disk << 20), "--tmpfs", "/tmp"]  # before what is in it
    links, real = real_places([*read, places.LDCONFIG])
    for path in real:
        words += ["--ro-bind", path, path]
    for path in DEVICES:
        words += ["--dev-bind", path, path]
    for path, link in links.items():
        words += ["--symlink", link, path]
    words += ["--remount-ro", "/", "--chdir", "/tmp"]
    if user is not None:
        become = [f"--reuid={user}", f"--regid={user}", "--clear-groups", "--no-new-privs"]
        return [setpriv, *become, *words]
    return [*words, "--uid", str(NOBODY), "--gid", str(NOBODY)] if os.geteuid() == 0 else words


def lay_out(path: str) -> Iterator[tuple[str, str | None]]:
    """What must be made so that `path` is there: (path, what its link says, or None) each.

    A path through symbolic links is there only with each of them.
    """
    seen = Path("/")
    for part in Path(path).parts[1:]:
        seen /= part
        if seen.is_symlink():
            link = os.readlink(seen)
            yield str(seen), link
            whole = os.path.normpath(seen.parent / link / Path(path).relative_to(seen))
            yield from lay_out(whole)
            return
    if seen.exists():
        yield str(seen), None


def real_places(paths: list[str]) -> tuple[dict[str, str], list[str]]:
    """The links {path: what it says} and the real files and folders of `paths`, none in another."""
    links: dict[str, str] = {}
    real: set[str] = set()
    for path in paths:
        for each, link in lay_out(path):
            if link is None:
                real.add(each)
            else:
                links[each] = link
    kept: list[str] = []
    for each in sorted(real):
        if not any(Path(each).is_relative_to(other) for other in kept):
            kept.append(each)
    outside = {
        path: link
        for path, link in links.items()
        if not any(Path(path).is_relative_to(each) for each in kept)
    }
    return outside, kept
