"""What is asked of a class: an assignment with its questions, and a task for each notebook.

Assignments and tasks cross processes, machines and zip files, so they can be written as JSON. The
classes know nothing of masters and chapters: a worker that only grades needs no more than this.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any

# The cell of text in which students write what a person reads.
PLACE = "*Write here what is asked for in words; a person reads it.*"

# The code cells of a student by exercise; those above all exercises are under None.
Cells = dict[int | None, list[str]]


@dataclass(frozen=True)
class ByHand:
    """The part of an exercise that a person reads and gives points for."""

    points: int
    rubric: str


@dataclass
class Remark:
    """What a master says about one particular wrong answer."""

    code: str
    text: str


@dataclass
class Question:
    """An exercise as grading asks it."""

    number: int
    title: str
    name: str  # the name that an answer gives a value to
    points: int  # of the hidden tests
    seconds: float  # of processor time
    memory: int  # MiB
    starter: str
    shows: str | None
    checks: list[str]
    solution: str
    tests: str
    holds: str | None = None
    by_hand: ByHand | None = None
    remarks: list[Remark] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        entry = asdict(self)
        entry["remarks"] = [[remark.code, remark.text] for remark in self.remarks]
        return entry

    @classmethod
    def from_json(cls, entry: dict[str, Any]) -> "Question":
        question = cls(**entry)
        if entry["by_hand"]:
            question.by_hand = ByHand(**entry["by_hand"])
        question.remarks = [Remark(code, text) for code, text in entry["remarks"]]
        return question


@dataclass(frozen=True)
class LateRule:
    """The price of handing in late.

    It takes `percent` of the points for each day that has begun since the grace period after the
    due date, and never more than `most` percent.
    """

    percent: float
    grace: timedelta
    most: float

    def as_json(self) -> dict[str, float]:
        return {
            "percent": self.percent,
            "grace": self.grace.total_seconds(),
            "most": self.most,
        }

    @classmethod
    def from_json(cls, entry: dict[str, float]) -> "LateRule":
        grace = timedelta(seconds=entry["grace"])
        return cls(entry["percent"], grace, entry["most"])


@dataclass
class Assignment:
    """The exercises that a class is asked, drawn with its key."""

    name: str
    title: str
    runner: str
    group: str  # the fingerprint of the class
    seed: str
    given: str  # code above all exercises
    masters: str  # the fingerprint of what students see of the masters
    questions: list[Question]
    due: datetime | None = None
    late: LateRule | None = None

    @property
    def by_number(self) -> dict[int, Question]:
        return {question.number: question for question in self.questions}

    def as_json(self) -> dict[str, Any]:
        entry = {
            "name": self.name,
            "title": self.title,
            "runner": self.runner,
            "class": self.group,
            "seed": self.seed,
            "given": self.given,
            "masters": self.masters,
            "questions": [question.as_json() for question in self.questions],
        }
        if self.due:
            entry["due"] = self.due.isoformat()
        if self.late:
            entry["late"] = self.late.as_json()
        return entry

    @classmethod
    def from_json(cls, entry: dict[str, Any]) -> "Assignment":
        fields = dict(entry)
        fields["group"] = fields.pop("class")
        assignment = cls(**fields)
        assignment.questions = [
            Question.from_json(question) for question in entry["questions"]
        ]
        if "due" in entry:
            assignment.due = datetime.fromisoformat(entry["due"])
        if "late" in entry:
            assignment.late = LateRule.from_json(entry["late"])
        return assignment


Assignments = Mapping[str, Assignment]  # by name


@dataclass
class Task:
    """The answers of one notebook, to be judged."""

    assignment: Assignment
    cells: Cells
    submission: str = ""
    student: str = ""
    key: str | None = None  # of all that the result follows from
    checks: bool = False  # run the public checks as well, as for a master

    def as_json(self) -> dict[str, Any]:
        return {
            "assignment": self.assignment.as_json(),
            "cells": cells_as_json(self.cells),
            "submission": self.submission,
            "student": self.student,
            "key": self.key,
            "checks": self.checks,
        }

    @classmethod
    def from_json(cls, entry: dict[str, Any]) -> "Task":
        task = cls(**entry)
        task.assignment = Assignment.from_json(entry["assignment"])
        task.cells = cells_from_json(entry["cells"])
        return task


def cells_as_json(cells: Cells) -> dict[str, list[str]]:
    """Write the numbers of exercises as text, and None as an empty one."""
    entry = {}
    for number, sources in cells.items():
        entry["" if number is None else str(number)] = sources
    return entry


def cells_from_json(entry: dict[str, list[str]]) -> Cells:
    cells: Cells = {}
    for number, sources in entry.items():
        cells[int(number) if number else None] = sources
    return cells
