"""Binder, conda, a dev container and a Dockerfile: one list of versions serves them all."""

import re

import yaml
from helpers import CHAPTERS, ROOT

from tools.book.chapters import read_chapter
from tools.book.setup_cells import chapter_needs
from tools.environment import PINS, PYTHONS

PYTHON = {  # how each environment names its Python
    ".binder/runtime.txt": r"^python-(\d+\.\d+)$",
    "environment.yml": r"^ +- python=(\d+\.\d+)$",
    "course/jupyterhub/Dockerfile": r"^FROM \S+:python-(\d+\.\d+)$",
    ".devcontainer/devcontainer.json": r'"image": "\S+/python:\d+-(\d+\.\d+)-\w+"',
}
FILES = [*PYTHON, *(f".binder/{path.name}" for path in (ROOT / ".binder").iterdir())]


def names(path):
    return re.findall(r"^\w[\w.-]*", (ROOT / path).read_text(encoding="utf-8"), re.M)


def test_one_list_names_what_the_chapters_need():
    needed = {"ipykernel"}
    for name in CHAPTERS:
        needed |= set(chapter_needs(read_chapter(name, ROOT)).values())
    pinned, apart = map(names, PINS)
    listed = names(".binder/reader.txt")
    assert sorted(needed - set(apart)) == listed
    assert set(listed) <= set(pinned)


def test_every_environment_has_the_same_python_and_names_files_that_are_there():
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in FILES}
    [found] = {
        tuple(re.findall(form, texts[name], re.M)) for name, form in PYTHON.items()
    }
    assert tuple(map(int, found[0].split("."))) in PYTHONS
    for name, text in texts.items():
        folder = ROOT / ".binder" if name.endswith(".txt") else ROOT
        for file in re.findall(r"--(?:requirement|constraint) ([\w./-]+)", text):
            assert (folder / file).is_file(), (name, file)


def test_the_hub_is_given_the_image_that_is_built_for_it_with_all_that_is_pinned():
    image = (ROOT / "course/jupyterhub/Dockerfile").read_text(encoding="utf-8")
    named = re.findall(r"--requirement (\S+)", image)
    assert (
        named == [".binder/reader.txt", "requirements-no-deps.txt"]
        and "./cudasim" in image
    )
    folder = ROOT / "course" / "jupyterhub"
    values = yaml.safe_load((folder / "values.yaml").read_text(encoding="utf-8"))
    image, words = (
        values["singleuser"]["image"],
        (folder / "README.md").read_text("utf-8"),
    )
    assert words.count(f"{image['name']}:{image['tag']}") == 3
