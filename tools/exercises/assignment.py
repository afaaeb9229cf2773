"""An assignment: what grading needs of a master, drawn for a class.

It crosses processes, machines and zip files: a dictionary of what JSON holds.
"""

import re
from typing import Any

from tools.book.chapters import SETUP, Chapter
from tools.book.notebooks import tags
from tools.errors import BookError
from tools.exercises.masters import Exercise, Master
from tools.exercises.variants import Draws

Assignment = dict[str, Any]

HOLDS = re.compile(r"^\*(It holds when)\*(.*)$", re.M)
PLACE = "*Write here what is asked for in words; a person reads it.*"
GIVEN = "# @title Given: what the exercises build on, to be run and left as it is"


def worth_of(assignment: Assignment) -> tuple[int, int]:
    """The points of its hidden tests, and those that a person gives."""
    by_hand = (asked["by_hand"]["points"] for asked in assignment["questions"] if asked["by_hand"])
    return sum(asked["points"] for asked in assignment["questions"]), sum(by_hand)


def make_assignment(master: Master, chapter: Chapter | None, draws: Draws) -> Assignment:
    """A master's assignment, variants drawn, on top of its chapter's code. Raises BookError."""
    cells = chapter.code_cells if chapter else []
    code = {cell.id: cell.source for cell in cells if SETUP not in tags(cell)}
    for id in master.given:
        if id not in code:
            fault = f"'{id}', which is no code cell of notebooks/{master.name}.ipynb"
            advice = "name others, or write the code under '## Given'"
            raise BookError(f"{master.where}: 'given' names {fault}; {advice}")
    sources = [*(code[id] for id in master.given), *master.own_given]
    return {
        "name": master.name,
        "title": master.title,
        "class": draws.fingerprint,
        "seed": draws.seed(master.name),  # hexadecimal: the hidden tests draw their inputs by it
        "runner": master.runner,
        "given": "\n\n".join([GIVEN, *sources]) if sources else "",  # code above all exercises
        "questions": [_question(exercise) for exercise in master.exercises],
    }


def _question(exercise: Exercise) -> dict[str, Any]:
    """What is asked of an exercise, and how it is graded."""
    holds = HOLDS.search(exercise.text)
    return {
        "number": exercise.number,
        "title": exercise.title,
        "points": exercise.points,  # of its hidden tests
        "name": exercise.name,  # that an answer gives a value to
        "starter": exercise.code("Starter"),
        "shows": exercise.code("Shows"),  # or None
        "checks": exercise.checks,
        "tests": exercise.code("Hidden tests"),
        "seconds": exercise.seconds,  # of processor time
        "memory": exercise.memory,  # MiB
        "by_hand": exercise.by_hand,  # "points" and "rubric" of what a person reads, or None
        "holds": holds and f"{holds[1]}{holds[2]}",  # when an answer is right, in words
        "solution": exercise.code("Solution"),
        "remarks": [[wrong.blocks[0], wrong.text] for wrong in exercise.wrong_answers],
    }
