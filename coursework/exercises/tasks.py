"""What is asked of a class: what it draws, an assignment with exercises, a task per notebook.

A class draws its variants and the seeds of its hidden tests from a key. The key itself is never
kept or shown. It is stretched, so that somebody who knows a fingerprint cannot try many keys a
second.

Assignments and tasks cross processes, machines and zip files, so they can be written as JSON. The
classes know nothing of masters and chapters: a worker that only grades needs no more than this.
"""

import hmac
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from hashlib import pbkdf2_hmac
from typing import Any

from tools.errors import BookError

# The cell of text in which students write what a person reads.
PLACE = "*Write your explanation here. A person will read it.*"

# The code cells of a student by exercise; those above all exercises are under None.
Cells = dict[int | None, list[str]]

MIN_LENGTH = 8  # characters of a key
BOOK = "book"  # the name in place of a class's, in the book's own edition
ROUNDS = 200_000  # of HMAC-SHA256: a tenth of a second

# Chooses one of the values of the variant at `<chapter>/<title>/<name>`.
Draw = Callable[[str, list], Any]


# --- what a class draws


def first_value(place: str, values: list) -> Any:
    """Draw for the book's own edition."""
    return values[0]


@dataclass(frozen=True)
class Draws:
    """What a class draws with its key, and the fingerprint that stands for the key."""

    fingerprint: str  # 12 hexadecimal digits that name the class
    secret: bytes = field(repr=False)
    choose: Draw = field(repr=False)

    def seed(self, name: str) -> str:
        """Return the seed of a chapter's hidden tests, in hexadecimal digits."""
        return hmac.digest(self.secret, f"seed/{name}".encode(), "sha256").hex()


def draws_of(key: str | None) -> Draws:
    """Return what the class with this key draws.

    A class never draws a first value where there are others: those are the book's own,
    which are drawn without a key. Raises BookError if the key is too short.
    """
    if key in (None, BOOK):
        return Draws(BOOK, b"book", first_value)
    length = len(key.strip())
    if length < MIN_LENGTH:
        raise BookError(
            f"CLASS: a key of {length} characters; "
            f"take {MIN_LENGTH} or more that are hard to guess"
        )

    password = key.encode(errors="surrogateescape")
    secret = pbkdf2_hmac("sha256", password, b"a class", ROUNDS)

    def choose(place: str, values: list) -> Any:
        others = values[1:] or values
        digest = hmac.digest(secret, f"variant/{place}".encode(), "sha256")
        return others[int.from_bytes(digest) % len(others)]

    fingerprint = hmac.digest(secret, b"fingerprint", "sha256").hex()
    return Draws(fingerprint[:12], secret, choose)


# --- an assignment


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
class GradedExercise:
    """An exercise as grading asks it."""

    number: int
    title: str
    answer_name: str  # the name that an answer gives a value to
    points: int  # of the hidden tests
    seconds: float  # of processor time
    memory: int  # MiB
    starter: str
    demo: str | None
    checks: list[str]
    solution: str
    tests: str
    condition: str | None = None
    by_hand: ByHand | None = None
    remarks: list[Remark] = field(default_factory=list)

    @classmethod
    def from_json(cls, entry: dict[str, Any]) -> "GradedExercise":
        exercise = cls(**entry)
        if entry["by_hand"]:
            exercise.by_hand = ByHand(**entry["by_hand"])
        exercise.remarks = [Remark(**remark) for remark in entry["remarks"]]
        return exercise


@dataclass(frozen=True)
class LateRule:
    """The price of handing in late.

    It takes `percent` of the points for each day that has begun since the grace period after the
    due date, and never more than `most` percent.
    """

    percent: float
    grace: float  # seconds
    most: float


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
    exercises: list[GradedExercise]
    due: datetime | None = None
    late: LateRule | None = None

    @property
    def by_number(self) -> dict[int, GradedExercise]:
        return {exercise.number: exercise for exercise in self.exercises}

    def as_json(self) -> dict[str, Any]:
        entry = asdict(self)
        if self.due:
            entry["due"] = self.due.isoformat()
        return entry

    @classmethod
    def from_json(cls, entry: dict[str, Any]) -> "Assignment":
        assignment = cls(**entry)
        assignment.exercises = [
            GradedExercise.from_json(exercise) for exercise in entry["exercises"]
        ]
        if assignment.due:
            assignment.due = datetime.fromisoformat(entry["due"])
        if assignment.late:
            assignment.late = LateRule(**entry["late"])
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
        entry = asdict(self)
        entry["assignment"] = self.assignment.as_json()
        entry["cells"] = cells_as_json(self.cells)
        return entry

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
