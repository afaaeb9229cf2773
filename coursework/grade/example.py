"""`python -m tools example`: a class of five invented students, as Canvas would export them."""

import csv
import io
import tomllib
from pathlib import Path

from nbformat import NotebookNode

from coursework.exercises.assignment import (
    MASTERS,
    Draft,
    choice_of,
    make_drafts,
    worth_of,
)
from coursework.exercises.editions import answered, edition
from coursework.exercises.masters import Exercise
from coursework.exercises.tasks import draws_of
from tools.book.book import Book
from tools.book.notebooks import notebook_text
from tools.files import write_files, zipped

FOLDER = "_build/example"
CLASS = tomllib.loads(
    Path(__file__).with_name("example.toml").read_text(encoding="utf-8")
)


def write_example(
    chapter: str, key: str | None, masters: Path | None, book: Book
) -> list[str]:
    """Write the submissions and the gradebook; return their paths. Raises BookError."""
    folder = masters or book.root / MASTERS
    choice = choice_of(chapter, None)
    [draft] = make_drafts(book.root, folder, draws_of(key), choice)
    archive = f"{FOLDER}/submissions.zip"
    table = f"{FOLDER}/canvas.csv"
    files = {
        book.root / archive: zipped(submissions(draft, book)),
        book.root / table: gradebook(draft),
    }
    write_files(files, book.root)
    return [archive, table]


def submissions(draft: Draft, book: Book) -> dict[str, bytes]:
    """Return the file that each student hands in, under the name that Canvas gives it."""
    files = {}
    students = CLASS["students"].items()
    for number, (name, (first, others)) in enumerate(students, start=1):
        notebook = edition("student", draft.master, draft.assignment, book)
        for exercise in draft.master.exercises:
            kind = first if exercise.number == 1 else others
            answer(notebook, exercise, kind)
        data = notebook_text(notebook).encode()
        if number == len(students):
            data = data[: len(data) // 2]
        letters = "".join(filter(str.isalnum, name.lower()))
        ids = f"{1000 + number}_{7000 + number}"
        files[f"{letters}_{ids}_{draft.master.name}.ipynb"] = data
    return files


def answer(notebook: NotebookNode, exercise: Exercise, kind: str) -> None:
    """Write an answer of a kind that the table of students names; a blank one stays blank."""
    if kind == "right":
        code = exercise.code("Solution")
    elif kind == "wrong":
        code = exercise.parts["Wrong answer"][0].blocks[0]
    elif kind == "endless":
        code = "while True:\n    pass"
    else:
        return
    for cell in notebook.cells:
        if cell.id == f"answer-{exercise.number}":
            cell.source = answered(exercise.code("Starter"), code)


def gradebook(draft: Draft) -> str:
    """Return the gradebook as Canvas exports it, with a column to be filled in."""
    points = sum(worth_of(draft.assignment))
    rows = [
        [*CLASS["header"], f"{draft.assignment.title} (4711)"],
        ["    Points Possible", "", "", "", "", points],
    ]
    for number, name in enumerate(CLASS["students"], start=1):
        account = f"s{number}"
        address = f"{account}@example.org"
        rows.append([name, 1000 + number, account, address, "One", ""])
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
