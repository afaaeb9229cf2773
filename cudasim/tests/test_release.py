"""What a release claims of itself: one version, one range of PyTorch, links that lead somewhere."""

import re
import tomllib

import pytest
from programs import PROJECT

import cudasim
from cudasim.installed import ADVICE

DOCUMENTATION = "https://where-tensors-live.github.io/where-tensors-live/cudasim/docs/"
SOURCES = "https://github.com/where-tensors-live/where-tensors-live/blob/"
PAGES = [
    PROJECT / "README.md",
    *PROJECT.glob("docs/*.md"),
    PROJECT / "example/README.md",
    PROJECT / "example/pyproject.toml",
    PROJECT / "example/.github/workflows/tests.yml",
]
EXTRAS = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"][
    "optional-dependencies"
]


def matches(pattern):
    """Return (name of the page, match) for each place of the pages that matches."""
    found = []
    for path in PAGES:
        for text in re.findall(pattern, path.read_text(encoding="utf-8")):
            found.append((path.name, text))
    assert found, pattern
    return found


def test_every_instruction_names_this_version():
    for name, version in matches(r"\bcudasim(?:\[\w+\])?(?:==|-)(\d[\w.]*\d)"):
        assert version == cudasim.__version__, name


def test_every_install_of_the_package_names_a_version():
    installs = matches(r"pip install [^\n]*?\bcudasim\b(?!/)[^\s\"]*")
    for name, command in installs:
        assert command.endswith(f"=={cudasim.__version__}"), (name, command)


def test_every_install_of_torch_takes_one_that_was_tried():
    [requirement] = [line for line in EXTRAS["torch"] if line.startswith("torch>=")]
    assert f'pip install "{requirement}" ' in ADVICE
    for name, words in matches(r"pip install (\"?torch\b[^\s\"]*\"?)"):
        assert words == f'"{requirement}"', name


def links(name):
    return re.findall(r"\]\((\S+?)\)", (PROJECT / name).read_text(encoding="utf-8"))


def test_the_links_of_the_changelog_are_absolute():
    """The page of a release shows a section of it."""
    assert links("CHANGELOG.md")
    for link in links("CHANGELOG.md"):
        assert link.startswith("https://")


@pytest.mark.parametrize("link", links("README.md"))
def test_a_link_of_the_readme_leads_to_a_file(link):
    """An index shows the README alone, so its links have to name a site."""
    if link.startswith(DOCUMENTATION):
        name = link.removeprefix(DOCUMENTATION).replace(".html", ".md")
        assert (PROJECT / "docs" / name).is_file()
    else:
        tag, _, path = link.removeprefix(SOURCES).partition("/")
        assert tag == f"cudasim-{cudasim.__version__}"
        assert (PROJECT / path.removeprefix("cudasim/")).is_file()
