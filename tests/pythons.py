"""The Pythons of this machine, and tiny packages to install into them."""

import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest


def interpreter(minor):
    """Return a Python 3.<minor> that runs, or skip the test."""
    candidates = list(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"))
    on_path = shutil.which(f"python3.{minor}")
    if on_path:
        candidates.insert(0, on_path)
    for python in candidates:
        # A shim of pyenv is there without its Python.
        run = subprocess.run([python, "-V"], capture_output=True)
        if run.returncode == 0:
            return python
    pytest.skip(f"no Python 3.{minor} on this machine")


def write_wheel(
    folder, name, version="1.0", tag="py3-none-any", requires="", modules=None
):
    """Write a package with a command of its name, and return its path.

    It has one module, whose command prints where it runs, unless `modules` are given.
    """
    if modules is None:
        modules = {f"{name}.py": "import sys\ndef main(): print(sys.prefix)\n"}
    info = f"{name}-{version}.dist-info"
    files = {
        **modules,
        f"{info}/METADATA": f"Name: {name}\nVersion: {version}\n{requires}",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nTag: {tag}\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name}={name}:main\n",
        f"{info}/RECORD": "",
    }
    path = folder / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for where, text in files.items():
            wheel.writestr(where, text)
    return path
