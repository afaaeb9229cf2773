"""Right answers in the styles of honest students: each of them must score in full.

The tables in data/styles hold them, a file for each master. They are written for the book's own
edition, that is, for the first value of every variant.
"""

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, replace

import pytest
from classroom import BOOK, DATA, entries

from coursework.exercises.editions import answered, edition
from coursework.exercises.tasks import Task
from coursework.grade.judge import judge
from coursework.grade.splice import splice

TABLES = sorted((DATA / "styles").glob("*.txt"))
# Where the student added a cell.
CELL_BREAK = "\n-- a cell of its own\n"


@dataclass(frozen=True)
class Answer:
    exercise: int
    style: str
    source: str


def answers_of(table):
    """Return the answers of a table, in its order."""
    answers = []
    for header, source in entries(table):
        number, _, style = header.partition(" | ")
        answers.append(Answer(int(number), style, source.strip("\n")))
    return answers


def notebooks_of(answers):
    """Return notebooks that hold each answer once, as lists of answers.

    The first holds the first answer to every exercise, the second holds the second, and so
    on.
    """
    earlier = Counter()  # answers to an exercise
    notebooks = defaultdict(list)
    for answer in answers:
        place = earlier[answer.exercise]
        notebooks[place].append(answer)
        earlier[answer.exercise] += 1
    return list(notebooks.values())


def handed_in(master, assignment, answers):
    """Return the student edition with these answers, as a file of a notebook holds it."""
    blank = edition("student", master, assignment, BOOK)
    sources = {f"answer-{answer.exercise}": answer.source for answer in answers}
    cells = []
    for cell in json.loads(json.dumps(blank))["cells"]:
        cells.append(cell)
        if cell["id"] in sources:
            first, *more = sources[cell["id"]].split(CELL_BREAK)
            cell["source"] = answered(cell["source"], first)
            for place, source in enumerate(more):
                cells.append(own_cell(f"own-{place}-{cell['id']}", source))
    return {"cells": cells}


def own_cell(id, source):
    return {"cell_type": "code", "id": id, "source": source, "metadata": {}}


def losses(master, assignment, answers):
    """Return a line for each answer that the check refuses or that loses points."""
    numbers = [answer.exercise for answer in answers]
    questions = [item for item in assignment.exercises if item.number in numbers]
    exercises = [item for item in master.exercises if item.number in numbers]
    master = replace(master, exercises=exercises)
    assignment = replace(assignment, exercises=questions)
    cells = splice(handed_in(master, assignment, answers), assignment).cells
    results = judge(Task(assignment, cells, checks=True)).results

    lines = []
    for answer in answers:
        result = results[answer.exercise]
        where = f"{master.name}, exercise {answer.exercise}, {answer.style}"
        if result.check != "passes":
            error = f"error {result.error}"
            lines.append(f"{where}: the check in sight says '{result.check}', {error}")
        for test in result.tests:
            if not test.passed:
                lines.append(f"{where}: {test.name} says '{test.reason}'")
        if result.points < result.of:
            lines.append(f"{where}: scores {result.points} of {result.of}")
    return lines


@pytest.mark.full
@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.stem)
def test_a_right_answer_scores_in_full_whatever_its_style(table, drafts):
    master, assignment = drafts[table.stem]
    lines = []
    for notebook in notebooks_of(answers_of(table)):
        lines += losses(master, assignment, notebook)
    assert lines == [], "\n".join(lines)


def test_each_master_has_a_table(drafts):
    assert {table.stem for table in TABLES} == set(drafts)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.stem)
def test_a_table_has_answers_to_every_exercise(table, drafts):
    answers = answers_of(table)
    numbers = {answer.exercise for answer in answers}
    exercises = drafts[table.stem].master.exercises
    assert numbers == {exercise.number for exercise in exercises}
    styles = {(answer.exercise, answer.style) for answer in answers}
    assert len(styles) == len(answers), "a style comes twice"
