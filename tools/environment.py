"""Make `.venv` hold the pins and nothing else. Runs on a bare Python, as `make environment`.

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
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WINDOWS = sys.platform == "win32"
if WINDOWS:
    import msvcrt
else:
    import fcntl

ROOT = Path(__file__).resolve().parents[1]
VENV, NEW, OLD = (ROOT / name for name in (".venv", ".venv.new", ".venv.old"))
PINS = ("requirements.txt", "requirements-no-deps.txt")
PYTHONS = ((3, 11), (3, 12), (3, 13))
SMALLEST_GB = 3  # torch without CUDA, and all else; with CUDA it is about 8


class SetupError(Exception):
    """Why the environment cannot be made, in one line that says what to do."""


def check_python(version: tuple[int, ...] = sys.version_info[:2]) -> None:
    """Raises SetupError if this Python is not one that the pins install on."""
    if version not in PYTHONS:
        good = ", ".join(f"{major}.{minor}" for major, minor in PYTHONS)
        raise SetupError(
            f"Makefile: PYTHON is Python {version[0]}.{version[1]}, the book needs one of {good}; "
            "name one: 'make PYTHON=python3.11 ...'"
        )


def check_disk() -> None:
    """Raises SetupError if not even the smallest torch would fit on this disk."""
    free = shutil.disk_usage(ROOT).free / 1e9
    if free < SMALLEST_GB:
        raise SetupError(
            f".venv: {free:.1f} GB free on this disk, torch and the rest need at least "
            f"{SMALLEST_GB} GB; make room, or clone to a larger disk"
        )


def pins_digest() -> str:
    """The hash of the pins, comments left out: which environment this is."""
    digest = hashlib.sha256()
    for name in PINS:
        if not (ROOT / name).is_file():
            raise SetupError(f"{name}: no such file; restore it with 'git checkout {name}'")
        for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
            digest.update(line.partition("#")[0].strip().encode() + b"\n")
    return digest.hexdigest()[:16]


def python_of(folder: Path) -> Path:
    """The interpreter of an environment."""
    return folder / ("Scripts/python.exe" if WINDOWS else "bin/python")


def base_python(folder: Path) -> tuple[Path | None, tuple[int, ...]]:
    """The Python that an environment was made with and its version; None if it is gone."""
    try:
        lines = (folder / "pyvenv.cfg").read_text(encoding="utf-8").splitlines()
        config = dict(re.split(" *= *", line, maxsplit=1) for line in lines)
        base = Path(config["executable"])
        version = tuple(map(int, config["version"].split(".")[:2]))
    except (OSError, KeyError, ValueError):
        return None, ()
    return (base if base.exists() and python_of(folder).exists() else None), version


def read_stamp(folder: Path) -> list[str]:
    """The pins that a complete environment holds and the folder that its scripts name, or []."""
    try:
        return (folder / "pins").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def write_stamp(folder: Path, pins: str) -> None:
    """Mark an environment as complete."""
    (folder / "pins").write_text(f"{pins}\n{folder}\n", encoding="utf-8")


def is_complete(folder: Path, pins: str) -> bool:
    """Whether an environment holds these pins, and runs."""
    return read_stamp(folder)[:1] == [pins] and base_python(folder)[0] is not None


@contextmanager
def only_one() -> Iterator[None]:
    """Wait until no other set-up is under way. The system drops the lock of a dead process.

    Programs started with `close_fds=False` hold it too: a pip whose parent was killed.
    """
    with (ROOT / ".venv.lock").open("a") as lock:
        os.set_inheritable(lock.fileno(), True)
        waiting = False
        while True:
            try:
                if WINDOWS:
                    msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)
                else:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except (BlockingIOError, PermissionError):
                if not waiting:
                    print("Waiting for another set-up of .venv to end", flush=True)
                waiting = True
                time.sleep(0.2)
        yield


def set_up(pins: str, keep_python: bool) -> None:
    """Bring `.venv` to these pins, from wherever the last call stopped."""
    with only_one():
        if OLD.exists() and not VENV.exists():  # stopped between the two renames
            OLD.rename(VENV)
        remove(OLD)
        if not is_complete(VENV, pins):
            if not is_complete(NEW, pins):
                remove(NEW)
                make(NEW, keep_python)
                install(NEW)
                write_stamp(NEW, pins)
            if VENV.exists():
                VENV.rename(OLD)
            NEW.rename(VENV)
            remove(OLD)
        remove(NEW)
        if (made_in := read_stamp(VENV)[1:]) != [str(VENV)]:
            if made_in != [str(NEW)]:
                print("This folder was moved: the scripts of .venv now name its new place")
            correct_scripts(VENV)
            write_stamp(VENV, pins)


def remove(folder: Path) -> None:
    """Remove an environment, if it is there."""
    if folder.is_symlink():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder)


def make(folder: Path, keep_python: bool) -> None:
    """Make an empty environment, with the Python of `.venv` if that should stay.

    Raises SetupError if the disk is too small, or the Python unfit.
    """
    check_disk()
    python, version = base_python(VENV)
    if not keep_python or python is None or version not in PYTHONS:
        check_python()
        python, version = sys.executable, sys.version_info[:2]
    print("Making .venv with Python {}.{}".format(*version), flush=True)
    run_venv(python, folder)


def run_venv(python: Path | str, *arguments: Path | str) -> None:
    """Run Python's own `venv`. Raises SetupError if it fails."""
    command = [python, "-m", "venv", *arguments]
    if subprocess.run(command, capture_output=True, close_fds=False, check=False).returncode:
        check_disk()
        raise SetupError(
            f".venv: {python} cannot make one; install its venv module "
            "('apt install python3-venv') or name another: 'make PYTHON=python3.11 ...'"
        )


