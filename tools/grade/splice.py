"""Takes the answers out of a submitted notebook and puts them into the pristine one.

A cell of a student's belongs to the exercise whose name it defines, else to the one of its mark
(its metadata or its id), else to the one below whose text it stands. All else is pristine: given
cells, checks and what is shown come from the assignment. Where a student deleted, split, merged,
copied, moved or retyped cells, a finding says so.
"""

import re
from dataclasses import dataclass, field

from tools.book.chapters import SETUP
from tools.exercises.assignment import PLACE
from tools.grade.intake import Refused, mapping
from tools.grade.source import bound, tree_of

CELLS, CHARACTERS = 300, 400_000  # of a student's own code; more is no answer to exercises
ID = re.compile(r"(?P<part>exercise|answer|shows|holds|by-hand)-(?P<number>\d+)(?:-more)?")
PARTS = {"holds": "check", "by-hand": "by hand"}  # an id's word for a part, where another is used
OF_EXERCISES = ("exercise", "answer", "shows", "check", "by hand")
SET_UP = re.compile(r"# @title Set-up|SIMULATE_GPUS\s*=")  # how the cells that set up begin
ASKED = re.compile(r"\s*(?:\*\*|#{2,4} )(?P<number>\d+)\. (?P<title>[^*\n]+)")
FENCE = re.compile(r"^[ \t]*```[ \t]*(?:python|py|ipython3?)?[ \t]*\n(.*?)\n[ \t]*```", re.S | re.M)


@dataclass
class Cell:
    """A cell of the submission, and what it is taken for."""

    kind: str  # code, markdown, raw
    source: str
    part: str | None = None  # set-up, given, exercise, answer, shows, check, by hand
    number: int | None = None  # of its exercise
    names: set[int] = field(default_factory=set)  # exercises whose names it gives a value to
    marked: bool = False  # by metadata or id


@dataclass
class Spliced:
    """What is run, in order; each student's own code; what a person should know."""

    cells: list[list]  # [number or None, source]
    answers: dict[str, str]  # the student's code by exercise, "" where there is none
    preamble: str
    prose: dict[str, str]  # what the student wrote for a person to read, by exercise
    findings: list[dict] = field(default_factory=list)
    lines: dict[str, dict[str, int]] = field(default_factory=dict)  # by exercise, to compare


def finding(kind: str, exercise: int | None, text: str) -> dict:
    """Something for a person to look at."""
    return {"kind": kind, "exercise": exercise, "text": text}


