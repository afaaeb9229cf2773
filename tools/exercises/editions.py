"""The editions that are made of a master: student, solution, instructor, and the book's own cells.

Each is a pure function of the master and what was drawn: the same bytes every time. What a
student gets is made from what a student may see, and from nothing else.
"""

import posixpath
import re
from copy import deepcopy
from itertools import chain

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tools.book.book import Book
from tools.book.chapters import LANGUAGE, SETUP, Chapter
from tools.book.code import parsed
from tools.book.repository import Repository
from tools.book.setup_cells import FOLDED, write_setup
from tools.exercises.assignment import PLACE, Assignment, points_by_hand, points_of
from tools.exercises.masters import Exercise, Master, described
from tools.rules.exercises import PART

PAGE = "book/handing-in.md"  # how to get, run, check and hand in
GPU = {"accelerator": "GPU", "colab": {"gpuType": "T4"}}
LINK = re.compile(r"(?s:```.*?```)|`[^`\n]*`|\]\((?P<target>(?![a-z]+:|#)[^)\s]+)\)")
HOW = (
    "Run the cells from the top: the first three get the notebook ready, and `SIMULATE_GPUS = "
    "True` gives two simulated GPUs to a machine that has fewer. Write each answer in place of "
    "its `...`, leave the other cells as they are and where they are, and run the check below "
    "it. Save the notebook and hand it in; the [page for students]({page}) says how, and what "
    "the checks promise."
)
EDITIONS = ("student", "solution", "instructor")
ABOVE = {  # how the book's own exercises begin
    "chapter": "**{title}{stop}** *{level}.*",
    "puzzles": "### {title}\n\n*{level}.*",
}


def student_readme(chapters: list[dict], book: Book) -> str:
    """The text that lies beside the notebooks of students; `chapters` as a manifest has them."""
    lines = ["# Exercises", "", _how(book), "", "| File | Chapter | Worth |", "|:--|:--|:--|"]
    for chapter in chapters:
        worth = _points(chapter["points"], chapter["by_hand"])
        lines.append(f"| `{chapter['name']}.ipynb` | {chapter['title']} | {worth} |")
    return "\n".join([*lines, ""])


def _how(book: Book) -> str:
    """How to use a student's notebook, with a link to the page for students."""
    return HOW.format(page=f"{book.repository.url}/blob/{book.repository.branch}/{PAGE}")


def answered(starter: str, code: str) -> str:
    """A starter with an answer in place of its last statement, `name = ...`."""
    last = parsed(starter).body[-1]
    return "\n".join([*starter.splitlines()[: last.lineno - 1], code])


def book_chapter(master: Master, chapter: Chapter) -> Chapter:
    """A chapter with the cells of its exercises written afresh, where they were.

    An exercise that the chapter did not have follows the one before it, or ends the chapter.
    """
    kind, cells = "puzzles" if chapter.holds_puzzles else "chapter", []
    made = {exercise.number: _exercise_cells(kind, exercise) for exercise in master.exercises}
    for cell in chapter.notebook.cells:
        match = PART.fullmatch(cell.id)
        if match is None:
            cells.append(cell)
            continue
        for number in [number for number in made if number <= int(match["number"])]:
            cells += made.pop(number)
    notebook = deepcopy(chapter.notebook)
    notebook.cells = [*cells, *chain.from_iterable(made.values())]
    return Chapter(chapter.name, notebook)


def edition(kind: str, master: Master, assignment: Assignment, book: Book) -> NotebookNode:
    """An edition of a master: blank for students, solved, or solved with what instructors need."""
    told = {"name": assignment["name"], "class": assignment["class"], "edition": kind}
    told["exercises"] = [question["number"] for question in assignment["questions"]]
    about = f"The {kind} edition, class {assignment['class']}."
    words = [master.head, _how(book)] if kind == "student" else [about, master.head]
    worth = f"{_points(points_of(assignment), points_by_hand(assignment))} in all."
    opening = [f"# {master.title}: exercises", *words, worth]
    cells = [
        new_markdown_cell("\n\n".join(filter(None, opening)), id="title"),
        new_code_cell("", id="setup", metadata={"tags": [SETUP]}),
    ]
    for id, source in assignment["given"]:
        folded = {name: deepcopy(FOLDED[name]) for name in ("cellView", "jupyter")}
        folded |= {"tags": ["hide-input"], "assignment": {"part": "given"}}
        cells.append(new_code_cell(source, id=id, metadata=folded))
    for exercise in master.exercises:
        cells += _exercise_cells(kind, exercise)
    for cell in cells:
        if cell.cell_type == "markdown":
            cell.source = absolute(cell.source, book.repository)
    metadata = deepcopy(GPU | LANGUAGE) | {"assignment": told}
    chapter = Chapter(master.name, new_notebook(cells=cells, metadata=metadata))
    return write_setup(chapter, book.repository, book.root).notebook


