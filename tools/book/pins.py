"""The pins: which version of which package, and how the files that hold them are compiled."""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from packaging.utils import canonicalize_name

from tools.environment import OLD_PYTHONS, PINS, PYTHONS, version
from tools.errors import BookError
from tools.files import read_text, write_files
from tools.root import ROOT

NAMED = "requirements.in"


def read_pins(root: Path = ROOT, files: Iterable[str] = PINS) -> dict[str, str]:
    """The version of each package in files of pins, by normalised name, on any platform.

    Raises BookError if a file is missing, or a line is not one pin of a package without another.
    """
    pins: dict[str, str] = {}
    for name in files:
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
    """Write requirements.txt from requirements.in, the book's and those of other frameworks.

    Versions stay, but for packages to `upgrade`. Raises BookError if uv finds no versions that
    agree; its own words come before.
    """
    named = [root / NAMED, *sorted((root / "kernels").glob(f"*/{NAMED}"))]
    write_files({path.with_suffix(".txt"): _compiled(path, upgrade, root) for path in named}, root)


def _compiled(named: Path, upgrade: Iterable[str], root: Path) -> str:
    where, pins = named.relative_to(root).as_posix(), named.with_suffix(".txt")
    with tempfile.TemporaryDirectory() as folder:
        compiled = Path(folder, pins.name)
        if pins.is_file():
            shutil.copy(pins, compiled)  # uv prefers the versions it finds there
        command = [
            *(sys.executable, "-m", "uv", "pip", "compile", "--quiet", where),
            *("--universal", "--fork-strategy", "fewest"),
            *("--python-version", version(OLD_PYTHONS.get(named.parent.name, PYTHONS)[0])),
            *("--annotation-style", "line", "--custom-compile-command", "python -m tools pins"),
            *("--output-file", str(compiled)),
            *(f"--upgrade-package={name}" for name in upgrade),
        ]
        if subprocess.run(command, cwd=root, stdout=subprocess.DEVNULL).returncode:
            raise BookError(
                f"{where}: uv could not compile it (see above); {pins.name} is unchanged. uv reads "
                "UV_DEFAULT_INDEX, and not pip's settings"
            )
        lines = compiled.read_text(encoding="utf-8").splitlines(keepends=True)
    # What Linux alone needs, torch's CUDA packages, is left to pip: not every build asks for it.
    linux, others = "sys_platform == 'linux'", re.compile("'(darwin|win32)'")
    return "".join(line for line in lines if linux not in line or others.search(line))
