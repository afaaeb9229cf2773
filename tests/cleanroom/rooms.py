"""Rooms: environments made as each service makes its own, and chapters run in a copy of one.

A room is a virtual environment below `_build/.cleanroom`. It is made once; every chapter runs
in a copy, made of hard links, so that what one setup cell installs no other chapter finds.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml
from filelock import FileLock
from helpers import ROOT

from tools.book.repository import read_repository

HERE = Path(__file__).parent
BINDER = ROOT / ".binder"
# Hidden, because building the site looks through other folders.
ROOMS = ROOT / "_build" / ".cleanroom"
REPOSITORY = ROOMS / "repository.git"
THIS_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
OLD_PIP = "21.2.4"
# Whether to install the builds for CUDA, as on Colab: 8 GB.
CUDA = os.environ.get("CLEANROOM_TORCH") == "cuda"
BUILD = "" if CUDA else "+cpu"
INDEX = [] if CUDA else ["--extra-index-url", "https://download.pytorch.org/whl/cpu"]
# The variables that a room's processes see of this one's.
PASSED = re.compile(r"PATH$|LANG$|LC_|TMPDIR$|SSL_|PIP_|.*_proxy$|.*_PROXY$")


class Unavailable(Exception):
    """Something that cannot be had on this machine."""


class Room:
    """An environment: its interpreter, and notes on what it is made of and lacks."""

    def __init__(self, name: str):
        self.folder = ROOMS / name
        self.python = self.folder / "bin" / "python"
        self.notes = self.folder / "notes.txt"

    def note(self, line: str) -> None:
        with self.notes.open("a") as file:
            file.write(line + "\n")

    def pip(self, *arguments: object, cwd: Path = ROOT) -> None:
        run(self.python, "-m", "pip", "install", "--quiet", *arguments, cwd=cwd)

    def packages(self) -> dict[str, str]:
        """Return the version of each package that is installed."""
        versions = {}
        for path in self.folder.glob("lib/python*/site-packages/*.dist-info"):
            name, version = path.stem.rsplit("-", 1)
            versions[name] = version
        return versions


def run(*command: object, cwd: Path = ROOT, **variables: str) -> str:
    """Return what a command prints in a room's environment. Raises Unavailable if it fails."""
    words = [str(word) for word in command]
    process = subprocess.run(
        words, cwd=cwd, env=environment(**variables), capture_output=True, text=True
    )
    printed = process.stdout + process.stderr
    if process.returncode:
        raise Unavailable(f"{' '.join(words)}\n{printed}")
    return printed


def environment(**variables: str) -> dict[str, str]:
    """Return the variables of a room's processes.

    They have what a service has and a test machine may lack, and nothing else of this
    process.
    """
    passed = {name: value for name, value in os.environ.items() if PASSED.match(name)}
    home = ROOMS / "home"
    home.mkdir(parents=True, exist_ok=True)
    own = {
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        # Python compiles what is imported, which is far less.
        "PIP_COMPILE": "0",
        "PIP_CACHE_DIR": str(ROOMS / "pip"),
        # pip asks an index that is out of reach again for every package.
        "PIP_RETRIES": "1",
        # Rooms run side by side: threads would wait for each other, busily.
        "OMP_NUM_THREADS": "1",
        "PATH": path_outside(),
        "HOME": str(home),
    }
    return passed | own | variables


def path_outside() -> str:
    """Return the PATH without the programs of this environment."""
    outside = []
    for folder in os.environ["PATH"].split(os.pathsep):
        if not Path(folder).is_relative_to(sys.prefix):
            outside.append(folder)
    return os.pathsep.join(outside)


def make_repository() -> None:
    """Make a repository that holds this folder as it is, for Binder to clone.

    Nothing is committed here.
    """
    branch = read_repository(ROOT).branch
    run("git", "init", "--quiet", "--bare", "--initial-branch", branch, REPOSITORY)
    git = ["git", "--git-dir", REPOSITORY, "--work-tree", ROOT]
    for setting in ("core.bare=false", "user.name=x", "user.email=x@x"):
        git += ["-c", setting]
    run(*git, "add", "--all")
    run(*git, "commit", "--quiet", "--message", "x")


def once(folder: Path, make: Callable, *arguments: object) -> None:
    """Call `make(*arguments)`, which makes `folder`, unless a process of this run has done so."""
    ROOMS.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not (folder / "made").exists():
            shutil.rmtree(folder, ignore_errors=True)
            make(*arguments)
            (folder / "made").touch()


def clear() -> None:
    """Remove what earlier runs made, but for what pip has downloaded."""
    for path in ROOMS.glob("*"):
        if path.name == "pip":
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def with_torch(room: Room, *pairs: tuple[str, str]) -> None:
    """Make a room that holds torch: the first pair of Python and torch that can be had."""
    refused = []
    for python, torch in pairs:
        pair = f"Python {python} with torch {torch}"
        base = Room(f"torch-{python}-{torch}")
        try:
            once(base.folder, make_base, base, python, torch)
        except Unavailable as error:
            reason = str(error).strip().splitlines()[-1]
            refused.append(f"left out: {pair} ({reason})")
            continue

        link(base, room)
        (room.folder / "made").unlink()
        for line in [pair, *refused]:
            room.note(line)
        return
    raise Unavailable("; ".join(refused))