def _exercise_cells(kind: str, exercise: Exercise) -> list[NotebookNode]:
    """The cells of an exercise in an edition, marked, or in the book's own chapter or puzzles."""
    n, by_hand, answer = exercise.number, exercise.by_hand, exercise.code("Starter")
    [solution] = exercise.parts["Solution"]
    above = ABOVE.get(kind, "## {title}\n\n*{level}, {worth}.*").format(
        title=f"{n}. {exercise.title}",
        stop="" if exercise.title.endswith("?") else ".",
        level=exercise.level,
        worth=_points(exercise.points, by_hand["points"] if by_hand else 0),
    )
    hints = enumerate(exercise.parts["Hint"], start=1)
    folds = [_fold("hint", f"Hint {step}", hint.whole) for step, hint in hints]
    asked = "\n\n".join([f"{above} {exercise.text}", *folds])
    if kind in ("solution", "instructor"):
        answer = answered(answer, solution.blocks[0])
    cells = [
        ("exercise", new_markdown_cell(asked, id=f"exercise-{n}")),
        ("answer", new_code_cell(answer, id=f"answer-{n}")),
    ]
    for shows in exercise.parts["Shows"]:
        metadata = {"tags": ["times"]} if "times" in shows.options else {}
        if "alt" in shows.options:
            metadata["mystnb"] = {"image": {"alt": shows.options["alt"]}}
        cells.append(("shows", new_code_cell(shows.blocks[0], id=f"shows-{n}", metadata=metadata)))
    for more, source in zip(("", "-more"), exercise.checks, strict=False):
        cells.append(("check", new_code_cell(source, id=f"holds-{n}{more}")))
    made = [cell for _, cell in cells]
    if kind in ABOVE:
        wrong = _fold("wrong", "A wrong answer", exercise.wrong_answers[0].whole)
        text = f"{_fold('solution', 'A solution', solution.whole)}\n\n{wrong}"
        return [*made, new_markdown_cell(text, id=f"solution-{n}")]
    if by_hand:
        made.append(new_markdown_cell(PLACE, id=f"by-hand-{n}"))
        cells.append(("by hand", made[-1]))
    for part, cell in cells:
        cell.metadata["assignment"] = {"exercise": n, "part": part}
    if kind != "student":
        made.append(new_markdown_cell(f"**Why this holds.** {solution.text}", id=f"why-{n}"))
    if kind == "instructor":
        made.append(new_markdown_cell(_for_instructors(exercise), id=f"instructor-{n}"))
    return made


def _fold(kind: str, summary: str, text: str) -> str:
    return f'<details class="{kind}">\n<summary>{summary}</summary>\n\n{text}\n\n</details>'


def _for_instructors(exercise: Exercise) -> str:
    """Why this exercise, answers that are wrong, what the hidden tests ask, and what was drawn."""
    tests, by_hand = exercise.code("Hidden tests"), exercise.by_hand
    lines = ["**For instructors.** " + exercise.parts["For instructors"][0].whole]
    for wrong in exercise.wrong_answers:
        lines.append(f"**A wrong answer.** {wrong.text}\n\n```python\n{wrong.blocks[0]}\n```")
    asked = [f"- `{name}`: {about}" for name, about in described(tests)]
    lines.append("**The hidden tests.**\n\n" + "\n".join(asked) + f"\n\n```python\n{tests}\n```")
    if exercise.drawn:
        drawn = [f"- `{name}`: `{value!r}`" for name, value in exercise.drawn.items()]
        lines.append("**Drawn for this class.**\n\n" + "\n".join(drawn))
    if by_hand:
        lines.append(f"**Read by a person**, {_points(by_hand['points'])}. {by_hand['rubric']}")
    return "\n\n".join(lines)


def absolute(text: str, repository: Repository) -> str:
    """Markdown with its links to the book's files turned into addresses in its repository."""

    def address(match: re.Match) -> str:
        path = posixpath.normpath(f"notebooks/{match['target']}")
        return (
            f"]({repository.url}/blob/{repository.branch}/{path})" if match["target"] else match[0]
        )

    return LINK.sub(address, text)


def _points(points: int, by_hand: int = 0) -> str:
    """`3 points`, `1 point`, `3 points and 2 by hand`."""
    words = f"{points} point{'' if points == 1 else 's'}"
    return f"{words} and {by_hand} by hand" if by_hand else words
