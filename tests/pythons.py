"""The Pythons of this machine, and tiny packages to install into them."""

import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest


def interpreter(minor):
    """A Python 3.<minor> that runs; the test is skipped where there is none."""
    kept = Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python")
    for python in filter(None, [shutil.which(f"python3.{minor}"), *kept]):
        # a shim of pyenv is there without its Python
        if not subprocess.run([python, "-V"], capture_output=True).returncode:
            return python
    pytest.skip(f"no Python 3.{minor} on this machine")


def write_wheel(folder, name, version="1.0", tag="py3-none-any", requires=""):
    """The path of a package of one module, with a command of its name that prints where it runs."""
    info, path = f"{name}-{version}.dist-info", folder / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}.py", "import sys\ndef main(): print(sys.prefix)\n")
        wheel.writestr(
            f"{info}/METADATA", f"Name: {name}\nVersion: {version}\n{requires}"
        )
        wheel.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nTag: {tag}\n")
        wheel.writestr(
            f"{info}/entry_points.txt", f"[console_scripts]\n{name}={name}:main\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return path
