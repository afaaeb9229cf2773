"""Right answers in the styles of honest students: each of them must score in full.

The tables in data/styles hold them, a file for each master. They are written for the book's own
edition, that is, for the first value of every variant.
"""

import json
import re
from collections import defaultdict
from dataclasses import dataclass, replace

import pytest
from classroom import BOOK, DATA
from helpers import ROOT

from coursework.exercises.assignment import make_drafts
from coursework.exercises.editions import answered, edition
from coursework.exercises.tasks import Task, draws_of
from coursework.grade.judge import judge
from coursework.grade.splice import splice

TABLES = sorted((DATA / "styles").glob("*.txt"))
HEADER = re.compile(r"^== (?P<number>\d+) \| (?P<style>.+)$", re.M)
CELL_BREAK = "\n-- a cell of its own\n"  # the student added a cell


@dataclass(frozen=True)
class Answer:
    number: int  # of the exercise
    style: str
    source: str


def answers_of(table):
    """The answers of a table, in its order; the text above the first header is for readers."""
    _, *fields = HEADER.split(table.read_text(encoding="utf-8"))
    rows = zip(fields[::3], fields[1::3], fields[2::3], strict=True)
    return [
        Answer(int(number), style, source.strip("\n")) for number, style, source in rows
    ]


def notebooks_of(answers):
    """Notebooks that hold each answer once: the k-th has the k-th answer of every exercise."""
    of_exercise = defaultdict(list)
    for answer in answers:
        of_exercise[answer.number].append(answer)
    notebooks = defaultdict(list)
    for row in of_exercise.values():
        for place, answer in enumerate(row):
            notebooks[place].append(answer)
    return list(notebooks.values())


def handed_in(master, assignment, answers):
    """The student edition with these answers, as a file of a notebook holds it."""
    blank = edition("student", master, assignment, BOOK)
    starters = {
        exercise.number: exercise.code("Starter") for exercise in master.exercises
    }
    sources = {f"answer-{answer.number}": answer.source for answer in answers}
    cells = []
    for cell in json.loads(json.dumps(blank))["cells"]:
        cells.append(cell)
        if cell["id"] in sources:
            first, *rest = sources[cell["id"]].split(CELL_BREAK)
            cell["source"] = answered(
                starters[cell["metadata"]["assignment"]["exercise"]], first
            )
            for place, source in enumerate(rest):
                cells.append({"cell_type": "code", "id": f"own-{place}-{cell['id']}"})
                cells[-1] |= {"source": source, "metadata": {}}
    return {"cells": cells}


def losses(master, assignment, answers):
    """A line for each answer of a notebook that the check refuses or that loses points."""
    numbers = [answer.number for answer in answers]
    questions = [q for q in assignment.exercises if q.number in numbers]
    exercises = [x for x in master.exercises if x.number in numbers]
    master = replace(master, exercises=exercises)
    assignment = replace(assignment, exercises=questions)
    cells = splice(handed_in(master, assignment, answers), assignment).cells
    student = Task(assignment, cells, checks=True)
    results = judge(student).results
    for answer in answers:
        result = results[answer.number]
        where = f"{master.name}, exercise {answer.number}, {answer.style}"
        if result.check != "passes":
            yield f"{where}: the check in sight says '{result.check}', error {result.error}"
        for test in result.tests:
            if not test.passed:
                yield f"{where}: {test.name} says '{test.reason}'"
        if result.points < result.of:
            yield f"{where}: scores {result.points} of {result.of}"


@pytest.fixture(scope="module")
def drafts():
    """Master and assignment of each chapter of this book, by name."""
    pairs = make_drafts(ROOT, ROOT / "masters", draws_of(None))
    return {master.name: (master, assignment) for master, assignment in pairs}


@pytest.mark.full
@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.stem)
def test_a_right_answer_scores_in_full_whatever_its_style(table, drafts):
    master, assignment = drafts[table.stem]
    lines = []
    for notebook in notebooks_of(answers_of(table)):
        lines += losses(master, assignment, notebook)
    assert lines == [], "\n".join(lines)


def test_the_tables_have_answers_to_every_exercise_of_every_master(drafts):
    assert {table.stem for table in TABLES} == set(drafts)
    for table in TABLES:
        master, _ = drafts[table.stem]
        answers = answers_of(table)
        numbers = {answer.number for answer in answers}
        assert numbers == {exercise.number for exercise in master.exercises}
        styles = [(answer.number, answer.style) for answer in answers]
        assert len(styles) == len(set(styles)), f"{table.name}: a style comes twice"
