"""Takes the answers out of a submitted notebook, to be run in the pristine one.

A student's cell belongs to the exercise whose name it defines, else to that of its mark (metadata
or id), else to that below whose text it stands. All else comes from the assignment. What was done
to cells is a finding.
"""

import re
from dataclasses import dataclass, field
from typing import Any

from coursework.exercises.assignment import PLACE
from coursework.grade.intake import Refused, mapping
from coursework.grade.source import bound, tree_of, without_magics
from tools.book.grammar import SETUP

CELLS, CHARACTERS = (
    400,
    600_000,
)  # of code in a notebook; more is no answer to exercises
ID = re.compile(
    r"(?P<part>given|exercise|answer|shows|holds|by-hand)(?:-(?P<number>\d+)(-more)?)?"
)
PARTS = {
    "holds": "check",
    "by-hand": "by hand",
}  # an id's word for a part, where another is used
SET_UP = re.compile(
    r"# @title Set-up|SIMULATE_GPUS\s*="
)  # how the cells that set up begin
ASKED = re.compile(r"\s*(?:\*\*|#{2,4} )(?P<number>\d+)\. (?P<title>[^*\n]+)")
FENCE = re.compile(
    r"^[ \t]*```[ \t]*(?:python|py|ipython3?)?[ \t]*\n(.*?)\n[ \t]*```", re.S | re.M
)


@dataclass
class Cell:
    """A cell of the submission, and what it is taken for."""

    kind: str  # code, markdown, raw
    source: str
    part: str | None = None  # set-up, given, exercise, answer, shows, check, by hand
    number: int | None = None  # of its exercise
    names: set[int] = field(
        default_factory=set
    )  # exercises whose names it gives a value to


def finding(kind: str, exercise: int | None, text: str) -> dict:
    return {"kind": kind, "exercise": exercise, "text": text}


