"""An assignment: what an instructor sets of a master, and what grading needs of it.

The second crosses processes, machines and zip files: it is a dictionary of what JSON holds.
"""

import json
import re
import tomllib
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from coursework.exercises.masters import Exercise, Master
from coursework.exercises.variants import Draws
from tools.book.chapters import Chapter
from tools.book.grammar import SETUP
from tools.book.notebooks import tags
from tools.errors import BookError
from tools.files import read_text

Assignment = dict[str, Any]

HOLDS = re.compile(r"^\*(It holds when)\*(.*)$", re.M)
PLACE = "*Write here what is asked for in words; a person reads it.*"
GIVEN = "# @title Given: what the exercises build on, to be run and left as it is"
# What an assignment has of an exercise as `coursework.exercises.masters.Exercise` does.
KEPT = ("number", "title", "points", "name", "checks", "seconds", "memory", "by_hand")
LIKE = (
    "exercises = [1, 3], points = {3 = 5}, due = 2026-12-01T12:00:00+01:00, "
    'late = {percent = 10, grace = "1h", most = 50}'
)
SETS = ("exercises", "points", "due", "late")
PERIOD = re.compile(r"(?P<number>\d+) ?(?P<unit>min|h|d)")
UNITS = {"min": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


@dataclass(frozen=True)
class LateRule:
    """What handing in late costs: so many percent of the points for each day that has begun since
    the grace period after `due`, and never more than `most` percent."""

    percent: float
    grace: timedelta
    most: float

    def as_json(self) -> dict[str, float]:
        return {
            "percent": self.percent,
            "grace": self.grace.total_seconds(),
            "most": self.most,
        }


def late_rule(table: object) -> LateRule:
    """Read the rule of an instructor's file. Raises ValueError, which says what to write."""
    if not isinstance(table, dict):
        raise ValueError("late is not a table, such as {percent = 10}")
    for name in table:
        if name not in ("percent", "grace", "most"):
            raise ValueError(
                f"late has an unknown entry '{name}'; it takes percent, grace, most"
            )
    percent = table.get("percent")
    if not (_is_number(percent) and 0 < percent <= 100):
        raise ValueError("late needs 'percent', a number above 0 and up to 100")
    most = table.get("most", 100)
    if not (_is_number(most) and percent <= most <= 100):
        raise ValueError(
            f"late: 'most' is not a number from {percent:g} (its percent) to 100"
        )
    return LateRule(percent, _period(table.get("grace", "0h")), most)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _period(text: object) -> timedelta:
    match = PERIOD.fullmatch(text) if isinstance(text, str) else None
    if not match:
        raise ValueError('late: \'grace\' is not a time such as "30min", "1h" or "2d"')
    return int(match["number"]) * UNITS[match["unit"]]


@dataclass(frozen=True)
class Choice:
    """What an instructor sets of a master: a chapter, or a file with exercises, points, a due date
    and a rule for late work.

    chapter = "what-costs-time"
    exercises = [1, 3]               # else all of them
    points = {3 = 5}                 # else those of the master
    due = 2026-12-01T12:00:00+01:00  # else never late but where the download says so
    late = {percent = 10, grace = "1h", most = 50}  # a started day; else being late costs nothing
    """

    where: str  # the file, or the CHAPTER= that was typed
    chapter: str
    exercises: list[int] = field(default_factory=list)  # none named: all
    points: dict[int, int] = field(default_factory=dict)  # by the number of an exercise
    due: datetime | None = None
    late: LateRule | None = None

    def of(self, master: Master) -> Master:
        """The master with the exercises that are set, under their own numbers. Raises BookError."""
        known = [exercise.number for exercise in master.exercises]
        for number in sorted({*self.exercises, *self.points} - {*known}):
            lacks = (
                f"{master.name} has no exercise {number}; choose from 1 to {len(known)}"
            )
            raise BookError(f"{self.where}: {lacks}")
        asked = [
            one for one in master.exercises if one.number in (self.exercises or known)
        ]
        worth = [
            replace(one, points=self.points.get(one.number, one.points))
            for one in asked
        ]
        return replace(master, exercises=worth)


def choice_of(chapter: str | None, file: Path | None) -> Choice | None:
    """What is set, by a chapter's name or by a file; None is everything. Raises BookError."""
    if file and chapter:
        raise BookError(
            f"CHAPTER={chapter}: {file} names a chapter, too; leave out one of both"
        )
    if not file:
        return Choice(f"CHAPTER={chapter}", chapter) if chapter else None
    if not file.exists():
        raise BookError(
            f"{file}: no such file; name the file of an assignment: week-7.toml"
        )
    text = read_text(file, file.parent)
    try:
        entries = tomllib.loads(text)
        check_entries(entries)
        choice = Choice(str(file), **entries)
        points = {int(number): worth for number, worth in choice.points.items()}
        if not all(
            type(n) is int and n > 0 for n in [*choice.exercises, *points.values()]
        ):
            raise ValueError("a number is not a whole one above 0")
        if choice.due and choice.due.tzinfo is None:
            raise ValueError("due has no time zone")
        late = None
        if choice.late is not None:  # as it stands in the file
            late = late_rule(choice.late)
            if not choice.due:
                raise ValueError(
                    "late needs 'due', the time from which days are counted"
                )
        return replace(choice, points=points, late=late)
    except (TypeError, ValueError, AttributeError) as error:
        is_told = isinstance(error, ValueError)
        reason = error if is_told else "an entry is of another kind"
        raise BookError(
            f"{file}: {reason}; write the chapter, and if you like {LIKE}"
        ) from None


def check_entries(entries: dict) -> None:
    """Raise ValueError where an entry of an instructor's file is unknown, missing or no time."""
    if unknown := entries.keys() - {"chapter", *SETS}:
        names = ", ".join(f"'{name}'" for name in sorted(unknown))
        raise ValueError(
            f"{names} means nothing here; known are chapter, {', '.join(SETS)}"
        )
    if not isinstance(entries.get("chapter"), str):
        raise ValueError("it names no chapter")
    if not isinstance(entries.get("due", datetime.min), datetime):
        raise ValueError("due is not a date with a time, without quotation marks")


def worth_of(assignment: Assignment) -> tuple[int, int]:
    """The points of its hidden tests, and those that a person gives."""
    by_hand = (
        asked["by_hand"]["points"]
        for asked in assignment["questions"]
        if asked["by_hand"]
    )
    return sum(asked["points"] for asked in assignment["questions"]), sum(by_hand)


def make_assignment(
    master: Master, chapter: Chapter | None, draws: Draws
) -> Assignment:
    """A master's assignment, variants drawn, on top of its chapter's code. Raises BookError."""
    cells = chapter.code_cells if chapter else []
    code = {cell.id: cell.source for cell in cells if SETUP not in tags(cell)}
    for id in master.given:
        if id not in code:
            fault = f"'{id}', which is no code cell of notebooks/{master.name}.ipynb"
            advice = "name others, or write the code under '## Given'"
            raise BookError(f"{master.where}: 'given' names {fault}; {advice}")
    sources = [*(code[id] for id in master.given), *master.own_given]
    made = {name: getattr(master, name) for name in ("name", "title", "runner")}
    made["class"], made["seed"] = draws.fingerprint, draws.seed(master.name)
    made["given"] = (
        "\n\n".join([GIVEN, *sources]) if sources else ""
    )  # above all exercises
    made["masters"] = masters_fingerprint(master, made["given"])
    return made | {"questions": [_question(exercise) for exercise in master.exercises]}


def masters_fingerprint(master: Master, given: str) -> str:
    """12 hexadecimal digits that name what students are asked to answer, variants drawn.

    It is written into editions, so that grading can tell that they came from other masters. Only
    what students see is in it, and of that only what decides whether an answer can be right: a
    hidden test, a hint or a check may be mended after the release, points and limits changed.
    """
    asked = [
        {
            "number": exercise.number,
            "name": exercise.name,
            "text": exercise.text.split(),  # however its lines are broken
            "starter": exercise.code("Starter"),
        }
        for exercise in master.exercises
    ]
    content = json.dumps([master.name, given, asked], sort_keys=True)
    return sha256(content.encode()).hexdigest()[:12]


def _question(exercise: Exercise) -> dict[str, Any]:
    holds, question = (
        HOLDS.search(exercise.text),
        {name: getattr(exercise, name) for name in KEPT},
    )
    question |= {
        name.lower(): exercise.code(name) for name in ("Starter", "Shows", "Solution")
    }
    question["tests"] = exercise.code("Hidden tests")
    question["holds"] = holds and f"Your answer is right if{holds[2]}"
    wrong = exercise.parts["Wrong answer"]
    return question | {"remarks": [[answer.blocks[0], answer.text] for answer in wrong]}
