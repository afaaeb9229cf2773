"""Whatever was done to its cells, a notebook's answers come to stand in the pristine one."""

import pytest
from classroom import GIVEN, RIGHT, SMALL, code, edition, find, place, text

from tools.grade.intake import Refused
from tools.grade.splice import splice

PRISTINE = {
    n: [each for each in (q["shows"], *q["checks"]) if each]
    for n, q in zip((1, 2, 3), SMALL["questions"], strict=True)
}
MARKS = {n: {"assignment": {"exercise": n, "part": "answer"}} for n in (1, 2, 3)}


def expected(answers=RIGHT, preamble=()):
    cells = [[None, GIVEN], *([None, each] for each in preamble)]
    for n in (1, 2, 3):
        own = answers[n] if isinstance(answers[n], list) else [answers[n]]
        cells += [[n, each] for each in [*own, *PRISTINE[n]]]
    return cells


def spliced(notebook):
    return splice(notebook, SMALL)


def kinds(found):
    return [(each["exercise"], each["text"]) for each in found.findings]


def test_answers_stand_in_the_pristine_notebook():
    found = spliced(edition(RIGHT))
    assert found.cells == expected() and found.answers == RIGHT and not found.findings


def test_blank_edition_has_its_starters_and_no_answers():
    found = spliced(edition())
    assert found.cells == expected({n: q["starter"] for n, q in enumerate(SMALL["questions"], 1)})
    assert set(found.answers.values()) == {""} and not found.findings


def test_nothing_else_of_a_notebook_gets_in():
    notebook = edition(RIGHT)
    find(notebook, "given")["source"] += "\nmath.pi = 3"
    find(notebook, "holds-1")["source"] = "'Exercise 1: it holds'"
    find(notebook, "shows-2")["source"] = "torch.equal = lambda *_: True"
    find(notebook, "setup")["source"] += "\nimport os"
    found = spliced(notebook)
    assert found.cells == expected()
    assert [where for where, _ in kinds(found)] == [None, 1, 2]


def test_deleted_answer_is_blank_and_named():
    notebook = edition(RIGHT)
    notebook["cells"].remove(find(notebook, "answer-2"))
    found = spliced(notebook)
    assert found.cells == expected(RIGHT | {2: SMALL["questions"][1]["starter"]})
    assert kinds(found) == [(2, "the cell of its answer is not there")]


def test_deleted_checks_and_texts_come_back():
    notebook = edition(RIGHT)
    notebook["cells"] = [c for c in notebook["cells"] if c["id"].startswith("answer")]
    assert spliced(notebook).cells == expected()


@pytest.mark.parametrize("marked", [True, False])
def test_split_answer_runs_in_order(marked):
    notebook = edition(RIGHT)
    first, second = "def helper(x):\n    return x", "def double(x):\n    return 2 * helper(x)"
    find(notebook, "answer-1")["source"] = first
    half = code("new", second, **(MARKS[1] if marked else {}))
    notebook["cells"].insert(place(notebook, "answer-1") + 1, half)
    found = spliced(notebook)
    assert found.cells == expected(RIGHT | {1: [first, second]})
    assert found.answers[1] == f"{first}\n\n{second}"
    assert bool(found.findings) == marked


def test_helper_cells_belong_to_their_exercise_and_those_above_to_nobody():
    notebook = edition(RIGHT)
    notebook["cells"].insert(place(notebook, "answer-2"), code("a", "LIMIT = 3"))
    notebook["cells"].insert(place(notebook, "exercise-1"), code("b", "import random"))
    found = spliced(notebook)
    assert found.cells == expected(RIGHT | {2: ["LIMIT = 3", RIGHT[2]]}, ["import random"])
    assert found.preamble == "import random"


def test_answer_merged_with_its_check():
    notebook = edition(RIGHT)
    check = find(notebook, "holds-1")
    find(notebook, "answer-1")["source"] += "\n\n" + check["source"]
    notebook["cells"].remove(check)
    assert spliced(notebook).cells == expected()


def test_check_that_its_answer_was_merged_into():
    notebook = edition(RIGHT)
    answer, check = find(notebook, "answer-1"), find(notebook, "holds-1")
    check["source"] = answer["source"] + "\n" + check["source"]
    notebook["cells"].remove(answer)
    assert spliced(notebook).cells == expected()


def test_an_answer_that_holds_a_line_of_the_check_within_its_own_is_left_whole():
    shows = SMALL["questions"][1]["shows"]
    answers = RIGHT | {2: f"{RIGHT[2]}\nlater = lambda: {shows}"}
    assert spliced(edition(answers)).cells == expected(answers)


def test_two_answers_merged_count_for_both():
    notebook = edition(RIGHT)
    both = RIGHT[1] + "\n\n" + RIGHT[2]
    find(notebook, "answer-1")["source"] = both
    notebook["cells"].remove(find(notebook, "answer-2"))
    found = spliced(notebook)
    assert found.cells == expected(RIGHT | {1: both, 2: []})
    assert (2, "its answer stands among others") in kinds(found)
    notebook = edition(RIGHT)  # and where the later of the two cells is left
    find(notebook, "answer-2")["source"] = both
    notebook["cells"].remove(find(notebook, "answer-1"))
    assert spliced(notebook).cells == expected(RIGHT | {1: both, 2: []})


