"""Masters: the one source of a chapter's exercises, `masters/<chapter>.md`, a section each.

Every edition is made from it, the book's own cells too. `{{ name }}` is the variant that is drawn.
"""

import ast
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, StrictUndefined, TemplateError

from tools.book.cells import MARKDOWN, blank_name, parsed
from tools.errors import BookError
from tools.files import read_text, write_files

FRONT = re.compile(r"---\n(?P<yaml>.*?)\n---\n", re.S)
OPTION = re.compile(r"- (?P<name>\w+): (?P<value>.+)")
FORM = tomllib.loads(
    Path(__file__).with_name("masters.toml").read_text(encoding="utf-8")
)

Draw = Callable[
    [str, list], Any
]  # chooses among the values of `<chapter>/<title>/<name>`


@dataclass(frozen=True)
class Part:
    options: dict[str, str]
    whole: str  # all below the options
    blocks: list[str]  # the code of each block in it
    text: str  # what is around them


@dataclass(frozen=True)
class Exercise:
    number: int
    title: str
    level: str
    points: int
    seconds: float  # of processor time
    memory: int  # MiB
    by_hand: dict[str, Any] | None  # "points" and "rubric" of what a person reads
    text: str
    name: str  # that an answer gives a value to
    drawn: dict[str, Any]  # the variants, by name
    parts: dict[str, list[Part]] = field(repr=False)

    def code(self, name: str) -> str | None:
        return next((part.blocks[0] for part in self.parts[name]), None)

    @property
    def checks(self) -> list[str]:
        return self.parts["Checks"][0].blocks


@dataclass(frozen=True)
class Master:
    name: str
    where: str  # its path
    title: str
    runner: str
    given: list[str]  # ids of the chapter's code cells that the exercises need
    head: str  # Markdown above the exercises
    own_given: list[
        str
    ]  # code of its own that the exercises need, run after that of the chapter
    exercises: list[Exercise] = field(repr=False)


def is_free(folder: Path) -> bool:
    files = folder.rglob("*") if folder.is_dir() else [folder]
    return not any(map(Path.is_file, files))


def copy_masters(source: Path, folder: Path) -> None:
    """An instructor's own masters: a copy that says that it is private. Raises BookError."""
    if not is_free(folder):
        raise BookError(f"{folder}: not an empty folder; name another for your masters")
    texts = {
        folder / path.name: read_text(path, source) for path in source.glob("*.md")
    }
    head = f"---\n{FORM['private']}"
    write_files(
        {path: text.replace("---\n", head, 1) for path, text in texts.items()}, folder
    )


def read_master(
    path: Path, root: Path, draw: Draw = lambda _, values: values[0]
) -> Master:
    """The master at `path`, its variants chosen by `draw`. Raises BookError, which says where."""
    is_own = path.is_relative_to(root)
    where = path.relative_to(root).as_posix() if is_own else str(path)
    text = read_text(path, root if is_own else path.parent)
    try:
        front = FRONT.match(text)
        said = yaml.safe_load(front["yaml"])
        about = str(said["title"]), str(said["runner"]), list(said["given"] or [])
    except (TypeError, KeyError, yaml.YAMLError):
        needed = "a '---' block of title, given and runner"
        raise BookError(f"{where}: begins without {needed}; write it") from None
    (_, head), *sections = _sections(text[front.end() :], "h2")
    own = _part(dict(sections).get("Given", "")).blocks
    asked = [section for section in sections if section[0] != "Given"]
    if not asked:
        raise BookError(f"{where}: no exercise; write one: '## 1. Title'")
    exercises = [
        _exercise(n, *section, where, draw) for n, section in enumerate(asked, start=1)
    ]
    return Master(path.stem, where, *about, head.strip(), own, exercises)


