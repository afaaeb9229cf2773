"""Whatever was done to its cells, a notebook's answers come to stand in the pristine one."""

import json

import pytest
from classroom import GIVEN, RIGHT, SMALL, code, edition, find, place, text

from tools.grade.intake import Refused, read_submission
from tools.grade.splice import splice

STARTERS = {question["number"]: question["starter"] for question in SMALL["questions"]}
PRISTINE = {  # what stands below each answer
    question["number"]: [source for source in (question["shows"], *question["checks"]) if source]
    for question in SMALL["questions"]
}
MARKS = {n: {"assignment": {"exercise": n, "part": "answer"}} for n in STARTERS}


def expected(answers=RIGHT, preamble=()):
    own = {str(n): [own] if isinstance(own, str) else own for n, own in answers.items()}
    return {"": [*preamble]} | own


def spliced(notebook):
    return splice(notebook, SMALL)


def test_answers_stand_in_the_pristine_notebook():
    blank = spliced(edition())
    assert blank.cells == expected(STARTERS)
    assert set(blank.answers.values()) == {""} and not blank.findings


def test_exercises_that_are_set_need_not_follow_one_another():
    fewer = SMALL | {"questions": [SMALL["questions"][0], SMALL["questions"][2]]}
    found = splice(edition(RIGHT, fewer), fewer)
    assert found.answers == {"1": RIGHT[1], "3": RIGHT[3]} and not found.findings


# --- what students do


def without(*ids):
    """Each of these makes a change to a notebook: here cells are deleted."""

    def change(notebook):
        for id in ids:
            notebook["cells"].remove(find(notebook, id))

    return change


def rewritten(id, source, kind="code"):
    return lambda notebook: find(notebook, id).update(source=source, cell_type=kind)


def inserted(before, *cells):
    def change(notebook):
        at = place(notebook, before) if before else len(notebook["cells"])
        notebook["cells"][at:at] = cells

    return change


def moved(notebook):
    notebook["cells"].append(notebook["cells"].pop(place(notebook, "answer-1")))


def answers_alone(notebook):
    notebook["cells"] = [cell for cell in notebook["cells"] if cell["id"].startswith("answer")]


