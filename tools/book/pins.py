"""The pins: which version of which package, and how requirements.txt is compiled."""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from packaging.utils import canonicalize_name

from tools.environment import PINS, PYTHONS
from tools.errors import BookError
from tools.files import read_text, write_text
from tools.root import ROOT

NAMED = "requirements.in"


def read_pins(root: Path = ROOT) -> dict[str, str]:
    """The version of each package in both files of pins, by normalised name, on any platform.

    Raises BookError if a file is missing, or a line is not one pin of a package without another.
    """
    pins: dict[str, str] = {}
    for name in PINS:
        for number, line in enumerate(read_text(root / name, root).splitlines(), start=1):
            if not (text := line.partition("#")[0].strip()):
                continue
            match = re.fullmatch(r"([\w.-]+)==([\w.+!]+) *(?:;.*)?", text)
            if match is None:
                raise BookError(
                    f"{name}: line {number}, {text!r}, is not 'package==version'; correct it"
                )
            package = canonicalize_name(match[1])
            if package in pins:
                raise BookError(f"{name}: line {number}: {package} is pinned twice; leave one pin")
            pins[package] = match[2]
    return pins


def compile_pins(upgrade: Iterable[str] = (), root: Path = ROOT) -> None:
    """Write requirements.txt from requirements.in. Versions stay, but for packages to `upgrade`.

    Raises BookError if uv finds no versions that agree; its own words come before.
    """
    pins = root / PINS[0]
    with tempfile.TemporaryDirectory() as folder:
        compiled = Path(folder, PINS[0])
        if pins.is_file():
            shutil.copy(pins, compiled)  # uv prefers the versions it finds there
        command = [
            *(sys.executable, "-m", "uv", "pip", "compile", "--quiet", NAMED),
            *("--universal", "--fork-strategy", "fewest"),
            *("--python-version", ".".join(map(str, PYTHONS[0]))),
            *("--annotation-style", "line", "--custom-compile-command", "python -m tools pins"),
            *("--output-file", str(compiled)),
            *(f"--upgrade-package={name}" for name in upgrade),
        ]
        if subprocess.run(command, cwd=root, stdout=subprocess.DEVNULL).returncode:
            raise BookError(
                f"{NAMED}: uv could not compile it (see above); {PINS[0]} is unchanged. uv reads "
                "UV_DEFAULT_INDEX, and not pip's settings"
            )
        lines = compiled.read_text(encoding="utf-8").splitlines(keepends=True)
    # What Linux alone needs, torch's CUDA packages, is left to pip: not every build asks for it.
    linux, others = "sys_platform == 'linux'", re.compile("'(darwin|win32)'")
    kept = [line for line in lines if linux not in line or others.search(line)]
    write_text(pins, "".join(kept), root)
