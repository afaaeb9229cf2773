"""Editions: each from the master, and what students get opens and runs as they would run it."""

import json

import nbformat
import pytest
from helpers import ROOT, cell, code, notebook
from nbclient import NotebookClient
from small_masters import book_of_one

from tools.book.book import Book
from tools.book.chapters import Chapter
from tools.book.setup_cells import SWITCH, setup_source
from tools.exercises.assignment import GIVEN, Assignment
from tools.exercises.editions import absolute, answered, book_chapter, instructor, solution, student
from tools.exercises.release import make_drafts, student_files
from tools.exercises.variants import draws_of

CHAPTERS = sorted(path.stem for path in (ROOT / "masters").glob("*.md"))


@pytest.fixture(scope="module")
def book():
    return Book(ROOT)


@pytest.fixture(scope="module")
def drafts(book):
    """Master and assignment of each chapter of this book, by name."""
    found = make_drafts(book, ROOT / "masters", draws_of(None))
    return {master.name: (master, assignment) for master, assignment in found}


@pytest.fixture
def small(tmp_path):
    """(book, master, assignment) of a tiny book."""
    book = book_of_one(tmp_path / "book")
    [(master, assignment)] = make_drafts(book, book.root / "masters", draws_of(None))
    return book, master, assignment


@pytest.mark.parametrize("name", CHAPTERS)
def test_the_exercises_of_a_chapter_are_what_its_master_makes(book, drafts, name):
    chapter = book.chapters[name]
    made = nbformat.writes(book_chapter(drafts[name][0], chapter).notebook) + "\n"
    assert made == (ROOT / chapter.where).read_text(encoding="utf-8"), "run 'make release'"


def test_every_chapter_with_exercises_has_a_master(book):
    asked = [
        name
        for name, chapter in book.chapters.items()
        if any(cell.id.startswith("exercise-") for cell in chapter.notebook.cells)
    ]
    assert sorted(asked) == CHAPTERS


def test_the_cells_of_a_chapter_are_written_where_they_were(small):
    book, master, _ = small
    made = book_chapter(master, book.chapters["small"]).notebook
    first = ["exercise-1", "answer-1", "shows-1", "holds-1", "holds-1-more", "solution-1"]
    second = ["exercise-2", "answer-2", "holds-2", "solution-2"]
    ids = [each.id for each in made.cells]
    assert ids == ["title", "switch", "base", "exercises", *first, "between", *second]
    assert cell(made, "exercise-1").source.startswith("**1. Times.** *Recall.* Write `times(x)`")
    assert cell(made, "exercise-2").source.startswith("**2. Which is larger?** *Invent.* ")
    assert cell(made, "answer-1").source == "import math\n\ntimes = ...  # your function"
    assert cell(made, "shows-1").metadata == {"tags": ["times"]}
    assert cell(made, "solution-1").source.count("<details") == 2
    again = book_chapter(master, Chapter("small", made))
    assert again.notebook == made


def test_an_exercise_that_is_new_or_gone_is_written_or_taken_out(small):
    _, master, _ = small
    empty = Chapter("small", notebook(code("base", "base = 10")))
    made = book_chapter(master, empty).notebook
    assert [each.id for each in made.cells][:3] == ["base", "exercise-1", "answer-1"]
    made.cells += [code("answer-3", "gone = ..."), code("after", "1")]
    ids = [each.id for each in book_chapter(master, Chapter("small", made)).notebook.cells]
    assert ids[-2:] == ["solution-2", "after"]


def test_a_student_gets_a_blank_notebook_that_stands_alone(small):
    book, master, assignment = small
    made = student(master, assignment, book)
    nbformat.validate(made)
    ids = [each.id for each in made.cells]
    first = ["exercise-1", "answer-1", "shows-1", "holds-1", "holds-1-more", "by-hand-1"]
    second = ["exercise-2", "answer-2", "holds-2"]
    assert ids == ["title", "switch", "setup", "given", *first, *second]
    assert (made.nbformat, made.nbformat_minor) == (4, 5)
    assert made.metadata.kernelspec.name == "python3"
    assert (made.metadata.accelerator, made.metadata.colab) == ("GPU", {"gpuType": "T4"})
    assert made.metadata.assignment == {"name": "small", "class": "book", "edition": "student"}
    parts = {each.id: each.metadata.get("assignment") for each in made.cells}
    assert parts["given"] == {"part": "given"}
    assert parts["answer-1"] == {"exercise": 1, "part": "answer"}
    assert parts["holds-1-more"] == {"exercise": 1, "part": "check"}
    assert parts["by-hand-1"] == {"exercise": 1, "part": "by hand"}
    assert cell(made, "switch").source == SWITCH
    assert cell(made, "setup").source == setup_source(Chapter("x", made), book.repository, ROOT)
    assert cell(made, "given").source == f"{GIVEN}\n\nbase = 10\n\noffset = 1"
    assert cell(made, "given").metadata.jupyter == {"source_hidden": True}
    assert cell(made, "answer-2").source == "larger = ...  # your function"
    assert "Two exercises about numbers." in cell(made, "title").source
    assert "3 points and 2 by hand" in cell(made, "exercise-1").source
    assert all(not each.outputs for each in made.cells if each.cell_type == "code")


