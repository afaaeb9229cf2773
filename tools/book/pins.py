"""The pins: which version of which package."""

import re
from collections.abc import Iterable
from pathlib import Path

from packaging.utils import canonicalize_name

from tools.environment import REQUIREMENTS
from tools.errors import BookError
from tools.files import ROOT, read_text

PIN = re.compile(r"(?P<package>[\w.-]+)==(?P<version>[\w.+!]+) *(?:;.*)?")


def read_pins(root: Path = ROOT, files: Iterable[str] = REQUIREMENTS) -> dict[str, str]:
    """Return the version of each package in files of pins, by normalised name.

    Pins that are for some platforms only are among them.
    """
    pins: dict[str, str] = {}
    for name in files:
        lines = read_text(root / name, root).splitlines()
        for number, line in enumerate(lines, start=1):
            text = line.partition("#")[0].strip()
            if not text:
                continue
            place = f"{name}: line {number}"
            pin = PIN.fullmatch(text)
            if pin is None:
                raise BookError(
                    f"{place}, {text!r}, is not 'package==version'", advice="correct it"
                )
            package = canonicalize_name(pin["package"])
            if package in pins:
                raise BookError(place, f"{package} is pinned twice", "leave one pin")
            pins[package] = pin["version"]
    return pins
