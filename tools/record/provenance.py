"""Provenance: where, when and with what a recording was made."""

import datetime
import importlib.metadata
import os
import platform
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.book.chapters import PACKAGES, Chapter
from tools.book.runners import Runner
from tools.book.setup_cells import chapter_packages
from tools.environment import framework_environment

VERSIONS = ("torch", "torchvision", "d2l", "numpy", "matplotlib", "ipykernel")
EXECUTES = {
    "ipykernel",
    "ipython",
    "nbclient",
    "nbformat",
}  # what every cell runs and prints with


def provenance(
    chapter: Chapter,
    runner: Runner,
    seconds: float,
    pins: dict[str, str],
    card: dict | None,
) -> dict:
    """Where and when outputs were made. Date and hardware are facts, never staleness."""
    made = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "hardware": f"{processor()}, {os.cpu_count()} cores",
        "chapter": chapter.name,
        "runner": runner.name,
        "seconds": round(seconds, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": versions(VERSIONS),
    }
    if runner.is_local:
        used = pins if runner.pins else pins_of(chapter, pins)
        made |= {"kernel": runner.digest(chapter), "pins": used}
    if runner.pins:  # an environment of its own, which holds nothing else
        package = PACKAGES[runner.framework]
        own = framework_environment(runner.framework, runner.root).folder / "pyvenv.cfg"
        about = own.read_text(encoding="utf-8")
        made["python"] = re.search(r"^version = (\S+)", about, re.M)[1]
        made["versions"] = {package: pins[package]}
    if card:
        made |= {"host": made["hardware"], "hardware": ", ".join(card["names"])}
        made |= {"card": card["label"], "cuda": card["cuda"], "driver": card["driver"]}
        made["versions"]["torch"] = card["torch"]
    return made


def pins_of(chapter: Chapter, pins: dict[str, str]) -> dict[str, str]:
    """The pins that a chapter runs on: of what it imports, what executes it, and their needs."""
    found, ahead = set(), sorted(EXECUTES | chapter_packages(chapter))
    while ahead:
        name = canonicalize_name(ahead.pop())
        if name in found or name not in pins:
            continue
        with suppress(
            importlib.metadata.PackageNotFoundError
        ):  # it is for other systems
            needs = map(Requirement, importlib.metadata.requires(name) or [])
            found.add(name)
            ahead += [
                n.name
                for n in needs
                if not n.marker or n.marker.evaluate({"extra": ""})
            ]
    return {name: pins[name] for name in sorted(found)}


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Raises ModuleNotFoundError, which a command tells in a line, if a package is not there."""
    return {name: importlib.metadata.version(name) for name in packages}


def processor() -> str:
    with suppress(OSError):  # not Linux
        if name := re.search(
            r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.M
        ):
            return name[1].strip()
    return platform.processor() or platform.machine()
