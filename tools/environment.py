"""Make `.venv` hold the pins and nothing else. Runs on a bare Python, before any other command.

Its stamp is written last: what was stopped on the way, has other pins or was moved is made anew.
Each framework beside PyTorch has such an environment, too, which is made when it is needed.
"""

from __future__ import (
    annotations,  # so that an older Python reads this far, and is refused
)

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

WINDOWS = sys.platform == "win32"
if not WINDOWS:
    import fcntl

ROOT = Path(__file__).resolve().parents[1]
STAMP, PINS = "pins", ("requirements.txt", "requirements-no-deps.txt")
PYTHONS = ((3, 11), (3, 12), (3, 13))
OLD_PYTHONS = {"mxnet": ((3, 10), (3, 11))}  # its NumPy has no wheels for later ones
SMALLEST_GB = 3  # torch without CUDA, and all else; with CUDA it is about 8


class SetupError(Exception):
    """Why the environment cannot be made, in one line that says what to do."""


class NoPython(SetupError):
    """There is no Python here that the pins install on."""


@dataclass(frozen=True)
class Environment:
    """A folder of `root` with the packages that some files pin, on one of some Pythons."""

    root: Path
    name: str = ".venv"
    pins: tuple[str, ...] = PINS
    pythons: tuple[tuple[int, int], ...] = PYTHONS

    @property
    def folder(self) -> Path:
        return self.root / self.name

    @property
    def python(self) -> Path:
        return self.folder / ("Scripts/python.exe" if WINDOWS else "bin/python")


def framework_environment(name: str, root: Path) -> Environment:
    pins = (f"kernels/{name}/requirements.txt",)
    # Hidden, as whatever builds the site looks through every folder that is not.
    return Environment(root, f"_build/.{name}", pins, OLD_PYTHONS.get(name, PYTHONS))


def find_python(environment: Environment) -> str:
    """The Python to make it with: this one or, for a framework's, one that fits; else NoPython."""
    good, here = environment.pythons, sys.version_info[:2]
    names = ", ".join(map(version, good))
    if here in good:
        return sys.executable
    if environment.pins == PINS:
        wrong = f"PYTHON is Python {version(here)}, the book needs one of {names}"
        raise NoPython(f"Makefile: {wrong}; name one: 'make PYTHON=python3.11 ...'")
    for python in [shutil.which(f"python{version(each)}") for each in good]:
        if (
            python and not run(python, "-c", "import venv").returncode
        ):  # a shim may lead nowhere
            return python
    raise NoPython(
        f"{environment.pins[0]}: needs Python {names}, and none is here; install one"
    )


def version(info: tuple[int, ...]) -> str:
    return ".".join(map(str, info[:2]))


def stamp(environment: Environment) -> str:
    """Which environment this is: the hash of the pins, comments left out, and its place."""
    digest = hashlib.sha256()
    for name in environment.pins:
        path = environment.root / name
        if not path.is_file():
            raise SetupError(
                f"{name}: no such file; restore it with 'git restore {name}'"
            )
        for line in path.read_text(encoding="utf-8").splitlines():
            digest.update(line.partition("#")[0].strip().encode() + b"\n")
    return f"{digest.hexdigest()[:16]} {environment.folder}"


def is_complete(environment: Environment, wanted: str) -> bool:
    made = environment.folder / STAMP
    return (
        made.is_file()
        and made.read_text("utf-8") == wanted
        and environment.python.exists()
    )


@contextmanager
def only_one(environment: Environment) -> Iterator[None]:
    """Wait until no other set-up is under way, but on Windows. A dead process holds no lock."""
    path = environment.folder.with_name(f"{environment.folder.name}.lock")
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as lock:
        if not WINDOWS:
            os.set_inheritable(
                lock.fileno(), True
            )  # a pip whose parent was killed holds it too
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                print(
                    f"Waiting for another set-up of {environment.name} to end",
                    flush=True,
                )
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def make(environment: Environment) -> None:
    """Make an environment that is not there as its pins say. Raises SetupError."""
    wanted = stamp(environment)
    if not is_complete(environment, wanted):
        with only_one(environment):
            if not is_complete(environment, wanted):  # the other made it
                set_up(environment, wanted)


def set_up(environment: Environment, wanted: str) -> None:
    """Make it anew. On a terminal pip shows what it does. Raises SetupError."""
    python, folder, called = (
        find_python(environment),
        environment.folder,
        environment.name,
    )
    free = shutil.disk_usage(environment.root).free / 1e9
    if free < SMALLEST_GB:
        there = f"{called}: {free:.1f} GB free on this disk, the packages need at least"
        raise SetupError(
            f"{there} {SMALLEST_GB} GB; make room, or clone to a larger disk"
        )
    if folder.is_symlink():  # what it leads to is somebody else's
        folder.unlink()
    print(f"Making {called} with {python}", flush=True)
    if run(python, "-m", "venv", "--clear", folder, stdout=subprocess.PIPE).returncode:
        module = "install its venv module ('apt install python3-venv')"
        other = "name another: 'make PYTHON=python3.11 ...'"
        raise SetupError(f"{called}: {python} cannot make one; {module} or {other}")
    pip = [environment.python, "-m", "pip", "--disable-pip-version-check", "install"]
    shown = None if sys.stdout.isatty() else subprocess.DEVNULL
    for name in environment.pins:
        print(f"Installing {name}", flush=True)
        options = ["--no-deps"] * ("no-deps" in name) + ["-r", environment.root / name]
        installing = run(*pip, *options, stdout=shown)
        if installing.returncode:
            raise SetupError(f"{name}: {reason(installing.stderr)}")
    (folder / STAMP).write_text(wanted, "utf-8")


def run(*command: object, **options: object) -> subprocess.CompletedProcess:
    given = {"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE, "close_fds": False}
    given.update(options, encoding="utf-8", errors="replace")
    return subprocess.run([*map(str, command)], **given)


def reason(output: str) -> str:
    """Why pip failed, by its errors and warnings, and what to do."""
    if "No space left on device" in output or "Disk quota exceeded" in output:
        return "the disk is full, or your share of it; make room and run again"
    broken = r"total=0\b.*connection broken by '(\w+)"  # by the last of the retries
    error = r"^(?:ERROR: .*|[\w.]+\.)?\b(\w*(?:Connection|Timeout|Protocol|SSL)Error)"
    if lost := re.search(f"{broken}|{error}", output, re.M):
        return f"no package index could be reached ({lost[1] or lost[2]}); connect and run again"
    if pin := re.search(r"No matching distribution found for (\S+)", output):
        python = f"Python {version(sys.version_info)} on {sys.platform}"
        return f"no package index has {pin[1]} for {python}; correct the pin, or pip's settings"
    print("".join(output.splitlines(keepends=True)[-10:]), end="", file=sys.stderr)
    return "pip could not install it (see above); correct that and run again"


def main() -> int:
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        make(Environment(ROOT))
        return 0
    except SetupError as error:
        fault = error
    except OSError as error:
        advice = (
            "see that this folder can be written to and that no program runs from .venv"
        )
        fault = f".venv: {error}; {advice}, then run again"
    except KeyboardInterrupt:
        print(
            "\ninterrupted: run the command again, and .venv is made anew",
            file=sys.stderr,
        )
        return 130
    print(f"error: {fault}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
