"""Binder, conda, a dev container and a Dockerfile: one list of versions serves them all."""

import re

import pytest
import yaml
from helpers import CHAPTERS, ROOT

from tools.book.chapters import read_chapter
from tools.book.setup_cells import chapter_needs
from tools.environment import PYTHONS, REQUIREMENTS

# How each environment names its Python.
PYTHON = {
    ".binder/runtime.txt": r"^python-(\d+\.\d+)$",
    "environment.yml": r"^ +- python=(\d+\.\d+)$",
    "course/jupyterhub/Dockerfile": r"^FROM \S+:python-(\d+\.\d+)$",
    ".devcontainer/devcontainer.json": r'"image": "\S+/python:\d+-(\d+\.\d+)-\w+"',
}
FILES = [*PYTHON, *(f".binder/{path.name}" for path in (ROOT / ".binder").iterdir())]


def text_of(path):
    return (ROOT / path).read_text(encoding="utf-8")


def names(path):
    return re.findall(r"^\w[\w.-]*", text_of(path), re.M)


def test_one_list_names_what_the_chapters_need():
    needed = {"ipykernel"}
    for name in CHAPTERS:
        needs = chapter_needs(read_chapter(name, ROOT))
        needed.update(needs.values())
    pinned, without_dependencies = map(names, REQUIREMENTS)
    listed = names(".binder/reader.txt")
    assert sorted(needed - set(without_dependencies)) == listed
    assert set(listed) <= set(pinned)


def test_conda_has_the_torchvision_of_the_book():
    [pinned] = re.findall(
        r"^torchvision==\S+", text_of("requirements-no-deps.txt"), re.M
    )
    environment = yaml.safe_load(text_of("environment.yml"))
    assert pinned in environment["dependencies"][-1]["pip"]


def test_every_environment_has_the_same_python():
    versions = set()
    for name, form in PYTHON.items():
        [version] = re.findall(form, text_of(name), re.M)
        versions.add(version)
    [version] = versions
    major, minor = version.split(".")
    assert (int(major), int(minor)) in PYTHONS


@pytest.mark.parametrize("name", FILES)
def test_environments_name_files_that_are_there(name):
    # pip reads a name in a list of requirements from where the list lies.
    folder = ROOT / ".binder" if name.endswith(".txt") else ROOT
    for file in re.findall(r"--(?:requirement|constraint) ([\w./-]+)", text_of(name)):
        assert (folder / file).is_file(), file


def test_the_hub_is_given_the_image_that_is_built_for_it():
    values = yaml.safe_load(text_of("course/jupyterhub/values.yaml"))
    image = values["singleuser"]["image"]
    built = f"--tag {image['name']}:{image['tag']} "
    assert built in text_of("course/jupyterhub/README.md")
