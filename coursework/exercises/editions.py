"""Editions that are made of a master: student, solution, instructor, and the book's own."""

from copy import deepcopy
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from coursework.exercises.assignment import worth_of
from coursework.exercises.masters import Exercise, Master, Part, docstrings_of_tests
from coursework.exercises.tasks import PLACE, Assignment
from tools.book.addresses import absolute_links
from tools.book.book import Book
from tools.book.cells import parse_code
from tools.book.chapters import FOLDED, LANGUAGE, Chapter
from tools.book.grammar import EXERCISE_PART, HIDDEN_CODE, SETUP
from tools.book.repository import Repository
from tools.book.setup_cells import with_setup

EDITIONS = ("student", "solution", "instructor")
PAGE = "../book/handing-in.md"  # how to get, run, check and hand in
GPU = {"accelerator": "GPU", "colab": {"gpuType": "T4"}}

JINJA = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEXTS: Any = JINJA.get_template("texts.jinja").module  # its macros, as functions


def answered(starter: str, code: str) -> str:
    """Return a starter with `code` in place of its last statement, `name = ...`."""
    blank = parse_code(starter).body[-1]
    lines_above = starter.splitlines()[: blank.lineno - 1]
    return "\n".join([*lines_above, code])


def book_chapter(master: Master, chapter: Chapter, repository: Repository) -> Chapter:
    """Return a chapter with its exercises written anew from their master.

    Their links are addresses of the site. Each stands where it was in the chapter, and those
    that are new to it at the end.
    """
    kind = "puzzles" if chapter.holds_puzzles else "chapter"

    def written(exercise: Exercise) -> list[NotebookNode]:
        cells = _exercise_cells(kind, exercise)
        for cell in cells:
            if cell.cell_type == "markdown":
                cell.source = absolute_links(cell.source, chapter.page_name, repository)
        return cells

    waiting = list(master.exercises)
    cells = []
    for cell in chapter.notebook.cells:
        part = EXERCISE_PART.fullmatch(cell.id)
        if part is None:
            cells.append(cell)
            continue
        while waiting and waiting[0].number <= int(part["number"]):
            cells += written(waiting.pop(0))
    for exercise in waiting:
        cells += written(exercise)

    notebook = deepcopy(chapter.notebook)
    notebook.cells = cells
    return Chapter(chapter.name, notebook)


def edition(
    kind: str, master: Master, assignment: Assignment, book: Book
) -> NotebookNode:
    """Make one of the EDITIONS of a master.

    The student edition is blank, the solution edition is solved, and the instructor
    edition also holds the hidden tests and notes.
    """
    title = TEXTS.title(kind, master, assignment.group, worth_of(assignment), PAGE)
    cells = [
        new_markdown_cell(title, id="title"),
        new_code_cell("", id="setup", metadata={"tags": [SETUP]}),
    ]
    if assignment.given:
        cells.append(_given_cell(assignment.given))
    for exercise in master.exercises:
        cells += _exercise_cells(kind, exercise)
    for cell in cells:
        if cell.cell_type == "markdown":
            cell.source = absolute_links(cell.source, master.name, book.repository)

    metadata = deepcopy(GPU | LANGUAGE)
    metadata["assignment"] = {
        "name": assignment.name,
        "class": assignment.group,
        "edition": kind,
        "exercises": [exercise.number for exercise in assignment.exercises],
        "masters": assignment.masters,
    }
    notebook = new_notebook(cells=cells, metadata=metadata)
    chapter = Chapter(master.name, notebook)
    return with_setup(chapter, book.repository, book.root).notebook


def _given_cell(source: str) -> NotebookNode:
    cell = new_code_cell(source, id="given")
    cell.metadata |= deepcopy(FOLDED)
    cell.metadata["tags"] = [HIDDEN_CODE]
    cell.metadata["assignment"] = {"part": "given"}
    return cell


def _exercise_cells(kind: str, exercise: Exercise) -> list[NotebookNode]:
    """Make the cells of an exercise.

    `kind` is an edition, or says where they stand in the book: in a "chapter", or among
    the "puzzles".
    """
    n = exercise.number
    is_edition = kind in EDITIONS
    cells = []

    def add(part: str, cell: NotebookNode) -> None:
        if is_edition:
            cell.metadata["assignment"] = {"exercise": n, "part": part}
        cells.append(cell)

    answer = exercise.code("Starter")
    if kind in ("solution", "instructor"):
        answer = answered(answer, exercise.code("Solution"))
    add("exercise", new_markdown_cell(TEXTS.task(kind, exercise), id=f"exercise-{n}"))
    add("answer", new_code_cell(answer, id=f"answer-{n}"))
    for part in exercise.parts["Shows"]:
        add("shows", _shows_cell(n, part))
    first_check, *more_checks = exercise.checks
    add("check", new_code_cell(first_check, id=f"holds-{n}"))
    for check in more_checks:
        add("check", new_code_cell(check, id=f"holds-{n}-more"))
    if is_edition and exercise.by_hand:
        add("by hand", new_markdown_cell(PLACE, id=f"by-hand-{n}"))

    if not is_edition:
        solution = TEXTS.solution(exercise)
        cells.append(new_markdown_cell(solution, id=f"solution-{n}"))
    elif kind != "student":
        explanation = TEXTS.explanation(exercise)
        cells.append(new_markdown_cell(explanation, id=f"why-{n}"))
    if kind == "instructor":
        cells.append(_instructor_cell(exercise))
    return cells


def _shows_cell(number: int, part: Part) -> NotebookNode:
    cell = new_code_cell(part.blocks[0], id=f"shows-{number}")
    if "times" in part.options:
        cell.metadata["tags"] = ["times"]
    if "alt" in part.options:
        cell.metadata["mystnb"] = {"image": {"alt": part.options["alt"]}}
    return cell


def _instructor_cell(exercise: Exercise) -> NotebookNode:
    tests = docstrings_of_tests(exercise.code("Hidden tests"))
    drawn = {name: repr(value) for name, value in exercise.drawn.items()}
    text = TEXTS.instructor(exercise, tests, drawn)
    return new_markdown_cell(text.rstrip(), id=f"instructor-{exercise.number}")
