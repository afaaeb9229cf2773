"""`cudasim install-startup`: a `.pth` file by which every program follows CUDASIM_GPUS."""

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
    """Return whether the package is installed in this Python, and not found elsewhere."""
    folders = [*site.getsitepackages(), site.getusersitepackages()]
    return _PACKAGE.parent in [Path(folder).resolve() for folder in folders]


def path() -> Path:
    """Return where the file is, or would be.

    It is beside the package if that is installed, else in this Python's site-packages.
    """
    if in_site_packages():
        return _PACKAGE.parent / NAME
    return Path(sysconfig.get_path("purelib")) / NAME


def install() -> str:
    """Write the file; return what to tell the user. Raises RuntimeError if it cannot."""
    command = [sys.executable, "-E", "-c", "import cudasim"]
    folder = os.path.dirname(sys.executable)  # one from which it is not found by chance
    result = subprocess.run(command, cwd=folder, capture_output=True)
    if result.returncode:
        problem = "this Python finds no cudasim by itself"
        raise RuntimeError(f"{problem}: 'pip install' it first")
    file = path()
    try:
        file.write_text(LINE, encoding="utf-8")
    except OSError as error:
        advice = "use an environment of your own"
        raise RuntimeError(f"{file}: {error.strerror}; {advice}") from None
    effect = "every program that this Python runs now follows CUDASIM_GPUS"
    later = "Run 'cudasim remove-startup' before you uninstall cudasim"
    return f"{file}: written; {effect}. {later}"


def remove() -> str:
    """Remove the file; return what to tell the user. Raises RuntimeError if it cannot."""
    file = path()
    existed = file.is_file()
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        raise RuntimeError(f"{file}: {error.strerror}; remove it by hand") from None
    return f"{file}: removed" if existed else f"{file}: was not there"


COMMANDS = {"install-startup": install, "remove-startup": remove}
