"""An autograder for Gradescope: a zip with all that grading one assignment needs.

The same assignment gives the same bytes. The tests are in it, so it is for the instructor alone.
"""

import json
from pathlib import Path

from coursework.exercises.assignment import Assignment, Choice
from coursework.exercises.release import make_drafts
from coursework.exercises.variants import draws_of
from coursework.grade.engine import SENT
from coursework.grade.store import code_files
from tools.book.book import Book
from tools.files import write_bytes, zipped
from tools.root import ROOT

HERE, SCRIPTS = "coursework/grade/exchange/autograder", ("setup.sh", "run_autograder")
TESTS = "private/assignment.json"  # readable by root alone
MODES = dict.fromkeys(SCRIPTS, 0o755) | {TESTS: 0o600}


def autograder_files(assignment: Assignment) -> dict[str, bytes]:
    paths = code_files([*SENT, ".binder/reader.txt"])
    files = {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in paths}
    files |= {script: files[f"{HERE}/{script}"] for script in SCRIPTS}
    return files | {TESTS: json.dumps(assignment, indent=1, sort_keys=True).encode()}


def make_autograder(choice: Choice, key: str | None, masters: Path) -> Path:
    """Write the autograder of an assignment for a class; returns its path. Raises BookError."""
    [(_, assignment)] = make_drafts(Book(ROOT), masters, draws_of(key), choice)
    made = (
        ROOT
        / "_build"
        / "gradescope"
        / f"{assignment['name']}-{assignment['class']}.zip"
    )
    write_bytes(made, zipped(autograder_files(assignment), MODES), ROOT)
    return made