def splice(notebook: dict, assignment: dict) -> dict[str, Any]:
    """What of a notebook is run in the pristine one, by exercise: `cells` without magics, under ""
    those above all; `answers` as they were written, "" where there is none; `prose` for a person to
    read. And `findings`, and the `sources` of the student's own cells. Raises Refused: no exercise,
    or too much."""
    code = [cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    if len(code) > CELLS or sum(map(len, code)) > CHARACTERS:
        size = f"{len(code)} code cells, {sum(map(len, code))} characters"
        raise Refused(f"holds {size}; hand in the student edition with answers in it")
    reader = Reader(assignment)
    cells = [reader.read(cell) for cell in notebook["cells"]]
    if not any(cell.number or cell.names for cell in cells):
        raise Refused(
            "no exercise of this assignment is in it; hand in the student edition"
        )
    own = reader.placed(cells)
    sources_by_exercise = dict(own)  # those above all exercises under None
    runs, answers = {"": [*map(without_magics, own.pop(None))]}, {}
    for number, sources in own.items():
        starter = [reader.questions[number]["starter"]] if number in reader.left else []
        runs[str(number)] = [*map(without_magics, [*starter, *sources])]
        answers[str(number)] = "\n\n".join(sources)
    prose = prose_of(cells, reader.questions)
    spliced = {
        "cells": runs,
        "answers": answers,
        "prose": prose,
        "findings": reader.findings,
    }
    return spliced | {"sources": sources_by_exercise}


def prose_of(cells: list[Cell], questions: dict[int, dict]) -> dict[str, str]:
    """What students wrote in words, by exercise, in the order of the notebook: in the place for it
    and, where a person reads the exercise, in cells of text that they put near it."""
    texts: dict[int, list[str]] = {}
    here = None  # the exercise that a cell stands below
    for cell in cells:
        here = cell.number or here
        is_own_text = cell.kind != "code" and cell.part in (None, "answer")
        is_read = here in questions and questions[here]["by_hand"]
        if cell.part == "by hand" or (is_own_text and is_read):
            texts.setdefault(here, [])
            if cell.source not in ("", PLACE):
                texts[here].append(cell.source)
    return {str(number): "\n\n".join(parts) for number, parts in texts.items()}


def plain(source: str) -> str:
    """Line ends of one kind, nothing but code at either end."""
    return "\n".join(line.rstrip() for line in re.split("\r\n?|\n", source)).strip("\n")


class Reader:
    """Takes the cells of a notebook for what they are, by what the assignment gives."""

    def __init__(self, assignment: dict) -> None:
        self.questions = {asked["number"]: asked for asked in assignment["questions"]}
        self.named = {asked["name"]: number for number, asked in self.questions.items()}
        self.given = plain(
            assignment["given"]
        )  # all in the form in which cells are compared
        self.starters = {
            n: plain(asked["starter"]) for n, asked in self.questions.items()
        }
        self.known = {"": (None, None)} | {
            text: ("answer", n) for n, text in self.starters.items()
        }
        for n, asked in self.questions.items():
            for text in filter(None, [asked["shows"], *asked["checks"]]):
                self.known[plain(text)] = "check", n
        self.findings: list[dict] = []
        self.left: set[int] = (
            set()
        )  # whose starter is there as it was given: it runs first

    def note(self, number: int | None, text: str) -> None:
        self.findings.append(finding("cells", number, text))

    def is_pristine(self, source: str) -> bool:
        """Is this what was given: a cell of an exercise, some of the given code, or all of it?"""
        text = plain(re.sub(r"^# @title .*\n?", "", source, flags=re.M))
        return source in self.known or f"\n{text}\n" in f"\n{self.given}\n"

    def read(self, raw: dict) -> Cell:
        """A cell, with what it is taken for: by its mark, else by its text."""
        cell = Cell(raw["cell_type"], plain(raw["source"]))
        cell.part, cell.number = self._by_mark(raw) or self._by_text(cell, raw)
        if cell.kind != "code" and cell.part in (None, "answer"):
            self._retype(cell)
        if cell.kind == "code":
            if cell.part != "given" and cell.source not in self.known:
                for text in (
                    text for text, (part, _) in self.known.items() if part == "check"
                ):
                    whole = rf"^{re.escape(text)}$"  # lines, that were merged with it
                    cell.source = plain(re.sub(whole, "", cell.source, flags=re.M))
            cell.names = self._names(cell.source)
        return cell

    def _names(self, source: str) -> set[int]:
        return {self.named[name] for name in bound(source) & self.named.keys()}

    def _by_mark(self, raw: dict) -> tuple[str, int | None] | None:
        said = mapping(raw["metadata"].get("assignment"))
        marks = [(said.get("part"), said.get("exercise"))]
        if match := ID.fullmatch(raw.get("id", "")):
            part, number = match["part"], match["number"]
            marks.append((PARTS.get(part, part), number and int(number)))
        for part, number in marks:
            if part == "given":
                return part, None
            if (
                type(number) is int
                and number in self.questions
                and isinstance(part, str)
            ):
                return part, number
        return None

    def _by_text(self, cell: Cell, raw: dict) -> tuple[str | None, int | None]:
        if cell.kind == "code" and cell.source in self.known:
            return self.known[cell.source]
        if cell.kind == "markdown" and (match := ASKED.match(cell.source)):
            asked = self.questions.get(int(match["number"]))
            if asked and match["title"].strip().rstrip(". ") == asked["title"].rstrip(
                ". "
            ):
                return "exercise", asked["number"]
        tags = raw["metadata"].get("tags")
        set_up = (isinstance(tags, list) and SETUP in tags) or SET_UP.match(cell.source)
        return "set-up" if set_up and not self._names(cell.source) else None, None

    def _retype(self, cell: Cell) -> None:
        """Make code of an answer that stands in a cell of text."""
        fences = FENCE.findall(cell.source)
        code = plain("\n\n".join(fences) or cell.source)
        names = bound(code) if tree_of(code) else set()
        if cell.part is None:  # prose, but for a bare answer that lost its mark, too
            numbers = self._names(code) if names and not fences else ()
            if not numbers:
                return
            cell.part, cell.number = "answer", min(numbers)
        text = f"the cell of the answer was made a {cell.kind.replace('m', 'M')} cell"
        if names:
            self.note(cell.number, f"{text}; its text was run as code")
            cell.kind, cell.source = "code", code
        else:
            self.note(cell.number, f"{text} and holds no Python code")

    def placed(self, cells: list[Cell]) -> dict[int | None, list[str]]:
        """The student's own cells of each exercise in order, and those above all, under None."""
        own: dict[int | None, list[Cell]] = {
            number: [] for number in (None, *self.questions)
        }
        marked = [
            cell for cell in cells if (cell.kind, cell.part) == ("code", "answer")
        ]
        homes = {cell.number for cell in marked if cell.number in cell.names}
        here, last = None, 0
        for cell in cells:
            here = cell.number or here
            if cell.kind != "code" or cell.part in ("set-up", "exercise", "by hand"):
                continue
            if self.is_pristine(cell.source):
                self.left |= {
                    n for n, starter in self.starters.items() if starter == cell.source
                }
                continue
            free = cell.names - homes
            if cell.part == "answer":
                free |= {cell.number} & cell.names
            owner = min(free, default=here)
            if cell.part in (
                "given",
                "shows",
                "check",
            ):  # merged upwards, or in the wrong cell
                if not free:
                    self.note(
                        cell.number,
                        f"a {cell.part} cell was changed; the original was run",
                    )
                    continue
                self.note(owner, f"its answer stood in a {cell.part} cell")
            elif cell.part == "answer" and owner == cell.number:
                if owner < last:
                    self.note(owner, "its cell was moved; it was run at its own place")
                last = max(last, owner)
            elif cell.part == "answer" and cell.number not in cell.names:
                self.note(
                    owner, f"its answer stood in a cell of exercise {cell.number}"
                )
            homes |= {owner} & cell.names
            own[owner].append(cell)
        answered = {
            number
            for sources in own.values()
            for cell in sources
            for number in cell.names
        }
        for number in self.questions:
            marks = [(cell.part, cell.number) for cell in own[number]]
            if number in answered and not any(
                number in cell.names for cell in own[number]
            ):
                self.left.discard(number)  # it would undo the answer
                self.note(number, "its answer stands among others")
            elif not own[number]:
                self.left.add(number)
                if number not in [cell.number for cell in marked]:
                    self.note(number, "the cell of its answer is not there")
            if marks.count(("answer", number)) > 1:
                self.note(
                    number,
                    f"{len(marks)} cells hold its answer; they were run in order",
                )
        return {
            number: [cell.source for cell in sources] for number, sources in own.items()
        }
