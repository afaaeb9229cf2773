"""Exercises: asked, answered and checked in the notebook, with hints, solution and wrong answer.

Exercise N is the text cell `exercise-N`, the code cells `answer-N`, which says that there is no
answer yet, and `holds-N` (then `holds-N-more`), which asserts what must hold once there is one,
and the text cell `solution-N`, where a solution and a wrong answer are folded. Between the answer
and its check there may be `shows-N`, which draws what the answer does, or what was given. In the
notebook of puzzles an exercise is called a puzzle. All of them are written by `make release` from
the chapter's master; see `masters.py`.
"""

import ast
import re
from dataclasses import dataclass

from bs4 import Tag
from nbformat import NotebookNode

from tools.book.cells import Broken, drawn
from tools.book.chapters import Chapter
from tools.book.code import blank_name, bound_names, has_assert, is_blank, syntax_tree
from tools.errors import BookError

ASKED = re.compile(  # in bold letters, or, as puzzles are, under a heading of its own
    r"(?:\*\*|### )(?P<number>\d+)\. [^*\n]+(?:\*\* |\n\n)\*(?P<level>\w+)\.\* "
)
PART = re.compile(r"(exercise|answer|shows|holds|solution)-(?P<number>\d+)(-more)?")
LEVELS = ("Recall", "Apply", "Invent")
HOLDS = "*It holds when*"
FEWEST, FEWEST_PUZZLES = 4, 15  # exercises a chapter
HINTS = (2, 3)
LEAST_REASON = 30  # characters
WIDTH = 76
NO_ANSWER, HELD = "no answer yet", "it holds"  # how the value of `holds-N` ends


@dataclass(frozen=True)
class Exercise:
    """The cells of one exercise, in order; a cell that is missing is not among them."""

    number: int
    cells: list[NotebookNode]
    kind: str = "Exercise"  # or "Puzzle"

    @property
    def called(self) -> str:
        """How the value of `holds-N` begins."""
        return f"{self.kind} {self.number}: "

    def cell(self, part: str) -> NotebookNode | None:
        """Its cell `<part>-N`, if it is there."""
        return next((cell for cell in self.cells if cell.id == f"{part}-{self.number}"), None)

    @property
    def asked(self) -> NotebookNode:
        """The cell that asks."""
        return self.cell("exercise")

    @property
    def tried(self) -> list[NotebookNode]:
        """The code cells that a reader runs once there is an answer, in order."""
        shown = self.cell("shows")
        return [shown, *self.checks] if shown else self.checks

    @property
    def checks(self) -> list[NotebookNode]:
        """The code cells that assert what must hold."""
        return [cell for cell in self.cells if cell.id.startswith("holds-")]

    def code(self, kind: str) -> list[str]:
        """The code of its solution, or of its wrong answer: `kind` is the class of the details."""
        page = drawn(self.cell("solution"))
        return [block.get_text() for block in page.select(f"details.{kind} > pre > code")]


def exercises(chapter: Chapter) -> list[Exercise]:
    """The exercises of a chapter, in the order in which it asks them."""
    found: dict[int, list[NotebookNode]] = {}
    for cell in chapter.notebook.cells:
        if match := PART.fullmatch(cell.id):
            found.setdefault(int(match["number"]), []).append(cell)
    kind = "Puzzle" if chapter.holds_puzzles else "Exercise"
    asked = {number: Exercise(number, cells, kind) for number, cells in found.items()}
    return [each for each in asked.values() if each.asked is not None]


