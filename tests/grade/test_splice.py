"""Whatever was done to its cells, a notebook's answers come to stand in the pristine one."""

import json
from types import MappingProxyType
from typing import NamedTuple

import pytest
from classroom import GIVEN, RIGHT, SMALL, code, edition, text

from tools.grade.intake import Refused, read_submission
from tools.grade.splice import splice

STARTERS = {question["number"]: question["starter"] for question in SMALL["questions"]}
PRISTINE = {  # what stands below each answer
    question["number"]: [source for source in (question["shows"], *question["checks"]) if source]
    for question in SMALL["questions"]
}


class Case(NamedTuple):
    """What a student does to the right notebook, and what is run and found then."""

    changes: dict  # by the id of a cell: its source from now on, or the cells in its place
    answers: dict = MappingProxyType({})  # that differ from the right ones
    findings: list = ()
    preamble: list = ()  # what is run above all exercises


def changed(changes):
    """The right notebook with these changes."""
    made = edition(RIGHT)
    for id, now in changes.items():
        [cell] = [cell for cell in made["cells"] if cell["id"] == id]
        place = made["cells"].index(cell)
        made["cells"][place : place + 1] = (
            now if isinstance(now, list) else [cell | {"source": now}]
        )
    return made


def mark(number):
    return {"assignment": {"exercise": number, "part": "answer"}}


ALL = [cell["id"] for cell in edition()["cells"]]
CHECK, THE_GIVEN = PRISTINE[1][0], code("given", GIVEN)
HALVES = ["def helper(x):\n    return x", "def double(x):\n    return 2 * helper(x)"]
TWICE, BOTH = "def double(x):\n    return 2 * x", RIGHT[1] + "\n\n" + RIGHT[2]
LATER = f"{RIGHT[2]}\nlater = lambda: {PRISTINE[2][0]}"
FENCED = code("answer-1", f"```python\n{RIGHT[1]}\n```") | {"cell_type": "raw"}
ODD = [{"exercise": 99, "part": "answer"}, {"exercise": True, "part": "answer"}, 7, {"part": []}]
FROM_CHECK = "its answer stood in a check cell"
GONE, WAS = "the cell of its answer is not there", "the cell of the answer was made a"
CASES = {
    "nothing": Case({}, RIGHT),
    "a blank one": Case({f"answer-{n}": starter for n, starter in STARTERS.items()}, STARTERS),
    "nothing else gets in": Case(
        {
            "setup": "# @title Set-up: x\nimport os",
            "given": f"{GIVEN}\nmath.pi = 3",
            "holds-1": "'Exercise 1: it holds'",
            "shows-2": "torch.equal = lambda *_: True",
        },
        findings=[
            (None, "a given cell was changed; the original was run"),
            (1, "a check cell was changed; the original was run"),
            (2, "a shows cell was changed; the original was run"),
        ],
    ),
    "an answer deleted": Case({"answer-2": []}, {2: STARTERS[2]}, [(2, GONE)]),
    "all but the answers deleted": Case({id: [] for id in ALL if not id.startswith("answer")}),
    "an answer split": Case(
        {"answer-1": [code("answer-1", HALVES[0], **mark(1)), code("new", HALVES[1])]}, {1: HALVES}
    ),
    "cells of helpers": Case(
        {
            "given": [THE_GIVEN, code("b", "import random")],
            "answer-2": [code("a", "LIMIT = 3"), code("answer-2", RIGHT[2])],
        },
        {2: ["LIMIT = 3", RIGHT[2]]},
        preamble=["import random"],
    ),
    "an answer merged with its check": Case(
        {"answer-1": f"{RIGHT[1]}\n\n{CHECK}", "holds-1": []}, {1: RIGHT[1]}
    ),
    "a check that its answer was merged into": Case(
        {"answer-1": [], "holds-1": f"{RIGHT[1]}\n{CHECK}"}, findings=[(1, FROM_CHECK)]
    ),
    "a line of the check within an answer's": Case({"answer-2": LATER}, {2: LATER}),
    "two answers merged": Case(
        {"answer-1": BOTH, "answer-2": STARTERS[2]},
        {1: BOTH, 2: []},
        [(2, "its answer stands among others")],
    ),
    "a starter left behind": Case(
        {"answer-2": [code("new", RIGHT[2]), code("answer-2", STARTERS[2])]},
        {2: [STARTERS[2], RIGHT[2]]},
    ),
    "an answer twice": Case(
        {"answer-1": [code("answer-1", RIGHT[1]), code("copy", TWICE, **mark(1))]},
        {1: [RIGHT[1], TWICE]},
        [(1, "2 cells hold its answer; they were run in order")],
    ),
    "an answer made text": Case(
        {"answer-1": [text("answer-1", RIGHT[1])]},
        findings=[(1, f"{WAS} Markdown cell; its text was run as code")],
    ),
    "an answer made raw, between fences": Case(
        {"answer-1": [FENCED]}, findings=[(1, f"{WAS} raw cell; its text was run as code")]
    ),
    "an answer in words": Case(
        {"answer-1": [text("answer-1", "I could not do this one, sorry.")]},
        {1: STARTERS[1]},
        [(1, f"{WAS} Markdown cell and holds no Python code"), (1, GONE)],
    ),
    "texts made code, checks made text": Case(
        {"exercise-2": [code("exercise-2", "## 2. In all")], "holds-3": [text("holds-3", "x")]}
    ),
    "an answer moved": Case(
        {"answer-1": [], "by-hand-3": [code("answer-1", RIGHT[1])]},
        findings=[(1, "its cell was moved; it was run at its own place")],
    ),
    "marks copied from another answer": Case(
        {"answer-3": STARTERS[3], "by-hand-3": [code("copy", RIGHT[3], **mark(2))]},
        {3: [STARTERS[3], RIGHT[3]]},
        [(3, "its answer stood in a cell of exercise 2")],
    ),
    "cells pasted from the book": Case(
        {
            "given": [
                THE_GIVEN,
                text("solution-1", "```python\ndouble = 1\n```\n</details>"),
                code("imports", GIVEN),
            ],
            "by-hand-3": [code("other", PRISTINE[2][-1])],
        }
    ),
    "an answer written into the check": Case(
        {"answer-1": STARTERS[1], "holds-1": RIGHT[1]},
        {1: [STARTERS[1], RIGHT[1]]},
        [(1, FROM_CHECK)],
    ),
    "marks that mean nothing": Case(
        {"given": [THE_GIVEN, *(code("x", "1 + 1", assignment=said) for said in ODD)]},
        preamble=["1 + 1"] * 4,
    ),
    **{
        f"unreadable {number}": Case({"answer-2": source}, {2: source})
        for number, source in enumerate(
            ("(" * 9999, "-" * 99999 + "1", "a\0b", "'\ud800'", "\x1b[2J", "x" * 99999)
        )
    },
}


