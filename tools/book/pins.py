"""The pins: which version of which package."""

import re
from collections.abc import Iterable
from pathlib import Path

from packaging.utils import canonicalize_name

from tools.environment import PINS
from tools.errors import BookError
from tools.files import read_text
from tools.root import ROOT


def read_pins(root: Path = ROOT, files: Iterable[str] = PINS) -> dict[str, str]:
    """The version of each package in files of pins, by normalised name, on any platform."""
    pins: dict[str, str] = {}
    for name in files:
        for number, line in enumerate(
            read_text(root / name, root).splitlines(), start=1
        ):
            if not (text := line.partition("#")[0].strip()):
                continue
            match = re.fullmatch(r"([\w.-]+)==([\w.+!]+) *(?:;.*)?", text)
            place = f"{name}: line {number}"
            if match is None:
                raise BookError(
                    f"{place}, {text!r}, is not 'package==version'; correct it"
                )
            package = canonicalize_name(match[1])
            if package in pins:
                raise BookError(f"{place}: {package} is pinned twice; leave one pin")
            pins[package] = match[2]
    return pins
