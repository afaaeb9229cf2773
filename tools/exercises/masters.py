"""Masters: the one source of a chapter's exercises, `masters/<chapter>.md`.

Text, starter, public checks, solution, wrong answers, hidden tests and what an instructor should
know, an exercise a section. Every edition is made from it, the book's own cells too. Where an
exercise lists variants, `{{ name }}` stands for the one that is drawn.
"""

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, StrictUndefined, TemplateError

from tools.book.cells import MARKDOWN
from tools.book.code import blank_name, parsed
from tools.errors import BookError
from tools.files import read_text, write_files

FRONT = re.compile(r"---\n(?P<yaml>.*?)\n---\n", re.S)
NUMBERED = re.compile(r"(?P<number>\d+)\. (?P<title>.+)")
OPTION = re.compile(r"- (?P<name>\w+): (?P<value>.+)")
PARTS = {  # how often each may stand in an exercise
    "Hint": (2, 3),
    "Starter": (1, 1),
    "Shows": (0, 1),
    "Checks": (1, 1),
    "Solution": (1, 1),
    "Wrong answer": (1, 9),
    "Hidden tests": (1, 1),
    "For instructors": (1, 1),
    "By hand": (0, 1),
    "Variants": (0, 1),
}
CODE = {  # how many blocks of code at most
    **dict.fromkeys(("Starter", "Shows", "Solution", "Wrong answer", "Hidden tests"), 1),
    "Checks": 2,
}
LEVELS = ("Recall", "Apply", "Invent")
SECONDS, MEMORY = 10, 2048  # of processor time, and MiB, for each exercise, unless it says another

PRIVATE = """\
# PRIVATE: what is assigned from here has its solutions and hidden tests here. Keep this folder
# where students do not read. Change texts and numbers, and add values to the variants: those of
# the book are public.
"""

Draw = Callable[[str, list], Any]  # chooses among the values of `<chapter>/<title>/<name>`


def first(place: str, values: list) -> Any:
    """What the book draws: the first value of each variant."""
    return values[0]


@dataclass(frozen=True)
class Part:
    """What stands under a heading."""

    options: dict[str, str]
    whole: str  # all below the options
    blocks: list[str]  # the code of each block in it
    text: str  # what is around them


@dataclass(frozen=True)
class Exercise:
    """One exercise of a master, with its variants drawn."""

    number: int
    title: str
    level: str
    points: int
    seconds: float  # of processor time
    memory: int  # MiB
    text: str
    name: str  # that an answer gives a value to
    drawn: dict[str, Any]  # the variants, by name
    parts: dict[str, list[Part]] = field(repr=False)

    def part(self, name: str) -> Part | None:
        return next(iter(self.parts[name]), None)

    def code(self, name: str) -> str | None:
        """The first block of the part of that name."""
        found = self.part(name)
        return found.blocks[0] if found else None

    @property
    def hints(self) -> list[str]:
        return [part.whole for part in self.parts["Hint"]]

    @property
    def by_hand(self) -> dict[str, Any] | None:
        """The points and the rubric of what a person reads, if it has such a part."""
        part = self.part("By hand")
        return part and {"points": int(part.options["points"]), "rubric": part.whole}

    @property
    def checks(self) -> list[str]:
        return self.part("Checks").blocks

    @property
    def wrong_answers(self) -> list[Part]:
        """Wrong answers, each with what is wrong; the first stands in the book."""
        return self.parts["Wrong answer"]


@dataclass(frozen=True)
class Master:
    """The exercises of one chapter."""

    name: str
    where: str  # its path
    title: str
    runner: str
    given: list[str]  # ids of the chapter's code cells that the exercises need
    head: str  # Markdown above the exercises
    own_given: list[str]  # code of its own that the exercises need, run after that of the chapter
    exercises: list[Exercise] = field(repr=False)


def copy_masters(source: Path, folder: Path) -> None:
    """An instructor's own masters: a copy that says at its head that it is private.

    Raises BookError if there is something in the folder already.
    """
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise BookError(f"{folder}: not an empty folder; name another for your masters")
    texts = {path.name: read_text(path, source) for path in sorted(source.glob("*.md"))}
    private = {name: text.replace("---\n", f"---\n{PRIVATE}", 1) for name, text in texts.items()}
    write_files({folder / name: text for name, text in private.items()}, folder)


def read_master(path: Path, root: Path, draw: Draw = first) -> Master:
    """The master at `path`, its variants chosen by `draw`.

    Raises BookError, with the file and the heading, if a part is missing, stands too often or
    is not what it should be.
    """
    where = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
    text = read_text(path, root if path.is_relative_to(root) else path.parent)
    front = FRONT.match(text)
    try:
        settings = yaml.safe_load(front["yaml"]) if front else None
    except yaml.YAMLError:
        settings = None
    if not isinstance(settings, dict) or not {"title", "given", "runner"} <= settings.keys():
        raise BookError(f"{where}: begins with no '---' block of title, given and runner; write it")
    sections = _sections(text[front.end() :], "h2")
    own, exercises = [], []
    for heading, body in sections[1:]:
        if heading == "Given":
            own = _part(body).blocks
            continue
        match = NUMBERED.fullmatch(heading)
        if not match or int(match["number"]) != len(exercises) + 1:
            title = f"## {len(exercises) + 1}. Title"
            raise BookError(f"{where}: the section '{heading}' is not '{title}'; number it")
        body, drawn = _drawn(body, f"{path.stem}/{match['title']}", where, draw)
        exercises.append(_exercise(match, body, drawn, where))
    if not exercises:
        raise BookError(f"{where}: no exercise; write one: '## 1. Title'")
    given = list(settings["given"] or [])
    head = sections[0][1].strip()
    title, runner = str(settings["title"]), str(settings["runner"])
    return Master(path.stem, where, title, runner, given, head, own, exercises)


