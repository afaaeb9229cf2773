"""Takes the answers out of a submitted notebook and puts them into the pristine one.

A cell is anchored by its metadata, else by its id, else by the name that it defines, else by where
it stands. All else is pristine: given cells, checks and what is shown come from the assignment.
Where a student deleted, split, merged, copied, moved or retyped cells, a finding says so.
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
FENCE = re.compile(
    r"^[ \t]*```[ \t]*(?:python|py|ipython3?)?[ \t]*\n(?P<code>.*?)\n[ \t]*```", re.S | re.M
)


@dataclass
class Cell:
    """A cell of the submission, and what it is taken for."""

    kind: str  # code, markdown, raw
    source: str
    part: str | None = None  # set-up, given, exercise, answer, shows, check, by hand
    number: int | None = None
    anchored: bool = False  # by metadata or id


class Pristine:
    """What the assignment gives, in the form in which cells are compared with it."""

    def __init__(self, assignment: dict) -> None:
        self.questions = {question["number"]: question for question in assignment["questions"]}
        self.named = {question["name"]: number for number, question in self.questions.items()}
        self.starters = {n: _norm(question["starter"]) for n, question in self.questions.items()}
        self.after = {
            n: [_norm(t) for t in _after(question)] for n, question in self.questions.items()
        }
        self.given = _norm("\n\n".join(text for _, text in assignment["given"]))

    def is_given(self, source: str) -> bool:
        """Is this code that was given, a part of it, or all in one cell?"""
        lines = (line for line in source.split("\n") if not line.startswith("# @title "))
        return _norm("\n".join(lines)) in self.given

    def names(self, source: str) -> set[str]:
        """The names of exercises that some code gives a value to."""
        return bound(source) & self.named.keys()


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
    pristine = Pristine(assignment)
    cells = [_classified(cell, pristine) for cell in notebook["cells"]]
    code = [cell for cell in cells if cell.kind == "code"]
    if not any(cell.number for cell in cells) and not any(pristine.names(c.source) for c in code):
        raise Refused("no exercise of this assignment is in it; hand in the student edition")
    found: list[dict] = []
    _unmerge(cells, pristine)
    _read_retyped(cells, pristine, found)
    _drop_pristine(cells, pristine, found)
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
        run += [[number, source] for source in sources]
        run += [[number, source] for source in _after(question)]
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


# --- reading


def text_of(cell: dict) -> str:
    """The source of a cell, its ends of lines of one kind."""
    return _norm(cell["source"])


def _norm(source: str) -> str:
    """Line ends of one kind, nothing but code at either end."""
    lines = [line.rstrip() for line in source.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    return "\n".join(lines).strip("\n")


def _classified(raw: dict, pristine: Pristine) -> Cell:
    """A cell with the part that it is anchored to, if it is: by its mark, else by its id."""
    cell, metadata = Cell(raw["cell_type"], text_of(raw)), raw["metadata"]
    said = mapping(metadata.get("assignment"))
    anchors = [(said.get("part"), said.get("exercise"))]
    for id in (raw.get("id"), metadata.get("id")):  # Colab keeps the second
        if match := ID.fullmatch(str(id)):
            anchors.append((PARTS.get(match["part"], match["part"]), int(match["number"])))
        elif id == "given":
            anchors.append(("given", None))
    for part, number in anchors:
        known = type(number) is int and number in pristine.questions
        if part == "given" or (part in OF_EXERCISES and known):
            cell.part, cell.anchored = part, True
            cell.number = None if part == "given" else number
            return cell
    tags = metadata.get("tags")
    set_up = (isinstance(tags, list) and SETUP in tags) or SET_UP.match(cell.source)
    if set_up and not pristine.names(cell.source):
        cell.part = "set-up"
    elif cell.kind == "code" and cell.source:  # as it was given, so no mark is needed
        if pristine.is_given(cell.source) and not pristine.names(cell.source):
            cell.part = "given"
        for number, starter in pristine.starters.items():
            if cell.source in pristine.after[number]:
                cell.part, cell.number = "check", number
            elif cell.source == starter:
                cell.part, cell.number = "answer", number
    elif cell.kind == "markdown" and (match := ASKED.match(cell.source)):
        asked = pristine.questions.get(int(match["number"]))
        if asked and match["title"].strip().rstrip(". ") == asked["title"].rstrip(". "):
            cell.part, cell.number = "exercise", asked["number"]
    return cell


# --- what students did to cells


def _unmerge(cells: list[Cell], pristine: Pristine) -> None:
    """Take pristine code out of cells that it was merged into."""
    texts = [text for below in pristine.after.values() for text in below if text]
    for cell in cells:
        if cell.kind != "code" or cell.part == "given":
            continue
        for text in texts:
            whole = re.compile(rf"^{re.escape(text)}$", re.M)  # lines, not parts of an answer's
            if cell.source != text and whole.search(cell.source):
                cell.source = _norm(whole.sub("", cell.source))


def _read_retyped(cells: list[Cell], pristine: Pristine, found: list[dict]) -> None:
    """Read the code of an answer that stands in a cell of text."""
    for cell in cells:
        if cell.kind == "code" or cell.part not in (None, "answer"):
            continue
        fences = [match["code"] for match in FENCE.finditer(cell.source)]
        code = _norm("\n\n".join(fences) if fences else cell.source)
        names = bound(code) if tree_of(code) is not None else set()
        if cell.part is None:  # prose, but for a bare answer that lost its mark, too
            number = next((n for name, n in pristine.named.items() if name in names), None)
            if number is None or fences:
                continue
            cell.part, cell.number = "answer", number
        was = "Markdown" if cell.kind == "markdown" else "raw"
        if names:
            cell.kind, cell.source = "code", code
            text = f"the cell of the answer was made a {was} cell; its text was run as code"
        else:
            cell.part = None
            text = f"the cell of the answer was made a {was} cell and holds no Python code"
        found.append(finding("cells", cell.number, text))


def _drop_pristine(cells: list[Cell], pristine: Pristine, found: list[dict]) -> None:
    """Forget what was made of given cells and checks; only where they stand still counts."""
    answered = {cell.number for cell in cells if _is_answered(cell, pristine)}
    for cell in cells:
        if cell.kind != "code" or cell.part not in ("check", "shows", "given"):
            continue
        if cell.source in ("", *pristine.after.get(cell.number, ()), *pristine.starters.values()):
            continue
        if cell.part == "given" and pristine.is_given(cell.source):
            continue
        owners = sorted(pristine.named[name] for name in pristine.names(cell.source))
        number = next((owner for owner in owners if owner not in answered), None)
        if number is not None:  # merged upwards, or written into the wrong cell
            text = f"the answer was taken from a cell that was given as a {cell.part} cell"
            cell.part, cell.number = "answer", number
            answered.add(number)
            found.append(finding("cells", number, text))
        else:
            what = "a given cell" if cell.part == "given" else f"a {cell.part} cell"
            found.append(finding("cells", cell.number, f"{what} was changed; the original was run"))


def _is_answered(cell: Cell, pristine: Pristine) -> bool:
    """Is this a cell of an answer that says more than the starter?"""
    is_answer = cell.kind == "code" and cell.part == "answer"
    return is_answer and cell.source not in ("", pristine.starters[cell.number])


def _placed(
    cells: list[Cell], pristine: Pristine, found: list[dict]
) -> tuple[list[str], dict[int, list[str]]]:
    """The preamble, and each exercise's own cells in order: the starter where there are none."""
    questions, starters = pristine.questions, pristine.starters
    _follow_names(cells, pristine, found)
    preamble: list[str] = []
    answers: dict[int, list[str]] = {number: [] for number in questions}
    here, last, marked = 0, 0, dict.fromkeys(questions, 0)
    for cell in cells:
        if cell.part in ("exercise", "shows", "check"):
            here = cell.number
        elif cell.part == "answer" and cell.kind == "code":
            if cell.anchored and cell.source:
                if cell.number < last:
                    text = "its cell was moved; it was run at its own place"
                    found.append(finding("cells", cell.number, text))
                last = max(last, cell.number)
                marked[cell.number] += 1
            here = cell.number if cell.anchored else here
            answers[cell.number].append(cell.source)
        elif cell.part is None and cell.kind == "code" and cell.source:
            (answers[here] if here else preamble).append(cell.source)
    bound_in = {number: set() for number in questions}  # what the student's code binds, by place
    for number, sources in answers.items():
        for source in sources:
            bound_in[number] |= pristine.names(source)
    everywhere = set().union(*bound_in.values(), *map(bound, preamble))
    for number, question in questions.items():
        sources = [source for source in answers[number] if source]
        if question["name"] in everywhere:  # a starter left behind would undo the answer
            sources = [source for source in sources if source != starters[number]]
        elif not sources:
            found.append(finding("cells", number, "the cell of its answer is not there"))
            sources = [starters[number]]
        if question["name"] in everywhere and question["name"] not in bound_in[number]:
            found.append(finding("cells", number, "its answer stands among others"))
        if marked[number] > 1 and len(sources) > 1:
            text = f"{len(sources)} cells hold its answer; they were run in order"
            found.append(finding("cells", number, text))
        answers[number] = sources
    return preamble, _brought_forward(answers, questions, bound_in)


