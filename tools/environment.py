"""Make `.venv` hold the pins and nothing else. Runs on a bare Python, before any other command.

Its stamp is written last: what was stopped on the way, has other pins or was moved is made anew.
Each framework beside PyTorch has such an environment, too, which is made when it is needed.
"""

# So that an older Python reads this far, and is refused.
from __future__ import annotations

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
STAMP = "pins"  # the file in an environment that says what it holds
# The files that pin the packages of `.venv`, in the order in which pip installs them.
REQUIREMENTS = ("requirements.txt", "requirements-no-deps.txt")
PYTHONS = ((3, 11), (3, 12), (3, 13))
OLD_PYTHONS = {"mxnet": ((3, 10), (3, 11))}  # its NumPy has no wheels for later ones
# For torch without CUDA and all else: 2 GB of packages, and the wheels while pip installs
# them. With CUDA it is about 8.
SMALLEST_GB = 3
NAME_ANOTHER = "name another: 'make PYTHON=python3.11 ...'"


class SetupError(Exception):
    """Why the environment cannot be made, in one line that says what to do."""


class NoPython(SetupError):
    """There is no Python here that the pins install on."""


@dataclass(frozen=True)
class Environment:
    """A folder of `root` with the pinned packages of some files, on one of some Pythons."""

    root: Path
    name: str = ".venv"
    requirements: tuple[str, ...] = REQUIREMENTS
    pythons: tuple[tuple[int, int], ...] = PYTHONS

    @property
    def folder(self) -> Path:
        return self.root / self.name

    @property
    def python(self) -> Path:
        return self.folder / ("Scripts/python.exe" if WINDOWS else "bin/python")


def framework_environment(name: str, root: Path) -> Environment:
    """Return the environment of a framework beside PyTorch."""
    return Environment(
        root,
        # Hidden, as whatever builds the site looks through every folder that is not.
        name=f"_build/.{name}",
        requirements=(f"kernels/{name}/requirements.txt",),
        pythons=OLD_PYTHONS.get(name, PYTHONS),
    )


def find_python(environment: Environment) -> str:
    """Return the Python to make an environment with, or raise NoPython.

    It is this one or, for that of a framework, one on the path that fits.
    """
    this = sys.version_info[:2]
    if this in environment.pythons:
        return sys.executable

    suitable = ", ".join(version(python) for python in environment.pythons)
    if environment.requirements == REQUIREMENTS:
        mismatch = f"PYTHON is Python {version(this)}, the book needs one of {suitable}"
        raise NoPython(f"Makefile: {mismatch}; {NAME_ANOTHER}")
    for python in environment.pythons:
        path = shutil.which(f"python{version(python)}")
        # Tried out, as a shim may lead nowhere.
        if path and run(path, "-c", "import venv").returncode == 0:
            return path
    missing = f"needs Python {suitable}, and none is here"
    raise NoPython(f"{environment.requirements[0]}: {missing}; install one")


def version(info: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in info[:2])


def stamp(environment: Environment) -> str:
    """Return which environment this is: a hash of its pins, and its place.

    Comments and empty lines do not count.
    """
    digest = hashlib.sha256()
    for name in environment.requirements:
        path = environment.root / name
        if not path.is_file():
            advice = f"restore it with 'git restore {name}'"
            raise SetupError(f"{name}: no such file; {advice}")
        for line in path.read_text(encoding="utf-8").splitlines():
            pin = line.partition("#")[0].strip()
            if pin:
                digest.update(pin.encode() + b"\n")
    return f"{digest.hexdigest()[:16]} {environment.folder}"


def is_complete(environment: Environment, wanted: str) -> bool:
    """Return whether an environment carries the `wanted` stamp and can be used."""
    path = environment.folder / STAMP
    if not path.is_file() or path.read_text(encoding="utf-8") != wanted:
        return False
    return environment.python.exists()


