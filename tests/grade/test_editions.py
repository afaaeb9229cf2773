"""Editions: each from the master, and what students get opens and runs as they would run it."""

import json
from itertools import product

import nbformat
import pytest
from helpers import ROOT, cell, code, notebook
from nbclient import NotebookClient
from small_masters import book_of_one

from tools.book.book import Book
from tools.book.chapters import LANGUAGE, Chapter
from tools.book.notebooks import notebook_text
from tools.book.setup_cells import SWITCH
from tools.exercises.assignment import GIVEN
from tools.exercises.editions import book_chapter, edition
from tools.exercises.release import make_drafts
from tools.exercises.variants import draws_of

CHAPTERS = sorted(path.stem for path in (ROOT / "masters").glob("*.md"))
FIRST = ["exercise-1", "answer-1", "shows-1", "holds-1", "holds-1-more"]
SECOND = ["exercise-2", "answer-2", "holds-2"]


@pytest.fixture(scope="module")
def book():
    return Book(ROOT)


@pytest.fixture(scope="module")
def drafts(book):
    """Master and assignment of each chapter of this book, by name."""
    found = make_drafts(book, ROOT / "masters", draws_of(None))
    return {master.name: (master, assignment) for master, assignment in found}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """(book, master, assignment) of a small book."""
    book = book_of_one(tmp_path_factory.mktemp("small") / "book")
    [(master, assignment)] = make_drafts(book, book.root / "masters", draws_of(None))
    return book, master, assignment


def ids(notebook):
    return [cell.id for cell in notebook.cells]


def test_the_exercises_of_every_chapter_are_what_its_master_makes(book, drafts):
    for name, chapter in book.chapters.items():
        assert ("exercise-1" in ids(chapter.notebook)) == (name in CHAPTERS), name
        if name in CHAPTERS:
            made = notebook_text(book_chapter(drafts[name][0], chapter).notebook)
            written = (ROOT / chapter.where).read_text(encoding="utf-8")
            assert made == written, f"run 'make release CHAPTER={name}'"


def test_the_cells_of_a_chapter_are_written_where_they_were(small):
    book, master, _ = small
    made = book_chapter(master, book.chapters["small"]).notebook
    before, after = ["title", "switch", "base"], ["between", *SECOND, "solution-2"]
    assert ids(made) == [*before, *FIRST, "solution-1", *after]
    assert book_chapter(master, Chapter("small", made)).notebook == made
    made.cells += [code("answer-3", "gone = ..."), code("after", "1")]
    assert ids(book_chapter(master, Chapter("small", made)).notebook)[-1:] == ["after"]
    empty = Chapter("small", notebook(code("base", "base = 10")))  # every exercise is new to it
    assert ids(book_chapter(master, empty).notebook)[:3] == ["base", "exercise-1", "answer-1"]


def test_a_student_gets_a_blank_notebook_that_stands_alone(small):
    book, master, assignment = small
    made = edition("student", master, assignment, book)
    nbformat.validate(made)
    assert ids(made) == ["title", "switch", "setup", "given", *FIRST, "by-hand-1", *SECOND]
    told = {"name": "small", "class": "book", "edition": "student", "exercises": [1, 2]}
    gpu = {"accelerator": "GPU", "colab": {"gpuType": "T4"}}
    assert made.metadata == LANGUAGE | gpu | {"assignment": told}
    parts = [cell.metadata.get("assignment") for cell in made.cells]
    names = ("exercise", "answer", "shows", "check", "check", "by hand")
    assert parts[3:10] == [{"part": "given"}, *({"exercise": 1, "part": name} for name in names)]
    text = {cell.id: cell.source for cell in made.cells}
    assert text["given"] == f"{GIVEN}\n\nbase = 10\n\noffset = 1"
    assert text["switch"] == SWITCH and text["setup"].startswith("# @title Set-up")
    assert "Two exercises about numbers." in text["title"]
    asked, url = text["exercise-1"], f"{book.repository.url}/blob/main"
    assert "3 points and 2 by hand" in asked and f"({url}/book/glossary.md#gpu)" in asked
    assert f"({url}/notebooks/b.ipynb#c), [b](https://e.org), [c](#d) and `f[0](x)`." in asked
    graded = [id for id in ids(made) if id.startswith(("given", "answer", "shows", "holds"))]
    cells = [assignment["given"]]
    for question in assignment["questions"]:
        cells += filter(None, [question["starter"], question["shows"], *question["checks"]])
    assert cells == [text[id] for id in graded]
    assert json.loads(json.dumps(assignment)) == assignment


def test_solution_and_instructor_editions_say_what_only_they_may(small):
    book, master, assignment = small
    solved, told = (edition(kind, master, assignment, book) for kind in ("solution", "instructor"))
    for made in (solved, told):
        nbformat.validate(made)
        assert cell(made, "answer-1").source.startswith("import math\n\ndef times(x):\n")
        assert "It is the plainest way to say it." in cell(made, "why-1").source
    assert "instructor-1" not in ids(solved)
    words = cell(told, "instructor-1").source
    for part in ("It is for warming up.", "It loses the sign", "- `test_any`: ", "- `factor`: `2`"):
        assert part in words


# --- as a student runs it


@pytest.mark.parametrize(
    ("name", "runner"),
    [
        pytest.param(*run, marks=[] if run == ("tensors-on-gpus", "cpu") else pytest.mark.full)
        for run in product(CHAPTERS, ("cpu", "simulated"))
    ],
)
def test_a_students_notebook_runs_blank_and_solved(
    book, drafts, name, runner, tmp_path, monkeypatch
):
    monkeypatch.setenv("JUPYTER_PATH", str(ROOT))
    blank, solved = (edition(kind, *drafts[name], book) for kind in ("student", "solution"))
    for made in solved.cells:
        made.id = f"solved-{made.id}"
    later = [made for made in solved.cells if made.metadata.get("assignment", {}).get("exercise")]
    shown = run(notebook(*blank.cells, *later), runner, tmp_path)
    for exercise in drafts[name][0].exercises:
        last = f"holds-{exercise.number}{'-more' if len(exercise.checks) > 1 else ''}"
        assert "no answer yet" in shown[last] and "it holds" in shown[f"solved-{last}"]


def run(made, runner, folder):
    """What each cell shows, by its id; a cell that fails raises."""
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(made, kernel_name=runner, resources=resources)
    return {
        cell.id: output.data["text/plain"]
        for cell in client.execute().cells
        for output in cell.get("outputs", ())
        if output.output_type == "execute_result"
    }
