"""An assignment: what an instructor chooses of a master, and what grading needs of it."""

import json
import re
import tomllib
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from coursework.exercises.masters import Exercise, Master, read_master
from coursework.exercises.tasks import (
    Assignment,
    Draws,
    GradedExercise,
    LateRule,
    Remark,
)
from tools.book.chapters import Chapter, read_chapter
from tools.book.grammar import SETUP
from tools.book.notebooks import tags
from tools.errors import BookError
from tools.files import read_text

CONDITION = re.compile(r"^\*Your answer is right if\*(?P<condition>.*)$", re.M)
MASTERS = "masters"  # the folder of the book's own
GIVEN = (
    "# @title Given: run this cell and leave it unchanged; the exercises build on it"
)


# --- what an instructor chooses

ENTRIES = ("chapter", "exercises", "points", "due", "late")
LATE_ENTRIES = ("percent", "grace", "most")
PERIOD = re.compile(r"(?P<number>\d{1,6}) ?(?P<unit>min|h|d)")
UNITS = {"min": 60, "h": 3600, "d": 86_400}  # seconds
DUE = "due = 2026-12-01T12:00:00+01:00"


@dataclass(frozen=True)
class Choice:
    """What an instructor chooses of a master: all of a chapter, or what a file says.

    chapter = "what-costs-time"
    exercises = [1, 3]               # otherwise all of them
    points = {3 = 5}                 # otherwise those of the master
    due = 2026-12-01T12:00:00+01:00  # otherwise late only if the download says so
    late = {percent = 10, grace = "1h", most = 50}  # otherwise being late costs nothing
    """

    where: str  # the file, or the CHAPTER= that was typed
    chapter: str
    exercises: list[int] = field(default_factory=list)  # empty: all
    points: dict[int, int] = field(default_factory=dict)  # by the number of an exercise
    due: datetime | None = None
    late: LateRule | None = None

    @property
    def is_whole_chapter(self) -> bool:
        return self == Choice(self.where, self.chapter)

    def apply_to(self, master: Master) -> Master:
        """Return the master with the chosen exercises alone, which keep their numbers.

        Raises BookError if there is no exercise of a number.
        """
        known = {exercise.number for exercise in master.exercises}
        unknown = {*self.exercises, *self.points} - known
        if unknown:
            raise BookError(
                f"{self.where}: {master.name} has no exercise {min(unknown)}; "
                f"choose from 1 to {len(known)}"
            )

        exercises = []
        for exercise in master.exercises:
            if exercise.number in (self.exercises or known):
                points = self.points.get(exercise.number, exercise.points)
                exercises.append(replace(exercise, points=points))
        return replace(master, exercises=exercises)


def choice_of(chapter: str | None, file: Path | None) -> Choice | None:
    """Return what a chapter's name or a file chooses, or None for everything.

    Raises BookError.
    """
    if chapter and file:
        raise BookError(f"CHAPTER={chapter}: {file} names a chapter, too; use only one")
    if chapter:
        return Choice(f"CHAPTER={chapter}", chapter)
    if file:
        return _read_choice(file)
    return None


def _read_choice(file: Path) -> Choice:
    if not file.exists():
        raise BookError(
            f"{file}: no such file; name the file of an assignment: week-7.toml"
        )
    try:
        entries = tomllib.loads(read_text(file, file.parent))
    except tomllib.TOMLDecodeError as error:
        raise BookError(f"{file}: not valid TOML ({error}); correct it there") from None
    try:
        return _parse_choice(str(file), entries)
    except ValueError as error:
        raise BookError(f"{file}: {error}") from None


def _parse_choice(where: str, entries: dict[str, Any]) -> Choice:
    """Check the entries of an instructor's file. Raises ValueError."""
    _check_names("the file", entries, ENTRIES)
    if not isinstance(entries.get("chapter"), str):
        raise ValueError('names no chapter; write chapter = "what-costs-time"')
    exercises = entries.get("exercises", [])
    if not isinstance(exercises, list) or not all(map(_is_positive, exercises)):
        raise ValueError(
            "exercises is not a list of whole numbers above 0; "
            "write exercises = [1, 3] for instance"
        )
    due = entries.get("due")
    late = None
    if due is not None:
        _check_due(due)
    if "late" in entries:
        late = _parse_late(entries["late"])
        if due is None:
            raise ValueError(
                "late needs 'due', the time from which days are counted; "
                f"write {DUE} for instance"
            )
    points = _parse_points(entries.get("points", {}))
    return Choice(where, entries["chapter"], exercises, points, due, late)


def _check_names(table: str, entries: dict[str, Any], known: tuple[str, ...]) -> None:
    unknown = sorted(entries.keys() - set(known))
    if unknown:
        names = ", ".join(known)
        raise ValueError(f"{table} has an unknown entry '{unknown[0]}'; use {names}")


def _is_positive(value: object) -> bool:
    return type(value) is int and value > 0


def _parse_points(table: object) -> dict[int, int]:
    fault = (
        "points is not a table of whole numbers above 0; write points = {3 = 5} "
        "to give 5 points for exercise 3"
    )
    if not isinstance(table, dict):
        raise ValueError(fault)
    points = {}
    for number, worth in table.items():
        if not (number.isdecimal() and _is_positive(worth)):
            raise ValueError(fault)
        points[int(number)] = worth
    return points


def _check_due(due: object) -> None:
    if not isinstance(due, datetime):
        raise ValueError(
            f"due is not a date with a time; write {DUE} for instance, "
            "without quotation marks"
        )
    if due.tzinfo is None:
        raise ValueError(f"due has no time zone; write {DUE} for instance")


