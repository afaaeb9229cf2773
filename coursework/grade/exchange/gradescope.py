"""An autograder for Gradescope: a zip with all that grading one assignment needs.

The same assignment gives the same bytes. The tests are in it, so it is for the instructor alone.
"""

import json
from pathlib import Path

from coursework.exercises.assignment import Choice, make_drafts
from coursework.exercises.tasks import Assignment, draws_of
from coursework.grade.engine import SENT
from coursework.grade.store import code_files
from tools.files import ROOT, write_bytes, zipped

HERE = "coursework/grade/exchange/autograder"
SCRIPTS = ("setup.sh", "run_autograder")
TESTS = "private/assignment.json"  # readable by root alone
MODES = dict.fromkeys(SCRIPTS, 0o755) | {TESTS: 0o600}


def autograder_files(assignment: Assignment) -> dict[str, bytes]:
    files = {}
    for path in code_files([*SENT, ".binder/reader.txt"]):
        files[path.relative_to(ROOT).as_posix()] = path.read_bytes()
    for script in SCRIPTS:  # Gradescope looks for them at the top
        files[script] = files[f"{HERE}/{script}"]
    tests = json.dumps(assignment.as_json(), indent=1, sort_keys=True)
    files[TESTS] = tests.encode()
    return files


def make_autograder(choice: Choice, key: str | None, masters: Path) -> Path:
    """Write the autograder of an assignment for a class; return its path. Raises BookError."""
    [(_, assignment)] = make_drafts(ROOT, masters, draws_of(key), choice)
    name = f"{assignment.name}-{assignment.group}.zip"
    path = ROOT / "_build" / "gradescope" / name
    write_bytes(path, zipped(autograder_files(assignment), MODES), ROOT)
    return path