CHECK = PRISTINE[1][0]
HALVES = ["def helper(x):\n    return x", "def double(x):\n    return 2 * helper(x)"]
TWICE, BOTH = "def double(x):\n    return 2 * x", RIGHT[1] + "\n\n" + RIGHT[2]
LATER = f"{RIGHT[2]}\nlater = lambda: {PRISTINE[2][0]}"
ODD = [{"exercise": 99, "part": "answer"}, {"exercise": True, "part": "answer"}, 7, {"part": []}]
TWO = "2 cells hold its answer; they were run in order"
FROM_CHECK = "its answer stood in a check cell"
WAS = "the cell of the answer was made a"
# What is changed in the right notebook, the answers that differ then, the findings, and what is
# run above all exercises.
CASES = {
    "nothing": ([], RIGHT),
    "nothing else gets in": (
        [
            rewritten("given", f"{GIVEN}\nmath.pi = 3"),
            rewritten("holds-1", "'Exercise 1: it holds'"),
            rewritten("shows-2", "torch.equal = lambda *_: True"),
            rewritten("setup", "# @title Set-up: x\nimport os"),
        ],
        {},
        [
            (None, "a given cell was changed; the original was run"),
            (1, "a check cell was changed; the original was run"),
            (2, "a shows cell was changed; the original was run"),
        ],
    ),
    "an answer deleted": (
        [without("answer-2")],
        {2: STARTERS[2]},
        [(2, "the cell of its answer is not there")],
    ),
    "all but the answers deleted": ([answers_alone],),
    "an answer split": (
        [rewritten("answer-1", HALVES[0]), inserted("holds-1", code("new", HALVES[1]))],
        {1: HALVES},
    ),
    "cells of helpers": (
        [
            inserted("answer-2", code("a", "LIMIT = 3")),
            inserted("exercise-1", code("b", "import random")),
        ],
        {2: ["LIMIT = 3", RIGHT[2]]},
        [],
        ["import random"],
    ),
    "an answer merged with its check": (
        [rewritten("answer-1", f"{RIGHT[1]}\n\n{CHECK}"), without("holds-1")],
    ),
    "a check that its answer was merged into": (
        [rewritten("holds-1", f"{RIGHT[1]}\n{CHECK}"), without("answer-1")],
        {},
        [(1, FROM_CHECK)],
    ),
    "a line of the check within an answer's": ([rewritten("answer-2", LATER)], {2: LATER}),
    "two answers merged": (
        [rewritten("answer-1", BOTH), rewritten("answer-2", STARTERS[2])],
        {1: BOTH, 2: []},
        [(2, "its answer stands among others")],
    ),
    "a starter left behind": (
        [rewritten("answer-2", STARTERS[2]), inserted("answer-2", code("new", RIGHT[2]))],
        {2: [STARTERS[2], RIGHT[2]]},
    ),
    "an answer twice": (
        [inserted("holds-1", code("copy", TWICE, **MARKS[1]))],
        {1: [RIGHT[1], TWICE]},
        [(1, TWO)],
    ),
    "an answer made text": (
        [rewritten("answer-1", RIGHT[1], "markdown")],
        {},
        [(1, f"{WAS} Markdown cell; its text was run as code")],
    ),
    "an answer made raw, between fences": (
        [rewritten("answer-1", f"```python\n{RIGHT[1]}\n```", "raw")],
        {},
        [(1, f"{WAS} raw cell; its text was run as code")],
    ),
    "an answer in words": (
        [rewritten("answer-1", "I could not do this one, sorry.", "markdown")],
        {1: STARTERS[1]},
        [
            (1, f"{WAS} Markdown cell and holds no Python code"),
            (1, "the cell of its answer is not there"),
        ],
    ),
    "texts made code, checks made text": (
        [rewritten("exercise-2", "## 2. In all", "code"), rewritten("holds-3", "x", "markdown")],
    ),
    "an answer moved": ([moved], {}, [(1, "its cell was moved; it was run at its own place")]),
    "marks copied from another answer": (
        [rewritten("answer-3", STARTERS[3]), inserted(None, code("copy", RIGHT[3], **MARKS[2]))],
        {3: [STARTERS[3], RIGHT[3]]},
        [(3, "its answer stood in a cell of exercise 2")],
    ),
    "cells pasted from the book": (
        [
            inserted("exercise-1", text("solution-1", "```python\ndouble = 1\n```\n</details>")),
            inserted("exercise-1", code("imports", GIVEN)),
            inserted(None, code("other", PRISTINE[2][-1])),
        ],
    ),
    "an answer written into the check": (
        [rewritten("answer-1", STARTERS[1]), rewritten("holds-1", RIGHT[1])],
        {1: [STARTERS[1], RIGHT[1]]},
        [(1, FROM_CHECK)],
    ),
    "marks that mean nothing": (
        [inserted("exercise-1", *(code("x", "1 + 1", assignment=mark) for mark in ODD))],
        {},
        [],
        ["1 + 1"] * 4,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_students_do_to_cells(name):
    changes, answers, findings, preamble = CASES[name] + ({}, [], [])[len(CASES[name]) - 1 :]
    notebook = edition(RIGHT)
    for change in changes:
        change(notebook)
    found = spliced(notebook)
    assert found.cells == expected(RIGHT | answers, preamble)
    assert [(made["exercise"], made["text"]) for made in found.findings] == findings
    for number, own in answers.items():
        sources = [own] if isinstance(own, str) else own
        written = "\n\n".join(source for source in sources if source != STARTERS[number])
        assert found.answers[str(number)] == written


def test_words_for_a_person_are_kept():
    notebook = edition(RIGHT)
    find(notebook, "by-hand-3")["source"] = "Because zeros need no copy."
    assert spliced(notebook).prose == {"3": "Because zeros need no copy."}


def test_no_exercise_and_far_too_much_code_are_refused():
    with pytest.raises(Refused, match="no exercise"):
        spliced({"metadata": {}, "cells": [code("a", "print('hello')")]})
    notebook = edition(RIGHT)
    inserted("exercise-1", *(code(f"x{n}", f"y{n} = 1") for n in range(401)))(notebook)
    with pytest.raises(Refused, match="410 code cells"):
        spliced(notebook)


@pytest.mark.parametrize(
    "source", ["(" * 9999, "-" * 99999 + "1", "a\0b", "'\ud800'", "\x1b[2J", "x" * 99999]
)
def test_unreadable_code_is_an_answer_like_any_other(source):
    assert spliced(edition(RIGHT | {2: source})).cells == expected(RIGHT | {2: source})


@pytest.mark.parametrize(
    ("ids", "marks", "ends"),
    [
        ("own", True, "\n"),  # Colab, of files in format 4.5
        ("none", True, "\n"),  # Colab writes format 4.0, and ids of its own as metadata
        ("other", True, "\r\n"),  # VS Code: extensions/ipynb/src/serializers.ts in its repository
        ("own", False, "\n"),  # a cell's properties were touched
        ("none", False, "\n"),  # all is lost, what the notebook is, too
    ],
)
def test_every_service_gives_the_same_cells(ids, marks, ends):
    """Of a notebook as students leave it: helper cells, and an exercise left out."""
    notebook = edition(RIGHT | {3: STARTERS[3]})
    inserted("exercise-1", code("mine", "STEP = 1"))(notebook)
    inserted("answer-2", code("mine-2", "def add(a, b):\n    return a + b"))(notebook)
    plain = spliced(notebook)
    if ids == "none" and not marks:
        del notebook["metadata"]["assignment"]
    for number, cell in enumerate(notebook["cells"]):
        cell["id"] = cell["id"] if ids == "own" else f"{number:08x}"
        if ids == "none":
            cell["metadata"]["id"] = cell.pop("id")
        if not marks:
            cell["metadata"] = {"editable": True, "tags": []}
        cell["source"] = cell["source"].replace("\n", ends).splitlines(keepends=True)
    found = spliced(read_submission(json.dumps(notebook).encode()))
    assert found.cells == plain.cells and found.answers == plain.answers
    assert found.cells[""] == ["STEP = 1"] and not found.findings