def counted(chapter: Chapter) -> Broken:
    """Four exercises or more, fifteen of puzzles, numbered from 1, of every level."""
    found = exercises(chapter)
    numbers = [each.number for each in found]
    if numbers != list(range(1, len(numbers) + 1)):
        yield None, f"its exercises are numbered {numbers}; number them from 1"
    fewest = FEWEST_PUZZLES if chapter.holds_puzzles else FEWEST
    if len(numbers) < fewest:
        yield None, f"{len(numbers)} exercises, at least {fewest}: cells exercise-1, ..."
    levels = [match["level"] for each in found if (match := ASKED.match(each.asked.source))]
    if found and (missing := [level for level in LEVELS if level not in levels]):
        yield None, f"no exercise says {' or '.join(f'*{each}.*' for each in missing)}; write one"
    for cell in chapter.notebook.cells:
        match = PART.fullmatch(cell.id)
        if match and int(match["number"]) not in numbers:
            yield cell, f"belongs to no exercise; there is no cell exercise-{match['number']}"
        if cell.cell_type == "markdown" and not cell.id.startswith("exercise-"):
            if asked := ASKED.search(cell.source):
                number = asked["number"]
                yield cell, f"asks exercise {number}; give it a cell exercise-{number} of its own"


def asked_whole(chapter: Chapter) -> Broken:
    """The text says number, title, level, what must hold, and folds hints in steps."""
    for each in exercises(chapter):
        cell, page = each.asked, drawn(each.asked)
        match = ASKED.match(cell.source)
        if not match or int(match["number"]) != each.number or match["level"] not in LEVELS:
            levels = ", ".join(f"*{level}.*" for level in LEVELS)
            title = f"'**{each.number}. Title.**' or '### {each.number}. Title'"
            yield cell, f"begins with {title} and one of {levels}"
        plain = re.sub(r"<details.*?</details>", "", cell.source, flags=re.S)
        if plain.count(HOLDS) != 1 or cell.source.count(HOLDS) != 1:
            yield cell, f"does not say once, outside its hints, '{HOLDS} ...'"
        folds = page("details")
        hints = [fold for fold in folds if fold.get("class") == ["hint"]]
        if len(hints) not in HINTS or len(folds) != len(hints):
            few, many = HINTS
            yield (
                cell,
                f"{len(hints)} hints of {len(folds)} folds; give {few} or {many}, each a "
                '<details class="hint">, and nothing else folded',
            )
        for step, hint in enumerate(hints, start=1):
            yield from faults_of_fold(cell, hint, f"Hint {step}")


def faults_of_fold(cell: NotebookNode, fold: Tag, summary: str) -> Broken:
    """A fold is called as it should be, closed, and holds Markdown that is drawn."""
    called = fold.summary.get_text() if fold.summary else ""
    if called != summary:
        yield cell, f"a fold is called '{called}'; call it '{summary}'"
    if set(fold.attrs) != {"class"}:
        yield cell, f"the fold '{called}' has more than a class; drop {set(fold.attrs) - {'class'}}"
    texts = fold(["p", "pre", "ul", "ol", "table"], recursive=False)
    if not "".join(text.get_text() for text in texts).strip():
        yield cell, f"the fold '{called}' holds no Markdown; leave a blank line after its summary"


def in_order(chapter: Chapter) -> Broken:
    """Its cells follow one another: exercise, answer, shows, holds, holds-more, solution."""
    place = {cell.id: number for number, cell in enumerate(chapter.notebook.cells)}
    for each in exercises(chapter):
        n = each.number
        needed = [f"exercise-{n}", f"answer-{n}", f"holds-{n}", f"solution-{n}"]
        if f"holds-{n}-more" in place:
            needed.insert(3, f"holds-{n}-more")
        if f"shows-{n}" in place:
            needed.insert(2, f"shows-{n}")
        ids = [cell.id for cell in each.cells]
        start = place[each.asked.id]
        if ids != needed or [place[id] for id in ids] != list(range(start, start + len(ids))):
            yield each.asked, f"its cells are {', '.join(ids)}; write {', '.join(needed)}, in a row"
        for cell in each.cells:
            kind = "markdown" if cell.id.startswith(("exercise", "solution")) else "code"
            if cell.cell_type != kind:
                yield cell, f"is a {cell.cell_type} cell; make it a {kind} cell"


