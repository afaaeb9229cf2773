"""Rooms: environments made as each service makes its own, and chapters run in a copy of one.

A room is a virtual environment below `_build/.cleanroom`. It is made once; every chapter runs
in a copy, made of hard links, so that what one set-up cell installs no other chapter finds.
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
ROOMS = (
    ROOT / "_build" / ".cleanroom"
)  # hidden: building the site looks through other folders
REPOSITORY = ROOMS / "repository.git"
AT_HAND = f"{sys.version_info.major}.{sys.version_info.minor}"
CUDA = (
    os.environ.get("CLEANROOM_TORCH") == "cuda"
)  # the builds for CUDA, as on Colab: 8 GB
BUILD = "" if CUDA else "+cpu"
INDEX = [] if CUDA else ["--extra-index-url", "https://download.pytorch.org/whl/cpu"]
# What a service has and a test machine may lack. Nothing else of this process gets in.
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


def run(*command: object, cwd: Path = ROOT, **variables: str) -> str:
    words, environ = list(map(str, command)), environment(**variables)
    done = subprocess.run(words, cwd=cwd, env=environ, capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(f"{' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def environment(**variables: str) -> dict[str, str]:
    """What a room's processes see. The book's address leads to a clone of this repository."""
    passed = {name: value for name, value in os.environ.items() if PASSED.match(name)}
    folders = os.environ["PATH"].split(os.pathsep)
    outside = [
        folder for folder in folders if not Path(folder).is_relative_to(sys.prefix)
    ]
    home = ROOMS / "home"
    home.mkdir(parents=True, exist_ok=True)
    own = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{REPOSITORY.as_uri()}.insteadOf",
        "GIT_CONFIG_VALUE_0": read_repository(ROOT).url,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_COMPILE": "0",  # Python does it for what is imported, which is far less
        "PIP_CACHE_DIR": str(ROOMS / "pip"),
        "PIP_RETRIES": "1",  # it asks an index that is out of reach for every package
        "OMP_NUM_THREADS": "1",  # rooms run side by side: threads would wait for each other, busily
        "PATH": os.pathsep.join(outside),
        "HOME": str(home),
    }
    return passed | own | variables


def make_repository() -> None:
    """A repository that holds this folder as it is, for pip to clone; nothing is committed here."""
    branch = read_repository(ROOT).branch
    git = ["git", "--git-dir", REPOSITORY, "-c", "core.bare=false", "--work-tree", ROOT]
    run("git", "init", "--quiet", "--bare", "--initial-branch", branch, REPOSITORY)
    run(*git, "add", "--all")
    run(
        *git,
        "-c",
        "user.name=x",
        "-c",
        "user.email=x@x",
        "commit",
        "--quiet",
        "--message",
        "x",
    )


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
        if path.name != "pip":
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def with_torch(room: Room, *wanted: tuple[str, str]) -> None:
    """Make a room that holds torch: the first pair of Python and torch that can be had."""
    refused = []
    for python, torch in wanted:
        pair = f"Python {python} with torch {torch}"
        base = Room(f"torch-{python}-{torch}")
        try:
            once(base.folder, make_base, base, python, torch)
        except Unavailable as reason:
            refused.append(f"left out: {pair} ({str(reason).strip().splitlines()[-1]})")
            continue
        link(base, room)
        (room.folder / "made").unlink()
        for line in [pair, *refused]:
            room.note(line)
        return
    raise Unavailable("; ".join(refused))


def make_base(base: Room, python: str, torch: str) -> None:
    """A virtual environment with torch alone; without CUDA unless that is asked for."""
    program = sys.executable if python == AT_HAND else shutil.which(f"python{python}")
    if (
        program is None
        or subprocess.run([program, "-V"], capture_output=True).returncode
    ):
        raise Unavailable(f"no python{python} on this machine")
    run(program, "-m", "venv", base.folder)
    base.pip(f"torch=={torch}{BUILD}", *INDEX)
    run(
        base.python, "-c", "import torch._dynamo, torch.distributed.run"
    )  # compiled for all copies


def link(base: Room, room: Room) -> None:
    """A copy of a room made of hard links: pip replaces files, it does not write into them."""
    shutil.copytree(base.folder, room.folder, symlinks=True, copy_function=os.link)


def pin(name: str) -> str:
    text = (ROOT / "requirements.txt").read_text()
    return re.search(rf"^{name}==([\w.]+)", text, re.M)[1]


def make_bare(room: Room) -> None:
    with_torch(room, (AT_HAND, pin("torch")))
    room.pip("ipykernel")


def make_colab(room: Room) -> None:
    lines = (HERE / "colab.txt").read_text().splitlines()
    packages = dict(line.split("==") for line in lines if not line.startswith("#"))
    torch, vision = (
        packages.pop(name).partition("+")[0] for name in ("torch", "torchvision")
    )
    room_pairs = [("3.12", torch), ("3.13", torch)]
    with_torch(
        room,
        *room_pairs,
        *([] if CUDA else [(AT_HAND, torch), (AT_HAND, pin("torch"))]),
    )
    room.pip(*(f"{name}=={version}" for name, version in packages.items()))
    try:
        room.pip("--no-deps", f"torchvision=={vision}{BUILD}", *INDEX)
    except Unavailable:
        room.note(
            f"left out: torchvision {vision}{BUILD}; the set-up cell installs one"
        )


def make_studio_lab(room: Room) -> None:
    *packages, last = yaml.safe_load((ROOT / "environment.yml").read_text())[
        "dependencies"
    ]
    (python,) = (line for line in packages if line.startswith("python="))
    with_torch(room, (python.partition("=")[2], pin("torch")), (AT_HAND, pin("torch")))
    requirements = room.folder / "environment.txt"
    requirements.write_text(
        "\n".join(last["pip"]).replace(" .binder/", f" {ROOT}/.binder/")
    )
    room.pip("--requirement", requirements)
    room.note("left out: conda; its packages here are pip's")


def binder_python() -> str:
    return (
        (ROOT / ".binder" / "runtime.txt").read_text().strip().removeprefix("python-")
    )


def make_binder(room: Room) -> None:
    """Binder: runtime.txt, requirements.txt and postBuild of .binder/, as repo2docker runs them."""
    with_torch(room, (binder_python(), pin("torch")), (AT_HAND, pin("torch")))
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder) / "book"
        once(REPOSITORY, make_repository)
        run("git", "clone", "--quiet", REPOSITORY, checkout, cwd=Path(folder))
        room.pip(
            "--no-cache-dir", "--requirement", ".binder/requirements.txt", cwd=checkout
        )
        path = os.pathsep.join([str(room.python.parent), environment()["PATH"]])
        run("./.binder/postBuild", cwd=checkout, PATH=path)
    room.note("left out: JupyterLab, which repo2docker installs with conda")


MAKERS = {"bare": make_bare, "colab": make_colab, "studio-lab": make_studio_lab}
MAKERS["binder"] = make_binder


@contextmanager
def copied(name: str) -> Iterator[Room]:
    once(REPOSITORY, make_repository)
    base = Room(name)
    once(base.folder, MAKERS[name], base)
    with tempfile.TemporaryDirectory(dir=ROOMS) as folder:
        room = Room(f"{Path(folder).name}/room")
        link(base, room)
        yield room
