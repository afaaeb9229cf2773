"""Make `.venv` hold the pins and nothing else. Runs on a bare Python, before any other command.

Its stamp is written last: what was stopped on the way, has other pins or was moved is made anew.
"""

from __future__ import annotations  # so that an older Python reads this far, and is refused

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WINDOWS = sys.platform == "win32"
if not WINDOWS:
    import fcntl

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
PYTHON, STAMP = VENV / ("Scripts/python.exe" if WINDOWS else "bin/python"), VENV / "pins"
PINS = ("requirements.txt", "requirements-no-deps.txt")
PYTHONS = ((3, 11), (3, 12), (3, 13))
SMALLEST_GB = 3  # torch without CUDA, and all else; with CUDA it is about 8


class SetupError(Exception):
    """Why the environment cannot be made, in one line that says what to do."""


def check_machine() -> None:
    """Raises SetupError if the pins do not install on this Python, or will not fit on the disk."""
    if sys.version_info[:2] not in PYTHONS:
        here, good = version(sys.version_info), ", ".join(map(version, PYTHONS))
        raise SetupError(
            f"Makefile: PYTHON is Python {here}, the book needs one of {good}; "
            "name one: 'make PYTHON=python3.11 ...'"
        )
    free = shutil.disk_usage(ROOT).free / 1e9
    if free < SMALLEST_GB:
        raise SetupError(
            f".venv: {free:.1f} GB free on this disk, torch and the rest need at least "
            f"{SMALLEST_GB} GB; make room, or clone to a larger disk"
        )


def version(info: tuple[int, ...]) -> str:
    return ".".join(map(str, info[:2]))


def stamp() -> str:
    """Which environment this is: the hash of the pins, comments left out, and its place."""
    digest = hashlib.sha256()
    for name in PINS:
        if not (ROOT / name).is_file():
            raise SetupError(f"{name}: no such file; restore it with 'git restore {name}'")
        for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
            digest.update(line.partition("#")[0].strip().encode() + b"\n")
    return f"{digest.hexdigest()[:16]} {VENV}"


def is_complete(wanted: str) -> bool:
    """Whether `.venv` was made to its end, here, and the Python that it was made with is there."""
    return STAMP.is_file() and STAMP.read_text("utf-8") == wanted and PYTHON.exists()


@contextmanager
def only_one() -> Iterator[None]:
    """Wait until no other set-up is under way. The system drops the lock of a dead process.

    Programs started with `close_fds=False` hold it too: a pip whose parent was killed. On
    Windows nothing keeps two set-ups apart.
    """
    with (ROOT / ".venv.lock").open("a") as lock:
        if not WINDOWS:
            os.set_inheritable(lock.fileno(), True)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                print("Waiting for another set-up of .venv to end", flush=True)
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def set_up(wanted: str) -> None:
    """Make `.venv` anew. On a terminal pip shows what it does. Raises SetupError."""
    check_machine()
    if VENV.is_symlink():  # what it leads to is somebody else's
        VENV.unlink()
    print(f"Making .venv with Python {version(sys.version_info)}", flush=True)
    if run(sys.executable, "-m", "venv", "--clear", VENV, stdout=subprocess.PIPE).returncode:
        raise SetupError(
            f".venv: {sys.executable} cannot make one; install its venv module "
            "('apt install python3-venv') or name another: 'make PYTHON=python3.11 ...'"
        )
    pip = [PYTHON, "-m", "pip", "--disable-pip-version-check", "install", "--requirement"]
    for name in PINS:
        print(f"Installing {name}", flush=True)
        options = ["--no-deps"] if "no-deps" in name else []
        shown = None if sys.stdout.isatty() else subprocess.DEVNULL
        installing = run(*pip, ROOT / name, *options, stdout=shown)
        if installing.returncode:
            raise SetupError(f"{name}: {reason(installing.stderr)}")
    STAMP.write_text(wanted, "utf-8")


def run(*command: object, **options: object) -> subprocess.CompletedProcess:
    words, options = list(map(str, command)), options | {"stdin": subprocess.DEVNULL}
    coding = {"encoding": "utf-8", "errors": "replace", "close_fds": False}
    return subprocess.run(words, stderr=subprocess.PIPE, check=False, **coding, **options)


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
        wanted = stamp()
        if not is_complete(wanted):
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            with only_one():
                if not is_complete(wanted):  # the other made it
                    set_up(wanted)
    except SetupError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        advice = "see that this folder can be written to and that no program runs from .venv"
        print(f"error: .venv: {error}; {advice}, then run again", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted: run the command again, and .venv is made anew", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
