"""Binder, conda, a dev container and a Dockerfile: one list of versions serves them all."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
import yaml
from helpers import CHAPTERS, ROOT

from tools.environment import PYTHONS
from tools.source.chapters import read_chapter
from tools.source.setup_cells import chapter_needs

FILES = (
    "binder/reader.txt",
    "binder/requirements.txt",
    "binder/runtime.txt",
    "binder/postBuild",
    "environment.yml",
    "Dockerfile",
    ".devcontainer/devcontainer.json",
)


def text(name, root=ROOT):
    return (root / name).read_text(encoding="utf-8")


def names(content):
    """The packages that a file for pip names, comments and options left out."""
    lines = (line.partition("#")[0].strip() for line in content.splitlines())
    return [re.match(r"[\w.-]+", line)[0] for line in lines if line and not line.startswith("-")]


def pythons(root=ROOT):
    """The Python of each environment, by the file that names it."""
    forms = {
        "binder/runtime.txt": r"^python-(\d+\.\d+)$",
        "environment.yml": r"^ +- python=(\d+\.\d+)$",
        "Dockerfile": r"^FROM \S+:python-(\d+\.\d+)$",
        ".devcontainer/devcontainer.json": r'"image": "\S+/python:\d+-(\d+\.\d+)-\w+"',
    }
    found = {name: re.findall(form, text(name, root), re.M) for name, form in forms.items()}
    return {name: versions[0] for name, versions in found.items() if len(versions) == 1}


def second_versions(root=ROOT):
    """Versions of pinned packages in other files than that of the pins."""
    pinned = [name.lower() for name in names(text("requirements.txt", root))]
    pinned += [name.lower() for name in names(text("requirements-no-deps.txt", root))]
    pairs = [
        (file, package)
        for file in FILES
        for package in re.findall(r"([\w.-]+) *[=<>~!]=", text(file, root))
    ]
    return [(file, package) for file, package in pairs if package.lower() in pinned]


def missing_files(root=ROOT):
    """Files that these environments refer to and that are not there."""
    referred = [
        ("binder/" + name)
        for name in re.findall(
            r"^--(?:requirement|constraint) (\S+)",
            text("binder/reader.txt", root) + text("binder/requirements.txt", root),
            re.M,
        )
    ]
    for file in ("binder/postBuild", "environment.yml", "Dockerfile"):
        referred += re.findall(r"--requirement (\S+)", text(file, root))
    assert len(referred) >= 6
    return [name for name in referred if not (root / name).is_file()]


@pytest.fixture
def copied(tmp_path):
    """A copy of these files and of the pins, to be doctored."""
    for name in (*FILES, "requirements.txt", "requirements-no-deps.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_one_list_names_what_the_chapters_need():
    needed = {"ipykernel"}
    for name in CHAPTERS:
        needed |= set(chapter_needs(read_chapter(name, ROOT)).values())
    apart = names(text("requirements-no-deps.txt"))
    listed = names(text("binder/reader.txt"))
    assert sorted(needed - set(apart)) == listed
    assert set(listed) <= set(names(text("requirements.txt")))
    assert "torchvision" in apart


def test_every_environment_has_the_same_python():
    found = pythons()
    assert len(found) == 4 and len(set(found.values())) == 1
    assert tuple(map(int, next(iter(found.values())).split("."))) in PYTHONS


def test_no_second_list_of_versions_and_no_missing_file():
    assert second_versions() == []
    assert missing_files() == []


def test_doctored_files_are_noticed(copied):
    (copied / "environment.yml").write_text(text("environment.yml") + "      - numpy==1.26.4\n")
    (copied / "binder" / "runtime.txt").write_text("python-3.9\n")
    (copied / "binder" / "reader.txt").write_text(text("binder/reader.txt") + "torch>=2\n")
    (copied / "requirements-no-deps.txt").rename(copied / "renamed.txt")
    (copied / "requirements-no-deps.txt.txt").touch()
    assert len(set(pythons(copied).values())) == 2
    assert sorted(missing_files(copied)) == ["requirements-no-deps.txt"] * 2
    (copied / "renamed.txt").rename(copied / "requirements-no-deps.txt")
    assert second_versions(copied) == [("binder/reader.txt", "torch"), ("environment.yml", "numpy")]


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


def test_conda_reads_the_environment():
    content = yaml.safe_load(text("environment.yml"))
    assert content["channels"] == ["conda-forge"]
    *conda, pip = content["dependencies"]
    assert conda[1:] == ["pip"] and pip == {"pip": ["--requirement binder/reader.txt"]}


def test_post_build_runs_and_stops_at_the_first_error():
    path = ROOT / "binder" / "postBuild"
    assert os.access(path, os.X_OK)
    lines = text("binder/postBuild").splitlines()
    assert lines[0] == "#!/bin/bash" and "set -euo pipefail" in lines
    assert subprocess.run(["bash", "-n", path]).returncode == 0


def test_dev_container_makes_the_environment_that_it_opens():
    content = json.loads(text(".devcontainer/devcontainer.json"))
    assert content["postCreateCommand"] == "make environment"
    interpreter = content["customizations"]["vscode"]["settings"]["python.defaultInterpreterPath"]
    assert interpreter == "${containerWorkspaceFolder}/.venv/bin/python"
