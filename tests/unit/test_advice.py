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
    """Yield the path and the text of each file that may recommend something."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in KINDS:
                yield path.relative_to(ROOT).as_posix(), path.read_text("utf-8")


def recommended(text):
    """Return the commands that a text names: `tools links`, `make book`, `make ... PORT=`."""
    commands = set()
    for match in TOOL.finditer(text):
        commands.add(f"tools {match['name']}")
    for match in MAKE.finditer(text):
        commands.add(f"make {match[match.lastgroup]}")
    for match in VARIABLE.finditer(text):
        for name in re.findall(r"([A-Z]+)=", match[1]):
            commands.add(f"make {name}=")
    return commands


def known_commands():
    """Return what the tools and the Makefile have, in the words of `recommended`."""
    known = set()
    for name in commands.COMMANDS.choices:
        known.add(f"tools {name}")
    for target in re.findall(r"^([a-z]+):", MAKEFILE, re.M):
        known.add(f"make {target}")
    [variables] = re.findall(r"^KNOWN := (.*)$", MAKEFILE, re.M)
    for name in variables.split():
        known.add(f"make {name}=")
    return known


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
    known = known_commands()
    met = set()
    for where, text in texts():
        unknown = recommended(text) - known
        assert unknown == set(), where
        met |= recommended(text)
    # A part of what is certainly recommended.
    assert {"tools clear", "make book", "make RUNNER="} <= met
