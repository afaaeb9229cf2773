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
UNREADABLE = [
    "(" * 9999,
    "-" * 99999 + "1",
    "a\0b",
    "'\ud800'",
    "\x1b[2J",
    "x" * 99999,
]


def changed(changes):
    """Return the right notebook with changes, as `cells.yaml` has them."""
    notebook = edition(RIGHT)
    cells = []
    for cell in notebook["cells"]:
        replacements = changes.get(cell["id"], "as it was")
        for replacement in as_list(replacements):
            cells.append(new_cell(cell, replacement))
    return notebook | {"cells": cells}


def as_list(sources):
    """Return the sources in a list, where a single one stands for itself."""
    return [sources] if isinstance(sources, str) else sources


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

    expected = {None: case.get("preamble", [])}
    for number, sources in (RIGHT | case.get("answers", {})).items():
        expected[number] = as_list(sources)
    assert answers.cells == expected
    for number in RIGHT:
        own = [text for text in expected[number] if text != STARTERS[number]]
        assert answers.texts[number] == "\n\n".join(own)
    findings = [[finding.exercise, finding.text] for finding in answers.findings]
    assert findings == case.get("findings", [])


@pytest.mark.parametrize("source", UNREADABLE, ids=lambda source: ascii(source[:4]))
def test_an_answer_that_cannot_be_read_is_handed_on(source):
    answers = splice(changed({"answer-2": source}), SMALL)
    assert answers.cells == {None: [], 1: [RIGHT[1]], 2: [source], 3: [RIGHT[3]]}
    assert answers.texts[2] == source
    assert answers.findings == []


FEWER = small(exercises=[SMALL.exercises[0], SMALL.exercises[2]])


def test_some_exercises_are_spliced_alone():
    answers = splice(edition({1: RIGHT[1], 3: RIGHT[3]}, FEWER), FEWER)
    assert answers.texts == {1: RIGHT[1], 3: RIGHT[3]}
    assert answers.findings == []


def test_words_for_a_person_are_those_of_all_cells_of_text():
    notebook = edition({}, FEWER)
    assert splice(notebook, FEWER).prose == {3: ""}

    notebook["cells"][-1]["source"] = "Because zeros need no copy."
    more = {"cell_type": "markdown", "metadata": {}, "source": "Nor a wait."}
    notebook["cells"].append(more)

    words = "Because zeros need no copy.\n\nNor a wait."
    assert splice(notebook, FEWER).prose == {3: words}


def test_four_hundred_code_cells_are_the_most():
    # The right notebook has eight.
    answers = splice(many_cells(392), SMALL)
    assert len(answers.cells[None]) == 392
    with pytest.raises(Refused, match="401 code cells"):
        splice(many_cells(393), SMALL)


def test_a_notebook_without_exercises_is_refused():
    notebook = many_cells(9)
    notebook["cells"] = notebook["cells"][:9]
    with pytest.raises(Refused, match="no exercise"):
        splice(notebook, SMALL)


def as_service_writes(notebook, ids, has_metadata, line_end):
    """Change a notebook as a service does that writes it again."""
    for place, cell in enumerate(notebook["cells"]):
        if ids != "own":
            cell["id"] = f"{place:08x}"
        if ids == "none":
            cell["metadata"]["id"] = cell.pop("id")
        if not has_metadata:
            cell["metadata"] = {"editable": True, "tags": []}
        text = cell["source"].replace("\n", line_end)
        cell["source"] = text.splitlines(keepends=True)


@pytest.mark.parametrize(
    ("ids", "has_metadata", "line_end"),
    [
        # Colab, of files in format 4.5.
        ("own", True, "\n"),
        # Colab writes format 4.0, and ids of its own as metadata.
        ("none", True, "\n"),
        # VS Code: extensions/ipynb/src/serializers.ts in its repository.
        ("other", True, "\r\n"),
        # A cell's properties were touched.
        ("own", False, "\n"),
        # All is lost.
        ("none", False, "\n"),
    ],
)
def test_every_service_gives_the_same_cells(ids, has_metadata, line_end):
    """Of a notebook as students leave it: helper cells, and an exercise left out."""
    helper = {"id": "mine-2", "code": "def add(a, b):\n    return a + b"}
    constant = {"id": "mine", "code": "STEP = 1"}
    changes = {
        "given": ["as it was", constant],
        "answer-2": [helper, "as it was"],
        "answer-3": STARTERS[3],
    }
    notebook = changed(changes)
    expected = splice(notebook, SMALL)
    as_service_writes(notebook, ids, has_metadata, line_end)

    data = json.dumps(notebook).encode()
    answers = splice(read_submission(data), SMALL)

    assert answers.cells == expected.cells
    assert answers.texts == expected.texts
    assert answers.cells[None] == ["STEP = 1"]
    assert answers.findings == []
