"""Editions, each made from the master, and what is drawn for a class."""

import json
from collections import Counter

import nbformat
import pytest
from classroom import book_of_one
from helpers import cell, code, notebook, refused

from coursework.exercises.assignment import GIVEN, make_drafts
from coursework.exercises.editions import book_chapter, edition
from coursework.exercises.tasks import Assignment
from coursework.exercises.variants import draws_of
from tools.book.chapters import LANGUAGE, Chapter
from tools.book.setup_cells import SWITCH

FIRST = ["exercise-1", "answer-1", "shows-1", "holds-1", "holds-1-more"]
SECOND = ["exercise-2", "answer-2", "holds-2"]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """(book, master, assignment) of a small book."""
    book = book_of_one(tmp_path_factory.mktemp("small") / "book")
    [(master, assignment)] = make_drafts(
        book.root, book.root / "masters", draws_of(None)
    )
    return book, master, assignment


def ids(notebook):
    return [cell.id for cell in notebook.cells]


def test_the_cells_of_a_chapter_are_written_where_they_were(small):
    book, master, _ = small
    made = book_chapter(master, book.chapters["small"]).notebook
    before, after = ["title", "switch", "base"], ["between", *SECOND, "solution-2"]
    assert ids(made) == [*before, *FIRST, "solution-1", *after]
    assert book_chapter(master, Chapter("small", made)).notebook == made
    made.cells += [code("answer-3", "gone = ..."), code("after", "1")]
    assert ids(book_chapter(master, Chapter("small", made)).notebook)[-1:] == ["after"]
    empty = Chapter(
        "small", notebook(code("base", "base = 10"))
    )  # every exercise is new to it
    assert ids(book_chapter(master, empty).notebook)[:3] == [
        "base",
        "exercise-1",
        "answer-1",
    ]


def test_a_student_gets_a_blank_notebook_that_stands_alone(small):
    book, master, assignment = small
    made = edition("student", master, assignment, book)
    nbformat.validate(made)
    assert ids(made) == [
        "title",
        "switch",
        "setup",
        "given",
        *FIRST,
        "by-hand-1",
        *SECOND,
    ]
    told = {"name": "small", "class": "book", "edition": "student", "exercises": [1, 2]}
    told["masters"] = assignment.masters
    gpu = {"accelerator": "GPU", "colab": {"gpuType": "T4"}}
    assert made.metadata == LANGUAGE | gpu | {"assignment": told}
    parts = [cell.metadata.get("assignment") for cell in made.cells]
    names = ("exercise", "answer", "shows", "check", "check", "by hand")
    assert parts[3:10] == [
        {"part": "given"},
        *({"exercise": 1, "part": name} for name in names),
    ]
    text = {cell.id: cell.source for cell in made.cells}
    assert text["given"] == f"{GIVEN}\n\nbase = 10\n\noffset = 1"
    assert text["switch"] == SWITCH and text["setup"].startswith("# @title Set-up")
    assert "Two exercises about numbers." in text["title"]
    asked, url = text["exercise-1"], f"{book.repository.url}/blob/main"
    assert (
        "3 points and 2 by hand" in asked and f"({url}/book/glossary.md#gpu)" in asked
    )
    assert (
        f"({url}/notebooks/b.ipynb#c), [b](https://e.org), [c](#d) and `f[0](x)`."
        in asked
    )
    graded = [
        id for id in ids(made) if id.startswith(("given", "answer", "shows", "holds"))
    ]
    cells = [assignment.given]
    for question in assignment.questions:
        cells += filter(None, [question.starter, question.shows, *question.checks])
    assert cells == [text[id] for id in graded]
    entry = json.loads(json.dumps(assignment.as_json()))
    assert Assignment.from_json(entry) == assignment


def test_solution_and_instructor_editions_say_what_only_they_may(small):
    book, master, assignment = small
    solved, told = (
        edition(kind, master, assignment, book) for kind in ("solution", "instructor")
    )
    for made in (solved, told):
        nbformat.validate(made)
        assert cell(made, "answer-1").source.startswith(
            "import math\n\ndef times(x):\n"
        )
        assert "It is the plainest way to say it." in cell(made, "why-1").source
    assert "instructor-1" not in ids(solved)
    words = cell(told, "instructor-1").source
    for part in (
        "It is for warming up.",
        "It loses the sign",
        "- `test_any`: ",
        "- `factor`: `2`",
    ):
        assert part in words


# --- what is drawn for a class


def test_a_key_draws_the_same_ever_after_and_none_of_what_the_book_draws_and_is_long():
    draws, book = draws_of("an invented key of this class"), draws_of(None)
    assert (book.fingerprint, book.choose("any", [1, 2, 3])) == ("book", 1)
    assert draws.fingerprint == "b451b6509284"
    assert draws.seed("small").startswith("89c3ab620c1d5ccb")
    drawn = [draws.choose(f"small/{n}/factor", list(range(10))) for n in range(8)]
    assert drawn == [4, 1, 3, 3, 3, 8, 5, 8]
    assert draws.choose("place", ["only"]) == "only"
    count = Counter(draws.choose(f"place/{n}", list("abcde")) for n in range(4000))
    assert set(count) == set("bcde") and max(count.values()) < 1.15 * min(
        count.values()
    )

    for key, count in {"1234567": 7, " " * 8: 0, "": 0}.items():
        with refused(f"CLASS: a key of {count} characters; take 8 or more"):
            draws_of(key)
    assert draws_of("12345678").fingerprint != "book" and "secret" not in repr(draws)
    assert (
        len(draws_of("schl\udcfcssel eins").fingerprint) == 12
    )  # as a shell in Latin 1 has it
