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

# It stands in a hidden test.
CANARY = "rng.randrange(5, 400)"
CONTAINER = Path(__file__).with_name("container.py")


def file_of(answers=RIGHT, **changes):
    """Return the file of a notebook with these answers."""
    return json.dumps(edition(answers) | changes).encode()


@pytest.fixture(scope="module")
def files():
    return autograder_files(SMALL)


def test_the_command_makes_a_zip_of_what_grading_needs(files):
    path = make_autograder(choice_of("small", None), KEY, DATA / "class")
    archive = path.read_bytes()
    path.unlink()
    assert path.stem == f"small-{SMALL.group}"
    assert len(archive) < 5_000_000
    # In any order of its files, it is the same.
    assert archive == zipped(dict(reversed(files.items())), MODES)


def test_the_tests_are_in_one_file_and_the_key_in_none(files):
    with_tests = [name for name, data in files.items() if CANARY.encode() in data]
    assert with_tests == [TESTS]
    for name, data in files.items():
        assert KEY.encode() not in data, name


def test_a_chapter_without_exercises_has_no_autograder():
    with refused("no exercises for 'x'; choose from: small"):
        make_autograder(choice_of("x", None), None, DATA / "class")


def imported_packages():
    """Return the packages that the autograder imports."""
    imports = "import sys, coursework.grade.exchange.autograder.__main__"
    command = [sys.executable, "-c", f"{imports}; print(*sys.modules)"]
    modules = subprocess.check_output(command, cwd=ROOT, text=True).split()
    packages_of = packages_distributions()
    packages = set()
    for module in modules:
        name = module.partition(".")[0]
        if name in packages_of and name not in sys.stdlib_module_names:
            packages.add(canonicalize_name(packages_of[name][0]))
    return packages


def listed_packages():
    """Return the packages that the autograder installs, with all that they need."""
    installed = {canonicalize_name(package.name) for package in distributions()}
    file = ROOT / "coursework" / "grade" / "exchange" / "autograder" / "packages.txt"
    waiting = re.findall(r"^\w[\w-]*$", file.read_text(), re.M)
    packages = {"setuptools"}
    while waiting:
        package = waiting.pop()
        packages.add(package)
        for line in requires(package) or ():
            needed = canonicalize_name(Requirement(line).name)
            if needed in installed and needed not in packages:
                waiting.append(needed)
    return packages


def test_the_packages_are_all_that_is_imported():
    assert imported_packages() <= listed_packages()


# As Gradescope's specification has it.
RESULT_FIELDS = {
    "score",
    "output",
    "output_format",
    "test_output_format",
    "test_name_format",
    "tests",
    "stdout_visibility",
    "visibility",
    "extra_data",
}
TEST_FIELDS = {
    "score",
    "max_score",
    "name",
    "number",
    "output",
    "status",
    "visibility",
}
CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def assert_valid(results):
    """Assert that results have the format that Gradescope takes."""
    assert results.keys() <= RESULT_FIELDS
    assert results["stdout_visibility"] == "hidden"
    for test in results.get("tests", []):
        assert test.keys() <= TEST_FIELDS
        assert test.get("status", "passed") in ("passed", "failed")
        assert results["test_output_format"] == "text"
        assert results["test_name_format"] == "text"
        assert not CONTROL_CHARACTERS.search(test["output"] + test["name"])


class Gradescope:
    """What their harness does, in a folder that stands for `/autograder`."""

    def __init__(self, root, archive):
        self.root = root
        self.source = root / "source"
        with zipfile.ZipFile(BytesIO(archive)) as content:
            content.extractall(self.source)
        shutil.copy(self.source / "run_autograder", root / "run_autograder")

    def bash(self, *arguments, in_container=False, **variables):
        command = ["bash", *arguments]
        if in_container:
            command = [sys.executable, CONTAINER, *command]
        environment = dict(os.environ)
        environment["AUTOGRADER"] = str(self.root)
        environment["GRADING_PYTHON"] = sys.executable
        return subprocess.run(
            command,
            cwd=self.root,
            env=environment | variables,
            timeout=300,
            capture_output=True,
            text=True,
        )

    def grade(self, files, **options):
        """Return the results for files that are handed in, and what was printed."""
        for name in ("submission", "results"):
            shutil.rmtree(self.root / name, ignore_errors=True)
            (self.root / name).mkdir()
        for name, data in files.items():
            (self.root / "submission" / name).write_bytes(data)
        (self.root / "submission_metadata.json").write_text('{"users": ["Jane Doe"]}')

        run = self.bash(self.root / "run_autograder", **options)

        results = json.loads((self.root / "results" / "results.json").read_text())
        assert_valid(results)
        return results, run.stdout + run.stderr