def test_what_is_given_is_the_cell_that_grading_runs(small):
    book, master, assignment = small
    made = student(master, assignment, book)
    assert assignment.given == [["given", cell(made, "given").source]]
    parts = ("given", "answer-1", "shows-1", "holds-1", "holds-1-more", "answer-2", "holds-2")
    assert [source for _, source in assignment.cells()] == [cell(made, id).source for id in parts]


def test_an_assignment_is_plain_data(small):
    _, _, assignment = small
    data = json.loads(json.dumps(assignment.to_json()))
    assert Assignment.from_json(data) == assignment
    assert set(data) == {"name", "title", "class", "seed", "runner", "given", "questions"}
    assert (data["class"], len(data["seed"])) == ("book", 64)
    asked = data["questions"][0]
    assert (asked["name"], asked["points"], asked["seconds"]) == ("times", 3, 5)
    assert asked["by_hand"] == {
        "points": 2,
        "rubric": "Two points for a sentence that says why.",
    }


def test_solution_and_instructor_editions_say_what_only_they_may(small):
    book, master, assignment = small
    solved, told = solution(master, assignment, book), instructor(master, assignment, book)
    for made in (solved, told):
        nbformat.validate(made)
        assert cell(made, "answer-1").source.startswith("import math\n\ndef times(x):\n")
        assert cell(made, "why-1").source == "**Why this holds.** It is the plainest way to say it."
    assert "instructor-1" not in [each.id for each in solved.cells]
    words = cell(told, "instructor-1").source
    for part in (
        *("It is for warming up.", "It loses the sign on its way.", "return x + 2 - 1"),
        *("- `test_any`: Multiplies any number", "def test_negative(student, rng)"),
        *("- `factor`: `2`", "**Read by a person**, 2 points. Two points for a sentence"),
    ):
        assert part in words


def test_an_answer_takes_the_place_of_the_blank_alone():
    starter = "def given():\n    return 1\n\nanswer = ...  # {'A': ...}"
    assert answered(starter, "answer = 2") == "def given():\n    return 1\n\nanswer = 2"


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("[a](b.ipynb#c-d)", "[a](URL/notebooks/b.ipynb#c-d)"),
        ("[a](../book/glossary.md)", "[a](URL/book/glossary.md)"),
        ("[a](https://example.org/x)", "[a](https://example.org/x)"),
        ("[a](#here) `f[0](x)`", "[a](#here) `f[0](x)`"),
        ("```python\nf[0](x)\n```", "```python\nf[0](x)\n```"),
    ],
)
def test_links_lead_to_the_repository_from_anywhere(book, text, made):
    url = f"{book.repository.url}/blob/{book.repository.branch}"
    assert absolute(text, book.repository) == made.replace("URL", url)


def test_what_students_are_told_links_to_pages_that_exist(book, drafts):
    start = f"{book.repository.url}/blob/{book.repository.branch}/"
    linked = set()
    for data in student_files(list(drafts.values()), book).values():
        for rest in data.decode().split(start)[1:]:
            linked.add(rest.split(")")[0].split("#")[0])
    assert "book/handing-in.md" in linked
    assert [path for path in linked if not (ROOT / path).is_file()] == []


# --- as a student runs it


@pytest.mark.parametrize("runner", ["cpu", "simulated"])
@pytest.mark.parametrize("name", CHAPTERS)
def test_a_students_notebook_runs_blank_and_solved(
    book, drafts, name, runner, tmp_path, monkeypatch
):
    monkeypatch.setenv("JUPYTER_PATH", str(ROOT))
    blank, solved = (make(*drafts[name], book) for make in (student, solution))
    for each in solved.cells:
        each.id = f"solved-{each.id}"
    later = [each for each in solved.cells if each.metadata.get("assignment", {}).get("exercise")]
    executed = run(notebook(*blank.cells, *later), runner, tmp_path)
    raised = [
        f"{each.id}: {output.ename}: {output.evalue}"
        for each in executed.cells
        for output in each.get("outputs", ())
        if output.output_type == "error"
    ]
    assert raised == []
    shown = {each.id: value(each) for each in executed.cells}
    for exercise in drafts[name][0].exercises:
        last = f"holds-{exercise.number}{'-more' if len(exercise.checks) > 1 else ''}"
        assert "no answer yet" in shown[last]
        assert "it holds" in shown[f"solved-{last}"]


def test_the_switch_gives_two_gpus_to_a_student_who_has_none(book, drafts, tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_PATH", str(ROOT))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "cudasim" / "src"))  # else it would be installed
    made = student(*drafts["computing-devices"], book)
    cell(made, "switch").source = "SIMULATE_GPUS = True"
    made.cells = [*made.cells[:4], code("count", "torch.cuda.device_count()")]
    executed = run(made, "python3", tmp_path)
    assert value(cell(executed, "count")) == "2"


def run(made, runner, folder):
    client = NotebookClient(
        made,
        kernel_name=runner,
        allow_errors=True,
        shutdown_kernel="immediate",
        resources={"metadata": {"path": str(folder)}},
    )
    return client.execute()


def value(executed):
    """The value that a cell shows, or None."""
    outputs = executed.get("outputs", ())
    values = [each.data["text/plain"] for each in outputs if each.output_type == "execute_result"]
    return values[-1] if values else None
