"""What a session may read, and who it runs as: found where the judge runs."""

import importlib.util
import os
import site
import stat
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from tools.errors import BookError
from tools.root import ROOT

# Shared libraries, how they are found, the time zone, fonts, what processor this is, by which
# PyTorch chooses its kernels; no user's file is among them.
SYSTEM = """
    /lib /lib32 /lib64 /usr/lib /usr/lib64 /usr/local/lib /etc/ld.so.cache /etc/ld.so.conf
    /etc/ld.so.conf.d /etc/localtime /usr/share/zoneinfo /etc/fonts /usr/share/fonts
    /usr/share/fontconfig /etc/mime.types /proc/cpuinfo /sys/devices/system/cpu
""".split()
LDCONFIG = "/sbin/ldconfig"  # by which Python finds libseccomp
NEEDED = ["torch", "IPython", "numpy", "matplotlib", "pyseccomp"]
# Users that systemd would draw for its own services; nobody else has them:
# https://systemd.io/UIDS-GIDS/
FIRST_USER, USERS = 61184, 4096


def packages() -> list[str]:
    """The folders from which a session imports, beside Python's own."""
    found = [folder_of("cudasim", ROOT / "cudasim" / "src"), *map(folder_of, NEEDED)]
    return list(dict.fromkeys(found))


def folder_of(name: str, otherwise: Path | None = None) -> str:
    """The folder that holds a package. Raises BookError if there is none."""
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.origin is not None:
        place = Path(spec.origin)
        return str(place.parents[1 if place.name == "__init__.py" else 0])
    if otherwise is not None:
        return str(otherwise)
    raise BookError(f"{name}: not installed, and grading needs it; 'make grade' installs it")


def readable(start: str) -> list[str]:
    """Files and folders that a session may read: Python's, the packages', the system's."""
    ours = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    for prefix in {sys.prefix, sys.base_prefix}:
        ours += [f"{prefix}/lib", f"{prefix}/lib64", f"{prefix}/pyvenv.cfg"]
    ours += [*site.getsitepackages(), *packages(), start, str(Path(__file__).parent / "inside")]
    ours += [sys.executable, os.path.realpath(sys.executable)]
    return [each for each in dict.fromkeys([*ours, *SYSTEM]) if os.path.exists(each)]


def open_to_all(paths: Iterable[str]) -> bool:
    """True if any user may come to all of `paths`, and read them."""
    for path in paths:
        place = Path(path).resolve()
        for each in (place, *place.parents):
            wanted = stat.S_IXOTH if each.is_dir() else stat.S_IROTH
            if not each.stat().st_mode & wanted:
                return False
    return True


def user() -> int | None:
    """The user that sessions of this worker run as: one without a name, if there is a choice."""
    return FIRST_USER + os.getpid() % USERS if os.geteuid() == 0 else None
