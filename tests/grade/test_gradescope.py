"""The autograder for Gradescope, in an imitation of what its harness does with it.

As its documentation says: the zip is unpacked into `source/`, `setup.sh` run once as root; for each
submission the student's files are put into `submission/` and `run_autograder` called as root; then
`results/results.json` is read. What `setup.sh` downloads is not tried here.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib.metadata import distributions, packages_distributions, requires
from io import BytesIO
from pathlib import Path

import pytest
from classroom import DATA, KEY, RIGHT, SMALL, edition
from helpers import ROOT, refused
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from coursework.exercises.assignment import choice_of
from coursework.grade.exchange.gradescope import (
    MODES,
    TESTS,
    autograder_files,
    make_autograder,
)
from tools.files import zipped

CANARY = "rng.randrange(5, 400)"  # of a hidden test


def submitted(answers=RIGHT, **changes):
    """A notebook as a student hands it in."""
    return json.dumps(edition(answers) | changes).encode()


@pytest.fixture(scope="module")
def files():
    return autograder_files(SMALL)


def test_the_command_makes_a_zip_of_what_grading_needs_with_the_tests_in_one_place(
    files,
):
    with refused("no exercises for 'x'; choose from: small"):
        make_autograder(choice_of("x", None), None, DATA / "class")
    path = make_autograder(choice_of("small", None), KEY, DATA / "class")
    archive = path.read_bytes()
    path.unlink()
    assert path.stem == f"small-{SMALL.group}"
    assert len(archive) < 5_000_000
    assert archive == zipped(dict(reversed(files.items())), MODES)
    for name, data in files.items():
        assert (CANARY.encode() in data) == (name == TESTS)
        assert KEY.encode() not in data


def test_the_packages_are_all_that_is_imported():
    imports = "import sys, coursework.grade.exchange.autograder.__main__"
    command = [sys.executable, "-c", f"{imports}; print(*sys.modules)"]
    modules = subprocess.check_output(command, cwd=ROOT, text=True).split()
    owners, needed = packages_distributions(), {"setuptools"}
    imported = {name.split(".")[0] for name in modules} - sys.stdlib_module_names
    imported = {canonicalize_name(owners[name][0]) for name in imported & owners.keys()}
    installed = {canonicalize_name(found.name) for found in distributions()}
    listed = ROOT / "coursework/grade/exchange/autograder/packages.txt"
    left = re.findall(r"^\w[\w-]*$", listed.read_text(), re.M)
    while left:
        needed.add(name := left.pop())
        more = {
            canonicalize_name(Requirement(one).name) for one in requires(name) or ()
        }
        left += (more & installed) - needed
    assert imported <= needed


class Gradescope:
    """What their harness does, in a folder that stands for `/autograder`."""

    def __init__(self, root, archive):
        self.root, self.source = root, root / "source"
        with zipfile.ZipFile(BytesIO(archive)) as content:
            content.extractall(self.source)
        shutil.copy(self.source / "run_autograder", root / "run_autograder")

    def bash(self, *command, container=False, **variables):
        within = (
            (sys.executable, Path(__file__).with_name("container.py"))
            if container
            else ()
        )
        environment = os.environ | {
            "AUTOGRADER": str(self.root),
            "GRADING_PYTHON": sys.executable,
        }
        options = {"cwd": self.root, "env": environment | variables, "timeout": 300}
        return subprocess.run(
            [*within, "bash", *command], **options, capture_output=True, text=True
        )

    def grade(self, handed_in, **options):
        """The results for files, in a format that Gradescope takes, and what was printed."""
        for name in ("submission", "results"):
            shutil.rmtree(self.root / name, ignore_errors=True)
            (self.root / name).mkdir()
        for name, data in handed_in.items():
            (self.root / "submission" / name).write_bytes(data)
        (self.root / "submission_metadata.json").write_text('{"users": ["Jane Doe"]}')
        run = self.bash(self.root / "run_autograder", **options)
        results = json.loads((self.root / "results" / "results.json").read_text())
        assert results.keys() <= WHOLE and results["stdout_visibility"] == "hidden"
        for entry in results.get("tests", []):
            assert entry.keys() <= ENTRY
            assert entry.get("status", "passed") in ("passed", "failed")
            assert (
                results["test_output_format"] == results["test_name_format"] == "text"
            )
            assert not re.search(
                r"[\x00-\x08\x0b-\x1f\x7f]", entry["output"] + entry["name"]
            )
        return results, run.stdout + run.stderr


# As their specification has it.
WHOLE = {
    "score",
    "output",
    "output_format",
    "test_output_format",
    "test_name_format",
    "tests",
}
WHOLE |= {"stdout_visibility", "visibility", "extra_data"}
ENTRY = {"score", "max_score", "name", "number", "output", "status", "visibility"}


@pytest.fixture(scope="module")
def harness(files):
    if os.name == "nt" or os.geteuid() != 0:
        pytest.skip("Gradescope runs the autograder as root, and this is not root")
    with tempfile.TemporaryDirectory(prefix="autograder-") as folder:
        Path(folder).chmod(0o755)
        made = Gradescope(Path(folder), zipped(files, MODES))
        run = made.bash(made.source / "setup.sh", "--permissions")
        assert run.returncode == 0, run.stderr
        yield made


def test_tests_are_readable_by_root_alone(harness):
    def as_student(*command):
        drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]
        return subprocess.run([*drop, *command], capture_output=True).returncode

    assert as_student("cat", harness.source / "tools" / "errors.py") == 0
    assert as_student("cat", harness.source / TESTS)
    assert as_student("ls", (harness.source / TESTS).parent)
    assert as_student("touch", harness.root / "results" / "results.json")


def test_a_right_notebook(harness):
    results, said = harness.grade({"small.ipynb": submitted()})
    assert results["score"] == 9, said
    output = "9 of 9 points by tests. A person reads exercise 3 besides."
    assert results["output"] == output
    tests = [list(entry.values()) for entry in results["tests"] if "score" in entry]
    assert tests == [
        ["1.1", "Twice: Doubles any number.", 2, 2, "passed", ""],
        ["1.2", "Twice: Doubles a text.", 1, 1, "passed", ""],
        ["2.1", "In all: Adds any numbers.", 2, 2, "passed", ""],
        ["2.2", "In all: The total of nothing is zero.", 1, 1, "passed", ""],
        ["3.1", "Nothing there: Puts zeros on the second card.", 3, 3, "passed", ""],
    ]
    assert results["extra_data"]["class"] == SMALL.group
    assert results["extra_data"]["sandbox"]
    assert "Traceback" not in said
    assert CANARY not in json.dumps(results) + said


def test_what_cannot_be_graded_gets_its_reason(harness):
    other_class = submitted(metadata={"assignment": {"name": "small", "class": "book"}})
    two = {"a.ipynb": b"", "b.ipynb": b""}
    hand_ins = {
        "Not graded: nothing was handed in.": {},
        "'a.ipynb' and 'b.ipynb' were handed in; keep one": two,
        "another class": {"a.ipynb": other_class},
    }
    for words, files in hand_ins.items():
        results, said = harness.grade(files)
        assert results["score"] == 0
        assert words in results["output"]
        assert "tests" not in results
        assert "Traceback" not in said


HOSTILE = """
from pathlib import Path  # \x1b[31m
found = []
for name in ("source/private/assignment.json", "results/results.json", "submission_metadata.json"):
    for use in (Path.read_text, lambda path: path.write_text('{"score": 4}')):
        try:
            found.append(use(Path(ROOT, name)))
        except OSError as error:
            print(type(error).__name__)
