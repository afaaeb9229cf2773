"""The editions that are made of a master: student, solution, instructor, and the book's own cells.

Each is a pure function of the master and what was drawn: the same bytes every time. What a
student gets is made from what a student may see, and from nothing else.
"""

import ast
import posixpath
import re
from copy import deepcopy

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tools.book.book import Book
from tools.book.chapters import LANGUAGE, SETUP, Chapter
from tools.book.code import parsed
from tools.book.repository import Repository
from tools.book.setup_cells import FOLDED, write_setup
from tools.exercises.assignment import PLACE, Assignment, points_by_hand, points_of
from tools.exercises.masters import Exercise, Master, Part
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
    is_puzzle = chapter.holds_puzzles
    made = {exercise.number: _book_cells(exercise, is_puzzle) for exercise in master.exercises}
    cells = []
    for cell in chapter.notebook.cells:
        match = PART.fullmatch(cell.id)
        if match is None:
            cells.append(cell)
            continue
        for number in [number for number in made if number <= int(match["number"])]:
            cells += made.pop(number)
    for rest in made.values():
        cells += rest
    notebook = deepcopy(chapter.notebook)
    notebook.cells = cells
    return Chapter(chapter.name, notebook)


def _book_cells(exercise: Exercise, is_puzzle: bool) -> list[NotebookNode]:
    """The cells of an exercise as the book shows them, its solution folded."""
    n, title = exercise.number, f"{exercise.number}. {exercise.title}"
    opening = f"### {title}\n\n" if is_puzzle else f"**{_sentence(title)}** "
    asked = _text(f"exercise-{n}", f"{opening}*{exercise.level}.* {_asked(exercise)}")
    folds = [
        _fold("solution", "A solution", exercise.part("Solution").whole),
        _fold("wrong", "A wrong answer", exercise.wrong_answers[0].whole),
    ]
    solved = _text(f"solution-{n}", "\n\n".join(folds))
    return [asked, *(cell for _, cell in _code_cells(exercise, exercise.code("Starter"))), solved]


def edition(kind: str, master: Master, assignment: Assignment, book: Book) -> NotebookNode:
    """An edition of a master: blank for students, solved, or solved with what instructors need."""
    told = {"name": assignment["name"], "class": assignment["class"], "edition": kind}
    told["exercises"] = [question["number"] for question in assignment["questions"]]
    notebook = new_notebook(metadata=deepcopy(GPU | LANGUAGE) | {"assignment": told})
    if kind == "student":
        words = [master.head, _how(book)]
    else:
        words = [f"The {kind} edition, class {assignment['class']}.", master.head]
    worth = f"{_points(points_of(assignment), points_by_hand(assignment))} in all."
    opening = [f"# {master.title}: exercises", *words, worth]
    cells = [
        _text("title", "\n\n".join(filter(None, opening))),
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
    notebook.cells = cells
    return write_setup(Chapter(master.name, notebook), book.repository, book.root).notebook


def _exercise_cells(kind: str, exercise: Exercise) -> list[NotebookNode]:
    n, by_hand = exercise.number, exercise.by_hand
    points = _points(exercise.points, by_hand["points"] if by_hand else 0)
    asked = f"## {n}. {exercise.title}\n\n*{exercise.level}, {points}.* {_asked(exercise)}"
    answer = exercise.code("Starter")
    if kind != "student":
        answer = answered(answer, exercise.code("Solution"))
    cells = [("exercise", _text(f"exercise-{n}", asked)), *_code_cells(exercise, answer)]
    if by_hand:
        cells.append(("by hand", _text(f"by-hand-{n}", PLACE)))
    for part, cell in cells:
        cell.metadata["assignment"] = {"exercise": n, "part": part}
    made = [cell for _, cell in cells]
    if kind != "student":
        made.append(_text(f"why-{n}", f"**Why this holds.** {exercise.part('Solution').text}"))
    if kind == "instructor":
        made.append(_text(f"instructor-{n}", _for_instructors(exercise)))
    return made


def _code_cells(exercise: Exercise, answer: str) -> list[tuple[str, NotebookNode]]:
    """(part, cell) for the answer, what shows it, and its public checks."""
    n, shows = exercise.number, exercise.part("Shows")
    cells = [("answer", new_code_cell(answer, id=f"answer-{n}"))]
    if shows:
        source, metadata = shows.blocks[0], _metadata(shows)
        cells.append(("shows", new_code_cell(source, id=f"shows-{n}", metadata=metadata)))
    for more, source in zip(("", "-more"), exercise.checks, strict=False):
        cells.append(("check", new_code_cell(source, id=f"holds-{n}{more}")))
    return cells


def _metadata(part: Part) -> dict:
    """What the options of a part say of its cell: that it shows times, or what a picture shows."""
    metadata = {}
    if "times" in part.options:
        metadata["tags"] = ["times"]
    if "alt" in part.options:
        metadata["mystnb"] = {"image": {"alt": part.options["alt"]}}
    return metadata


def _asked(exercise: Exercise) -> str:
    """The text of an exercise with its hints folded."""
    hints = enumerate(exercise.hints, start=1)
    folds = [_fold("hint", f"Hint {step}", text) for step, text in hints]
    return "\n\n".join([exercise.text, *folds])


def _fold(kind: str, summary: str, text: str) -> str:
    return f'<details class="{kind}">\n<summary>{summary}</summary>\n\n{text}\n\n</details>'


def _for_instructors(exercise: Exercise) -> str:
    """Why this exercise, answers that are wrong, what the hidden tests ask, and what was drawn."""
    tests, by_hand = exercise.code("Hidden tests"), exercise.by_hand
    lines = ["**For instructors.** " + exercise.part("For instructors").whole]
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


def described(tests: str) -> list[tuple[str, str]]:
    """(name, docstring) of each hidden test."""
    return [
        (node.name, ast.get_docstring(node) or "")
        for node in ast.parse(tests).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


def absolute(text: str, repository: Repository) -> str:
    """Markdown with its links to the book's files turned into addresses in its repository."""

    def address(match: re.Match) -> str:
        if match["target"] is None:  # code
            return match[0]
        path = posixpath.normpath(posixpath.join("notebooks", match["target"]))
        return f"]({repository.url}/blob/{repository.branch}/{path})"

    return LINK.sub(address, text)


def _points(points: int, by_hand: int = 0) -> str:
    """`3 points`, `1 point`, `3 points and 2 by hand`."""
    words = f"{points} point{'' if points == 1 else 's'}"
    return f"{words} and {by_hand} by hand" if by_hand else words


def _sentence(title: str) -> str:
    """A title with a full stop, unless it asks."""
    return title if title.endswith("?") else f"{title}."


def _text(id: str, source: str) -> NotebookNode:
    return new_markdown_cell(source, id=id)
