"""`python -m tools example`: a class of five invented students, to try grading on.

Their submissions are made of the class's own student edition, as Canvas would download them, and
beside them lies the gradebook that Canvas would export.
"""

import csv
import io
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tools.book.book import Book
from tools.exercises.archive import zipped
from tools.exercises.assignment import Assignment, points_by_hand, points_of
from tools.exercises.choice import choice_of
from tools.exercises.editions import answered, edition
from tools.exercises.masters import Exercise, Master
from tools.exercises.release import MASTERS, make_drafts
from tools.exercises.variants import draws_of
from tools.files import write_bytes, write_text

FOLDER = "_build/example"
ENDLESS = "while True:\n    pass"
Answer = Callable[[Exercise], str | None]  # the code that a student writes, if any


def first_by(answer: Answer, otherwise: Answer) -> Answer:
    """Who answers the first exercise one way, and all others another."""
    return lambda exercise: (answer if exercise.number == 1 else otherwise)(exercise)


def solution(exercise: Exercise) -> str:
    return exercise.code("Solution")


STUDENTS: dict[str, Answer] = {  # the last one's file is cut short
    "Adeyemi, Ada": solution,
    "Brandt, Ben": first_by(lambda exercise: exercise.wrong_answers[0].blocks[0], solution),
    "Çelik, Deniz": first_by(solution, lambda exercise: None),
    '="=SUM(1), Eve"': first_by(lambda exercise: ENDLESS, solution),  # as Canvas exports a name
    "Fontaine, Emil": solution,
}


def write_example(chapter: str, key: str | None, masters: Path | None, book: Book) -> list[str]:
    """Write the submissions and the gradebook; returns their paths. Raises BookError."""
    folder = masters or book.root / MASTERS
    [(master, assignment)] = make_drafts(book, folder, draws_of(key), choice_of(chapter, None))
    blank, files, rows = edition("student", master, assignment, book), {}, []
    for number, (name, answer) in enumerate(STUDENTS.items(), start=1):
        plain = "".join(letter for letter in name.lower() if letter.isalnum())
        data = (nbformat.writes(handed_in(blank, master, answer)) + "\n").encode()
        path = f"{plain}_{1000 + number}_{7000 + number}_{chapter}.ipynb"
        files[path] = data[: len(data) // 2] if number == len(STUDENTS) else data
        rows.append([name, 1000 + number, f"s{number}", f"s{number}@example.org", "One", ""])
    folder = book.root / FOLDER
    write_bytes(folder / "submissions.zip", zipped(files), book.root)
    write_text(folder / "canvas.csv", gradebook(assignment, rows), book.root)
    return [f"{FOLDER}/submissions.zip", f"{FOLDER}/canvas.csv"]


def handed_in(blank: NotebookNode, master: Master, answer: Answer) -> NotebookNode:
    """The student edition with a student's answers in it."""
    notebook = deepcopy(blank)
    cells = {cell.id: cell for cell in notebook.cells}
    for exercise in master.exercises:
        code = answer(exercise)
        if code is not None:
            cells[f"answer-{exercise.number}"].source = answered(exercise.code("Starter"), code)
    return notebook


def gradebook(assignment: Assignment, rows: list[list]) -> str:
    """What Canvas exports before anything is graded: its lib/gradebook_exporter.rb."""
    heads = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
    points = points_of(assignment) + points_by_hand(assignment)
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow([*heads, f"{assignment['title']} (4711)"])
    writer.writerow(["    Points Possible", "", "", "", "", points])
    writer.writerows(rows)
    return written.getvalue()
