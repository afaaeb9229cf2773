"""The image of a class's JupyterHub, which nothing here builds: what its files say."""

import re

import yaml
from helpers import ROOT

FOLDER = ROOT / "course" / "jupyterhub"
VALUES = yaml.safe_load((FOLDER / "values.yaml").read_text(encoding="utf-8"))
README = (FOLDER / "README.md").read_text(encoding="utf-8")
WORDS = ("FROM", "ARG", "COPY", "WORKDIR", "RUN", "ENV", "USER")


def instructions():
    """The instructions of the Dockerfile, with lines that go on joined."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = re.sub(r"^#.*\n", "", text, flags=re.M).replace("\\\n", " ").splitlines()
    return [line.split(maxsplit=1) for line in lines if line.strip()]


def test_every_instruction_is_one_that_docker_knows():
    words = [word for word, _ in instructions()]
    assert set(words) <= set(WORDS) and words[0] == "FROM"


def test_the_base_is_one_version_of_python():
    base = instructions()[0][1]
    assert re.fullmatch(r"quay\.io/jupyter/minimal-notebook:python-3\.\d+", base)
    python = (ROOT / "binder" / "runtime.txt").read_text(encoding="utf-8").strip()
    assert base.endswith(f":{python}")


def test_it_installs_the_pins_of_the_book_and_nbgitpuller():
    command = " ".join(rest for word, rest in instructions() if word == "RUN")
    named = re.findall(r"--requirement (\S+)", command)
    assert named == ["binder/reader.txt", "requirements-no-deps.txt"]
    assert "d2l==" in (ROOT / named[1]).read_text(encoding="utf-8")
    assert "./cudasim" in command and re.findall(r"[\w-]+==\S+", command) == ["nbgitpuller==1.3.0"]


def test_the_hub_is_given_the_image_that_is_built():
    image = VALUES["singleuser"]["image"]
    assert README.count(f"{image['name']}:{image['tag']}") == 3
    assert image["tag"] != "latest" and isinstance(image["tag"], str)
    assert VALUES["singleuser"]["defaultUrl"] == "/lab"


def test_the_page_says_that_nobody_built_it():
    assert "The image was not built where this was written" in README
