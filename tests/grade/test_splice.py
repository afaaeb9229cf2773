"""Whatever was done to its cells, a notebook's answers come to stand in the pristine one."""

import json

import pytest
import yaml
from classroom import DATA, RIGHT, SMALL, edition, small

from coursework.grade.download import Refused
from coursework.grade.reading import read_submission
from coursework.grade.splice import splice

STARTERS = {question.number: question.starter for question in SMALL.exercises}
CASES = yaml.safe_load((DATA / "cells.yaml").read_text(encoding="utf-8"))
for odd in ("(" * 9999, "-" * 99999 + "1", "a\0b", "'\ud800'", "\x1b[2J", "x" * 99999):
    CASES[f"unreadable: {odd[:4]!a}"] = {
        "changes": {"answer-2": odd},
        "answers": {2: odd},
    }


def changed(changes):
    """Return the right notebook with changes, as `cells.yaml` has them."""
    notebook = edition(RIGHT)
    cells = []
    for cell in notebook["cells"]:
        replacements = changes.get(cell["id"], "as it was")
        if isinstance(replacements, str):
            replacements = [replacements]
        cells += [new_cell(cell, replacement) for replacement in replacements]
    return notebook | {"cells": cells}


def new_cell(cell, replacement):
    """Return a cell, the same with another source, or another one in its place."""
    if replacement == "as it was":
        return cell
    if isinstance(replacement, str):
        return cell | {"source": replacement}
    [kind] = replacement.keys() & {"code", "markdown", "raw"}
    metadata = {}
    if "assignment" in replacement:
        metadata["assignment"] = replacement["assignment"]
    new = {"cell_type": kind, "source": replacement[kind], "metadata": metadata}
    return new | replacement


def many_cells(count):
    """Return the right notebook with so many more cells of code above the exercises."""
    cells = [{"id": f"x{n}", "code": f"y{n} = 1"} for n in range(count)]
    return changed({"given": cells})


@pytest.mark.parametrize("name", CASES)
def test_what_students_do_to_cells(name):
    case = CASES[name]
    answers = splice(changed(case["changes"]), SMALL)
    cells = {None: case.get("preamble", [])}
    for number, sources in (RIGHT | case.get("answers", {})).items():
        if isinstance(sources, str):
            sources = [sources]
        cells[number] = sources
        own = [source for source in sources if source != STARTERS[number]]
        assert answers.texts[number] == "\n\n".join(own)
    assert answers.cells == cells
    findings = [[finding.exercise, finding.text] for finding in answers.findings]
    assert findings == case.get("findings", [])


def test_some_exercises_alone_and_words_for_a_person():
    fewer = small(exercises=[SMALL.exercises[0], SMALL.exercises[2]])
    notebook = edition({1: RIGHT[1], 3: RIGHT[3]}, fewer)
    notebook["cells"][-1]["source"] = "Because zeros need no copy."
    answers = splice(notebook, fewer)
    assert answers.texts == {1: RIGHT[1], 3: RIGHT[3]}
    assert not answers.findings
    assert answers.prose == {3: "Because zeros need no copy."}

    more = {"cell_type": "markdown", "metadata": {}, "source": "Nor a wait."}
    notebook["cells"].append(more)
    answers = splice(notebook, fewer)
    assert answers.prose == {3: "Because zeros need no copy.\n\nNor a wait."}
    assert splice(edition({}, fewer), fewer).prose == {3: ""}


def test_no_exercise_and_far_too_much_code_are_refused():
    notebook = many_cells(402)
    with pytest.raises(Refused, match="411 code cells"):
        splice(notebook, SMALL)
    notebook["cells"] = notebook["cells"][:9]
    with pytest.raises(Refused, match="no exercise"):
        splice(notebook, SMALL)
    answers = splice(many_cells(391), SMALL)
    assert len(answers.cells[None]) == 391  # of 400 code cells


@pytest.mark.parametrize(
    ("ids", "marks", "ends"),
    [
        ("own", True, "\n"),  # Colab, of files in format 4.5
        ("none", True, "\n"),  # Colab writes format 4.0, and ids of its own as metadata
        # VS Code: extensions/ipynb/src/serializers.ts in its repository
        ("other", True, "\r\n"),
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
        if ids != "own":
            cell["id"] = f"{number:08x}"
        if ids == "none":
            cell["metadata"]["id"] = cell.pop("id")
        if not marks:
            cell["metadata"] = {"editable": True, "tags": []}
        cell["source"] = cell["source"].replace("\n", ends).splitlines(keepends=True)
    data = json.dumps(notebook).encode()
    answers = splice(read_submission(data), SMALL)
    assert answers.cells == plain.cells
    assert answers.texts == plain.texts
    assert answers.cells[None] == ["STEP = 1"]
    assert not answers.findings
