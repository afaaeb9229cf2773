"""The files for a hub, which nothing here starts: they fit together."""

import re

import yaml

from tools.root import ROOT


def test_the_image_is_the_books_python_with_its_pins_and_the_one_that_the_hub_is_given():
    said = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    python = (ROOT / "binder" / "runtime.txt").read_text(encoding="utf-8").strip()
    assert re.search(rf"^FROM quay\.io/jupyter/minimal-notebook:{python}$", said, re.M)
    named = re.findall(r"--requirement (\S+)", said)
    assert named == ["binder/reader.txt", "requirements-no-deps.txt"]
    assert all((ROOT / name).is_file() for name in named) and "./cudasim" in said
    folder = ROOT / "course" / "jupyterhub"
    values = yaml.safe_load((folder / "values.yaml").read_text(encoding="utf-8"))
    image = values["singleuser"]["image"]
    words = (folder / "README.md").read_text(encoding="utf-8")
    assert words.count(f"{image['name']}:{image['tag']}") == 3
