"""Takes the answers out of a submitted notebook, to be run in the pristine one.

A student's cell belongs to the exercise whose answer's name it gives a value to. Otherwise it
belongs to the exercise of its mark (metadata or id), or to the one below whose text it stands. All
other cells come from the assignment. What was done to cells is reported as a finding.
"""

import re
from dataclasses import dataclass, field
from typing import Any

from coursework.exercises.tasks import PLACE, Assignment, Cells, GradedExercise
from coursework.grade.download import Refused
from coursework.grade.results import Finding
from coursework.grade.student_code import bound, plain, tree_of, without_magics
from tools.book.grammar import SETUP

# Code in a notebook; more is no answer to exercises.
MOST_CELLS = 400
MOST_CHARACTERS = 600_000

ID = re.compile(
    r"(?P<part>given|exercise|answer|shows|holds|by-hand)(?:-(?P<number>\d+)(-more)?)?"
)
PARTS = {"holds": "check", "by-hand": "by hand"}  # by the word that ids have for them
# Parts that students leave as they are; a changed one is not run.
FIXED = ("given", "shows", "check")
# How the setup begins that an edition has, or had before 2027.
SET_UP = re.compile(r"%pip install -q .*\bcudasim|# @title Set-up|SIMULATE_GPUS\s*=")
HEADING = re.compile(r"\s*(?:\*\*|#{2,4} )(?P<number>\d+)\. (?P<title>[^*\n]+)")
FENCE = re.compile(
    r"^[ \t]*```[ \t]*(?:python|py|ipython3?)?[ \t]*\n(.*?)\n[ \t]*```", re.S | re.M
)


@dataclass
class Cell:
    """A cell of the submission, and what it is taken for."""

    kind: str  # code, markdown, raw
    source: str
    part: str | None = None  # set-up, given, exercise, answer, shows, check, by hand
    number: int | None = None  # of its exercise
    # The exercises whose answers it gives a value to.
    answers_to: set[int] = field(default_factory=set)


@dataclass
class Answers:
    """What was taken out of a notebook."""

    cells: Cells  # to be run: without magics, starters included
    sources: Cells  # the student's own cells, as they were written
    texts: dict[int, str]  # the same as one text per exercise, "" where there is none
    prose: dict[int, str]  # for a person to read
    findings: list[Finding]


def splice(notebook: dict[str, Any], assignment: Assignment) -> Answers:
    """Take the answers out of a notebook. Raises Refused: no exercise is in it, or too much."""
    check_size(notebook)
    reader = Reader(assignment)
    cells = [reader.read(cell) for cell in notebook["cells"]]
    if not any(cell.number or cell.answers_to for cell in cells):
        raise Refused(
            "no exercise of this assignment is in it; hand in the student edition"
        )
    sources = reader.place(cells)
    to_run: Cells = {}
    texts = {}
    for number, own in sources.items():
        to_run[number] = [without_magics(source) for source in own]
        if number in reader.starter_runs:
            starter = reader.exercises[number].starter
            to_run[number].insert(0, without_magics(starter))
        if number is not None:
            texts[number] = "\n\n".join(own)
    prose = prose_of(cells, reader.exercises)
    return Answers(to_run, sources, texts, prose, reader.findings)


def check_size(notebook: dict[str, Any]) -> None:
    cells = 0
    characters = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cells += 1
            characters += len(cell["source"])
    if cells > MOST_CELLS or characters > MOST_CHARACTERS:
        size = f"{cells} code cells, {characters} characters"
        raise Refused(f"holds {size}; hand in the student edition with answers in it")


def prose_of(cells: list[Cell], exercises: dict[int, GradedExercise]) -> dict[int, str]:
    """Return what students wrote in words, by exercise, in the order of the notebook.

    It stands in the place for it and, where a person reads the exercise, in cells of text near it.
    """
    texts: dict[int, list[str]] = {}
    here = None  # the exercise that a cell stands below
    for cell in cells:
        here = cell.number or here
        is_for_prose = cell.part == "by hand"
        if cell.kind != "code" and cell.part in (None, "answer"):
            is_for_prose = here in exercises and exercises[here].by_hand is not None
        if not is_for_prose:
            continue
        texts.setdefault(here, [])
        if cell.source not in ("", PLACE):
            texts[here].append(cell.source)
    return {number: "\n\n".join(parts) for number, parts in texts.items()}


