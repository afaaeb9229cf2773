"""An assignment: what a class is set of a master, drawn for it, as plain data for grading.

It crosses processes, machines and zip files, so it is a dictionary of what JSON holds, from the
first to the last; the types below say what is in it.
"""

import re
import tomllib
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import NotRequired, TypedDict

from tools.book.chapters import SETUP, Chapter
from tools.book.notebooks import tags
from tools.errors import BookError
from tools.exercises.masters import Exercise, Master
from tools.exercises.variants import Draws

Cell = tuple[int | None, str]  # the exercise that a cell of code belongs to, and its source
HOLDS = re.compile(r"^\*(It holds when\*.*)$", re.M)
GIVEN = "# @title Given: what the exercises build on, to be run and left as it is"


class Question(TypedDict):
    """What is asked of an exercise, and how it is graded."""

    number: int
    title: str
    points: float  # what its hidden tests come to
    name: str  # that an answer gives a value to
    starter: str
    shows: str | None
    checks: list[str]
    tests: str  # source of the hidden tests
    seconds: float  # of processor time
    memory: int  # MiB
    by_hand: dict | None  # "points" and "rubric" of what a person reads
    holds: str | None  # when an answer is right, in words
    solution: str
    remarks: list[list[str]]  # [code, what is wrong with it] of known wrong answers


Assignment = TypedDict(
    "Assignment",
    {
        "name": str,
        "title": str,
        "class": str,  # the fingerprint of the class's key, or "book", and what was chosen
        "seed": str,  # hexadecimal: the hidden tests draw their inputs by it
        "runner": str,
        "given": list[list[str]],  # [id, source] of the cell that the exercises need
        "questions": list[Question],
        "due": NotRequired[str],  # ISO 8601
    },
)


@dataclass(frozen=True)
class Choice:
    """What is set of one chapter: all of it, or what an `assignment.toml` says."""

    chapter: str
    exercises: list[int] | None = None  # none: all
    points: dict[str, float] = field(default_factory=dict)
    due: datetime | None = None
    where: str = "CHAPTER"  # says so

    def of(self, master: Master) -> Master:
        """The master with the exercises that are chosen. Raises BookError if it lacks one."""
        has = [exercise.number for exercise in master.exercises]
        chosen = has if self.exercises is None else self.exercises
        if strange := set(chosen) - set(has):
            raise BookError(
                f"{self.where}: {master.name} has no exercise {min(strange)}; choose from "
                f"{', '.join(map(str, has))}"
            )
        if strange := self.points.keys() - set(map(str, chosen)):
            raise BookError(
                f"{self.where}: 'points' names {min(strange)}, which is not chosen; take it out"
            )
        kept = [exercise for exercise in master.exercises if exercise.number in chosen]
        return replace(master, exercises=kept)

    def group(self, master: Master, draws: Draws) -> str:
        """The class, and which exercises it got if not all: `b451b6509284-1.3`."""
        if self.exercises is None:
            return draws.fingerprint
        chosen = ".".join(str(exercise.number) for exercise in master.exercises)
        return f"{draws.fingerprint}-{chosen}"


def read_choice(file: Path) -> Choice:
    """What an `assignment.toml` says. Raises BookError, naming the file and what to mend."""
    try:
        said = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise BookError(f"ASSIGNMENT: {file}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise BookError(f"{file}: not valid TOML ({error}); correct it there") from None
    right = {
        "chapter": lambda value: isinstance(value, str),
        "exercises": lambda value: (
            isinstance(value, list) and value and all(type(number) is int for number in value)
        ),
        "points": lambda value: isinstance(value, dict) and all(map(_is_worth, value.values())),
        "due": lambda value: isinstance(value, datetime) and value.tzinfo,
    }
    if strange := said.keys() - right.keys():
        raise BookError(f"{file}: '{min(strange)}' is no key; choose from {', '.join(right)}")
    for key in ("chapter", *said):
        if not right[key](said.get(key)):
            raise BookError(f"{file}: '{key}' is not as in: {EXAMPLE[key]}; correct it there")
    return Choice(**said, where=str(file))


EXAMPLE = {
    "chapter": 'chapter = "computing-devices"',
    "exercises": "exercises = [1, 3]",
    "points": "points = {3 = 5, 1 = 2.5}",
    "due": "due = 2026-12-01T12:00:00+01:00",
}


def _is_worth(points: object) -> bool:
    """Is this a number of whole or half points?"""
    return type(points) in (int, float) and points > 0 and (2 * points) % 1 == 0


def points_of(assignment: Assignment) -> float:
    return sum(question["points"] for question in assignment["questions"])


def points_by_hand(assignment: Assignment) -> int:
    parts = (question["by_hand"] for question in assignment["questions"])
    return sum(part["points"] for part in parts if part)


def cells_of(assignment: Assignment, answers: dict[int, str]) -> list[Cell]:
    """The code of its notebook in order, each exercise's answer in place of its starter."""
    cells: list[Cell] = [(None, source) for _, source in assignment["given"]]
    for question in assignment["questions"]:
        number = question["number"]
        answer = answers.get(number, question["starter"])
        sources = [answer, question["shows"], *question["checks"]]
        cells += [(number, source) for source in sources if source is not None]
    return cells


def make_assignment(
    master: Master, chapter: Chapter | None, draws: Draws, choice: Choice
) -> Assignment:
    """The assignment of a master that `choice` is of, on top of its chapter's code.

    Raises BookError if the chapter has no code cell of an id that the master names as given.
    """
    cells = chapter.code_cells if chapter else []
    code = {cell.id: cell.source for cell in cells if SETUP not in tags(cell)}
    for id in master.given:
        if id not in code:
            place = chapter.where if chapter else f"the book: it has no chapter {master.name}"
            raise BookError(
                f"{master.where}: 'given' names '{id}', which is no code cell of {place}; "
                "name others, or write the code under '## Given'"
            )
    sources = [*(code[id] for id in master.given), *master.own_given]
    made: Assignment = {
        "name": master.name,
        "title": master.title,
        "class": choice.group(master, draws),
        "seed": draws.seed(master.name),
        "runner": master.runner,
        "given": [["given", "\n\n".join([GIVEN, *sources])]] if sources else [],
        "questions": [_question(exercise, choice) for exercise in master.exercises],
    }
    return made | {"due": choice.due.isoformat()} if choice.due else made


def _question(exercise: Exercise, choice: Choice) -> Question:
    return {
        "number": exercise.number,
        "title": exercise.title,
        "points": choice.points.get(str(exercise.number), exercise.points),
        "name": exercise.name,
        "starter": exercise.code("Starter"),
        "shows": exercise.code("Shows"),
        "checks": exercise.checks,
        "tests": exercise.code("Hidden tests"),
        "seconds": exercise.seconds,
        "memory": exercise.memory,
        "by_hand": exercise.by_hand,
        "holds": found[1].replace("*", "", 1) if (found := HOLDS.search(exercise.text)) else None,
        "solution": exercise.code("Solution"),
        "remarks": [[part.blocks[0], part.text] for part in exercise.wrong_answers],
    }
