"""An assignment: what grading needs of a master, drawn for a class, as plain data.

It crosses processes, machines and zip files, so it is a dictionary of what JSON holds, from the
first to the last; the types below say what is in it.
"""

import re
from typing import NotRequired, TypedDict

from tools.book.chapters import SETUP, Chapter
from tools.book.notebooks import tags
from tools.errors import BookError
from tools.exercises.masters import Exercise, Master
from tools.exercises.variants import Draws

Cell = tuple[int | None, str]  # the exercise that a cell of code belongs to, and its source


HOLDS = re.compile(r"^\*(It holds when\*.*)$", re.M)
PLACE = "*Write here what is asked for in words; a person reads it.*"
GIVEN = "# @title Given: what the exercises build on, to be run and left as it is"


class Question(TypedDict):
    """What is asked of an exercise, and how it is graded."""

    number: int
    title: str
    points: int  # of its hidden tests
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
        "class": str,  # the fingerprint of the class's key, or "book"
        "seed": str,  # hexadecimal: the hidden tests draw their inputs by it
        "runner": str,
        "given": list[list[str]],  # [id, source] of the cell that the exercises need
        "questions": list[Question],
        "due": NotRequired[str],  # when, as ISO 8601 has it
    },
)


def points_of(assignment: Assignment) -> int:
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


def make_assignment(master: Master, chapter: Chapter | None, draws: Draws) -> Assignment:
    """The assignment of a master whose variants `draws` drew, on top of its chapter's code.

    Raises BookError if the chapter has no code cell of an id that the master names as given.
    """
    cells = chapter.code_cells if chapter else []
    code = {cell.id: cell.source for cell in cells if SETUP not in tags(cell)}
    for id in master.given:
        if id not in code:
            place = chapter.where if chapter else f"the book: it has no chapter {master.name}"
            raise BookError(
                f"{master.where}: 'given' names '{id}', which is not a code cell of {place}; "
                "name others, or write the code under '## Given'"
            )
    sources = [*(code[id] for id in master.given), *master.own_given]
    return {
        "name": master.name,
        "title": master.title,
        "class": draws.fingerprint,
        "seed": draws.seed(master.name),
        "runner": master.runner,
        "given": [["given", "\n\n".join([GIVEN, *sources])]] if sources else [],
        "questions": [_question(exercise) for exercise in master.exercises],
    }


def _question(exercise: Exercise) -> Question:
    return {
        "number": exercise.number,
        "title": exercise.title,
        "points": exercise.points,
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
