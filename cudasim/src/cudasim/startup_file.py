"""`cudasim install-startup`: a `.pth` file lets each program of a Python heed CUDASIM_GPUS."""

import os
import site
import subprocess
import sys
import sysconfig
from pathlib import Path

NAME = "cudasim.pth"
BEGIN = '__import__("cudasim.startup").startup.begin()'
LINE = f'import os; os.environ.get("CUDASIM_GPUS") and {BEGIN}\n'

_PACKAGE = Path(__file__).resolve().parent


def in_site_packages() -> bool:
    folders = [*site.getsitepackages(), site.getusersitepackages()]
    return _PACKAGE.parent in [Path(folder).resolve() for folder in folders]


def path() -> Path:
    """Where the file is, or would be: beside the package, or in this Python's site-packages."""
    beside = (
        _PACKAGE.parent if in_site_packages() else Path(sysconfig.get_path("purelib"))
    )
    return beside / NAME


def install() -> str:
    outside = [sys.executable, "-E", "-c", "import cudasim"]
    found = subprocess.run(
        outside, cwd=os.path.dirname(sys.executable), capture_output=True
    )
    if found.returncode:
        raise RuntimeError(
            "this Python finds no cudasim by itself: 'pip install' it first"
        )
    try:
        path().write_text(LINE, encoding="utf-8")
    except OSError as error:
        raise RuntimeError(
            f"{path()}: {error.strerror}; use an environment of your own"
        ) from None
    later = "Run 'cudasim remove-startup' before you uninstall cudasim"
    return (
        f"{path()}: written; every program of this Python heeds CUDASIM_GPUS. {later}"
    )


def remove() -> str:
    there = path().is_file()
    try:
        path().unlink(missing_ok=True)
    except OSError as error:
        raise RuntimeError(f"{path()}: {error.strerror}; remove it by hand") from None
    return f"{path()}: {'removed' if there else 'was not there'}"


COMMANDS = {"install-startup": install, "remove-startup": remove}
