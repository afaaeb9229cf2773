"""How long a chapter takes: what is on its path, counted, and what it may take at most.

Off the path are the sections whose heading begins with `Deeper: `, the exercises, the links,
figures that can be moved, and cells with the tag `hide-cell`. Of a self-check the question and its
choices are read.
"""

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

from nbformat import NotebookNode

from tools.book.cells import Broken
from tools.book.chapters import MAIN, SETUP, Chapter
from tools.book.notebooks import tags
from tools.files import read_beside

DEEPER, MACHINERY = "Deeper: ", "hide-cell"
MOVE = "move-"  # how the id of a cell begins under which a page has a figure to move
SAYS = re.compile(r"^\*\*How long\.\*\* (\d+) minutes, and the exercises\.$", re.M)
NOT_READ = (
    (re.compile(r"<svg.*?</svg>|!\[[^\]]*\]\([^)]*\)", re.S), ""),
    (re.compile(r"\]\([^)]*\)"), "]"),  # where a link leads
    (re.compile(r"<[^>]+>"), " "),
)
REASON = re.compile(r"</summary>.*?</details>", re.S)
WORD = re.compile(r"[\w'.,^*+/=≈%-]*\w[\w'.,^*+/=≈%-]*")


class Length(NamedTuple):
    """What stands on a path."""

    words: int
    predictions: int
    checks: int
    cells: int

    @property
    def minutes(self) -> int:
        times = (
            self.words / 170 + 0.6 * self.predictions + self.checks + 0.25 * self.cells
        )
        return math.ceil(round(times, 6))

    def __str__(self) -> str:
        words, *others = (
            f"{number:,} {name}" for name, number in self._asdict().items()
        )
        return f"{self.minutes} minutes: {words}, {', '.join(others)}"


BUDGETS = read_beside(__file__, "budgets.yml")


def path(chapter: Chapter) -> Iterator[NotebookNode]:
    """The cells that a reader is to read, in order."""
    deep = 0  # the level of the heading that leads off the path
    for cell in chapter.notebook.cells:
        heading = (
            re.match(r"(#+) (.*)", cell.source)
            if cell.cell_type == "markdown"
            else None
        )
        if heading:
            if heading[2].startswith("Exercises"):
                return
            if not deep or len(heading[1]) <= deep:
                deep = len(heading[1]) if heading[2].startswith(DEEPER) else 0
        off = cell.id.startswith(("links", MOVE)) or {SETUP, MACHINERY} & {*tags(cell)}
        if not deep and not off:
            yield cell


def length(chapter: Chapter) -> Length:
    cells = [*path(chapter)]
    texts = [cell for cell in cells if cell.cell_type == "markdown"]
    predictions = sum(cell.source.startswith("**Predict") for cell in texts)
    checks = sum(cell.id.startswith("check-") for cell in texts)
    return Length(sum(map(words, texts)), predictions, checks, len(cells) - len(texts))


def words(cell: NotebookNode) -> int:
    text = (
        REASON.sub("</summary>", cell.source)
        if cell.id.startswith("check-")
        else cell.source
    )
    for part, instead in NOT_READ:
        text = part.sub(instead, text)
    return len(WORD.findall(text))


def within_budget(chapter: Chapter) -> Broken:
    """The chapter takes as long as it says, and no longer than its budget."""
    title, found = chapter.notebook.cells[0], length(chapter)
    if chapter.framework != MAIN:
        return  # it says what that in the main framework says
    budget = BUDGETS.get(chapter.name)
    if not budget and "**How long.**" not in title.source:
        return  # of puzzles and symptoms each reader takes a few
    if SAYS.findall(title.source) != [str(found.minutes)]:
        yield (
            title,
            f"says another time; write '**How long.** {found.minutes} minutes, and ...'",
        )
    *most, minutes = budget or (math.inf,) * 4
    for name, least, number in zip(Length._fields, most, found, strict=False):
        if number > least:
            yield (
                None,
                f"{number:,} {name} on its path, {least:,} at most; cut, or fold as Deeper",
            )
    if found.minutes > minutes:
        yield (
            None,
            f"takes {found.minutes} minutes, {minutes} at most; cut, or fold as Deeper",
        )
