"""Set up `.venv` with the pins. Runs on a bare Python: it imports nothing else of the book.

Called by `make environment`. Does nothing where `.venv` already holds the pins.
"""

import hashlib
import platform
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PINS = ("requirements.txt", "requirements-no-deps.txt")
PYTHONS = ((3, 11), (3, 12), (3, 13))
SMALLEST_GB = 3  # torch without CUDA, and all else; with CUDA it is about 8


class SetupError(Exception):
    """Why the environment cannot be made, in one line that names the mend."""


def check_python(version: tuple[int, int] = sys.version_info[:2]) -> None:
    """Raises SetupError if this Python is not one that the pins install on."""
    if version not in PYTHONS:
        good = ", ".join(f"{major}.{minor}" for major, minor in PYTHONS)
        raise SetupError(
            f"Makefile: python3 is Python {version[0]}.{version[1]}, the book needs one of {good}; "
            "name one: 'make PYTHON=python3.11 ...'"
        )


def check_disk(root: Path = ROOT) -> None:
    """Raises SetupError if not even the smallest torch would fit on the disk of `root`."""
    free = shutil.disk_usage(root).free / 1e9
    if free < SMALLEST_GB:
        raise SetupError(
            f".venv: {free:.1f} GB free on this disk, torch and the rest need at least "
            f"{SMALLEST_GB} GB; make room, or clone to a larger disk"
        )


def pins_digest(root: Path = ROOT) -> str:
    """The hash of the pins, comments left out: which environment this is."""
    digest = hashlib.sha256()
    for name in PINS:
        if not (root / name).is_file():
            raise SetupError(f"{name}: no such file; restore it with 'git checkout {name}'")
        for line in (root / name).read_text(encoding="utf-8").splitlines():
            digest.update(line.partition("#")[0].strip().encode() + b"\n")
    return digest.hexdigest()[:16]


def stamp(root: Path = ROOT) -> str:
    """What a finished environment holds: the pins, and the Python they are for."""
    return f"{pins_digest(root)}\n{platform.python_version()}\n"


def venv_python(root: Path = ROOT) -> Path:
    """The interpreter of `.venv`."""
    windows = root / ".venv" / "Scripts" / "python.exe"
    return windows if sys.platform == "win32" else root / ".venv" / "bin" / "python"


def make_venv(root: Path = ROOT) -> None:
    """Make `.venv` anew. Raises SetupError if this Python cannot."""
    print("Making .venv", flush=True)
    try:
        venv.create(root / ".venv", with_pip=True, clear=True)
    except (subprocess.CalledProcessError, OSError):
        shutil.rmtree(root / ".venv", ignore_errors=True)
        check_disk(root)
        raise SetupError(
            ".venv: this Python cannot make one; install its venv module "
            "('apt install python3-venv') or name another: 'make PYTHON=python3.11 ...'"
        ) from None


def install(root: Path = ROOT) -> None:
    """Make `.venv` if need be and install the pins; the stamp is written last.

    Raises SetupError if pip fails. What it had installed stays, and the next call goes on.
    """
    finished = root / ".venv" / "pins"
    lines = finished.read_text().splitlines() if finished.is_file() else []
    finished.unlink(missing_ok=True)  # until pip is done, .venv holds no known pins
    other_python = lines[1:] not in ([], [platform.python_version()])
    if other_python or not venv_python(root).exists():
        make_venv(root)
    for name, options in zip(PINS, ([], ["--no-deps"]), strict=True):
        print(f"Installing {name}", flush=True)
        pip = [str(venv_python(root)), "-m", "pip", "install", "--disable-pip-version-check"]
        run = subprocess.run([*pip, "--quiet", *options, "-r", str(root / name)], check=False)
        if run.returncode:
            check_disk(root)
            raise SetupError(f"{name}: pip could not install it (see above); mend that, run again")
    finished.write_text(stamp(root))


def main() -> int:
    """Make the environment; returns the exit code."""
    finished = ROOT / ".venv" / "pins"
    try:
        check_python()
        if finished.is_file() and finished.read_text() == stamp():
            return 0
        check_disk()
        install()
    except SetupError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted: run the command again, it goes on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