class Reader:
    """Tells what the cells of a notebook are, by what the assignment gives."""

    def __init__(self, assignment: Assignment) -> None:
        self.exercises = assignment.by_number
        self.number_of_name: dict[str, int] = {}
        # All code is in the form in which cells are compared.
        self.given = plain(assignment.given)
        self.starters = {}
        # The part and exercise of each cell that was given.
        self.known: dict[str, tuple[str | None, int | None]] = {"": (None, None)}
        for number, exercise in self.exercises.items():
            self.number_of_name[exercise.answer_name] = number
            self.starters[number] = plain(exercise.starter)
            self.known[self.starters[number]] = "answer", number
        for number, exercise in self.exercises.items():
            for source in (exercise.demo, *exercise.checks):
                if source:
                    self.known[plain(source)] = "check", number
        self.findings: list[Finding] = []
        # Exercises whose starter runs before the student's cells: it is in the notebook as
        # it was given, or nothing else answers the exercise.
        self.starter_runs: set[int] = set()

    def note(self, number: int | None, text: str) -> None:
        self.findings.append(Finding("cells", number, text))

    # --- a single cell

    def read(self, raw: dict[str, Any]) -> Cell:
        """Return a cell with what it is taken for: by its mark, else by its text."""
        cell = Cell(raw["cell_type"], plain(raw["source"]))
        cell.part, cell.number = self._by_mark(raw) or self._by_text(cell, raw)
        if cell.kind != "code" and cell.part in (None, "answer"):
            self._retype(cell)
        if cell.kind == "code":
            if cell.part != "given" and cell.source not in self.known:
                self._remove_checks(cell)
            cell.answers_to = self._exercises_bound(cell.source)
        return cell

    def _remove_checks(self, cell: Cell) -> None:
        """Take away the lines of checks that were merged with a cell."""
        for source, (part, _) in self.known.items():
            if part == "check":
                lines = rf"^{re.escape(source)}$"
                cell.source = plain(re.sub(lines, "", cell.source, flags=re.M))

    def _exercises_bound(self, source: str) -> set[int]:
        """Return the exercises whose answers' names this code gives a value to."""
        names = bound(source) & self.number_of_name.keys()
        return {self.number_of_name[name] for name in names}

    def _by_mark(self, raw: dict[str, Any]) -> tuple[str, int | None] | None:
        marks = []
        mark = raw["metadata"].get("assignment")
        if isinstance(mark, dict):
            marks.append((mark.get("part"), mark.get("exercise")))
        if match := ID.fullmatch(raw.get("id", "")):
            part = PARTS.get(match["part"], match["part"])
            number = int(match["number"]) if match["number"] else None
            marks.append((part, number))
        for part, number in marks:
            if part == "given":
                return part, None
            is_known = type(number) is int and number in self.exercises
            if is_known and isinstance(part, str):
                return part, number
        return None

    def _by_text(self, cell: Cell, raw: dict) -> tuple[str | None, int | None]:
        if cell.kind == "code" and cell.source in self.known:
            return self.known[cell.source]
        if cell.kind == "markdown" and (match := HEADING.match(cell.source)):
            exercise = self.exercises.get(int(match["number"]))
            title = match["title"].strip().rstrip(". ")
            if exercise and title == exercise.title.rstrip(". "):
                return "exercise", exercise.number
        tags = raw["metadata"].get("tags")
        is_tagged = isinstance(tags, list) and SETUP in tags
        is_set_up = is_tagged or SET_UP.match(cell.source)
        if is_set_up and not self._exercises_bound(cell.source):
            return "set-up", None
        return None, None

    def _retype(self, cell: Cell) -> None:
        """Make code of an answer that stands in a cell of text."""
        fences = FENCE.findall(cell.source)
        code = plain("\n\n".join(fences) or cell.source)
        names = bound(code) if tree_of(code) else set()
        if cell.part is None:
            # This is prose, or a bare answer whose cell lost its mark as well.
            exercises = self._exercises_bound(code)
            if fences or not names or not exercises:
                return
            cell.part = "answer"
            cell.number = min(exercises)
        kind = "Markdown" if cell.kind == "markdown" else cell.kind
        text = f"the cell of the answer was made a {kind} cell"
        if names:
            self.note(cell.number, f"{text}; its text was run as code")
            cell.kind = "code"
            cell.source = code
        else:
            self.note(cell.number, f"{text} and contains no Python code")

    # --- all cells

    def place(self, cells: list[Cell]) -> Cells:
        """Return the student's own cells of each exercise in order; those above all under None."""
        own = self._assign(cells)
        sources: Cells = {}
        answered = set()
        for number, of_exercise in own.items():
            sources[number] = [cell.source for cell in of_exercise]
            for cell in of_exercise:
                answered |= cell.answers_to
        marked = {cell.number for cell in cells if is_marked_answer(cell)}
        for number in self.exercises:
            self._look_at_exercise(number, own[number], answered, marked)
        return sources

    def _assign(self, cells: list[Cell]) -> dict[int | None, list[Cell]]:
        """Give each of the student's own cells to an exercise, or to None above them all."""
        own: dict[int | None, list[Cell]] = {None: []}
        for number in self.exercises:
            own[number] = []
        # Exercises that a cell already answers, those in their own marked cells first.
        # Another cell that gives the same name a value is not their answer.
        answered = set()
        for cell in cells:
            if is_own_answer(cell):
                answered.add(cell.number)
        here = None  # the exercise that a cell stands below
        last = 0  # the last exercise that was answered in its own cell
        for cell in cells:
            here = cell.number or here
            if cell.kind != "code" or cell.part in ("set-up", "exercise", "by hand"):
                continue
            if self._is_pristine(cell.source):
                self._note_starter(cell.source)
                continue
            answers = cell.answers_to - answered
            if is_own_answer(cell):
                answers.add(cell.number)
            if cell.part in FIXED and not answers:
                text = f"a {cell.part} cell was changed; the original was run"
                self.note(cell.number, text)
                continue

            owner = min(answers, default=here)
            self._note_place(cell, owner, last)
            if cell.part == "answer" and owner == cell.number:
                last = max(last, owner)
            if owner in cell.answers_to:
                answered.add(owner)
            own[owner].append(cell)
        return own

    def _is_pristine(self, source: str) -> bool:
        """Tell whether this was given: a cell of an exercise, or given code or a part of it."""
        without_title = plain(re.sub(r"^# @title .*\n?", "", source, flags=re.M))
        return source in self.known or f"\n{without_title}\n" in f"\n{self.given}\n"

    def _note_starter(self, source: str) -> None:
        for number, starter in self.starters.items():
            if starter == source:
                self.starter_runs.add(number)

    def _note_place(self, cell: Cell, owner: int | None, last: int) -> None:
        """Say where an answer stood, if not in its own cell."""
        if cell.part in FIXED:
            self.note(owner, f"its answer was in a {cell.part} cell")
        elif cell.part != "answer":
            return
        elif owner == cell.number:
            if owner < last:
                self.note(owner, "its cell was moved; it was run in its own place")
        elif cell.number not in cell.answers_to:
            self.note(owner, f"its answer was in a cell of exercise {cell.number}")

    def _look_at_exercise(
        self, number: int, own: list[Cell], answered: set[int], marked: set[int | None]
    ) -> None:
        """Note what is odd about the cells of an exercise, and whether its starter runs."""
        is_answered_here = any(number in cell.answers_to for cell in own)
        if number in answered and not is_answered_here:
            self.starter_runs.discard(number)  # it would undo the answer
            self.note(number, "its answer stands among others")
        elif not own:
            self.starter_runs.add(number)
            if number not in marked:
                self.note(number, "the cell of its answer is missing")
        marks = [(cell.part, cell.number) for cell in own]
        if marks.count(("answer", number)) > 1:
            text = f"{len(marks)} cells hold its answer; they were run in order"
            self.note(number, text)


def is_marked_answer(cell: Cell) -> bool:
    return cell.kind == "code" and cell.part == "answer"


def is_own_answer(cell: Cell) -> bool:
    """Tell whether a cell is marked as the answer to an exercise, and answers that."""
    return is_marked_answer(cell) and cell.number in cell.answers_to
