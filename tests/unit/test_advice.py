"""The commands that messages and texts of the tools recommend are there."""

import re

import pytest
from helpers import ROOT

import coursework.cli  # noqa: F401  registers its commands
import tools.cli  # noqa: F401
from tools import commands

TOOL = re.compile(r"python3? -m tools (?P<name>[a-z]+)")
# In quotes, or with a variable after it: 'make room' in a sentence is no command.
MAKE = re.compile(
    r"['`]make (?P<quoted>[a-z]+)\b(?!=)|\"make (?P<whole>[a-z]+)\""
    r"|\bmake (?P<called>[a-z]+)(?= [A-Z]+=)"
)
VARIABLE = re.compile(r"\bmake (?:[a-z]+ )?((?:[A-Z]+=\S* ?)+)")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
FOLDERS = ("tools", "coursework", "kernels")
KINDS = (".py", ".toml", ".jinja", ".yml", ".txt")


def texts():
    """The text of each file that may recommend something, by path."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in KINDS:
                yield path.relative_to(ROOT).as_posix(), path.read_text("utf-8")


def recommended(text):
    """The commands that a text names: `tools links`, `make book`, `make ... PORT=`."""
    found = {f"tools {match['name']}" for match in TOOL.finditer(text)}
    for match in MAKE.finditer(text):
        found.add(f"make {match['quoted'] or match['whole'] or match['called']}")
    for match in VARIABLE.finditer(text):
        found |= {f"make {name}=" for name in re.findall(r"([A-Z]+)=", match[1])}
    return found


def known():
    names = {f"tools {name}" for name in commands.COMMANDS.choices}
    names |= {f"make {name}" for name in re.findall(r"^([a-z]+):", MAKEFILE, re.M)}
    [variables] = re.findall(r"^KNOWN := (.*)$", MAKEFILE, re.M)
    return names | {f"make {name}=" for name in variables.split()}


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("x; run 'python -m tools pins'", {"tools pins"}),
        ("say 'make toast', or make room", {"make toast"}),
        ('written_by("make lease", where)', {"make lease"}),
        ("again: make record RUN=cpu", {"make record", "make RUN="}),
        ("name one: 'make PYTHON=python3.11 ...'", {"make PYTHON="}),
    ],
)
def test_commands_are_found_in_a_text(text, command):
    assert recommended(text) == command


def test_every_command_that_is_recommended_exists():
    unknown = []
    seen = set()
    for where, text in texts():
        seen |= recommended(text)
        unknown += [f"{where}: {name}" for name in recommended(text) - known()]
    assert {"tools clear", "make book", "make RUNNER="} <= seen
    assert unknown == []