print("<script>alert(1)</script>\\x1b[31m\\x07 **b**", found)
def double(x):
    return found
"""


# In a container no namespace can be had: root of Docker's has none, so another sandbox must hold.
@pytest.mark.parametrize(
    "container", [False, pytest.param(True, marks=pytest.mark.full)]
)
def test_a_hostile_notebook_reads_no_test_and_writes_no_result(container, harness):
    before = (harness.source / TESTS).read_bytes()
    code = HOSTILE.replace("ROOT", repr(str(harness.root)))
    files = {"work.ipynb": submitted(RIGHT | {1: code})}
    results, said = harness.grade(files, container=container)
    assert results["score"] == 6  # as its other answers are right

    [look] = [entry for entry in results["tests"] if entry["name"] == "To look at"]
    words = "exercise 1, line 1: reads or writes files: from pathlib import Path # [31m"
    assert look["visibility"] == "hidden"
    assert look["output"].splitlines()[0] == words

    if container:
        assert "landlock" in results["extra_data"]["sandbox"]
    shown = json.dumps(results) + said
    for secret in (CANARY, "Jane Doe", "test_numbers(student"):
        assert secret not in shown
    assert (harness.source / TESTS).read_bytes() == before


@pytest.mark.parametrize(
    "broken", ["private/assignment.json", "coursework/grade/judge.py", "no python"]
)
def test_a_grader_that_fails_says_so(broken, harness):
    files = {"work.ipynb": submitted()}
    if broken == "no python":
        results, said = harness.grade(files, GRADING_PYTHON="/no/such")
    else:
        path = harness.source / broken
        moved = path.rename(path.with_suffix(".moved"))
        results, said = harness.grade(files)
        moved.rename(path)
    assert results["score"] == 0
    assert "That is no fault of your notebook" in results["output"]
    assert "private" not in results["output"]
    assert said