def _drawn(body: str, place: str, where: str, draw: Draw) -> tuple[str, dict[str, Any]]:
    """A section with its variants in place, and what was drawn; without variants as it was."""
    listed = dict(_sections(body, "h3")).get("Variants")
    if listed is None:
        return body, {}
    try:
        variants = yaml.safe_load(_part(listed).blocks[0])
        values = {name: draw(f"{place}/{name}", list(found)) for name, found in variants.items()}
        kept = body.replace(listed, f"{{% raw %}}{listed}{{% endraw %}}")
        template = Environment(undefined=StrictUndefined, keep_trailing_newline=True)
        return template.from_string(kept).render(values), values
    except (LookupError, AttributeError, TypeError, yaml.YAMLError, TemplateError) as error:
        reason = " ".join(str(error).split())
        raise BookError(
            f"{where}: the variants of {place} cannot be drawn ({reason}); write a ```yaml block "
            "of 'name: [value, value]', and {{ name }} where it is used"
        ) from None


def _exercise(match: re.Match, body: str, drawn: dict[str, Any], where: str) -> Exercise:
    number, title = int(match["number"]), match["title"]
    here = f"{where}: '{number}. {title}'"
    (_, opening), *rest = _sections(body, "h3")
    parts = {name: [] for name in PARTS}
    for heading, text in rest:
        if heading not in PARTS:
            raise BookError(f"{here} has a part '{heading}'; choose from: {', '.join(PARTS)}")
        parts[heading].append(_part(text))
    for name, (fewest, most) in PARTS.items():
        if not fewest <= len(parts[name]) <= most:
            often = f"{fewest} to {most} times" if most > fewest else "once"
            raise BookError(f"{here} has {len(parts[name])} parts '{name}'; write it {often}")
    asked = _part(opening)
    options = {"seconds": str(SECONDS), "memory": str(MEMORY), **asked.options}
    try:
        points, seconds = int(options["points"]), float(options["seconds"])
        memory = int(options["memory"])
    except (KeyError, ValueError):
        raise BookError(
            f"{here} says no '- points: 3' in figures; write it above its text"
        ) from None
    if options.get("level") not in LEVELS:
        raise BookError(f"{here} says no level; write '- level: ' and one of {', '.join(LEVELS)}")
    by_hand = parts["By hand"]
    if by_hand and not by_hand[0].options.get("points", "").isdecimal():
        raise BookError(f"{here}: 'By hand' says no '- points: 2'; write it above its rubric")
    for name, most in CODE.items():
        for part in parts[name]:
            if not 1 <= len(part.blocks) <= most:
                number = "one or two" if most > 1 else "one"
                raise BookError(
                    f"{here}: a part '{name}' holds {len(part.blocks)} ```python blocks; "
                    f"write {number}"
                )
            for block in part.blocks:
                _parsed(block, name, here)
    answer = blank_name(_parsed(parts["Starter"][0].blocks[0], "Starter", here))
    if answer is None:
        raise BookError(f"{here}: the starter leaves nothing to answer; end it in 'name = ...'")
    level, text = options["level"], asked.whole
    return Exercise(number, title, level, points, seconds, memory, text, answer, drawn, parts)


def _parsed(source: str, part: str, here: str) -> ast.Module:
    """The syntax tree of code, or BookError if it is not: in hidden tests no magic is."""
    try:
        return ast.parse(source) if part == "Hidden tests" else parsed(source)
    except SyntaxError as error:
        raise BookError(
            f"{here}: the part '{part}' is not Python ({error.msg}, line {error.lineno}); "
            "correct it there"
        ) from None


def _sections(text: str, tag: str) -> list[tuple[str, str]]:
    """(heading, text below it) for each heading of that rank; the first has none: what is above.

    A line of code that begins as a heading does is code.
    """
    lines = text.splitlines(keepends=True)
    tokens = MARKDOWN.parse(text)
    starts = [
        (token.map[0], token.map[1], tokens[place + 1].content)
        for place, token in enumerate(tokens)
        if token.type == "heading_open" and token.tag == tag and token.level == 0
    ]
    ends = [start for start, *_ in starts] + [len(lines)]
    bodies = [("", "".join(lines[: ends[0]]))]
    for (_, below, heading), end in zip(starts, ends[1:], strict=True):
        bodies.append((heading, "".join(lines[below:end])))
    return bodies


def _part(text: str) -> Part:
    """The options above a text, its blocks of code, and the text without both."""
    lines, options = text.strip("\n").splitlines(), {}
    while lines and (match := OPTION.fullmatch(lines[0])):
        options[match["name"]] = match["value"]
        del lines[0]
    whole = "\n".join(lines).strip("\n")
    lines, found = whole.splitlines(), MARKDOWN.parse(whole)
    blocks = [token for token in found if token.type == "fence" and token.level == 0]
    for block in reversed(blocks):
        del lines[slice(*block.map)]
    text = "\n".join(lines).strip("\n")
    return Part(options, whole, [block.content.rstrip("\n") for block in blocks], text)
