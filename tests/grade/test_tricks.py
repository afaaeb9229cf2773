"""Bright students want points without doing the work: what they try gains nothing.

The tricks stand in `data/tricks`, a file for each master, in the manner of `hostile.txt`. A header
`== 9 | the peak is reset | 0 gains alone` names an exercise and a kind of trick. Then come the
points that the program deserves without the trick, and whether it gained more on the day that it
was written, `gains` or `nothing`; the tests do not look at that word. `alone` marks a trick that
breaks the session for other exercises; `listed` one that still gains, and that `review.html` lists
with its line, as it reaches into the insides of what measures it, or with a note of its test. Below
the header stands the answer, which replaces the last statement of the starter. Tricks are written
for the book's own edition.
"""

import json
import re
from collections import Counter
from dataclasses import dataclass, replace
from itertools import chain

import pytest
from classroom import BOOK, DATA
from helpers import ROOT

from coursework.exercises.assignment import make_drafts
from coursework.exercises.editions import answered, edition
from coursework.exercises.tasks import Task, draws_of
from coursework.exercises.verify import task
from coursework.grade.judge import judge
from coursework.grade.reach import reaches
from coursework.grade.splice import splice

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("sandbox")]


@dataclass(frozen=True)
class Trick:
    master: str
    exercise: int
    kind: str
    deserved: float
    alone: bool
    listed: bool
    source: str


def read_tricks(path):
    """Return the tricks of a file; what stands above the first header says what the file is."""
    _, *entries = re.split("^== ", path.read_text(encoding="utf-8"), flags=re.M)
    tricks = []
    for entry in entries:
        header, source = entry.split("\n", 1)
        number, kind, words = header.split(" | ")
        deserved, outcome, *marks = words.split()
        assert outcome in ("gains", "nothing") and {*marks} <= {"alone", "listed"}, (
            header
        )
        alone, listed = "alone" in marks, "listed" in marks
        trick = Trick(
            path.stem, int(number), kind, float(deserved), alone, listed, source
        )
        tricks.append(trick)
    return tricks


def notebooks_of(tricks):
    """Return lists of tricks that share a notebook.

    The first notebook holds the first trick of each exercise, the second holds the second of each,
    and so on. A trick that breaks other exercises has a notebook of its own.
    """
    shared, single = [], []
    earlier = Counter()  # tricks of an exercise
    for trick in tricks:
        if trick.alone:
            single.append([trick])
            continue
        place = earlier[trick.exercise]
        if place == len(shared):
            shared.append([])
        shared[place].append(trick)
        earlier[trick.exercise] += 1
    return [*shared, *single]


TRICKS = {
    path.stem: read_tricks(path) for path in sorted((DATA / "tricks").glob("*.txt"))
}


def cases():
    """Return a case for each notebook, named by its master and its place or its only trick."""
    notebooks = []
    for master, tricks in TRICKS.items():
        for place, notebook in enumerate(notebooks_of(tricks), start=1):
            first = notebook[0]
            name = (
                f"{first.exercise}, {first.kind}"
                if first.alone
                else f"notebook {place}"
            )
            notebooks.append(pytest.param(notebook, id=f"{master}: {name}"))
    return notebooks


@pytest.fixture(scope="module")
def drafts():
    """Return the master and the assignment of each chapter, by name."""
    made = make_drafts(ROOT, ROOT / "masters", draws_of(None))
    return {master.name: (master, assignment) for master, assignment in made}


def sources_of(tricks, master):
    """Return the cell of each answer, by the number of its exercise."""
    starters = {
        exercise.number: exercise.code("Starter") for exercise in master.exercises
    }
    return {
        trick.exercise: answered(starters[trick.exercise], trick.source)
        for trick in tricks
    }


def gains(tricks, result):
    """Return a line for each trick that has more points than its program deserves."""
    lines = []
    for trick in tricks:
        points = result.results[trick.exercise].points
        if points > trick.deserved:
            where = f"{trick.master}, exercise {trick.exercise}"
            lines.append(
                f"{where}: {points} points, not {trick.deserved:g}, by: {trick.kind}"
            )
    return lines


def test_each_trick_is_another_and_is_of_an_exercise_that_exists(drafts):
    tricks = list(chain.from_iterable(TRICKS.values()))
    assert len(tricks) == len(
        {(trick.master, trick.exercise, trick.kind) for trick in tricks}
    )
    assert len(tricks) == 205
    for trick in tricks:
        exercises = {exercise.number for exercise in drafts[trick.master][0].exercises}
        assert trick.exercise in exercises, trick.kind
        compile(trick.source, trick.kind, "exec")


@pytest.mark.parametrize("tricks", cases())
def test_no_trick_gains_more_than_its_program_deserves(tricks, drafts):
    master, assignment = drafts[tricks[0].master]
    sources = sources_of(tricks, master)
    questions = [asked for asked in assignment.exercises if asked.number in sources]
    notebook = task(replace(assignment, exercises=questions), "tricks", sources)
    result = judge(notebook)
    lines = gains([trick for trick in tricks if not trick.listed], result)
    assert lines == [], "\n".join(lines)
    noted = {found.exercise for found in result.findings if found.kind == "note"}
    for trick in tricks:
        if trick.listed and trick.exercise not in noted:
            assert reaches({trick.exercise: [trick.source]}, assignment), trick.kind


def test_a_notebook_that_solves_no_puzzle_gets_no_points(drafts):
    master, assignment = drafts["puzzles"]
    tricks = notebooks_of(TRICKS["puzzles"])[0]
    assert {trick.deserved for trick in tricks} == {0}
    sources = sources_of(tricks, master)

    blank = edition("student", master, assignment, BOOK)
    for cell in blank.cells:
        part, _, number = cell.id.partition("-")
        if part == "answer" and int(number) in sources:
            cell.source = sources[int(number)]
    handed_in = splice(json.loads(json.dumps(blank)), assignment)

    result = judge(Task(assignment, handed_in.cells))
    lines = gains(tricks, result)
    assert result.points == 0, "\n".join([f"{result.points} points of puzzles", *lines])
