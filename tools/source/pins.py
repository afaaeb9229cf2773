"""The pins: which version of each package the book is made with."""

import re
from pathlib import Path

from tools.errors import BookError
from tools.source.files import read_text

FILES = ("requirements.txt", "requirements-no-deps.txt")
PIN = re.compile(r"(?P<name>[\w.-]+)(\[[\w,-]+\])?==(?P<version>[^\s;#]+)")


def read_pins(root: Path) -> dict[str, str]:
    """The version of every package, by its normalised name.

    Raises BookError if a file is missing, or a line is no exact version.
    """
    pins = {}
    for name in FILES:
        for number, line in enumerate(read_text(root / name, root).splitlines(), start=1):
            if not line.partition("#")[0].strip():
                continue
            pin = PIN.match(line)
            if pin is None:
                raise BookError(f"{name}: line {number} is no exact version; write name==version")
            pins[normalised(pin["name"])] = pin["version"]
    return pins


def normalised(name: str) -> str:
    """The name of a package as package indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()
