"""Two small masters, what is made of them, and a stand-in for a sandbox."""

import builtins
import copy
import json
import re
import shutil
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import helpers
from helpers import ROOT, copy_code, prose, write

from coursework.exercises import editions
from coursework.exercises.assignment import make_assignment
from coursework.exercises.masters import read_master
from coursework.exercises.tasks import draws_of
from coursework.grade.judge import judge
from coursework.grade.sandbox import Ended, Gap, Raised
from coursework.grade.sandbox.inside.question import Notebook, answer_to
from coursework.grade.tables import read_table
from tools.book.book import Book

DATA = Path(__file__).with_name("data")
KEY = "an invented key of this class"
BOOK = Book(ROOT)

# --- a class: its assignment, the edition that it was given, and answers

MASTER = read_master(DATA / "class" / "small.md", ROOT)
SMALL = make_assignment(MASTER, None, draws_of(KEY))
RIGHT = {exercise.number: exercise.code("Solution") for exercise in MASTER.exercises}
WRONG = {
    exercise.number: exercise.code("Wrong answer") for exercise in MASTER.exercises
}
HERE = (
    RIGHT
    | {  # the stand-in runs in the tests' own process, where there is no second card
        3: "import types\n"
        "zeros = lambda n: types.SimpleNamespace(device='cuda:1', tolist=lambda: [0.0] * n)"
    }
)


def small(**changes):
    """A copy of the assignment, to be changed at will."""
    return replace(copy.deepcopy(SMALL), **changes)


def edition(answers=None, assignment=SMALL):
    """The student edition, with these answers in it."""
    asked = {question.number for question in assignment.exercises}
    exercises = [exercise for exercise in MASTER.exercises if exercise.number in asked]
    master = replace(MASTER, exercises=exercises)
    made = editions.edition("student", master, assignment, BOOK)
    for number in asked & (answers or {}).keys():
        helpers.cell(made, f"answer-{number}").source = answers[number]
    return json.loads(json.dumps(made))


LOST = edition(HERE)  # of which nothing says what it is
del LOST["metadata"]["assignment"]


def table(out, name="grades.csv"):
    """The rows of a table that grading wrote."""
    return read_table((out / name).read_text(encoding="utf-8"))


def totals(out):
    return {row["student"]: row["total"] for row in table(out)}


# --- a book of one chapter, for releases

CHAPTER = (DATA / "small.md").read_text(encoding="utf-8")
HEAD, FIRST, SECOND = re.split(r"(?=\n## \d)", CHAPTER)


def write_master(folder, text=CHAPTER, name="small"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(text, encoding="utf-8")
    return folder


def book_of_one(root):
    """A book of one chapter, whose exercises come from a master."""
    copy_code(root, "kernels/cpu")
    for folder in ("notebooks", "cudasim"):
        (root / folder).mkdir()
    for name in ("_config.yml", "requirements-no-deps.txt", "cudasim/pyproject.toml"):
        shutil.copy(ROOT / name, root / name)
    write(
        root,
        "small",
        prose("title", "# Small numbers"),
        helpers.code("switch", "SIMULATE_GPUS = False", tags=["setup"]),
        helpers.code("base", "base = 10"),
        *(
            prose(id, "old")
            for id in ("exercise-1", "answer-1", "between", "exercise-2")
        ),
    )
    (root / "_toc.yml").write_text("format: jb-book\nroot: notebooks/small\n")
    write_master(root / "masters")
    return Book(root)


def contents(folder: Path):
    """The bytes of each file below a folder, by its path in it."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


# --- a sandbox without walls


class Grader:
    """Grades one task after another, and remembers which."""

    def __init__(self):
        self.graded = []

    def __call__(self, tasks):
        for task in tasks:
            self.graded.append(task.submission)
            yield task, judge(task, StandIn())


class StandIn:
    """A tier for tests of the judge alone: `end('time')` ends its session, `gap('why')` makes a gap
    in a measurement."""

    name = about = "stand-in"

    def __init__(self):
        self.sessions, self.ran, self.given, self.begun = 0, [], [], []

    @contextmanager
    def session(self, memory, runner="simulated"):
        self.sessions += 1
        yield Session(self)


class End(BaseException):
    pass


class Session:
    def __init__(self, tier):
        def end(kind):
            raise End(kind)

        def gap(reason):
            raise Gap([reason])

        self.tier, self.names = tier, {"end": end, "gap": gap}
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
        names = self.names | {
            "__builtins__": builtins,
            "notebook": Notebook(self.names, lambda x: x),
        }
        try:
            return answer_to(code, inputs or {}, names)
        except End as ended:
            self.end(ended.args[0])
        except Gap:
            raise
        except Exception as error:
            raise Raised(type(error).__name__) from error