def _follow_names(cells: list[Cell], pristine: Pristine, found: list[dict]) -> None:
    """Give cells to the exercise whose name they define, where another's mark is on them."""
    ours = [cell for cell in cells if cell.kind == "code" and cell.part in ("answer", None)]
    defined = [sorted(pristine.named[n] for n in pristine.names(cell.source)) for cell in ours]
    owned = {c.number for c, numbers in zip(ours, defined, strict=True) if c.number in numbers}
    for cell, numbers in zip(ours, defined, strict=True):
        free = [number for number in numbers if number not in owned]
        if cell.number in numbers or not free:
            continue
        if cell.part == "answer":
            text = f"its answer stood in a cell of exercise {cell.number}"
            found.append(finding("cells", free[0], text))
        cell.part, cell.number, cell.anchored = "answer", free[0], False
        owned.add(free[0])


def _brought_forward(answers: dict, questions: dict, bound_in: dict) -> dict:
    """Move a cell that answers an earlier exercise too to the first that it answers."""
    for number, sources in answers.items():
        for source in list(sources):
            names = bound(source)
            for earlier in (each for each in questions if each < number):
                name = questions[earlier]["name"]
                if name in names and name not in bound_in[earlier]:
                    answers[earlier].append(source)
                    sources.remove(source)
                    break
    return answers
