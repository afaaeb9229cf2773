"""How long a chapter takes: the cells on its path, counted and turned into minutes.

Off the path are the sections whose heading begins with `Deeper: `, the exercises, the links,
figures that can be moved, and cells that teach nothing. Of a self-check, the question and its
choices are read, and the reasons are not.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from nbformat import NotebookNode

from tools.book.chapters import Chapter
from tools.book.grammar import (
    ANSWER_FRAME,
    CHECKS,
    DEEPER,
    EXERCISES,
    LINKS_CELL,
    MACHINERY,
    MOVE,
    SELF_CHECK,
    SETUP,
)
from tools.book.notebooks import tags

HEADING = re.compile(r"(?P<level>#+) (?P<title>.*)")
REASON = re.compile(r"</summary>.*?</details>", re.DOTALL)
PICTURE = re.compile(r"<svg.*?</svg>|!\[[^\]]*\]\([^)]*\)", re.DOTALL)
TARGET = re.compile(r"\]\([^)]*\)")  # where a link leads
TAG = re.compile(r"<[^>]+>")
WORD = re.compile(r"[\w'.,^*+/=≈%-]*\w[\w'.,^*+/=≈%-]*")

# What takes a minute, roughly: words to read, or a part of one for each of the others.
WORDS_A_MINUTE = 170
MINUTES_A_PREDICTION = 0.6
MINUTES_A_CHECK = 1
MINUTES_A_CELL = 0.25


@dataclass(frozen=True)
class Length:
    """How much there is on the path of a chapter."""

    words: int
    predictions: int
    checks: int
    cells: int

    @property
    def minutes(self) -> int:
        minutes = (
            self.words / WORDS_A_MINUTE
            + self.predictions * MINUTES_A_PREDICTION
            + self.checks * MINUTES_A_CHECK
            + self.cells * MINUTES_A_CELL
        )
        # Rounded first: 27.000000001 minutes are 27.
        return math.ceil(round(minutes, 6))

    def __str__(self) -> str:
        return (
            f"{self.minutes} minutes: {self.words:,} words, "
            f"{self.predictions} predictions, {self.checks} checks, {self.cells} cells"
        )


def reading_path(chapter: Chapter) -> Iterator[NotebookNode]:
    """Yield the cells that a reader is to read, in order."""
    deep_level = 0  # of the heading that leads off the path; 0 on the path
    for cell in chapter.notebook.cells:
        heading = None
        if cell.cell_type == "markdown":
            heading = HEADING.match(cell.source)
        if heading:
            level, title = len(heading["level"]), heading["title"]
            if title.startswith(EXERCISES):
                return
            if level <= deep_level:
                deep_level = 0
            if not deep_level and title.startswith(DEEPER):
                deep_level = level
        if not deep_level and not _is_off_path(cell):
            yield cell


def _is_off_path(cell: NotebookNode) -> bool:
    if cell.id.startswith((LINKS_CELL, MOVE)):
        return True
    return bool({SETUP, MACHINERY, CHECKS} & set(tags(cell)))


def length(chapter: Chapter) -> Length:
    """Count what is on the path of a chapter."""
    cells = list(reading_path(chapter))
    texts = [cell for cell in cells if cell.cell_type == "markdown"]
    return Length(
        words=sum(count_words(cell) for cell in texts),
        predictions=sum(cell.source.startswith("**Predict") for cell in texts),
        checks=sum(cell.id.startswith(SELF_CHECK) for cell in texts),
        cells=len(cells) - len(texts),
    )


def count_words(cell: NotebookNode) -> int:
    """Count the words of a text cell that are read."""
    text = cell.source
    if cell.id.startswith(SELF_CHECK):
        text = REASON.sub("</summary>", text)
    text = ANSWER_FRAME.sub(lambda frame: frame["text"], text)
    text = PICTURE.sub("", text)
    text = TARGET.sub("]", text)
    text = TAG.sub(" ", text)
    return len(WORD.findall(text))
