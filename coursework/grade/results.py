"""The grade of a submission, on its way from intake to the report.

It is saved as JSON, one file per submission. Exercises are numbered with integers everywhere else;
as keys of JSON the numbers are text. Files of earlier versions are read as well: they may lack what
was added later.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from coursework.exercises.tasks import Cells

GradeId = tuple[str, str | None]  # a submission, and the assignment it was graded for
# The fields with an entry per exercise.
BY_EXERCISE = (
    "answers",
    "comments",
    "prose",
    "lines",
    "questions",
    "by_hand",
)
# The fields that only the result of a graded submission has in its file.
OF_GRADED = ("key", "points", "of", "penalty", "points_after")

RAISED = "your code raised an error"  # as judge.toml has it, without the name


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
        if RAISED in reason:
            return reason.replace(RAISED, raised)
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
class QuestionResult:
    """What an answer gets by the hidden tests of its exercise."""

    points: int | float
    of: int
    tests: list[TestResult]
    blank: bool
    check: str  # "holds", "fails" or "not run": the public checks
    remark: str | None
    ended: str | None  # how it ended the session
    error: str | None = None  # the first that its cells raised
    gaps: list[str] = field(default_factory=list)  # findings in the end; not saved

    def as_json(self) -> dict[str, Any]:
        entry = asdict(self)
        del entry["gaps"]
        return entry

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> "QuestionResult":
        result = cls(**entry)
        result.tests = [TestResult(**test) for test in entry["tests"]]
        return result


@dataclass
class Judgement:
    """What the judge says of one notebook."""

    key: str | None
    questions: dict[int, QuestionResult]
    findings: list[Finding]
    sandbox: str

    @property
    def points(self) -> int | float:
        return sum(result.points for result in self.questions.values())

    @property
    def of(self) -> int:
        return sum(result.of for result in self.questions.values())


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
    questions: dict[int, QuestionResult] = field(default_factory=dict)
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
        self.questions = judgement.questions
        self.sandbox = judgement.sandbox
        self.findings = self.findings + judgement.findings

    def judgement(self) -> Judgement:
        """Return what the judge said when this was graded."""
        findings = [finding for finding in self.findings if finding.kind != "cells"]
        return Judgement(self.key, self.questions, findings, self.sandbox or "")

    def as_json(self) -> dict[str, Any]:
        entry = asdict(self)
        del entry["cells"]
        entry["class"] = entry.pop("group")
        if self.handed_in:
            entry["handed_in"] = self.handed_in.isoformat()
        for number, result in self.questions.items():
            entry["questions"][number] = result.as_json()
        for name in BY_EXERCISE:
            entry[name] = {str(number): part for number, part in entry[name].items()}
        if self.reason:
            for name in OF_GRADED:
                del entry[name]
        return entry

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> "Grade":
        """Read a saved grade. Raises what Python raises if it is none."""
        names = cls.__dataclass_fields__.keys() & entry.keys()
        grade = cls(**{name: entry[name] for name in names})
        grade.group = entry.get("class")
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
        for number, result in grade.questions.items():
            grade.questions[number] = QuestionResult.from_json(result)
        for number, part in grade.by_hand.items():
            grade.by_hand[number] = PartByHand(**part)
        return grade
