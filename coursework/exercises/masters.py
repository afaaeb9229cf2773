"""Masters: the Markdown files that a chapter's exercises are written in.

`masters/<chapter>.md` is the one source of all editions, and of the exercises in the
book's own chapter. It begins with a block of YAML between two lines `---`. Each heading
`## 1. Title` below it begins an exercise, and each `### Part` in that one of its parts.
`masters.toml` lists the parts. `{{ name }}` stands for a variant that a class draws.
"""

import ast
import re
import tomllib
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, StrictUndefined, TemplateError

from coursework.exercises.tasks import ByHand, Draw, first_value
from tools.book.cells import MARKDOWN, blank_name, parse_code
from tools.errors import BookError
from tools.files import read_text, write_files

FRONT_MATTER = re.compile(r"---\n(?P<yaml>.*?)\n---\n", re.S)
OPTION = re.compile(r"- (?P<name>\w+): (?P<value>.+)")
FORM = tomllib.loads(
    Path(__file__).with_name("masters.toml").read_text(encoding="utf-8")
)


@dataclass(frozen=True)
class PartRule:
    """How often a part may stand in an exercise, and what it holds."""

    fewest: int
    most: int
    blocks: int  # of code in it, at most
    hidden: bool  # from students


PARTS = {name: PartRule(**rule) for name, rule in FORM["parts"].items()}


@dataclass(frozen=True)
class Part:
    options: dict[str, str]
    whole: str  # everything below the options
    blocks: list[str]  # the code of each block in it
    text: str  # everything around the blocks


@dataclass(frozen=True)
class Exercise:
    number: int
    title: str
    level: str
    points: int
    seconds: float  # of processor time
    memory: int  # MiB
    by_hand: ByHand | None
    text: str
    answer_name: str
    drawn: dict[str, Any]  # the variants, by name
    parts: dict[str, list[Part]] = field(repr=False)

    def code(self, part: str) -> str | None:
        """Return the first block of code in a part, or None if the part is missing."""
        if not self.parts[part]:
            return None
        return self.parts[part][0].blocks[0]

    @property
    def checks(self) -> list[str]:
        return self.parts["Checks"][0].blocks


@dataclass(frozen=True)
class Master:
    name: str
    where: str  # its path, for messages
    title: str
    runner: str
    given_cells: list[str]  # ids of the chapter's code cells that the exercises need
    introduction: str  # Markdown above the exercises
    given_code: list[str]  # more code that they need, run after that of the chapter
    exercises: list[Exercise] = field(repr=False)


def is_free(folder: Path) -> bool:
    """Tell whether a folder is missing, or holds no file at any depth."""
    if not folder.is_dir():
        return not folder.is_file()
    return not any(path.is_file() for path in folder.rglob("*"))


def copy_masters(source: Path, folder: Path) -> None:
    """Copy all masters to an instructor's folder, marked as private. Raises BookError."""
    if not is_free(folder):
        raise BookError(f"{folder}: not an empty folder; name another for your masters")

    head = f"---\n{FORM['private']}"
    copies = {}
    for path in source.glob("*.md"):
        text = read_text(path, source)
        copies[folder / path.name] = text.replace("---\n", head, 1)
    write_files(copies, folder)


# --- reading a master


class _Fault(Exception):
    """An exercise is not written as it should be; the message completes its name."""


def read_master(path: Path, root: Path, draw: Draw = first_value) -> Master:
    """Read the master at `path`, with the variants that `draw` chooses.

    Raises BookError, which names the file, the exercise and the fault.
    """
    if path.is_relative_to(root):
        where = path.relative_to(root).as_posix()
        text = read_text(path, root)
    else:
        where = str(path)
        text = read_text(path, path.parent)

    front = FRONT_MATTER.match(text)
    try:
        entries = yaml.safe_load(front["yaml"])
        title = str(entries["title"])
        runner = str(entries["runner"])
        given_cells = list(entries["given"] or [])
    except (TypeError, KeyError, yaml.YAMLError):
        needed = "a '---' block of title, given and runner"
        raise BookError(f"{where}: begins without {needed}; write it") from None

    (_, introduction), *sections = _sections(text[front.end() :], "h2")
    given = _part(dict(sections).get("Given", ""))
    exercises = []
    for heading, body in sections:
        if heading == "Given":
            continue
        try:
            exercise = _exercise(len(exercises) + 1, heading, body, path.stem, draw)
        except _Fault as fault:
            raise BookError(f"{where}: '{heading}' {fault}") from None
        exercises.append(exercise)
    if not exercises:
        raise BookError(f"{where}: no exercise; write one: '## 1. Title'")

    return Master(
        name=path.stem,
        where=where,
        title=title,
        runner=runner,
        given_cells=given_cells,
        introduction=introduction.strip(),
        given_code=given.blocks,
        exercises=exercises,
    )


def _exercise(
    number: int, heading: str, body: str, chapter: str, draw: Draw
) -> Exercise:
    title = heading.removeprefix(f"{number}. ")
    if title == heading:
        raise _Fault(f"is not '## {number}. Title'; number it")

    sections = _sections(body, "h3")
    drawn, sections = _draw_variants(sections, f"{chapter}/{title}", draw)
    (_, introduction), *part_sections = sections
    parts = _read_parts(part_sections)
    answer_name = blank_name(parse_code(parts["Starter"][0].blocks[0]))
    if not answer_name:
        raise _Fault(
            "has a starter that leaves nothing to answer; end it in 'name = ...'"
        )
    _check_hidden_tests(parts["Hidden tests"][0].blocks[0])

    task = _part(introduction)
    options = FORM["limits"] | task.options
    level = options.get("level")
    if level not in FORM["levels"]:
        known = ", ".join(FORM["levels"])
        raise _Fault(f"has no level; write '- level: ' and one of {known}")
    by_hand = None
    for part in parts["By hand"]:
        points = _number(part.options, "points", int, "its rubric")
        by_hand = ByHand(points, rubric=part.whole)
    return Exercise(
        number=number,
        title=title,
        level=level,
        points=_number(options, "points", int, "its text"),
        seconds=_number(options, "seconds", float, "its text"),
        memory=_number(options, "memory", int, "its text"),
        by_hand=by_hand,
        text=task.whole,
        answer_name=answer_name,
        drawn=drawn,
        parts=parts,
    )


