"""The image for a class holds what readers need of a checkout, whatever else lies there.

No Docker engine is at hand, so its build context is computed by the documented rules of
`.dockerignore`: https://docs.docker.com/build/concepts/context/#dockerignore-files. Binder's
program reads `.binder/.dockerignore` by the same rules, where a checkout is built on a machine.
"""

import re
import tomllib
from pathlib import PurePosixPath

import pytest
from helpers import ROOT

STRAYS = """
    .git/config .env key.txt by-hand.csv class.key submissions.zip grades/hw-1/grades.csv
    grades/hw-1/results/jdoe.json masters/computing-devices.md mine/computing-devices.md
    _build/release/b4/instructor/computing-devices.ipynb .venv/bin/python .venv.lock
    .binder/by-hand.csv .binder/grades/x.csv cudasim/grades.csv cudasim/grades/a.json
    cudasim/src/by-hand.csv cudasim/src/cudasim/__pycache__/core.cpython-312.pyc
    course/jupyterhub/yours.yaml requirements.txt.bak tests/grade/data/small.md
""".split()


def pattern_of(line):
    """A pattern of Go's `filepath.Match`, and `**` for any number of folders."""
    parts = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    tokens = re.findall(r"\*\*/|\*\*|\*|\?|[^*?]+", line.strip("/"))
    return re.compile("".join(parts.get(token, re.escape(token)) for token in tokens))


def context(ignore, paths):
    """The paths that are sent: of the lines that match it or a folder above, the last counts."""
    rules = []
    for line in ignore.splitlines():
        if line.strip() and not line.startswith("#"):
            rules.append(
                (pattern_of(line.strip().removeprefix("!")), line.startswith("!"))
            )
    sent = set()
    for path in paths:
        places = [path, *map(str, PurePosixPath(path).parents)]
        is_sent = True
        for pattern, is_exception in rules:
            if any(pattern.fullmatch(place) for place in places):
                is_sent = is_exception
        if is_sent:
            sent.add(path)
    return sent


def below(folder):
    """The files of a folder of this repository, but for what Python compiled."""
    files = (path for path in (ROOT / folder).rglob("*") if path.is_file())
    return {
        path.relative_to(ROOT).as_posix()
        for path in files
        if "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def checkout():
    """The paths of a checkout in which somebody grades."""
    folders = (
        ".binder",
        "book",
        "course",
        "cudasim",
        "masters",
        "notebooks",
        "tools",
        "coursework",
    )
    top = {
        path.name for path in ROOT.iterdir() if path.is_file() and path.name != ".git"
    }
    return set().union(top, STRAYS, *map(below, folders))


@pytest.fixture(scope="module")
def needed():
    """What the commands of the Dockerfile read: lists of requirements, and a package to install."""
    image = (ROOT / "course/jupyterhub/Dockerfile").read_text(encoding="utf-8")
    lists = set(re.findall(r"--requirement (\S+)", image))
    for name in list(lists):
        text = (ROOT / name).read_text(encoding="utf-8")
        for other in re.findall(r"^--(?:requirement|constraint) (\S+)$", text, re.M):
            path = (ROOT / name).parent / other
            lists.add(path.resolve().relative_to(ROOT).as_posix())
    assert "./cudasim" in image
    settings = tomllib.loads(
        (ROOT / "cudasim" / "pyproject.toml").read_text(encoding="utf-8")
    )
    project, wheel = (
        settings["project"],
        settings["tool"]["hatch"]["build"]["targets"]["wheel"],
    )
    files = {"pyproject.toml", project["readme"], *project["license-files"]}
    packages = [below(f"cudasim/{package}") for package in wheel["packages"]]
    return lists.union({f"cudasim/{name}" for name in files}, *packages)


def test_the_context_of_the_image_is_what_its_commands_need(checkout, needed):
    sent = context((ROOT / ".dockerignore").read_text(encoding="utf-8"), checkout)
    assert sent == needed


def test_the_image_takes_what_its_commands_need_and_nothing_else(checkout, needed):
    """Even where a context holds everything, as with a tool that reads no `.dockerignore`."""
    image = (
        (ROOT / "course/jupyterhub/Dockerfile")
        .read_text(encoding="utf-8")
        .replace("\\\n", " ")
    )
    copied = set()
    for line in re.findall(r"^COPY (.+)$", image, re.M):
        *sources, target = [word for word in line.split() if not word.startswith("--")]
        folder = PurePosixPath(target).relative_to("/tmp/book")
        for source in map(PurePosixPath, sources):
            for path in map(PurePosixPath, checkout):
                if path == source:
                    assert folder / path.name == path, line
                elif path.is_relative_to(source):
                    assert folder / path.relative_to(source) == path, line
                else:
                    continue
                copied.add(str(path))
    compiled = {path for path in copied if "__pycache__" in path}
    assert copied - compiled == needed
    assert not re.search(r"^ADD ", image, re.M)


def test_binder_gets_no_grades_and_no_solutions_of_a_checkout_that_is_built(checkout):
    ignore = (ROOT / ".binder" / ".dockerignore").read_text(encoding="utf-8")
    sent = context(ignore, checkout)
    private = ("grades/", "masters/", "_build/", ".venv", ".git/")
    assert not [path for path in sent if path.startswith(private)]
    chapters = {path for path in checkout if path.startswith("notebooks/")}
    assert chapters | {".binder/postBuild", "requirements-no-deps.txt"} <= sent


@pytest.mark.parametrize(
    ("ignore", "sent"),
    [  # the examples of Docker's page
        ("*/temp*\n*/*/temp*\ntemp?", "a/b.txt temporary"),
        (
            "*.md\n!README.md",
            "README.md a/b.txt a/temporary.txt a/b/temporary tempa temporary",
        ),
        ("# a/\n*\n!a/b.txt", "a/b.txt"),
        ("**/temp*", "a/b.txt c.md README.md"),
    ],
)
def test_the_rules_are_those_of_docker(ignore, sent):
    paths = (
        "README.md c.md a/b.txt a/temporary.txt a/b/temporary tempa temporary".split()
    )
    rest = {"README.md", "c.md"} if ignore.startswith("*/temp") else set()
    assert context(ignore, paths) == set(sent.split()) | rest