@contextmanager
def only_one(environment: Environment) -> Iterator[None]:
    """Wait until no other setup is under way, but on Windows. A dead process holds no lock."""
    path = environment.folder.with_name(f"{environment.folder.name}.lock")
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as lock:
        if not WINDOWS:
            # Inherited, so that a pip whose parent was killed holds it, too.
            os.set_inheritable(lock.fileno(), True)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waiting = f"Waiting for another setup of {environment.name} to end"
                print(waiting, flush=True)
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def make(environment: Environment) -> None:
    """Make an environment as its pins say, unless it is there. Raises SetupError."""
    wanted = stamp(environment)
    if is_complete(environment, wanted):
        return
    with only_one(environment):
        if not is_complete(environment, wanted):  # else the other made it
            set_up(environment, wanted)


def set_up(environment: Environment, wanted: str) -> None:
    """Make an environment anew, with its stamp. Raises SetupError."""
    python = find_python(environment)
    check_room(environment)
    if environment.folder.is_symlink():  # what it leads to is somebody else's
        environment.folder.unlink()
    create(environment, python)
    for name in environment.requirements:
        install(environment, name)
    (environment.folder / STAMP).write_text(wanted, encoding="utf-8")


def check_room(environment: Environment) -> None:
    free = shutil.disk_usage(environment.root).free / 1e9
    if free < SMALLEST_GB:
        shortage = f"{free:.1f} GB free on this disk"
        need = f"the packages need at least {SMALLEST_GB} GB"
        advice = "make room, or clone to a larger disk"
        raise SetupError(f"{environment.name}: {shortage}, {need}; {advice}")


def create(environment: Environment, python: str) -> None:
    print(f"Making {environment.name} with {python}", flush=True)
    creating = ("-m", "venv", "--clear", environment.folder)
    if run(python, *creating, stdout=subprocess.PIPE).returncode != 0:
        fault = f"{environment.name}: {python} cannot make one"
        advice = "install its venv module ('apt install python3-venv')"
        raise SetupError(f"{fault}; {advice} or {NAME_ANOTHER}")


def install(environment: Environment, name: str) -> None:
    """Install a requirements file. On a terminal pip shows what it does."""
    print(f"Installing {name}", flush=True)
    options = ["--disable-pip-version-check", "install"]
    if "no-deps" in name:
        options.append("--no-deps")
    options += ["-r", environment.root / name]
    output = None if sys.stdout.isatty() else subprocess.DEVNULL
    installing = run(environment.python, "-m", "pip", *options, stdout=output)
    if installing.returncode != 0:
        raise SetupError(f"{name}: {reason(installing.stderr)}")


def run(*command: object, **options: object) -> subprocess.CompletedProcess:
    words = [str(word) for word in command]
    return subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        close_fds=False,  # the lock of `only_one` is for pip, too
        encoding="utf-8",
        errors="replace",
        **options,
    )


def reason(output: str) -> str:
    """Return why pip failed, by its errors and warnings, and what to do."""
    if "No space left on device" in output or "Disk quota exceeded" in output:
        return "the disk is full, or your share of it; make room and run again"

    # The warning of pip's last try names what broke; an error that ends pip does, too.
    broken = r"total=0\b.*connection broken by '(\w+)"
    error = r"^(?:ERROR: .*|[\w.]+\.)?\b(\w*(?:Connection|Timeout|Protocol|SSL)Error)"
    if lost := re.search(f"{broken}|{error}", output, re.MULTILINE):
        fault = f"no package index could be reached ({lost[1] or lost[2]})"
        return f"{fault}; connect and run again"

    if pin := re.search(r"No matching distribution found for (\S+)", output):
        python = f"Python {version(sys.version_info)} on {sys.platform}"
        fault = f"no package index has {pin[1]} for {python}"
        return f"{fault}; correct the pin, or pip's settings"

    last_lines = output.splitlines(keepends=True)[-10:]
    print("".join(last_lines), end="", file=sys.stderr)
    return "pip could not install it (see above); correct that and run again"


def main() -> int:
    """Make `.venv`; a fault is one line, with exit code 1."""
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        make(Environment(ROOT))
        return 0
    except SetupError as error:
        fault = str(error)
    except OSError as error:
        advice = "see that this folder can be written to and that no program runs from"
        fault = f".venv: {error}; {advice} .venv, then run again"
    except KeyboardInterrupt:
        stopped = "interrupted: run the command again, and .venv is made anew"
        print(f"\n{stopped}", file=sys.stderr)
        return 130
    print(f"error: {fault}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