def install(folder: Path) -> None:
    """Install the pins. Raises SetupError if pip fails."""
    for name in PINS:
        print(f"Installing {name}", flush=True)
        options = ["--no-deps"] if "no-deps" in name else []
        code, output = run_pip(folder, *options, "--requirement", str(ROOT / name))
        if code:
            check_disk()
            raise SetupError(f"{name}: {reason(folder, code, output)}; .venv is unchanged")


def run_pip(folder: Path, *arguments: str) -> tuple[int, str]:
    """The exit code and the output of `pip install`. On a terminal one line shows what it does."""
    command = [python_of(folder), "-m", "pip", "--disable-pip-version-check", "install"]
    pip = subprocess.Popen(
        [*command, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        close_fds=False,
    )
    output = []
    clear = "\r\033[K" if sys.stdout.isatty() else ""
    try:
        for line in pip.stdout:
            output.append(line)
            step = re.match(
                r" *((?:Collecting|Downloading|Processing) .*|Installing|WARNING: Retrying)", line
            )
            if step and clear:
                width = shutil.get_terminal_size().columns - 1
                shown = step[1].partition(" (from")[0]
                print(f"{clear}{shown:.{width}}", end="", flush=True)
    except BaseException:
        pip.terminate()
        raise
    finally:
        print(clear, end="", flush=True)
        pip.wait()
    return pip.returncode, "".join(output)


def reason(folder: Path, code: int, output: str) -> str:
    """Why pip failed, by what it printed, and what to do."""
    if "No space left on device" in output:
        return "the disk is full, or your share of it; make room and run again"
    if pin := re.search(r"No matching distribution found for (\S+)", output):
        # pip says why only when it is asked for every detail.
        _, output = run_pip(folder, "-vv", "--dry-run", "--no-deps", "--retries=0", pin[1])
    signs = r"Could not fetch URL \S+: (?!404)|Max retries|(?:Timeout|Connection|Protocol)Error"
    if lost := re.findall(f"(?m).*(?:{signs}).*?(?= - skipping|$)", output):
        causes = r"\[(?:Errno|SSL)[^'\")]*|\d{3} \w+ Error|timed out|\w+Error"
        cause = re.findall(causes, lost[-1])[-1:] or ["no answer"]
        return f"no package index could be reached ({cause[0]}); connect and run again"
    release = re.escape(pin[1].partition("==")[2]) if pin else ""
    if pin and re.search(f"none of the wheel's tags.*-{release}-", output):
        version = "{}.{}".format(*base_python(folder)[1])
        return f"{pin[1]} has no wheel for Python {version} on {sys.platform}; try another"
    if pin:
        return f"no package index has {pin[1]}; correct the pin, or pip's settings"
    print("".join(output.splitlines(keepends=True)[-10:]), end="", file=sys.stderr)
    return f"pip could not install it (exit code {code}, see above); correct that and run again"


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
    run_venv(base_python(folder)[0], "--without-pip", folder)


def main(arguments: list[str]) -> int:
    """Set up the environment; returns the exit code.

    With --keep-python, a new `.venv` has the Python of the old one: no other was named.
    """
    keep_python = "--keep-python" in arguments
    try:
        pins = pins_digest()
        tidy = read_stamp(VENV)[1:] == [str(VENV)] and not NEW.exists() and not OLD.exists()
        if tidy and is_complete(VENV, pins):
            version = base_python(VENV)[1]
            if not keep_python and version != sys.version_info[:2]:
                name = "{}.{}".format(*version)
                print(f".venv is complete, with Python {name}; for another, 'make clean' first")
            return 0
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        set_up(pins, keep_python)
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
    sys.exit(main(sys.argv[1:]))
