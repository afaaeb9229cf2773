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
FOLDERS = (
    ".binder",
    "book",
    "course",
    "cudasim",
    "masters",
    "notebooks",
    "tools",
    "coursework",
)
DOCKERFILE = "course/jupyterhub/Dockerfile"


def pattern_of(line):
    """Read a pattern of Go's `filepath.Match`, with `**` for any number of folders."""
    parts = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    tokens = re.findall(r"\*\*/|\*\*|\*|\?|[^*?]+", line.strip("/"))
    return re.compile("".join(parts.get(token, re.escape(token)) for token in tokens))


def context(ignore, paths):
    """Return the paths that are sent.

    Of the lines that match a path or a folder above it, the last one counts.
    """
    rules = []
    for line in ignore.splitlines():
        if line.strip() and not line.startswith("#"):
            is_exception = line.startswith("!")
            pattern = pattern_of(line.strip().removeprefix("!"))
            rules.append((pattern, is_exception))
    return {path for path in paths if is_sent(path, rules)}


def is_sent(path, rules):
    places = [path, *map(str, PurePosixPath(path).parents)]
    sent = True
    for pattern, is_exception in rules:
        if any(pattern.fullmatch(place) for place in places):
            sent = is_exception
    return sent


def below(folder):
    """Return the files of a folder of this repository, but for what Python compiled."""
    files = set()
    for path in (ROOT / folder).rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            files.add(path.relative_to(ROOT).as_posix())
    return files


@pytest.fixture(scope="module")
def checkout():
    """The paths of a checkout in which somebody grades."""
    paths = set(STRAYS)
    for path in ROOT.iterdir():
        if path.is_file() and path.name != ".git":
            paths.add(path.name)
    for folder in FOLDERS:
        paths |= below(folder)
    return paths


def text_of(path):
    return (ROOT / path).read_text(encoding="utf-8")


def needed_lists(image):
    """Return the lists of requirements that an image installs, and those that they name."""
    lists = set(re.findall(r"--requirement (\S+)", image))
    for name in list(lists):
        named = re.findall(r"^--(?:requirement|constraint) (\S+)$", text_of(name), re.M)
        for other in named:
            path = (ROOT / name).parent / other
            lists.add(path.resolve().relative_to(ROOT).as_posix())
    return lists


def needed_of_cudasim():
    """Return the files that a wheel of `cudasim` is built from."""
    settings = tomllib.loads(text_of("cudasim/pyproject.toml"))
    project = settings["project"]
    wheel = settings["tool"]["hatch"]["build"]["targets"]["wheel"]
    names = ["pyproject.toml", project["readme"], *project["license-files"]]
    files = {f"cudasim/{name}" for name in names}
    for package in wheel["packages"]:
        files |= below(f"cudasim/{package}")
    return files


@pytest.fixture(scope="module")
def needed():
    """What the Dockerfile's commands read: requirements, and a package to install."""
    image = text_of(DOCKERFILE)
    assert "./cudasim" in image
    return needed_lists(image) | needed_of_cudasim()


def test_the_context_is_what_the_commands_need(checkout, needed):
    assert context(text_of(".dockerignore"), checkout) == needed


def copies(line):
    """Yield the sources and the target of a line of COPY."""
    *sources, target = [word for word in line.split() if not word.startswith("--")]
    folder = PurePosixPath(target).relative_to("/tmp/book")
    for source in sources:
        yield PurePosixPath(source), folder


def test_the_image_copies_what_its_commands_need(checkout, needed):
    """Even where a context holds everything, as with a tool that reads no `.dockerignore`."""
    image = text_of(DOCKERFILE).replace("\\\n", " ")
    assert not re.search(r"^ADD ", image, re.M)
    paths = [PurePosixPath(path) for path in checkout]
    copied = set()
    for line in re.findall(r"^COPY (.+)$", image, re.M):
        for source, folder in copies(line):
            for path in paths:
                if path == source:
                    assert folder / path.name == path, line
                elif path.is_relative_to(source):
                    assert folder / path.relative_to(source) == path, line
                else:
                    continue
                copied.add(str(path))
    compiled = {path for path in copied if "__pycache__" in path}
    assert copied - compiled == needed


def test_binder_gets_no_grades_and_no_solutions(checkout):
    sent = context(text_of(".binder/.dockerignore"), checkout)
    private = ("grades/", "masters/", "_build/", ".venv", ".git/")
    assert not [path for path in sent if path.startswith(private)]
    chapters = {path for path in checkout if path.startswith("notebooks/")}
    assert chapters | {".binder/postBuild", "requirements-no-deps.txt"} <= sent


PATHS = "README.md c.md a/b.txt a/temporary.txt a/b/temporary tempa temporary"
# The examples of Docker's page: the lines, and which of these paths are left out.
EXAMPLES = [
    ("*/temp*\n*/*/temp*\ntemp?", "a/temporary.txt a/b/temporary tempa"),
    ("*.md\n!README.md", "c.md"),
    ("# a/\n*\n!a/b.txt", PATHS.replace("a/b.txt ", "")),
    ("**/temp*", "a/temporary.txt a/b/temporary tempa temporary"),
]


@pytest.mark.parametrize(("ignore", "left_out"), EXAMPLES)
def test_the_rules_are_those_of_docker(ignore, left_out):
    sent = context(ignore, PATHS.split())
    assert set(PATHS.split()) - sent == set(left_out.split())
