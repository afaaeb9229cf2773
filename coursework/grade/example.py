"""`python -m tools example`: a class of five invented students, as Canvas would export them."""

import csv
import io
import tomllib
from pathlib import Path

from coursework.exercises.assignment import choice_of, worth_of
from coursework.exercises.editions import answered, edition
from coursework.exercises.release import MASTERS, make_drafts
from coursework.exercises.variants import draws_of
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
    """Write the submissions and the gradebook; returns their paths. Raises BookError."""
    folder = masters or book.root / MASTERS
    [(master, assignment)] = make_drafts(
        book, folder, draws_of(key), choice_of(chapter, None)
    )
    students, files, points = CLASS["students"], {}, sum(worth_of(assignment))
    rows = [
        [*CLASS["header"], f"{assignment['title']} (4711)"],
        ["    Points Possible", *[""] * 4, points],
    ]
    for number, (name, (first, others)) in enumerate(students.items(), start=1):
        notebook = edition("student", master, assignment, book)
        cells = {cell.id: cell for cell in notebook.cells}
        for exercise in master.exercises:
            codes = {
                "right": exercise.code("Solution"),
                "endless": "while True:\n    pass",
            }
            codes["wrong"] = exercise.parts["Wrong answer"][0].blocks[0]
            if code := codes.get(first if exercise.number == 1 else others):
                cells[f"answer-{exercise.number}"].source = answered(
                    exercise.code("Starter"), code
                )
        plain = "".join(letter for letter in name.lower() if letter.isalnum())
        data = notebook_text(notebook).encode()
        path = f"{plain}_{1000 + number}_{7000 + number}_{chapter}.ipynb"
        files[path] = data[: len(data) // 2] if number == len(students) else data
        rows.append(
            [name, 1000 + number, f"s{number}", f"s{number}@example.org", "One", ""]
        )
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(rows)
    made = {"submissions.zip": zipped(files), "canvas.csv": written.getvalue()}
    write_files(
        {book.root / FOLDER / name: data for name, data in made.items()}, book.root
    )
    return [f"{FOLDER}/{name}" for name in made]
