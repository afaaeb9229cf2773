"""An autograder for Gradescope: a zip with all that grading one assignment needs.

The same assignment gives the same bytes. The tests are in it, so it is for the instructor alone.
"""

import json
from pathlib import Path

from tools.book.book import Book
from tools.environment import PINS
from tools.exercises.assignment import Assignment, Choice
from tools.exercises.release import make_drafts
from tools.exercises.variants import draws_of
from tools.files import write_bytes, zipped
from tools.root import ROOT

HERE, SCRIPTS = "tools/grade/exchange/autograder", ("setup.sh", "run_autograder")
CODE = {  # what the program imports or reads, by folder, and how those files end
    "tools": (".py", ".html", ".js", ".toml", ".yml"),
    "kernels": (".py", ".json"),
    "cudasim/src": (".py", ".json", "nvidia-smi"),
    HERE: ("packages.txt",),
    "binder": ("reader.txt",),
}
TESTS = "private/assignment.json"  # readable by root alone
MODES = dict.fromkeys(SCRIPTS, 0o755) | {TESTS: 0o600}


def autograder_files(assignment: Assignment, root: Path = ROOT) -> dict[str, bytes]:
    paths = [root / name for name in PINS]
    for folder, endings in CODE.items():
        paths += [path for path in root.joinpath(folder).rglob("*") if path.name.endswith(endings)]
    files = {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}
    files |= {script: root.joinpath(HERE, script).read_bytes() for script in SCRIPTS}
    files[TESTS] = json.dumps(assignment, indent=1, sort_keys=True).encode()
    return files


def make_autograder(choice: Choice, key: str | None, masters: Path) -> Path:
    """Write the autograder of an assignment for a class; returns its path. Raises BookError."""
    [(_, assignment)] = make_drafts(Book(ROOT), masters, draws_of(key), choice)
    made = ROOT / "_build" / "gradescope" / f"{assignment['name']}-{assignment['class']}.zip"
    write_bytes(made, zipped(autograder_files(assignment), MODES), ROOT)
    return made