def blank(chapter: Chapter) -> Broken:
    """The answer is one name that means nothing yet, and the check asks whether it does."""
    for each in exercises(chapter):
        name = answer_name(chapter, each)
        answer = each.cell("answer")
        if answer is not None and name is None:
            yield answer, "no blank answer; end it in 'name = ...', for one name, and a comment"
        if name is None or not each.checks:
            continue
        trees = [syntax_tree(chapter, cell) for cell in each.checks]
        asks = any(asks_if_given(node, name) for tree in trees for node in ast.walk(tree))
        if not asks or not any(map(has_assert, trees)):
            yield (
                each.checks[0],
                f"checks no answer; write 'if {name} is not ...:' and asserts under it",
            )
        for cell, tree in zip(each.checks, trees, strict=True):
            if any(isinstance(node, ast.Assert) for node in tree.body):
                yield cell, f"asserts without an answer; put it under 'if {name} is not ...:'"
        last, shown = each.checks[-1], trees[-1].body[-1:]
        words = [each.called, NO_ANSWER, HELD]
        if (
            not shown
            or not isinstance(shown[0], ast.Expr)
            or any(word not in last.source for word in words)
        ):
            yield (
                last,
                f"does not end in \"'{words[0]}' + ('{words[1]}' if {name} is ... else "
                f"'{words[2]}')\"",
            )


def answer_name(chapter: Chapter, exercise: Exercise) -> str | None:
    """The name that an answer gives a value to; None if the cell `answer-N` asks for none."""
    cell = exercise.cell("answer")
    if cell is None or cell.cell_type != "code":
        return None
    return blank_name(syntax_tree(chapter, cell))


def asks_if_given(node: ast.AST, name: str) -> bool:
    """True for `name is not ...`."""
    return (
        isinstance(node, ast.Compare)
        and isinstance(node.left, ast.Name)
        and node.left.id == name
        and isinstance(node.ops[0], ast.IsNot)
        and is_blank(node.comparators[0])
    )


def solved(chapter: Chapter) -> Broken:
    """A solution with its reason, then a wrong answer with what is wrong, each one block."""
    for each in exercises(chapter):
        cell = each.cell("solution")
        if cell is None or cell.cell_type != "markdown":
            continue
        page = drawn(cell)
        folds = page("details")
        if [fold.get("class") for fold in folds] != [["solution"], ["wrong"]]:
            yield (
                cell,
                'give a <details class="solution">, then a <details class="wrong">, and nothing '
                "else folded",
            )
            continue
        name = answer_name(chapter, each)
        for fold, summary in zip(folds, ("A solution", "A wrong answer"), strict=True):
            yield from faults_of_fold(cell, fold, summary)
            yield from faults_of_code(chapter, cell, fold, summary, name)


def faults_of_code(
    chapter: Chapter, cell: NotebookNode, fold: Tag, summary: str, name: str | None
) -> Broken:
    """A fold holds one block of Python that fits the page and binds `name`, and a reason."""
    blocks = fold.select(":scope > pre > code.language-python")
    if len(blocks) != 1:
        yield cell, f"'{summary}' has {len(blocks)} blocks of Python; write one, after ```python"
        return
    text = blocks[0].get_text()
    if long := [line for line in text.splitlines() if len(line) > WIDTH]:
        yield cell, f"'{summary}' has a line of {len(long[0])} characters, {WIDTH} at most"
    try:
        bound = bound_names(syntax_tree(chapter, NotebookNode(id=cell.id, source=text)))
    except BookError as error:
        yield cell, f"'{summary}': {error}"
        return
    if name is not None and name not in bound:
        yield cell, f"'{summary}' gives '{name}' no value, which is what the exercise asks for"
    reason = " ".join(part.get_text() for part in fold(["p", "ul", "ol"], recursive=False))
    if len(reason) < LEAST_REASON:
        yield cell, f"'{summary}' does not say why; add a sentence below its code"


EXERCISE_RULES = (counted, asked_whole, in_order, blank, solved)
