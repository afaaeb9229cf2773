"""Binder, conda, a dev container and a Dockerfile: one list of versions serves them all."""

import json
import re
import subprocess
import sys

from helpers import CHAPTERS, ROOT

from tools.book.chapters import read_chapter
from tools.book.pins import read_pins
from tools.book.setup_cells import chapter_needs
from tools.environment import PINS, PYTHONS

FILES = [
    *(ROOT / "binder").iterdir(),
    *(ROOT / name for name in ("environment.yml", "Dockerfile", ".devcontainer/devcontainer.json")),
]
TEXTS = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in FILES}
PYTHON = {  # how each environment names its Python
    "binder/runtime.txt": r"^python-(\d+\.\d+)$",
    "environment.yml": r"^ +- python=(\d+\.\d+)$",
    "Dockerfile": r"^FROM \S+:python-(\d+\.\d+)$",
    ".devcontainer/devcontainer.json": r'"image": "\S+/python:\d+-(\d+\.\d+)-\w+"',
}


def names(content):
    """The packages that a file for pip names, comments and options left out."""
    return re.findall(r"^\w[\w.-]*", content, re.M)


def test_one_list_names_what_the_chapters_need():
    needed = {"ipykernel"}
    for name in CHAPTERS:
        needed |= set(chapter_needs(read_chapter(name, ROOT)).values())
    pinned, apart = (names((ROOT / name).read_text(encoding="utf-8")) for name in PINS)
    listed = names(TEXTS["binder/reader.txt"])
    assert sorted(needed - set(apart)) == listed
    assert set(listed) <= set(pinned)
    assert "torchvision" in apart


def test_every_environment_has_the_same_python():
    found = [re.findall(form, TEXTS[name], re.M) for name, form in PYTHON.items()]
    assert found == [found[0]] * len(PYTHON) and len(found[0]) == 1
    assert tuple(map(int, found[0][0].split("."))) in PYTHONS


def test_no_second_list_of_versions():
    for name, content in TEXTS.items():
        versions = re.findall(r"([\w.-]+) *[=<>~!]=", content)
        assert not {package.lower() for package in versions} & read_pins().keys(), name


def test_files_that_are_referred_to_are_there():
    referred = []
    for name, content in TEXTS.items():
        folder = ROOT / "binder" if name.endswith(".txt") else ROOT
        files = re.findall(r"--(?:requirement|constraint) ([\w./-]+)", content)
        referred += [folder / file for file in files]
    assert len(referred) >= 6 and all(path.is_file() for path in referred), referred


def test_pip_can_read_the_lists():
    """The names, resolved under the pins of this environment: nothing to install, no conflict."""
    pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-index", "--quiet"]
    run = subprocess.run(
        [*pip, "--requirement", ROOT / "binder" / "requirements.txt"],
        capture_output=True,
        text=True,
        cwd="/",
    )
    assert (run.returncode, run.stdout) == (0, ""), run.stderr


def test_dev_container_makes_the_environment_that_it_opens():
    content = json.loads(TEXTS[".devcontainer/devcontainer.json"])
    assert content["postCreateCommand"] == "python3 tools/environment.py"
    interpreter = content["customizations"]["vscode"]["settings"]["python.defaultInterpreterPath"]
    assert interpreter == "${containerWorkspaceFolder}/.venv/bin/python"