def interpreter(version: str) -> str:
    """Return the path of a Python that runs. Raises Unavailable if there is none."""
    if version == THIS_PYTHON:
        return sys.executable
    program = shutil.which(f"python{version}")
    # A shim of pyenv is there without its Python.
    if program and not subprocess.run([program, "-V"], capture_output=True).returncode:
        return program
    raise Unavailable(f"no python{version} on this machine")


def make_base(base: Room, python: str, torch: str) -> None:
    """Make a virtual environment with torch alone; without CUDA unless that is asked for."""
    run(interpreter(python), "-m", "venv", base.folder)
    base.pip(f"torch=={torch}{BUILD}", *INDEX)
    # This compiles it for all copies.
    run(base.python, "-c", "import torch._dynamo, torch.distributed.run")


def link(base: Room, room: Room) -> None:
    """Copy a room by hard links: pip replaces files, it does not write into them."""
    shutil.copytree(base.folder, room.folder, symlinks=True, copy_function=os.link)


def pin(name: str) -> str:
    text = (ROOT / "requirements.txt").read_text()
    return re.search(rf"^{name}==([\w.]+)", text, re.M)[1]


def add_torchvision(room: Room) -> None:
    """Install the torchvision that belongs to a room's torch.

    From PyPI, if no other index can be reached: its compiled half may then lack CUDA's
    libraries, and the tests complete it.
    """
    torch, _, _ = room.packages()["torch"].partition("+")
    # https://github.com/pytorch/vision#installation: 0.26 is of 2.11, 0.27 of 2.12, ...
    minor = int(torch.split(".")[1]) + 15
    room.pip("--no-deps", f"torchvision==0.{minor}.*", *INDEX)


def make_bare(room: Room) -> None:
    """A laptop with what PyTorch's own page has one install: torch and torchvision."""
    with_torch(room, (THIS_PYTHON, pin("torch")))
    add_torchvision(room)
    room.pip("ipykernel", "numpy", "pillow")


def make_old_pip(room: Room) -> None:
    """A laptop whose pip is of 2021: it came with a Python, and was never renewed."""
    make_bare(room)
    room.pip(f"pip=={OLD_PIP}")
    room.note(f"pip {OLD_PIP}")


def colab_packages() -> dict[str, str]:
    """Return the version of each package that Colab has, without that of its build."""
    versions = {}
    for line in (HERE / "colab.txt").read_text().splitlines():
        if not line.startswith("#"):
            name, version = line.split("==")
            versions[name] = version
    return versions


def make_colab(room: Room) -> None:
    packages = colab_packages()
    torch, _, _ = packages.pop("torch").partition("+")
    del packages["torchvision"]
    pairs = [("3.12", torch), ("3.13", torch)]
    if not CUDA:
        pairs += [(THIS_PYTHON, torch), (THIS_PYTHON, pin("torch"))]
    with_torch(room, *pairs)

    room.pip(*[f"{name}=={version}" for name, version in packages.items()])
    add_torchvision(room)


def make_studio_lab(room: Room) -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    *packages, of_pip = environment["dependencies"]
    [python] = [line for line in packages if line.startswith("python=")]
    version = python.removeprefix("python=")
    with_torch(room, (version, pin("torch")), (THIS_PYTHON, pin("torch")))

    lines = "\n".join(of_pip["pip"])
    requirements = room.folder / "environment.txt"
    # A folder's name may have a space.
    requirements.write_text(re.sub(r" \.binder/(\S+)", f' "{BINDER}/\\1"', lines))
    room.pip("--requirement", requirements)
    room.note("left out: conda; its packages here are pip's")


def binder_python() -> str:
    return (BINDER / "runtime.txt").read_text().strip().removeprefix("python-")


def make_binder(room: Room) -> None:
    """Run what repo2docker does: runtime.txt, requirements.txt and postBuild of .binder/."""
    with_torch(room, (binder_python(), pin("torch")), (THIS_PYTHON, pin("torch")))
    once(REPOSITORY, make_repository)
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder) / "book"
        run("git", "clone", "--quiet", REPOSITORY, checkout, cwd=Path(folder))
        requirements = ["--requirement", ".binder/requirements.txt"]
        room.pip("--no-cache-dir", *requirements, cwd=checkout)
        path = os.pathsep.join([str(room.python.parent), path_outside()])
        run("./.binder/postBuild", cwd=checkout, PATH=path)
    room.note("left out: JupyterLab, which repo2docker installs with conda")


MAKERS = {
    "bare": make_bare,
    "old-pip": make_old_pip,
    "colab": make_colab,
    "studio-lab": make_studio_lab,
    "binder": make_binder,
}


@contextmanager
def copied(name: str) -> Iterator[Room]:
    """Yield a copy of a room, which is removed afterwards."""
    base = Room(name)
    once(base.folder, MAKERS[name], base)
    with tempfile.TemporaryDirectory(dir=ROOMS) as folder:
        room = Room(f"{Path(folder).name}/room")
        link(base, room)
        yield room