def _number(options: dict[str, str], name: str, kind: type, place: str) -> Any:
    """Return an option as a number of a kind, `int` or `float`. Raises _Fault."""
    if name not in options:
        raise _Fault(f"has no '- {name}: 3' above {place}; write it there")
    try:
        return kind(options[name])
    except ValueError:
        fault = f"has '- {name}: {options[name]}' above {place}"
        numeral = "a whole number" if kind is int else "a number"
        raise _Fault(f"{fault}; write {numeral} in figures: '- {name}: 3'") from None


def _draw_variants(
    sections: list[tuple[str, str]], place: str, draw: Draw
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the drawn values, and the sections with these in place of `{{ name }}`."""
    table = dict(sections).get("Variants")
    if not table:
        return {}, sections
    try:
        variants = dict(yaml.safe_load(_part(table).blocks[0]))
        drawn = {}
        for name, values in variants.items():
            if not (isinstance(values, list) and values):
                raise ValueError("a name without a list of values")
            drawn[name] = draw(f"{place}/{name}", values)
        template = Environment(undefined=StrictUndefined).from_string
        filled = [(name, template(text).render(drawn)) for name, text in sections]
    except (LookupError, TypeError, ValueError, yaml.YAMLError, TemplateError) as error:
        reason = " ".join(str(error).split())
        raise _Fault(
            f"has variants that cannot be drawn ({reason}); write a ```yaml block of "
            "'name: [value, value]', and {{ name }} where it is used"
        ) from None
    return drawn, filled


# --- the parts of an exercise


def _read_parts(sections: list[tuple[str, str]]) -> dict[str, list[Part]]:
    parts: dict[str, list[Part]] = {name: [] for name in PARTS}
    for name, text in sections:
        if name not in PARTS:
            raise _Fault(f"has a part '{name}'; choose from: {', '.join(PARTS)}")
        parts[name].append(_part(text))
    for name, rule in PARTS.items():
        _check_parts(name, parts[name], rule)
    return parts


def _check_parts(name: str, parts: list[Part], rule: PartRule) -> None:
    if not rule.fewest <= len(parts) <= rule.most:
        count = str(rule.most)
        if rule.fewest < rule.most:
            count = f"{rule.fewest} to {rule.most}"
        raise _Fault(f"has {len(parts)} parts '{name}'; write {count}")
    if not rule.blocks:
        return

    for part in parts:
        count = len(part.blocks)
        if not 1 <= count <= rule.blocks:
            fault = f"has a part '{name}' of {count} ```python blocks"
            raise _Fault(f"{fault}; write one, or two 'Checks'")
        for block in part.blocks:
            _check_code(name, block)


def _check_code(name: str, block: str) -> None:
    # Hidden tests are plain Python; a notebook's cells may hold magics.
    parse = ast.parse if name == "Hidden tests" else parse_code
    try:
        parse(block)
    except SyntaxError as error:
        raise _Fault(
            f"has a part '{name}' that is not Python: {error}; correct it"
        ) from None


def _check_hidden_tests(code: str) -> None:
    tests = docstrings_of_tests(code)
    names = {name for name, docstring in tests if docstring}
    if not tests or len(names) < len(tests):
        raise _Fault("needs hidden tests, each with its own name and docstring")


def docstrings_of_tests(code: str) -> list[tuple[str, str]]:
    """Return the name and docstring of each test function in some code."""
    tests = []
    for node in ast.parse(code).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            tests.append((node.name, ast.get_docstring(node) or ""))
    return tests


# --- Markdown


def _sections(text: str, tag: str) -> list[tuple[str, str]]:
    """Cut a text at its headings of one rank: (heading, the text below it) for each.

    The first section is what stands above all of them, under an empty heading.
    """
    sections = []
    lines = text.splitlines(keepends=True)
    heading = ""
    start = 0
    for token, inline in pairwise(MARKDOWN.parse(text)):
        if token.type == "heading_open" and token.tag == tag and token.level == 0:
            first, after = token.map
            sections.append((heading, "".join(lines[start:first])))
            heading = inline.content
            start = after
    sections.append((heading, "".join(lines[start:])))
    return sections


def _part(text: str) -> Part:
    """Read the options above a text, its blocks of code, and the text without both."""
    options = {}
    lines = text.strip("\n").splitlines()
    while lines and (option := OPTION.fullmatch(lines[0])):
        options[option["name"]] = option["value"]
        del lines[0]
    whole = "\n".join(lines).strip("\n")

    tokens = MARKDOWN.parse(whole)
    fences = [token for token in tokens if token.type == "fence" and token.level == 0]
    blocks = [fence.content.rstrip("\n") for fence in fences]
    prose = whole.splitlines()
    for fence in reversed(fences):
        first, after = fence.map
        del prose[first:after]
    return Part(options, whole, blocks, "\n".join(prose).strip("\n"))
