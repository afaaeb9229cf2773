"""Provenance: where, when and with what a recording was made."""

import datetime
import importlib.metadata
import os
import platform
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.book.chapters import PACKAGES, Chapter
from tools.book.runners import Runner
from tools.book.setup_cells import chapter_packages
from tools.environment import framework_environment

VERSIONS = ("torch", "torchvision", "d2l", "numpy", "matplotlib", "ipykernel")
# What every cell runs and prints with.
EXECUTES = {"ipykernel", "ipython", "nbclient", "nbformat"}


@dataclass(frozen=True)
class Cards:
    """The real GPUs of a machine, as its torch sees them."""

    folder: str  # of their recordings in `outputs/`
    label: str  # what readers see
    names: list[str]
    free: list[int]  # bytes on each
    driver: str
    cuda: str
    torch: str


def provenance(
    chapter: Chapter,
    runner: Runner,
    seconds: float,
    pins: dict[str, str],
    cards: Cards | None,
) -> dict:
    """Return where and when outputs were made. Date and hardware are facts, never staleness."""
    hardware = f"{processor()}, {os.cpu_count()} cores"
    facts = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "hardware": hardware,
        "chapter": chapter.name,
        "runner": runner.name,
        "seconds": round(seconds, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": versions(VERSIONS),
    }
    if not runner.is_real_gpu:
        facts["kernel"] = runner.digest(chapter)
        facts["pins"] = pins if runner.requirements else chapter_pins(chapter, pins)
    if runner.requirements:  # an environment of its own, which holds nothing else
        package = PACKAGES[runner.framework]
        facts["python"] = python_of(runner)
        facts["versions"] = {package: pins[package]}
    if cards:
        facts["host"] = hardware
        facts["hardware"] = ", ".join(cards.names)
        facts["card"] = cards.label
        facts["cuda"] = cards.cuda
        facts["driver"] = cards.driver
        facts["versions"]["torch"] = cards.torch
    return facts


def python_of(runner: Runner) -> str:
    """Return the version of the Python in the environment of a framework."""
    environment = framework_environment(runner.framework, runner.root)
    config = (environment.folder / "pyvenv.cfg").read_text(encoding="utf-8")
    return re.search(r"^version = (\S+)", config, re.MULTILINE)[1]


def chapter_pins(chapter: Chapter, pins: dict[str, str]) -> dict[str, str]:
    """Return the pins of what a chapter imports, what executes it, and what these need."""
    used: set[str] = set()
    waiting = sorted(EXECUTES | chapter_packages(chapter))
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in used or name not in pins:
            continue
        try:
            requirements = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # it is for other systems
        used.add(name)
        for requirement in map(Requirement, requirements):
            marker = requirement.marker
            if marker is None or marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)
    return {name: pins[name] for name in sorted(used)}


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of packages.

    Raises ModuleNotFoundError, which a command tells in a line, if one is not there.
    """
    return {name: importlib.metadata.version(name) for name in packages}


def processor() -> str:
    """Return the name of this machine's processor."""
    with suppress(OSError):  # not Linux
        about = Path("/proc/cpuinfo").read_text()
        if name := re.search(r"^model name\s*: (.+)$", about, re.MULTILINE):
            return name[1].strip()
    return platform.processor() or platform.machine()
