"""Editions, each made from the master, and what is drawn for a class."""

import json
from collections import Counter

import nbformat
import pytest
from classroom import book_of_one
from helpers import cell, code, notebook, refused

from coursework.exercises.assignment import GIVEN, make_drafts
from coursework.exercises.editions import book_chapter, edition
from coursework.exercises.tasks import Assignment, draws_of
from tools.book.chapters import LANGUAGE, Chapter
from tools.book.repository import Repository
from tools.book.setup_cells import setup_source

REPOSITORY = Repository("a", "b", "main")
FIRST = ["exercise-1", "answer-1", "shows-1", "holds-1", "holds-1-more"]
SECOND = ["exercise-2", "answer-2", "holds-2"]


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    return book_of_one(tmp_path_factory.mktemp("small") / "book")


@pytest.fixture(scope="module")
def draft(book):
    [draft] = make_drafts(book.root, book.root / "masters", draws_of(None))
    return draft


@pytest.fixture(scope="module")
def master(draft):
    return draft.master


@pytest.fixture(scope="module")
def assignment(draft):
    return draft.assignment


def sources(notebook):
    return {cell.id: cell.source for cell in notebook.cells}


def ids(notebook):
    return [cell.id for cell in notebook.cells]


def rewritten(master, notebook):
    """Write the master's exercises into a chapter, and return its notebook."""
    return book_chapter(master, Chapter("small", notebook), REPOSITORY).notebook


def test_the_cells_of_a_chapter_are_written_in_place(book, master):
    written = book_chapter(master, book.chapters["small"], book.repository).notebook
    before = ["title", "setup", "base"]
    after = ["between", *SECOND, "solution-2"]
    assert ids(written) == [*before, *FIRST, "solution-1", *after]
    again = book_chapter(master, Chapter("small", written), book.repository)
    assert again.notebook == written


def test_an_exercise_that_is_gone_leaves_the_chapter(book, master):
    written = book_chapter(master, book.chapters["small"], book.repository).notebook
    written.cells += [code("answer-3", "gone = ..."), code("after", "1")]
    assert ids(rewritten(master, written))[-2:] == ["solution-2", "after"]


def test_exercises_that_are_new_come_last(master):
    written = rewritten(master, notebook(code("base", "base = 10")))
    assert ids(written)[:3] == ["base", "exercise-1", "answer-1"]


@pytest.fixture(scope="module")
def student(book, master, assignment):
    """The edition that a student gets."""
    return edition("student", master, assignment, book)


def test_a_student_gets_a_blank_notebook(assignment, student):
    nbformat.validate(student)
    before = ["title", "setup", "given"]
    assert ids(student) == [*before, *FIRST, "by-hand-1", *SECOND]
    facts = {
        "name": "small",
        "class": "book",
        "edition": "student",
        "exercises": [1, 2],
        "masters": assignment.masters,
    }
    gpu = {"accelerator": "GPU", "colab": {"gpuType": "T4"}}
    assert student.metadata == LANGUAGE | gpu | {"assignment": facts}


def test_a_cell_says_which_part_of_which_exercise_it_is(student):
    assert cell(student, "given").metadata.assignment == {"part": "given"}
    parts = {
        "exercise-1": "exercise",
        "answer-1": "answer",
        "shows-1": "shows",
        "holds-1": "check",
        "holds-1-more": "check",
        "by-hand-1": "by hand",
    }
    for id, part in parts.items():
        assert cell(student, id).metadata.assignment == {"exercise": 1, "part": part}


def test_a_students_notebook_stands_alone(book, student):
    text = sources(student)
    assert "Two exercises about numbers." in text["title"]
    chapter = Chapter("small", student)
    assert text["setup"] == setup_source(chapter, book.repository, book.root)
    assert text["given"] == f"{GIVEN}\n\nbase = 10\n\noffset = 1"
    question = text["exercise-1"]
    assert "3 points and 2 by hand" in question
    # Links lead to the book, and nothing else that looks like one is touched.
    site = book.repository.site
    assert f"({site}book/glossary.html#gpu)" in question
    others = f"[b](https://e.org), [c]({site}notebooks/small.html#d) and `f[0](x)`."
    assert f"({site}notebooks/b.html#c), {others}" in question


def test_the_assignment_holds_the_cells_that_are_graded(assignment, student):
    expected = [assignment.given]
    for question in assignment.exercises:
        expected.append(question.starter)
        if question.demo:
            expected.append(question.demo)
        expected += question.checks
    graded = ("given", "answer", "shows", "holds")
    cells = [cell for cell in student.cells if cell.id.startswith(graded)]
    assert [cell.source for cell in cells] == expected


def test_an_assignment_is_written_whole(assignment):
    written = json.loads(json.dumps(assignment.as_json()))
    assert Assignment.from_json(written) == assignment


@pytest.mark.parametrize("kind", ["solution", "instructor"])
def test_other_editions_hold_the_solutions(book, master, assignment, kind):
    solved = edition(kind, master, assignment, book)
    nbformat.validate(solved)
    text = sources(solved)
    assert text["answer-1"].startswith("import math\n\ndef times(x):\n")
    assert "It is the plainest way to say it." in text["why-1"]


def test_only_instructors_are_told_what_is_for_them(book, master, assignment):
    solution = edition("solution", master, assignment, book)
    assert "instructor-1" not in ids(solution)
    instructor = edition("instructor", master, assignment, book)
    notes = cell(instructor, "instructor-1").source
    assert "It is for warming up." in notes
    assert "It loses the sign" in notes
    assert "- `test_any`: " in notes
    assert "- `factor`: `2`" in notes


# --- what is drawn for a class


def test_a_key_draws_the_same_ever_after():
    draws = draws_of("an invented key of this class")
    assert draws.fingerprint == "b451b6509284"
    assert draws.seed("small").startswith("89c3ab620c1d5ccb")
    drawn = [draws.choose(f"small/{n}/factor", list(range(10))) for n in range(8)]
    assert drawn == [4, 1, 3, 3, 3, 8, 5, 8]
    assert "secret" not in repr(draws)


def test_a_class_draws_anything_but_what_the_book_draws():
    book = draws_of(None)
    assert book.fingerprint == "book"
    assert book.choose("any", [1, 2, 3]) == 1
    draws = draws_of("an invented key of this class")
    assert draws.choose("place", ["only"]) == "only"
    count = Counter(draws.choose(f"place/{n}", list("abcde")) for n in range(4000))
    assert set(count) == set("bcde")
    assert max(count.values()) < 1.15 * min(count.values())


@pytest.mark.parametrize(("key", "count"), [("1234567", 7), (" " * 8, 0), ("", 0)])
def test_a_key_that_is_short_is_refused(key, count):
    with refused(f"CLASS: a key of {count} characters; take 8 or more"):
        draws_of(key)


# A shell in Latin 1 passes on the second.
@pytest.mark.parametrize("key", ["12345678", "schl\udcfcssel eins"])
def test_a_key_of_any_eight_characters_will_do(key):
    assert len(draws_of(key).fingerprint) == 12