@pytest.mark.parametrize("name", CASES)
def test_what_students_do_to_cells(name):
    changes, answers, findings, preamble = CASES[name]
    expected = {}
    found = splice(changed(changes), SMALL)
    for number, own in (RIGHT | answers).items():
        sources = [own] if isinstance(own, str) else own
        expected[str(number)] = sources
        written = "\n\n".join(source for source in sources if source != STARTERS[number])
        assert found.answers[str(number)] == written
    assert found.cells == {"": [*preamble]} | expected
    assert [(made["exercise"], made["text"]) for made in found.findings] == [*findings]


def test_some_exercises_alone_and_words_for_a_person():
    fewer = SMALL | {"questions": [SMALL["questions"][0], SMALL["questions"][2]]}
    notebook = edition(RIGHT, fewer)
    notebook["cells"][-1]["source"] = "Because zeros need no copy."
    found = splice(notebook, fewer)
    assert found.answers == {"1": RIGHT[1], "3": RIGHT[3]} and not found.findings
    assert found.prose == {"3": "Because zeros need no copy."}


def test_no_exercise_and_far_too_much_code_are_refused():
    with pytest.raises(Refused, match="no exercise"):
        splice({"metadata": {}, "cells": [code("a", "print('hello')")]}, SMALL)
    many = [code(f"x{n}", f"y{n} = 1") for n in range(402)]
    with pytest.raises(Refused, match="410 code cells"):
        splice(changed({"given": many}), SMALL)


@pytest.mark.parametrize(
    ("ids", "marks", "ends"),
    [
        ("own", True, "\n"),  # Colab, of files in format 4.5
        ("none", True, "\n"),  # Colab writes format 4.0, and ids of its own as metadata
        ("other", True, "\r\n"),  # VS Code: extensions/ipynb/src/serializers.ts in its repository
        ("own", False, "\n"),  # a cell's properties were touched
        ("none", False, "\n"),  # all is lost
    ],
)
def test_every_service_gives_the_same_cells(ids, marks, ends):
    """Of a notebook as students leave it: helper cells, and an exercise left out."""
    helped = [code("mine-2", "def add(a, b):\n    return a + b"), code("answer-2", RIGHT[2])]
    given = [code("given", GIVEN), code("mine", "STEP = 1")]
    notebook = changed({"given": given, "answer-2": helped, "answer-3": STARTERS[3]})
    plain = splice(notebook, SMALL)
    for number, cell in enumerate(notebook["cells"]):
        cell["id"] = cell["id"] if ids == "own" else f"{number:08x}"
        if ids == "none":
            cell["metadata"]["id"] = cell.pop("id")
        if not marks:
            cell["metadata"] = {"editable": True, "tags": []}
        cell["source"] = cell["source"].replace("\n", ends).splitlines(keepends=True)
    found = splice(read_submission(json.dumps(notebook).encode()), SMALL)
    assert found.cells == plain.cells and found.answers == plain.answers
    assert found.cells[""] == ["STEP = 1"] and not found.findings
