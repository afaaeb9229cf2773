"""Editions made of a master: student, solution, instructor, and the book's own cells."""

import posixpath
import re
from copy import deepcopy
from itertools import chain
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from coursework.exercises.assignment import PLACE, Assignment, worth_of
from coursework.exercises.masters import Exercise, Master, described
from tools.book.book import Book
from tools.book.cells import parsed
from tools.book.chapters import LANGUAGE, Chapter
from tools.book.grammar import EXERCISE_PART, SETUP
from tools.book.repository import Repository
from tools.book.setup_cells import FOLDED, write_setup

EDITIONS = ("student", "solution", "instructor")
PAGE = "../book/handing-in.md"  # how to get, run, check and hand in
GPU = {"accelerator": "GPU", "colab": {"gpuType": "T4"}}
JINJA = Environment(
    loader=FileSystemLoader(Path(__file__).parent), undefined=StrictUndefined
)
JINJA.trim_blocks = JINJA.lstrip_blocks = True
TEXTS: Any = JINJA.get_template("texts.jinja").module  # its macros
LINK = re.compile(r"(?s:```.*?```)|`[^`\n]*`|\]\((?P<target>(?![a-z]+:|#)[^)\s]+)\)")


def answered(starter: str, code: str) -> str:
    """A starter with an answer in place of its last statement, `name = ...`."""
    last = parsed(starter).body[-1]
    return "\n".join([*starter.splitlines()[: last.lineno - 1], code])


def book_chapter(master: Master, chapter: Chapter) -> Chapter:
    """A chapter with its exercises' cells written afresh where they were; a new one comes last."""
    kind, cells = "puzzles" if chapter.holds_puzzles else "chapter", []
    made = {
        exercise.number: _exercise_cells(kind, exercise)
        for exercise in master.exercises
    }
    for cell in chapter.notebook.cells:
        if match := EXERCISE_PART.fullmatch(cell.id):
            for number in [number for number in made if number <= int(match["number"])]:
                cells += made.pop(number)
        else:
            cells.append(cell)
    notebook = deepcopy(chapter.notebook)
    notebook.cells = [*cells, *chain.from_iterable(made.values())]
    return Chapter(chapter.name, notebook)


def edition(
    kind: str, master: Master, assignment: Assignment, book: Book
) -> NotebookNode:
    """An edition of a master: blank for students, solved, or solved with what instructors need."""
    group = assignment["class"]
    title = TEXTS.title(kind, master, group, worth_of(assignment), PAGE)
    cells = [new_markdown_cell(title, id="title"), new_code_cell("", id="setup")]
    cells[1].metadata.tags = [SETUP]
    if assignment["given"]:
        folded = {name: deepcopy(FOLDED[name]) for name in ("cellView", "jupyter")}
        folded |= {"tags": ["hide-input"], "assignment": {"part": "given"}}
        cells.append(new_code_cell(assignment["given"], id="given", metadata=folded))
    for exercise in master.exercises:
        cells += _exercise_cells(kind, exercise)
    for cell in cells:
        if cell.cell_type == "markdown":
            cell.source = absolute(cell.source, book.repository)
    told = {"name": assignment["name"], "class": group, "edition": kind}
    told["exercises"] = [question["number"] for question in assignment["questions"]]
    told["masters"] = assignment["masters"]
    metadata = deepcopy(GPU | LANGUAGE) | {"assignment": told}
    chapter = Chapter(master.name, new_notebook(cells=cells, metadata=metadata))
    return write_setup(chapter, book.repository, book.root).notebook


def _exercise_cells(kind: str, exercise: Exercise) -> list[NotebookNode]:
    """The cells of an exercise: in an edition, or in the book's own `chapter` or `puzzles`."""
    n, is_edition, answer = exercise.number, kind in EDITIONS, exercise.code("Starter")
    if kind in ("solution", "instructor"):
        answer = answered(answer, exercise.code("Solution"))
    cells = [
        (
            "exercise",
            new_markdown_cell(TEXTS.asked(kind, exercise), id=f"exercise-{n}"),
        ),
        ("answer", new_code_cell(answer, id=f"answer-{n}")),
    ]
    for shows in exercise.parts["Shows"]:
        metadata = {"tags": ["times"]} if "times" in shows.options else {}
        if "alt" in shows.options:
            metadata["mystnb"] = {"image": {"alt": shows.options["alt"]}}
        cells.append(
            (
                "shows",
                new_code_cell(shows.blocks[0], id=f"shows-{n}", metadata=metadata),
            )
        )
    for more, source in zip(("", "-more"), exercise.checks, strict=False):
        cells.append(("check", new_code_cell(source, id=f"holds-{n}{more}")))
    if is_edition and exercise.by_hand:
        cells.append(("by hand", new_markdown_cell(PLACE, id=f"by-hand-{n}")))
    for part, cell in cells if is_edition else ():
        cell.metadata["assignment"] = {"exercise": n, "part": part}
    made = [cell for _, cell in cells]
    if not is_edition:
        made.append(new_markdown_cell(TEXTS.solution(exercise), id=f"solution-{n}"))
    elif kind != "student":
        made.append(new_markdown_cell(TEXTS.why(exercise), id=f"why-{n}"))
    if kind == "instructor":
        drawn = {name: repr(value) for name, value in exercise.drawn.items()}
        words = TEXTS.instructor(
            exercise, described(exercise.code("Hidden tests")), drawn
        )
        made.append(new_markdown_cell(words.rstrip(), id=f"instructor-{n}"))
    return made


def absolute(text: str, repository: Repository) -> str:
    """Markdown with its links to the book's files turned into addresses in its repository."""

    def address(match: re.Match) -> str:
        if match["target"] is None:  # code
            return match[0]
        path = posixpath.normpath(f"notebooks/{match['target']}")
        return f"]({repository.url}/blob/{repository.branch}/{path})"

    return LINK.sub(address, text)