@pytest.fixture(scope="module")
def harness(files):
    if os.name == "nt" or os.geteuid() != 0:
        pytest.skip("Gradescope runs the autograder as root, and this is not root")
    with tempfile.TemporaryDirectory(prefix="autograder-") as folder:
        Path(folder).chmod(0o755)
        harness = Gradescope(Path(folder), zipped(files, MODES))
        run = harness.bash(harness.source / "setup.sh", "--permissions")
        assert run.returncode == 0, run.stderr
        yield harness


def test_tests_are_readable_by_root_alone(harness):
    def student_can(*command):
        as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        run = subprocess.run([*as_nobody, "--", *command], capture_output=True)
        return run.returncode == 0

    assert student_can("cat", harness.source / "tools" / "errors.py")
    assert not student_can("cat", harness.source / TESTS)
    assert not student_can("ls", (harness.source / TESTS).parent)
    assert not student_can("touch", harness.root / "results" / "results.json")


def test_a_right_notebook(harness):
    results, printed = harness.grade({"small.ipynb": file_of()})
    assert results["score"] == 9, printed
    output = "9 of 9 points by tests. A person reads exercise 3 besides."
    assert results["output"] == output
    tests = [list(test.values()) for test in results["tests"] if "score" in test]
    assert tests == [
        ["1.1", "Twice: Doubles any number.", 2, 2, "passed", ""],
        ["1.2", "Twice: Doubles a text.", 1, 1, "passed", ""],
        ["2.1", "In all: Adds any numbers.", 2, 2, "passed", ""],
        ["2.2", "In all: The total of nothing is zero.", 1, 1, "passed", ""],
        ["3.1", "Nothing there: Puts zeros on the second card.", 3, 3, "passed", ""],
    ]
    assert results["extra_data"]["class"] == SMALL.group
    assert results["extra_data"]["sandbox"]
    assert "Traceback" not in printed
    assert CANARY not in json.dumps(results)
    assert CANARY not in printed


OTHER_CLASS = file_of(metadata={"assignment": {"name": "small", "class": "book"}})


@pytest.mark.parametrize(
    ("hand_in", "words"),
    [
        ({}, "Not graded: nothing was handed in."),
        (
            {"a.ipynb": b"", "b.ipynb": b""},
            "'a.ipynb' and 'b.ipynb' were handed in; keep one",
        ),
        ({"a.ipynb": OTHER_CLASS}, "another class"),
    ],
    ids=["nothing", "two notebooks", "another class"],
)
def test_what_cannot_be_graded_gets_its_reason(hand_in, words, harness):
    results, printed = harness.grade(hand_in)
    assert results["score"] == 0
    assert words in results["output"]
    assert "tests" not in results
    assert "Traceback" not in printed


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


# In a container no namespace can be had: root of Docker's has none, so another sandbox must
# hold.
@pytest.mark.parametrize(
    "in_container", [False, pytest.param(True, marks=pytest.mark.full)]
)
def test_a_hostile_notebook_reads_no_test_and_writes_no_result(in_container, harness):
    before = (harness.source / TESTS).read_bytes()
    answer = HOSTILE.replace("ROOT", repr(str(harness.root)))
    files = {"work.ipynb": file_of(RIGHT | {1: answer})}

    results, printed = harness.grade(files, in_container=in_container)

    # Its other answers are right.
    assert results["score"] == 6
    if in_container:
        assert "landlock" in results["extra_data"]["sandbox"]
    for secret in (CANARY, "Jane Doe", "test_numbers(student"):
        assert secret not in json.dumps(results)
        assert secret not in printed
    assert (harness.source / TESTS).read_bytes() == before

    [look] = [test for test in results["tests"] if test["name"] == "To look at"]
    assert look["visibility"] == "hidden"
    line = "exercise 1, line 1: reads or writes files: from pathlib import Path # [31m"
    assert look["output"].splitlines()[0] == line


def assert_is_no_fault_of_the_student(results, printed):
    assert results["score"] == 0
    assert "That is no fault of your notebook" in results["output"]
    assert "private" not in results["output"]
    assert printed


@pytest.mark.parametrize(
    "name", ["private/assignment.json", "coursework/grade/judge.py"]
)
def test_a_grader_without_a_file_says_so(name, harness):
    path = harness.source / name
    moved = path.rename(path.with_suffix(".moved"))
    results, printed = harness.grade({"work.ipynb": file_of()})
    moved.rename(path)
    assert_is_no_fault_of_the_student(results, printed)


def test_a_grader_without_python_says_so(harness):
    files = {"work.ipynb": file_of()}
    results, printed = harness.grade(files, GRADING_PYTHON="/no/such")
    assert_is_no_fault_of_the_student(results, printed)