def _exercise(number: int, heading: str, body: str, where: str, draw: Draw) -> Exercise:
    def require(holds: object, otherwise: str) -> None:
        if not holds:
            raise BookError(f"{where}: '{heading}' {otherwise}")

    title, parts = (
        heading.removeprefix(f"{number}. "),
        {name: [] for name in FORM["parts"]},
    )
    require(title != heading, f"is not '## {number}. Title'; number it")
    sections, drawn = _sections(body, "h3"), {}
    if text := dict(sections).get("Variants"):
        try:
            variants = dict(yaml.safe_load(_part(text).blocks[0]))
            if not all(
                isinstance(values, list) and values for values in variants.values()
            ):
                raise ValueError("a name without a list of values")
            place = f"{Path(where).stem}/{title}"
            drawn = {
                name: draw(f"{place}/{name}", values)
                for name, values in variants.items()
            }
            fill = Environment(undefined=StrictUndefined).from_string
            sections = [(name, fill(text).render(drawn)) for name, text in sections]
        except (
            LookupError,
            TypeError,
            ValueError,
            yaml.YAMLError,
            TemplateError,
        ) as error:
            reason = " ".join(str(error).split())
            form = "a ```yaml block of 'name: [value, value]', and {{ name }} where it is used"
            require(
                False, f"has variants that cannot be drawn ({reason}); write {form}"
            )
    for name, text in sections[1:]:
        require(name in parts, f"has a part '{name}'; choose from: {', '.join(parts)}")
        parts[name].append(_part(text))
    for name, form in FORM["parts"].items():
        found, fewest, most, blocks = (
            parts[name],
            form["fewest"],
            form["most"],
            form["blocks"],
        )
        often = f"{fewest} to {most}" if fewest < most else most
        require(
            fewest <= len(found) <= most,
            f"has {len(found)} parts '{name}'; write {often}",
        )
        for part in found if blocks else ():
            fault = f"has a part '{name}' of {len(part.blocks)} ```python blocks"
            require(
                1 <= len(part.blocks) <= blocks, f"{fault}; write one, or two 'Checks'"
            )
            for block in part.blocks:
                try:  # magics are for notebooks, which hidden tests are not
                    ast.parse(block) if name == "Hidden tests" else parsed(block)
                except SyntaxError as error:
                    require(
                        False,
                        f"has a part '{name}' that is not Python: {error}; correct it",
                    )
    answer = blank_name(parsed(parts["Starter"][0].blocks[0]))
    require(
        answer, "has a starter that leaves nothing to answer; end it in 'name = ...'"
    )
    tests = described(parts["Hidden tests"][0].blocks[0])
    names = {name for name, about in tests if about}
    require(
        len(names) == len(tests) > 0,
        "wants hidden tests, each of its own name and docstring",
    )
    asked, by_hand = _part(sections[0][1]), None
    options, levels = FORM["limits"] | asked.options, FORM["levels"]
    level = options.get("level")
    require(
        level in levels,
        f"says no level; write '- level: ' and one of {', '.join(levels)}",
    )
    try:
        limits = (
            int(options["points"]),
            float(options["seconds"]),
            int(options["memory"]),
        )
        for part in parts["By hand"]:
            by_hand = {"points": int(part.options["points"]), "rubric": part.whole}
    except (KeyError, ValueError):
        require(
            False,
            "says no '- points: 3' in figures; write it above its text and its rubric",
        )
    return Exercise(
        number, title, level, *limits, by_hand, asked.whole, answer, drawn, parts
    )


def described(tests: str) -> list[tuple[str, str]]:
    functions = [
        node for node in ast.parse(tests).body if isinstance(node, ast.FunctionDef)
    ]
    found = [(node.name, ast.get_docstring(node) or "") for node in functions]
    return [(name, about) for name, about in found if name.startswith("test_")]


def _sections(text: str, tag: str) -> list[tuple[str, str]]:
    """(heading, text below it) for each heading of that rank; the first has none: what is above."""
    lines, marks = text.splitlines(keepends=True), [("", 0, 0)]
    for token, inline in pairwise(MARKDOWN.parse(text)):
        if token.type == "heading_open" and token.tag == tag and token.level == 0:
            marks.append((inline.content, *token.map))
    ends = [*(start for _, start, _ in marks[1:]), len(lines)]
    return [
        (mark[0], "".join(lines[mark[2] : end]))
        for mark, end in zip(marks, ends, strict=True)
    ]


def _part(text: str) -> Part:
    """The options above a text, its blocks of code, and the text without both."""
    lines, options = text.strip("\n").splitlines(), {}
    while lines and (match := OPTION.fullmatch(lines[0])):
        options[match["name"]] = match["value"]
        del lines[0]
    whole = "\n".join(lines).strip("\n")
    lines, tokens = whole.splitlines(), MARKDOWN.parse(whole)
    blocks = [token for token in tokens if token.type == "fence" and token.level == 0]
    for block in reversed(blocks):
        del lines[slice(*block.map)]
    text = "\n".join(lines).strip("\n")
    return Part(options, whole, [block.content.rstrip("\n") for block in blocks], text)
