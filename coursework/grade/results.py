"""The grade of a submission, on its way from intake to the report, and its arithmetic.

A grade is saved as JSON, one file per submission. In Python exercises are numbered with integers;
as keys of JSON the numbers become text. Files of earlier versions are read as well: they may lack
what was added later.

The rule for late work is set by the instructor's assignment. Days are counted from the end of the
grace period, and a day that has begun counts. Where the download says "late" without a time, as
Canvas' does, nothing is taken off.
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

from coursework.exercises.tasks import Assignment, Cells, LateRule

GradeId = tuple[str, str | None]  # a submission, and the assignment it was graded for
# The fields with an entry per exercise.
BY_EXERCISE = ("answers", "comments", "prose", "lines", "results", "by_hand")
# The fields that only the result of a graded submission has in its file.
OF_GRADED = ("key", "points", "of", "penalty", "points_after")
# Why an answer loses points, in words for its student.
REASONS = tomllib.loads(
    Path(__file__).with_name("reasons.toml").read_text(encoding="utf-8")
)

# The kind of the finding that a hidden test raised an error of its own.
BROKEN_TEST = "broken test"
HUNDREDTH = Decimal("0.01")
DAY = timedelta(days=1)


@dataclass
class Finding:
    """Something about a submission that a person should know."""

    kind: str
    exercise: int | None  # None if it concerns the whole notebook
    text: str


@dataclass(frozen=True)
class ReachEntry:
    """A line of code that reaches where answers have no business."""

    exercise: int | None  # None: above the exercises
    line: int  # of the answer
    text: str  # what it does, in plain words
    code: str  # the line itself


@dataclass
class TestResult:
    """What an answer gets in one hidden test."""

    __test__ = False  # pytest collects classes by this name

    name: str
    about: str
    passed: bool
    points: int
    of: int
    reason: str | None  # why it failed
    error: str | None  # the name of the exception that the answer raised
    inputs: dict[str, object]

    @property
    def failure(self) -> str:
        """Why it failed, for the student: an error by its name, never with its text."""
        reason = self.reason or ""
        if not self.error:
            return reason
        raised = f"your code raised {with_article(self.error)}"
        if REASONS["raised"] in reason:
            return reason.replace(REASONS["raised"], raised)
        if raised in reason:
            return reason
        return f"{reason}; {raised}" if reason else raised


def with_article(error: str) -> str:
    """Return the name of an exception with "a" or "an"; a description has its article already."""
    if " " in error:
        return error
    is_vowel = error[:1] in "AEIO" or error.startswith("Unb")  # a UnicodeError
    return f"{'an' if is_vowel else 'a'} {error}"


@dataclass
class ExerciseResult:
    """What an answer gets by the hidden tests of its exercise."""

    points: int | float
    of: int
    tests: list[TestResult]
    blank: bool
    check: str  # "passes", "fails" or "not run": the public checks
    remark: str | None
    ended: str | None  # how it ended the session
    error: str | None = None  # the first that its cells raised
    gaps: list[str] = field(
        default_factory=list
    )  # why a measurement counts for nothing

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> "ExerciseResult":
        result = cls(**entry)
        result.tests = [TestResult(**test) for test in entry["tests"]]
        return result


@dataclass
class Judgement:
    """What the judge says of one notebook."""

    key: str | None
    results: dict[int, ExerciseResult]
    findings: list[Finding]
    sandbox: str

    @property
    def points(self) -> int | float:
        return sum(result.points for result in self.results.values())

    @property
    def of(self) -> int:
        return sum(result.of for result in self.results.values())


@dataclass
class PartByHand:
    """The points that a person gives for a part of an exercise; None until then."""

    of: int
    points: int | float | None = None
    note: str = ""


@dataclass
class Penalty:
    """What being late costs. The days are None if the time of the hand-in is not known."""

    days: int | None
    percent: int | float
    points: int | float


@dataclass
class Grade:
    """All that is known about a submission."""

    submission: str  # the id of the student's submission
    student: str
    path: str = ""
    handed_in: datetime | None = None
    late: bool = False
    assignment: str | None = None
    group: str | None = None  # the class it is graded for
    made_for: str | None = None  # the class that the notebook names
    made_from: tuple[str, str] | None = None  # the assignment and masters it names
    reason: str | None = None  # why it is not graded
    sandbox: str | None = None
    key: str | None = None  # of all that the points by tests follow from
    findings: list[Finding] = field(default_factory=list)
    reach: list[ReachEntry] = field(default_factory=list)
    # By exercise
    answers: dict[int, str] = field(default_factory=dict)
    comments: dict[int, list[tuple[int, str]]] = field(default_factory=dict)
    prose: dict[int, str] = field(default_factory=dict)
    lines: dict[int, dict[str, int]] = field(default_factory=dict)
    results: dict[int, ExerciseResult] = field(default_factory=dict)
    by_hand: dict[int, PartByHand] = field(default_factory=dict)
    # Of all exercises together
    points: int | float | None = None
    of: int | None = None
    penalty: Penalty | None = None
    points_after: int | float | None = None
    cells: Cells = field(default_factory=dict, repr=False)  # to be run; not saved

    @property
    def id(self) -> GradeId:
        """What it is kept under: a student may hand in several assignments."""
        return self.submission, self.assignment

    @property
    def is_undated(self) -> bool:
        """Whether a penalty would apply, had the download said when this was handed in."""
        return self.penalty is not None and self.penalty.days is None

    @property
    def is_reduced(self) -> bool:
        """Whether a penalty takes points away, which it does not within the grace period."""
        return self.penalty is not None and bool(self.penalty.days)

    def take(self, judgement: Judgement) -> None:
        """Take over what the judge said."""
        self.key = judgement.key
        self.results = judgement.results
        self.sandbox = judgement.sandbox
        self.findings = self.findings + judgement.findings

    def judgement(self) -> Judgement:
        """Return what the judge said when this was graded."""
        findings = [finding for finding in self.findings if finding.kind != "cells"]
        return Judgement(self.key, self.results, findings, self.sandbox or "")

    def as_json(self) -> dict[str, Any]:
        entry = asdict(self)
        del entry["cells"]
        # Old names, kept for the files that are saved already.
        entry["class"] = entry.pop("group")
        entry["questions"] = entry.pop("results")
        if self.handed_in:
            entry["handed_in"] = self.handed_in.isoformat()
        if self.reason:
            for name in OF_GRADED:
                del entry[name]
        return entry

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> "Grade":
        """Read a saved grade. Raises what Python raises if it is none."""
        names = cls.__dataclass_fields__.keys() & entry.keys()
        grade = cls(**{name: entry[name] for name in names})
        # Old names: see `as_json`.
        grade.group = entry.get("class")
        grade.results = entry.get("questions", {})
        if grade.handed_in:
            grade.handed_in = datetime.fromisoformat(entry["handed_in"])
        if grade.made_from:
            name, masters = entry["made_from"]
            grade.made_from = name, masters
        if grade.penalty:
            grade.penalty = Penalty(**entry["penalty"])
        grade.findings = [Finding(**finding) for finding in grade.findings]
        grade.reach = [ReachEntry(**line) for line in grade.reach]
        for name in BY_EXERCISE:
            parts = getattr(grade, name)
            numbers = sorted(parts, key=int)
            setattr(grade, name, {int(number): parts[number] for number in numbers})
        for number, result in grade.results.items():
            grade.results[number] = ExerciseResult.from_json(result)
        for number, part in grade.by_hand.items():
            grade.by_hand[number] = PartByHand(**part)
        return grade


# --- points: how they are written; `scaled_points` in `judge.py` makes them from tests


def rounded(points: float | Decimal) -> int | float:
    """Round to hundredths, halves up; whole points come back as an `int`."""
    exact = Decimal(str(points)).quantize(HUNDREDTH, ROUND_HALF_UP)
    return int(exact) if exact == exact.to_integral_value() else float(exact)


def shown(points: float | None, decimal: str = ".") -> str:
    """Return points as text, with the given decimal sign; None is empty."""
    if points is None:
        return ""
    text = f"{rounded(points):.2f}".rstrip("0").rstrip(".")
    return text.replace(".", decimal)


# --- late work


def add_penalty(grade: Grade, assignment: Assignment) -> None:
    """Add what being late costs to a grade whose points are known."""
    delay = None
    if assignment.due and grade.handed_in:
        delay = grade.handed_in - assignment.due
        grade.late = delay > timedelta(0)
    grade.penalty = None
    grade.points_after = grade.points
    if assignment.late and grade.late:
        grade.penalty = penalty(grade.points, assignment.late, delay)
        after = Decimal(str(grade.points)) - Decimal(str(grade.penalty.points))
        grade.points_after = rounded(after)


def penalty(points: float, rule: LateRule, delay: timedelta | None) -> Penalty:
    """Return the penalty for a delay; None is a delay that is not known."""
    days = None if delay is None else days_late(delay - timedelta(seconds=rule.grace))
    percent = Decimal(str(rule.percent)) * (days or 0)
    percent = min(percent, Decimal(str(rule.most)))
    full = Decimal(str(points))
    after = rounded(full * (100 - percent) / 100)
    taken_off = rounded(full - Decimal(str(after)))
    return Penalty(days, rounded(percent), taken_off)


def days_late(delay: timedelta) -> int:
    """Return the days that have begun; 0 within the grace period."""
    return max(0, -(-delay // DAY))


def late_notes(graded: Iterable[Grade]) -> list[str]:
    """Return a line on what a rule for late work took, and one on where it could not."""
    reduced = 0
    undated = 0
    for grade in graded:
        reduced += grade.is_reduced
        undated += grade.is_undated

    notes = []
    if reduced:
        notes.append(f"handed in late, and graded with the penalty: {reduced}")
    if undated:
        why = "the download does not say when, so nothing was taken off"
        notes.append(f"handed in late, at an unknown time: {undated}; {why}")
    return notes
