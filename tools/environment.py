"""Make `.venv` hold the pins and nothing else. Runs on a bare Python, before any other command.

A new environment is made beside `.venv` and takes its place when it is complete. Wherever this
stops, by Ctrl-C or a power cut, a complete `.venv` is not lost, and the next call tidies up.
"""

from __future__ import annotations  # so that an older Python reads this far, and is refused

import hashlib
import os
import re
import shlex
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
VENV, NEW, OLD = (ROOT / name for name in (".venv", ".venv.new", ".venv.old"))
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


def pins_digest() -> str:
    """The hash of the pins, comments left out: which environment this is."""
    digest = hashlib.sha256()
    for name in PINS:
        if not (ROOT / name).is_file():
            raise SetupError(f"{name}: no such file; restore it with 'git restore {name}'")
        for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
            digest.update(line.partition("#")[0].strip().encode() + b"\n")
    return digest.hexdigest()[:16]


def python_of(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if WINDOWS else "bin/python")


def config(folder: Path, name: str) -> str:
    """What an environment's own `pyvenv.cfg` says of itself."""
    text = (folder / "pyvenv.cfg").read_text(encoding="utf-8")
    found = re.search(rf"^{name} *= *(.*)$", text, re.M)
    return found[1] if found else ""


def is_complete(folder: Path, pins: str) -> bool:
    """Whether an environment holds these pins, and the Python that it was made with is there."""
    try:
        stamp, base = (folder / "pins").read_text().split(), config(folder, "executable")
    except OSError:
        return False
    return stamp[:1] == [pins] and os.path.exists(base) and python_of(folder).exists()


def is_at_home(folder: Path) -> bool:
    """Whether its scripts name the folder where it is now."""
    return config(folder, "command").endswith(f" {folder}")


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


def set_up(pins: str) -> None:
    """Bring `.venv` to these pins, from wherever the last call stopped."""
    if OLD.exists() and not VENV.exists():  # stopped between the two renames
        OLD.rename(VENV)
    remove(OLD)
    if not is_complete(VENV, pins):
        if not is_complete(NEW, pins):
            remove(NEW)
            check_machine()
            print(f"Making .venv with Python {version(sys.version_info)}", flush=True)
            run_venv(sys.executable, str(NEW))
            for name in PINS:
                install(NEW, name)
            (NEW / "pins").write_text(pins)
        if VENV.exists():
            VENV.rename(OLD)
        NEW.rename(VENV)
        remove(OLD)
    remove(NEW)
    if not is_at_home(VENV):
        correct_scripts(VENV)


def remove(folder: Path) -> None:
    if folder.is_symlink():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder)


def run_venv(python: str, *arguments: str) -> None:
    command = [python, "-m", "venv", *arguments]
    if subprocess.run(command, capture_output=True, close_fds=False, check=False).returncode:
        raise SetupError(
            f".venv: {python} cannot make one; install its venv module "
            "('apt install python3-venv') or name another: 'make PYTHON=python3.11 ...'"
        )


def install(folder: Path, name: str) -> None:
    """Install a file of pins. On a terminal pip shows what it does. Raises SetupError."""
    print(f"Installing {name}", flush=True)
    pip = [python_of(folder), "-m", "pip", "--disable-pip-version-check", "install"]
    options = ["--no-deps"] if "no-deps" in name else []
    run = subprocess.run(
        [*pip, *options, "--requirement", ROOT / name],
        stdin=subprocess.DEVNULL,
        stdout=None if sys.stdout.isatty() else subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        close_fds=False,
        check=False,
    )
    if run.returncode:
        raise SetupError(f"{name}: {reason(run.stderr)}; .venv is unchanged")


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


def correct_scripts(folder: Path) -> None:
    """Write into scripts and activators where the environment is now: they name its path."""
    python = str(python_of(folder))
    if WINDOWS:  # a launcher: a program, this line, a zip archive
        line, header = rb"#![^\n]*\n(?=PK\x03\x04)", f'#!"{python}"\r\n'
    else:  # by way of sh, as pip does where a path is long or has a space
        line = rb"\A#!(?:/bin/sh\n'''exec' .*\n' '''|.*/python[\d.]*)\n"
        header = f"#!/bin/sh\n'''exec' {shlex.quote(python)} \"$0\" \"$@\"\n' '''\n"
    for script in filter(Path.is_file, python_of(folder).parent.iterdir()):
        content = script.read_bytes()
        corrected = re.sub(line, lambda match: header.encode(), content, count=1)
        if corrected != content:
            script.write_bytes(corrected)
    # On an environment that is there already, this writes the activators afresh.
    run_venv(config(folder, "executable"), "--without-pip", str(folder))


def main() -> int:
    try:
        pins = pins_digest()
        tidy = not NEW.exists() and not OLD.exists()
        if not (tidy and is_complete(VENV, pins) and is_at_home(VENV)):
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            with only_one():
                set_up(pins)
    except SetupError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        advice = "see that this folder can be written to and that no program runs from .venv"
        print(f"error: .venv: {error}; {advice}, then run again", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted: a complete .venv is not lost; run the command again", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