def _parse_late(table: object) -> LateRule:
    if not isinstance(table, dict):
        raise ValueError("late is not a table; write late = {percent = 10}")
    _check_names("late", table, LATE_ENTRIES)
    percent = table.get("percent")
    if not (_is_number(percent) and 0 < percent <= 100):
        raise ValueError("late needs 'percent', a number above 0 and up to 100")
    most = table.get("most", 100)
    if not (_is_number(most) and percent <= most <= 100):
        raise ValueError(f"late needs a 'most' from {percent:g}, its percent, to 100")
    return LateRule(percent, _parse_period(table.get("grace", "0h")), most)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _parse_period(text: object) -> float:
    """Return the seconds of a period such as "1h"."""
    match = PERIOD.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError('late needs a \'grace\' such as "30min", "1h" or "2d"')
    return float(match["number"]) * UNITS[match["unit"]]


# --- what grading needs


def worth_of(assignment: Assignment) -> tuple[int, int]:
    """Return the points of the hidden tests, and those that a person gives."""
    by_tests = 0
    by_hand = 0
    for exercise in assignment.exercises:
        by_tests += exercise.points
        if exercise.by_hand:
            by_hand += exercise.by_hand.points
    return by_tests, by_hand


def make_assignment(
    master: Master, chapter: Chapter | None, draws: Draws
) -> Assignment:
    """Make the assignment of a master for a class. Raises BookError.

    The exercises build on code of the master's `chapter`, where it has one.
    """
    given = _given_code(master, chapter)
    return Assignment(
        name=master.name,
        title=master.title,
        runner=master.runner,
        group=draws.fingerprint,
        seed=draws.seed(master.name),
        given=given,
        masters=masters_fingerprint(master, given),
        exercises=[_graded_exercise(exercise) for exercise in master.exercises],
    )


def _given_code(master: Master, chapter: Chapter | None) -> str:
    """Return the code above all exercises, or "" if they need none."""
    cells = {}
    for cell in chapter.code_cells if chapter else []:
        if SETUP not in tags(cell):
            cells[cell.id] = cell.source

    sources = []
    for id in master.given_cells:
        if id not in cells:
            raise BookError(
                f"{master.where}: 'given' names '{id}', which is no code cell of "
                f"notebooks/{master.name}.ipynb; name others, or write the code under "
                "'## Given'"
            )
        sources.append(cells[id])
    sources += master.given_code
    return "\n\n".join([GIVEN, *sources]) if sources else ""


def masters_fingerprint(master: Master, given: str) -> str:
    """Return 12 hexadecimal digits that name what students are asked to answer.

    They are written into editions, so that grading notices if a notebook came from other
    masters, or other variants. They depend only on what students see, and of that only on
    what decides whether an answer can be right. A hidden test, a hint or a check may be
    corrected after the release, and points and limits changed.
    """
    exercises = []
    for exercise in master.exercises:
        seen = {
            "number": exercise.number,
            "name": exercise.answer_name,
            "text": exercise.text.split(),  # however its lines are broken
            "starter": exercise.code("Starter"),
        }
        exercises.append(seen)
    content = json.dumps([master.name, given, exercises], sort_keys=True)
    return sha256(content.encode()).hexdigest()[:12]


def _graded_exercise(exercise: Exercise) -> GradedExercise:
    match = CONDITION.search(exercise.text)
    remarks = []
    for wrong_answer in exercise.parts["Wrong answer"]:
        remarks.append(Remark(wrong_answer.blocks[0], wrong_answer.text))
    return GradedExercise(
        number=exercise.number,
        title=exercise.title,
        points=exercise.points,
        answer_name=exercise.answer_name,
        checks=exercise.checks,
        seconds=exercise.seconds,
        memory=exercise.memory,
        by_hand=exercise.by_hand,
        starter=exercise.code("Starter"),
        demo=exercise.code("Shows"),
        solution=exercise.code("Solution"),
        tests=exercise.code("Hidden tests"),
        condition=f"Your answer is right if{match['condition']}" if match else None,
        remarks=remarks,
    )


# --- for a class


class Draft(NamedTuple):
    """A master with the variants of a class, and the assignment that is made of it."""

    master: Master
    assignment: Assignment


def make_drafts(
    root: Path, folder: Path, draws: Draws, choice: Choice | None = None
) -> list[Draft]:
    """Read the masters of a folder, or the chosen one, and make their assignments.

    `root` is the folder of the book whose chapters they build on. Raises BookError.
    """
    paths = {path.stem: path for path in sorted(folder.glob("*.md"))}
    if not paths:
        raise BookError(
            f"{folder}: no master in it; name a folder that holds some: chapter.md"
        )
    if choice is None:
        return [_make_draft(path, root, draws) for path in paths.values()]

    if choice.chapter not in paths:
        fault = f"no exercises for '{choice.chapter}'"
        raise BookError(f"{choice.where}: {fault}; choose from: {', '.join(paths)}")
    return [_make_draft(paths[choice.chapter], root, draws, choice)]


def _make_draft(
    path: Path, root: Path, draws: Draws, choice: Choice | None = None
) -> Draft:
    master = read_master(path, root, draws.choose)
    _check_runner(master, root)
    if choice:
        master = choice.apply_to(master)

    chapter = None
    if (root / "notebooks" / f"{master.name}.ipynb").is_file():
        chapter = read_chapter(master.name, root)
    assignment = make_assignment(master, chapter, draws)
    if choice:
        assignment.due = choice.due
        assignment.late = choice.late
    return Draft(master, assignment)


def _check_runner(master: Master, root: Path) -> None:
    kernels = sorted((root / "kernels").glob("*/kernel.json"))
    runners = [kernel.parent.name for kernel in kernels]
    if master.runner not in runners:
        fault = f"no runner '{master.runner}'"
        raise BookError(f"{master.where}: {fault}; choose from: {', '.join(runners)}")