def splice(notebook: dict, assignment: dict) -> Spliced:
    """The pristine notebook of the assignment with the answers of this one in it.

    Raises Refused if the notebook holds no exercise of the assignment, or far more code than
    exercises need.
    """
    code = [cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    if sum(map(len, code)) > 2 * CHARACTERS:  # too much to be compared with what was given
        raise Refused(_too_much(code))
    pristine, found = Pristine(assignment), []
    cells = [pristine.read(cell, found) for cell in notebook["cells"]]
    if not any(cell.number or cell.names for cell in cells):
        raise Refused("no exercise of this assignment is in it; hand in the student edition")
    preamble, answers = _placed(cells, pristine, found)
    own = [source for sources in [preamble, *answers.values()] for source in sources]
    if len(own) > CELLS or sum(map(len, own)) > CHARACTERS:
        raise Refused(_too_much(own))
    run = [[None, source] for _, source in assignment["given"]]
    run += [[None, source] for source in preamble]
    written = {}
    for number, question in pristine.questions.items():
        sources, starter = answers[number], pristine.starters[number]
        written[str(number)] = "\n\n".join(source for source in sources if source != starter)
        run += [[number, source] for source in [*sources, *_after(question)]]
    prose = {
        str(cell.number): "" if cell.source == PLACE else cell.source
        for cell in cells
        if cell.part == "by hand"
    }
    return Spliced(run, written, "\n\n".join(preamble), prose, found)


def _too_much(sources: list[str]) -> str:
    return (
        f"holds {len(sources)} code cells, {sum(map(len, sources))} characters; hand in the "
        "student edition with answers in it"
    )


def own_cells(task_cells: list, question: dict) -> list[str]:
    """The student's cells of an exercise, among those that are run."""
    sources = [source for number, source in task_cells if number == question["number"]]
    return sources[: len(sources) - len(_after(question))]


def is_blank(sources: list[str], question: dict) -> bool:
    """Is this no more than what the student was given?"""
    return all(_norm(source) in ("", _norm(question["starter"])) for source in sources)


def _after(question: dict) -> list[str]:
    """The pristine cells below an answer."""
    return [*filter(None, [question["shows"]]), *question["checks"]]


def text_of(cell: dict) -> str:
    """The source of a cell, its ends of lines of one kind."""
    return _norm(cell["source"])


def _norm(source: str) -> str:
    """Line ends of one kind, nothing but code at either end."""
    lines = [line.rstrip() for line in source.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    return "\n".join(lines).strip("\n")


class Pristine:
    """What the assignment gives, in the form in which cells are compared with it."""

    def __init__(self, assignment: dict) -> None:
        self.questions = {question["number"]: question for question in assignment["questions"]}
        self.named = {question["name"]: number for number, question in self.questions.items()}
        self.starters = {n: _norm(question["starter"]) for n, question in self.questions.items()}
        after = {n: map(_norm, _after(question)) for n, question in self.questions.items()}
        self.after = {text: n for n, texts in after.items() for text in texts if text}
        self.given = _norm("\n\n".join(text for _, text in assignment["given"]))

    def is_given(self, source: str) -> bool:
        """Is this code that was given, a part of it, or all in one cell?"""
        lines = (line for line in source.split("\n") if not line.startswith("# @title "))
        return _norm("\n".join(lines)) in self.given

    def is_own(self, cell: Cell) -> bool:
        """Is this code of the student's, not what was given?"""
        known = cell.source in self.after or cell.source in ("", *self.starters.values())
        return not known and not (cell.part == "given" and self.is_given(cell.source))

    def read(self, raw: dict, found: list[dict]) -> Cell:
        """A cell, with what it is taken for; findings are added."""
        cell = Cell(raw["cell_type"], text_of(raw))
        if not self._by_mark(cell, raw):
            self._by_text(cell, raw["metadata"].get("tags"))
        if cell.kind != "code" and cell.part in (None, "answer"):
            self._retyped(cell, found)
        if cell.kind == "code":
            for text in self.after if cell.part != "given" else ():
                if cell.source != text:  # what was merged with it, in whole lines
                    whole = re.compile(rf"^{re.escape(text)}$", re.M)
                    cell.source = _norm(whole.sub("", cell.source))
            cell.names = self._names(cell.source)
        return cell

    def _names(self, source: str) -> set[int]:
        return {self.named[name] for name in bound(source) & self.named.keys()}

    def _by_mark(self, cell: Cell, raw: dict) -> bool:
        """Does its metadata or its id say what it is?"""
        said = mapping(raw["metadata"].get("assignment"))
        marks = [(said.get("part"), said.get("exercise"))]
        for id in (raw.get("id"), raw["metadata"].get("id")):  # Colab keeps the second
            if match := ID.fullmatch(str(id)):
                marks.append((PARTS.get(match["part"], match["part"]), int(match["number"])))
            elif id == "given":
                marks.append(("given", None))
        for part, number in marks:
            known = type(number) is int and number in self.questions
            if part == "given" or (part in OF_EXERCISES and known):
                cell.part, cell.number = part, None if part == "given" else number
                cell.marked = True
                return True
        return False

    def _by_text(self, cell: Cell, tags: object) -> None:
        """Take a cell for what it is if it is as it was given, or begins so."""
        set_up = (isinstance(tags, list) and SETUP in tags) or SET_UP.match(cell.source)
        if set_up and not self._names(cell.source):
            cell.part = "set-up"
        elif cell.kind == "code" and cell.source:
            started = [n for n, starter in self.starters.items() if cell.source == starter]
            if cell.source in self.after:
                cell.part, cell.number = "check", self.after[cell.source]
            elif started:
                cell.part, cell.number = "answer", started[0]
            elif self.is_given(cell.source) and not self._names(cell.source):
                cell.part = "given"
        elif cell.kind == "markdown" and (match := ASKED.match(cell.source)):
            asked = self.questions.get(int(match["number"]))
            if asked and match["title"].strip().rstrip(". ") == asked["title"].rstrip(". "):
                cell.part, cell.number = "exercise", asked["number"]

    def _retyped(self, cell: Cell, found: list[dict]) -> None:
        """Make code of an answer that stands in a cell of text."""
        fences = FENCE.findall(cell.source)
        code = _norm("\n\n".join(fences) or cell.source)
        readable = tree_of(code) is not None
        names = self._names(code) if readable else set()
        if cell.part is None:  # prose, but for a bare answer that lost its mark, too
            if fences or not names:
                return
            cell.part, cell.number = "answer", min(names)
        text = f"the cell of the answer was made a {cell.kind.replace('m', 'M')} cell"
        if readable and bound(code):
            cell.kind, cell.source = "code", code
            text += "; its text was run as code"
        else:
            cell.part = None
            text += " and holds no Python code"
        found.append(finding("cells", cell.number, text))


def _placed(
    cells: list[Cell], pristine: Pristine, found: list[dict]
) -> tuple[list[str], dict[int, list[str]]]:
    """The preamble, and each exercise's own cells in order: the starter where there are none."""
    homes = {cell.number for cell in cells if cell.part == "answer" and cell.number in cell.names}
    answers: dict[int | None, list[Cell]] = {number: [] for number in (None, *pristine.questions)}
    here, last = None, 0

    def note(number: int | None, text: str) -> None:
        found.append(finding("cells", number, text))

    for cell in cells:
        free = cell.names - homes
        if cell.part in ("exercise", "shows", "check"):
            here = cell.number
        if cell.kind != "code":
            continue
        if cell.part in ("given", "shows", "check"):
            if not pristine.is_own(cell):
                continue
            if not free:
                what = "a given cell" if cell.part == "given" else f"a {cell.part} cell"
                note(cell.number, f"{what} was changed; the original was run")
                continue
            owner = min(free)  # merged upwards, or written into the wrong cell
            note(owner, f"the answer was taken from a cell that was given as a {cell.part} cell")
        elif cell.part == "answer":
            owner = min(free | {cell.number} & cell.names, default=cell.number)
            if cell.number not in {owner} | cell.names:
                note(owner, f"its answer stood in a cell of exercise {cell.number}")
        elif cell.part is None and cell.source:
            owner = min(free, default=here)
        else:
            continue
        cell.marked = cell.marked and owner == cell.number and cell.part == "answer"
        if cell.marked:
            here = owner
        if cell.marked and cell.source:
            if owner < last:
                note(owner, "its cell was moved; it was run at its own place")
            last = max(last, owner)
        homes |= {owner} & cell.names
        answers[owner].append(cell)
    answered = {number for own in answers.values() for cell in own for number in cell.names}
    placed = {}
    for number, starter in pristine.starters.items():
        own = [cell for cell in answers[number] if cell.source]
        if number in answered:  # a starter left behind would undo the answer
            own = [cell for cell in own if cell.source != starter]
            if not any(number in cell.names for cell in own):
                note(number, "its answer stands among others")
        elif not own:
            note(number, "the cell of its answer is not there")
            own = [Cell("code", starter)]
        if sum(cell.marked for cell in own) > 1:
            note(number, f"{len(own)} cells hold its answer; they were run in order")
        placed[number] = [cell.source for cell in own]
    return [cell.source for cell in answers[None]], placed
