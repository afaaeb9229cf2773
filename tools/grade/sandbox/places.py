"""What a session may read, and who it runs as: found where the judge runs."""

import importlib.util
import os
import site
import stat
import sys
import sysconfig
from pathlib import Path

from tools.errors import BookError
from tools.root import ROOT

KERNELS = ROOT / "kernels"
# Shared libraries, how they are found, the time zone, fonts, what processor this is, by which
# PyTorch chooses its kernels; no user's file is among them.
SYSTEM = """
    /lib /lib32 /lib64 /usr/lib /usr/lib64 /usr/local/lib /etc/ld.so.cache /etc/ld.so.conf
    /etc/ld.so.conf.d /etc/localtime /usr/share/zoneinfo /etc/fonts /usr/share/fonts
    /usr/share/fontconfig /etc/mime.types /proc/cpuinfo /sys/devices/system/cpu
""".split()
NEEDED = ["torch", "IPython", "numpy", "matplotlib", "pyseccomp"]
# Users that systemd would draw for its own services; nobody else has them:
# https://systemd.io/UIDS-GIDS/
FIRST_USER, USERS = 61184, 4096


def packages() -> list[str]:
    """The folders from which a session imports, beside Python's own. Raises BookError."""
    found = [str(ROOT / "cudasim" / "src")]
    for name in NEEDED:
        spec = importlib.util.find_spec(name)
        if spec is None:
            raise BookError(
                f"{name}: not installed, and grading needs it; 'make grade' installs it"
            )
        place = Path(spec.origin)
        found.append(str(place.parents[1 if place.name == "__init__.py" else 0]))
    return list(dict.fromkeys(found))


def readable() -> list[str]:
    """Files and folders that a session may read: Python's, the packages', the system's."""
    ours = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    for prefix in (sys.prefix, sys.base_prefix):
        ours += [f"{prefix}/lib", f"{prefix}/lib64", f"{prefix}/pyvenv.cfg"]
    ours += [*site.getsitepackages(), *packages(), str(KERNELS / "start.py")]
    ours += [
        str(Path(__file__).parent / "inside"),
        sys.executable,
        os.path.realpath(sys.executable),
    ]
    return [each for each in dict.fromkeys([*ours, *SYSTEM]) if os.path.exists(each)]


def user(read: list[str]) -> int | None:
    """Who sessions of this worker run as: root becomes a user without a name, who can `read`.

    None where there is no choice, or where root's Python is closed to others.
    """
    if os.geteuid() != 0:
        return None
    for path in read:
        place = Path(path).resolve()
        for each in (place, *place.parents):
            wanted = stat.S_IXOTH if each.is_dir() else stat.S_IROTH
            if not each.stat().st_mode & wanted:
                return None
    return FIRST_USER + os.getpid() % USERS
