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
from collections import Counter
from dataclasses import dataclass, replace
from itertools import chain

import pytest
from classroom import BOOK, DATA, entries

from coursework.exercises.editions import answered, edition
from coursework.exercises.tasks import Task
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
    """Return the tricks of a file."""
    tricks = []
    for header, source in entries(path):
        number, kind, words = header.split(" | ")
        deserved, outcome, *marks = words.split()
        assert outcome in ("gains", "nothing"), header
        assert set(marks) <= {"alone", "listed"}, header
        trick = Trick(
            master=path.stem,
            exercise=int(number),
            kind=kind,
            deserved=float(deserved),
            alone="alone" in marks,
            listed="listed" in marks,
            source=source,
        )
        tricks.append(trick)
    return tricks


def notebooks_of(tricks):
    """Return lists of tricks that share a notebook.

    The first notebook holds the first trick of each exercise, the second holds the second of each,
    and so on. A trick that breaks other exercises has a notebook of its own.
    """
    shared = []
    single = []
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


TABLES = sorted((DATA / "tricks").glob("*.txt"))
TRICKS = {path.stem: read_tricks(path) for path in TABLES}


def cases():
    """Return a case for each notebook, named by its master and its place or its only trick."""
    cases = []
    for master, tricks in TRICKS.items():
        for place, notebook in enumerate(notebooks_of(tricks), start=1):
            first = notebook[0]
            name = f"notebook {place}"
            if first.alone:
                name = f"{first.exercise}, {first.kind}"
            cases.append(pytest.param(notebook, id=f"{master}: {name}"))
    return cases


def sources_of(tricks, master):
    """Return the cell of each answer, by the number of its exercise."""
    starters = {item.number: item.code("Starter") for item in master.exercises}
    sources = {}
    for trick in tricks:
        starter = starters[trick.exercise]
        sources[trick.exercise] = answered(starter, trick.source)
    return sources


def gains(tricks, judgement):
    """Return a line for each trick that has more points than its program deserves."""
    lines = []
    for trick in tricks:
        points = judgement.results[trick.exercise].points
        if points > trick.deserved:
            where = f"{trick.master}, exercise {trick.exercise}"
            what = f"{points} points, not {trick.deserved:g}, by: {trick.kind}"
            lines.append(f"{where}: {what}")
    return lines


def test_each_trick_is_another():
    tricks = list(chain.from_iterable(TRICKS.values()))
    names = {(trick.master, trick.exercise, trick.kind) for trick in tricks}
    assert len(tricks) == 205
    assert len(names) == 205


@pytest.mark.parametrize("name", TRICKS)
def test_each_trick_is_python_and_of_an_exercise_that_exists(name, drafts):
    exercises = {exercise.number for exercise in drafts[name].master.exercises}
    for trick in TRICKS[name]:
        assert trick.exercise in exercises, trick.kind
        compile(trick.source, trick.kind, "exec")


@pytest.mark.parametrize("tricks", cases())
def test_no_trick_gains_more_than_its_program_deserves(tricks, drafts):
    master, assignment = drafts[tricks[0].master]
    sources = sources_of(tricks, master)
    questions = [item for item in assignment.exercises if item.number in sources]
    hand_in = task(replace(assignment, exercises=questions), "tricks", sources)

    judgement = judge(hand_in)

    lines = gains([trick for trick in tricks if not trick.listed], judgement)
    assert lines == [], "\n".join(lines)
    findings = judgement.findings
    noted = {finding.exercise for finding in findings if finding.kind == "note"}
    for trick in tricks:
        if trick.listed and trick.exercise not in noted:
            assert reaches({trick.exercise: [trick.source]}, assignment), trick.kind


def test_a_notebook_that_solves_no_puzzle_gets_no_points(drafts):
    master, assignment = drafts["puzzles"]
    tricks = notebooks_of(TRICKS["puzzles"])[0]
    assert {trick.deserved for trick in tricks} == {0}
    sources = sources_of(tricks, master)

    notebook = edition("student", master, assignment, BOOK)
    for cell in notebook.cells:
        part, _, number = cell.id.partition("-")
        if part == "answer" and int(number) in sources:
            cell.source = sources[int(number)]
    answers = splice(json.loads(json.dumps(notebook)), assignment)

    judgement = judge(Task(assignment, answers.cells))

    lines = gains(tricks, judgement)
    assert lines == [], "\n".join(lines)
    assert judgement.points == 0
