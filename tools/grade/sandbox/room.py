"""What a session may read, who it runs as, what it is wrapped in: found where the judge runs."""

import os
import shutil
import site
import stat
import sys
import sysconfig
import tempfile
from pathlib import Path

from tools.grade.sandbox.inside import DEVICES, DISK
from tools.root import ROOT

HERE = Path(__file__).parent
KERNELS = ROOT / "kernels"
# Shared libraries, how they are found, the time zone, fonts, what processor this is, by which
# PyTorch chooses its kernels; no user's file is among them.
SYSTEM = """
    /lib /lib32 /lib64 /usr/lib /usr/lib64 /usr/local/lib /etc/ld.so.cache /etc/ld.so.conf
    /etc/ld.so.conf.d /sbin/ldconfig /etc/localtime /usr/share/zoneinfo /etc/fonts
    /usr/share/fonts /usr/share/fontconfig /etc/mime.types /proc/cpuinfo /sys/devices/system/cpu
""".split()
# Users that systemd would draw for its own services; nobody else has them:
# https://systemd.io/UIDS-GIDS/
FIRST_USER, USERS = 61184, 4096
NOBODY = "65534"


def packages() -> list[str]:
    """The folders from which a session imports, beside Python's own."""
    installed = [path for path in sys.path if path.endswith("-packages")]
    return [str(ROOT / "cudasim" / "src"), *installed]


def readable() -> list[str]:
    """What a session may read: Python, the packages, the system's. None is within another."""
    found = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    for prefix in (sys.prefix, sys.base_prefix):
        found |= {f"{prefix}/lib", f"{prefix}/lib64", f"{prefix}/pyvenv.cfg"}
    found |= {*site.getsitepackages(), *packages(), str(KERNELS / "start.py"), *SYSTEM}
    found |= {str(HERE / "inside"), sys.executable, os.path.realpath(sys.executable)}
    there = sorted(filter(os.path.exists, found))
    return [path for path in there if found.isdisjoint(map(str, Path(path).parents))]


def user(read: list[str]) -> int | None:
    """Whom root becomes for sessions: a nameless user, who can `read`; None without choice."""
    real = [Path(path).resolve() for path in read]
    places = {place for path in real for place in (path, *path.parents)}
    wanted = {place: stat.S_IXOTH if place.is_dir() else stat.S_IROTH for place in places}
    if os.geteuid() == 0 and all(place.stat().st_mode & bit for place, bit in wanted.items()):
        return FIRST_USER + os.getpid() % USERS
    return None


def wrapping(read: list[str], user: int | None, bubblewrap: bool) -> list[str]:
    """The command before a helper's own: it takes root's rights away, and makes namespaces. A
    worker's sessions share these; what keeps one from the helper, and from the next, are the
    filter, Landlock and its folder's removal. Raises RuntimeError without bubblewrap."""
    is_root, words = os.geteuid() == 0, []
    nobody = is_root and user is None and bubblewrap  # bubblewrap itself needs root
    if is_root and not nobody:
        words = ["setpriv", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
    if user is not None:
        words += [f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    if not bubblewrap:
        return words
    if not (program := shutil.which("bwrap")):
        raise RuntimeError("not installed; 'apt-get install bubblewrap' brings it")
    temporary = tempfile.gettempdir()
    words += [program, "--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL"]
    words += ["--new-session", "--as-pid-1", "--hostname", "sandbox"]
    words += ["--size", str(DISK << 20), "--tmpfs", temporary]  # before what is in it
    for path in read:
        words += ["--ro-bind", os.path.realpath(path), path]
    for path in DEVICES:
        words += ["--dev-bind", path, path]
    words += ["--remount-ro", "/", "--chdir", temporary]
    return [*words, "--uid", NOBODY, "--gid", NOBODY] if nobody else words
