"""Whatever was done to its cells, a notebook's answers come to stand in the pristine one."""

import json

import pytest
import yaml
from classroom import DATA, RIGHT, SMALL, edition, small

from coursework.grade.download import Refused
from coursework.grade.reading import read_submission
from coursework.grade.splice import splice

STARTERS = {question.number: question.starter for question in SMALL.questions}
CASES = yaml.safe_load((DATA / "cells.yaml").read_text(encoding="utf-8"))
for odd in ("(" * 9999, "-" * 99999 + "1", "a\0b", "'\ud800'", "\x1b[2J", "x" * 99999):
    CASES[f"unreadable: {odd[:4]!a}"] = {
        "changes": {"answer-2": odd},
        "answers": {2: odd},
    }


def changed(changes):
    """The right notebook with changes, as `cells.yaml` has them."""
    made, cells = edition(RIGHT), []
    for cell in made["cells"]:
        now = changes.get(cell["id"], cell["source"])
        for new in [now] if isinstance(now, str) else now:
            if new == "as it was":
                cells.append(cell)
            elif isinstance(new, str):
                cells.append(cell | {"source": new})
            else:
                [kind] = new.keys() & {"code", "markdown", "raw"}
                marks = {name: new[name] for name in ("assignment",) if name in new}
                cells.append(
                    {"cell_type": kind, "source": new[kind], "metadata": marks} | new
                )
    return made | {"cells": cells}


@pytest.mark.parametrize("name", CASES)
def test_what_students_do_to_cells(name):
    case, expected = CASES[name], {}
    found = splice(changed(case["changes"]), SMALL)
    for number, own in (RIGHT | case.get("answers", {})).items():
        sources = expected[number] = [own] if isinstance(own, str) else own
        written = "\n\n".join(
            source for source in sources if source != STARTERS[number]
        )
        assert found.texts[number] == written
    assert found.cells == {None: case.get("preamble", [])} | expected
    told = [[one.exercise, one.text] for one in found.findings]
    assert told == case.get("findings", [])


def test_some_exercises_alone_and_words_for_a_person():
    fewer = small(questions=[SMALL.questions[0], SMALL.questions[2]])
    notebook = edition({1: RIGHT[1], 3: RIGHT[3]}, fewer)
    notebook["cells"][-1]["source"] = "Because zeros need no copy."
    found = splice(notebook, fewer)
    assert found.texts == {1: RIGHT[1], 3: RIGHT[3]} and not found.findings
    assert found.prose == {3: "Because zeros need no copy."}
    notebook["cells"] += [
        {"cell_type": "markdown", "metadata": {}, "source": "Nor a wait."}
    ]
    found = splice(notebook, fewer)
    assert found.prose == {3: "Because zeros need no copy.\n\nNor a wait."}
    assert splice(edition({}, fewer), fewer).prose == {3: ""}


def test_no_exercise_and_far_too_much_code_are_refused():
    made = changed(
        {"given": [{"id": f"x{n}", "code": f"y{n} = 1"} for n in range(402)]}
    )
    for cells, words in (
        (made["cells"][:9], "no exercise"),
        (made["cells"], "411 code cells"),
    ):
        with pytest.raises(Refused, match=words):
            splice(made | {"cells": cells}, SMALL)
    fewer = changed(
        {"given": [{"id": f"x{n}", "code": f"y{n} = 1"} for n in range(391)]}
    )
    assert len(splice(fewer, SMALL).cells[None]) == 391  # of 400 code cells


@pytest.mark.parametrize(
    ("ids", "marks", "ends"),
    [
        ("own", True, "\n"),  # Colab, of files in format 4.5
        ("none", True, "\n"),  # Colab writes format 4.0, and ids of its own as metadata
        (
            "other",
            True,
            "\r\n",
        ),  # VS Code: extensions/ipynb/src/serializers.ts in its repository
        ("own", False, "\n"),  # a cell's properties were touched
        ("none", False, "\n"),  # all is lost
    ],
)
def test_every_service_gives_the_same_cells(ids, marks, ends):
    """Of a notebook as students leave it: helper cells, and an exercise left out."""
    helped = [{"id": "mine-2", "code": "def add(a, b):\n    return a + b"}, "as it was"]
    given = ["as it was", {"id": "mine", "code": "STEP = 1"}]
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
    assert found.cells == plain.cells and found.texts == plain.texts
    assert found.cells[None] == ["STEP = 1"] and not found.findings
