"""A small class: its assignment, what students hand in, and a stand-in for a sandbox."""

import builtins
import copy
import csv
import io
import json
import re
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import helpers
from helpers import ROOT, copy_code, prose, write

from coursework.exercises import editions
from coursework.exercises.assignment import make_assignment
from coursework.exercises.masters import read_master
from coursework.exercises.tasks import draws_of
from coursework.grade.judge import judge
from coursework.grade.results import Grade
from coursework.grade.sandbox import Ended, Gap, Raised
from coursework.grade.sandbox.inside.question import Notebook, answer_to
from coursework.grade.tables import read_table
from tools.book.book import Book

DATA = Path(__file__).with_name("data")
KEY = "an invented key of this class"
BOOK = Book(ROOT)


def entries(path):
    """Return the entries of a file of programs as pairs of a header and a source.

    A header follows `== ` at the start of a line; the text above the first one is for
    readers.
    """
    _, *parts = re.split("^== ", path.read_text(encoding="utf-8"), flags=re.M)
    return [tuple(part.split("\n", 1)) for part in parts]


# --- a class: its assignment, the edition that students get, and their answers

MASTER = read_master(DATA / "class" / "small.md", ROOT)
SMALL = make_assignment(MASTER, None, draws_of(KEY))


def codes(part):
    """Return the code of a part of the master, by the number of its exercise."""
    return {exercise.number: exercise.code(part) for exercise in MASTER.exercises}


RIGHT = codes("Solution")
WRONG = codes("Wrong answer")
# The stand-in runs in the tests' own process, where there is no second card.
ZEROS = """\
import types
zeros = lambda n: types.SimpleNamespace(device='cuda:1', tolist=lambda: [0.0] * n)"""
# Right answers, for the stand-in.
ANSWERS = RIGHT | {3: ZEROS}
# The same, with another answer to the exercise that is read by a person.
ANOTHER_HAND_IN = ANSWERS | {3: f"{ZEROS}\n# new"}


def small(**changes):
    """Return a copy of the assignment, to be changed at will."""
    return replace(copy.deepcopy(SMALL), **changes)


def edition(answers=None, assignment=SMALL):
    """Return the student edition with these answers in it, as a file holds it."""
    answers = answers or {}
    numbers = {question.number for question in assignment.exercises}
    exercises = [item for item in MASTER.exercises if item.number in numbers]
    master = replace(MASTER, exercises=exercises)
    notebook = editions.edition("student", master, assignment, BOOK)
    for number in numbers & answers.keys():
        helpers.cell(notebook, f"answer-{number}").source = answers[number]
    return json.loads(json.dumps(notebook))


# An edition that does not say which assignment it is.
UNNAMED = edition(ANSWERS)
del UNNAMED["metadata"]["assignment"]


def insert_cell(notebook, before, kind, source):
    """Insert a cell of the student's own before the cell with this id."""
    ids = [cell["id"] for cell in notebook["cells"]]
    cell = {"cell_type": kind, "id": "mine", "metadata": {}, "source": source}
    if kind == "code":
        cell |= {"outputs": [], "execution_count": None}
    notebook["cells"].insert(ids.index(before), cell)


# --- what grading wrote


def table(out, name="grades.csv"):
    """Return the rows of a table that grading wrote."""
    return read_table((out / name).read_text(encoding="utf-8"))


def rows_by_student(out):
    return {row["student"]: row for row in table(out)}


def totals(out):
    return {student: row["total"] for student, row in rows_by_student(out).items()}


def csv_text(rows, separator=","):
    """Return the text of a table, whose columns are those of its first row."""
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], delimiter=separator)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def results(out):
    """Return the grades that were saved, by student."""
    grades = {}
    for path in (out / "results").glob("*.json"):
        grade = Grade.from_json(json.loads(path.read_text(encoding="utf-8")))
        grades[grade.student] = grade
    return grades


def contents(folder: Path):
    """Return the bytes of each file below a folder, by its path in it."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


# --- a book of one chapter, for releases

CHAPTER = (DATA / "small.md").read_text(encoding="utf-8")
HEAD, FIRST, SECOND = re.split(r"(?=\n## \d)", CHAPTER)


def write_master(folder, text=CHAPTER, name="small"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(text, encoding="utf-8")
    return folder


def book_of_one(root):
    """Make a book of one chapter, whose exercises come from a master."""
    copy_code(root, "kernels/cpu")
    for folder in ("notebooks", "cudasim/src/cudasim"):
        (root / folder).mkdir(parents=True)
    package = ("cudasim/pyproject.toml", "cudasim/src/cudasim/__init__.py")
    for name in ("_config.yml", "requirements-no-deps.txt", *package):
        shutil.copy(ROOT / name, root / name)
    write(
        root,
        "small",
        prose("title", "# Small numbers"),
        helpers.code("setup", "import cudasim.lab", tags=["setup"]),
        helpers.code("base", "base = 10"),
        prose("exercise-1", "old"),
        prose("answer-1", "old"),
        prose("between", "old"),
        prose("exercise-2", "old"),
    )
    (root / "_toc.yml").write_text("format: jb-book\nroot: notebooks/small\n")
    write_master(root / "masters")
    return Book(root)


# --- a sandbox without walls


class Grader:
    """Grades one task after another, and remembers which."""

    def __init__(self):
        self.graded = []

    def __call__(self, tasks):
        for task in tasks:
            self.graded.append(task.submission)
            yield task, judge(task, StandIn())


@dataclass
class StandIn:
    """A tier for tests of the judge alone, which remembers the cells that it ran.

    In a cell `end('time')` ends the session, and `gap('why')` makes a gap in a
    measurement.
    """

    name = about = "stand-in"
    sessions: int = 0
    ran: list[str] = field(default_factory=list)
    given: list[str] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)

    @contextmanager
    def session(self, memory, runner="simulated"):
        self.sessions += 1
        yield Session(self)


class End(BaseException):
    """Raised by a cell that ends its session."""


def end(kind):
    raise End(kind)


def gap(reason):
    raise Gap([reason])


class Session:
    def __init__(self, tier):
        self.tier = tier
        self.names = {"end": end, "gap": gap}
        self.over = None

    def end(self, kind):
        """Be over, now and whenever more is asked."""
        self.over = kind
        raise Ended(kind) from None

    def run(self, source, seconds=10, given=False, begins=False):
        if self.over:
            raise Ended(self.over)
        self.tier.ran.append(source)
        if given:
            self.tier.given.append(source)
        if begins:
            self.tier.begun.append(source)
        try:
            exec(source, self.names)
        except End as ended:
            self.end(ended.args[0])
        except Exception as raised:
            return type(raised).__name__
        return None

    def ask(self, code, inputs=None, seconds=10, answer=""):
        if self.over:
            raise Ended(self.over)
        notebook = Notebook(self.names, lambda value: value)
        names = self.names | {"__builtins__": builtins, "notebook": notebook}
        try:
            return answer_to(code, inputs or {}, names)
        except End as ended:
            self.end(ended.args[0])
        except Gap:
            raise
        except Exception as error:
            raise Raised(type(error).__name__) from error