def test_starter_left_behind_does_not_undo_an_answer():
    notebook = edition(RIGHT)
    find(notebook, "answer-2")["source"] = SMALL["questions"][1]["starter"]
    notebook["cells"].insert(place(notebook, "answer-2"), code("new", RIGHT[2]))
    assert spliced(notebook).cells == expected()


def test_duplicated_answer_runs_twice_and_is_named():
    notebook = edition(RIGHT)
    again = code("copy", "def double(x):\n    return 2 * x", **MARKS[1])
    notebook["cells"].insert(place(notebook, "answer-1") + 1, again)
    found = spliced(notebook)
    assert found.cells == expected(RIGHT | {1: [RIGHT[1], again["source"]]})
    assert kinds(found) == [(1, "2 cells hold its answer; they were run in order")]


@pytest.mark.parametrize("kind", ["markdown", "raw"])
@pytest.mark.parametrize("form", ["{}", "```python\n{}\n```"])
def test_answer_that_became_text_is_run_and_named(kind, form):
    notebook = edition(RIGHT)
    cell = find(notebook, "answer-1")
    cell["cell_type"], cell["source"] = kind, form.format(RIGHT[1])
    found = spliced(notebook)
    assert found.cells == expected() and len(found.findings) == 1


def test_answer_in_words_is_none():
    notebook = edition(RIGHT)
    cell = find(notebook, "answer-1")
    cell["cell_type"], cell["source"] = "markdown", "I could not do this one, sorry."
    found = spliced(notebook)
    assert found.answers[1] == "" and "holds no Python code" in found.findings[0]["text"]


def test_text_and_checks_that_became_code_or_text_do_not_matter():
    notebook = edition(RIGHT)
    find(notebook, "exercise-2")["cell_type"] = "code"
    find(notebook, "holds-3")["cell_type"] = "markdown"
    assert spliced(notebook).cells == expected()


def test_moved_cells_come_back_to_their_places():
    notebook = edition(RIGHT)
    cell = find(notebook, "answer-1")
    notebook["cells"].remove(cell)
    notebook["cells"].append(cell)
    found = spliced(notebook)
    assert found.cells == expected()
    assert kinds(found) == [(1, "its cell was moved; it was run at its own place")]


def test_copied_metadata_do_not_outweigh_the_name_that_is_defined():
    notebook = edition(RIGHT)
    find(notebook, "answer-3")["source"] = SMALL["questions"][2]["starter"]
    notebook["cells"].append(code("copy", RIGHT[3], **MARKS[2]))  # copied from answer 2
    found = spliced(notebook)
    assert found.cells == expected()
    assert kinds(found) == [(3, "its answer stood in a cell of exercise 2")]


def test_cells_pasted_from_the_book():
    notebook = edition(RIGHT)
    notebook["cells"].insert(3, code("imports", GIVEN))
    notebook["cells"].insert(3, text("solution-1", "<details>```python\ndouble = 1\n```</details>"))
    notebook["cells"].append(code("other", PRISTINE[2][-1]))
    assert spliced(notebook).cells == expected()


def test_answer_written_into_the_check():
    notebook = edition(RIGHT)
    find(notebook, "answer-1")["source"] = SMALL["questions"][0]["starter"]
    find(notebook, "holds-1")["source"] = RIGHT[1]
    found = spliced(notebook)
    assert found.cells == expected()
    assert kinds(found) == [(1, "the answer was taken from a cell that was given as a check cell")]


def test_marks_of_another_assignment_and_odd_ones_mean_nothing():
    notebook = edition(RIGHT)
    odd = [
        {"exercise": 99, "part": "answer"},
        {"exercise": True, "part": "answer"},
        7,
        {"part": []},
    ]
    for each in odd:
        notebook["cells"].insert(3, code("x", "1 + 1", assignment=each))
    assert spliced(notebook).cells == expected(RIGHT, ["1 + 1"] * 4)


def test_words_for_a_person_are_kept():
    notebook = edition(RIGHT)
    find(notebook, "by-hand-3")["source"] = "Because zeros need no copy."
    assert spliced(notebook).prose == {3: "Because zeros need no copy."}


def test_no_exercise_and_far_too_much_code_are_refused():
    with pytest.raises(Refused, match="no exercise"):
        spliced({"metadata": {}, "cells": [code("a", "print('hello')")]})
    notebook = edition(RIGHT)
    notebook["cells"][3:3] = [code(f"x{n}", f"y{n} = 1") for n in range(301)]
    with pytest.raises(Refused, match="304 code cells"):
        spliced(notebook)


@pytest.mark.parametrize(
    "source", ["(" * 9999, "-" * 99999 + "1", "a\0b", "'\ud800'", "\x1b[2J", "x" * 99999]
)
def test_unreadable_code_is_an_answer_like_any_other(source):
    assert spliced(edition(RIGHT | {2: source})).cells == expected(RIGHT | {2: source})
