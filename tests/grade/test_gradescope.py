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
from io import BytesIO
from pathlib import Path

import pytest
from helpers import ROOT
from packaging.utils import canonicalize_name

from tools.errors import BookError
from tools.exercises.archive import zipped
from tools.grade.exchange.gradescope import (
    MODES,
    PROGRAM,
    TESTS,
    autograder_files,
    imported_modules,
    imported_packages,
    make_autograder,
    pins_of,
)

CANARY = "canary-4f1e"
ASSIGNMENT = {
    "name": "doubling",
    "title": "Doubling",
    "class": "0123456789ab",
    "seed": "77",
    "runner": "cpu",
    "given": [["imports", "import torch"]],
    "questions": [
        {
            "number": 1,
            "title": "Double it",
            "points": 3,
            "name": "double",
            "starter": "double = ...  # your function",
            "shows": None,
            "checks": ["if double is not ...:\n    assert double(2) == 4\n    'it holds'"],
            "tests": f'''
@points(2)
def test_numbers(student, rng):
    """Doubles any number."""
    n = rng.randrange(5, 1000)
    secret = "{CANARY}"
    assert student.ask("double(n)", n=n) == 2 * n

def test_tensors(student, rng):
    """Doubles a tensor."""
    assert student.ask("double(torch.arange(3)).tolist()") == [0, 2, 4]
''',
            "seconds": 5,
            "memory": 1024,
            "by_hand": None,
        },
        {
            "number": 2,
            "title": "Say why",
            "points": 1,
            "name": "why",
            "starter": "why = ...  # a text",
            "shows": "len(why) if why is not ... else 0",
            "checks": [],
            "tests": '''
def test_text(student, rng):
    """Is a text."""
    assert isinstance(student.ask("why"), str)
''',
            "seconds": 5,
            "memory": 1024,
            "by_hand": {"points": 2, "rubric": "says why"},
        },
    ],
}
GOOD = "def double(x):\n    return x * 2"


def submitted(first=GOOD, second="why = 'so'", **changes):
    """A notebook with two answers, as a student hands it in."""
    parts = [("imports", "import torch"), ("answer-1", first)]
    parts += [("holds-1", ASSIGNMENT["questions"][0]["checks"][0]), ("answer-2", second)]
    cells = [
        {"cell_type": "code", "id": id, "metadata": {}, "source": source, "outputs": []}
        for id, source in parts
    ]
    metadata = {"assignment": {"name": "doubling", "class": "0123456789ab", "edition": "student"}}
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": cells}
    return json.dumps(notebook | changes).encode()


@pytest.fixture(scope="module")
def files():
    return autograder_files(ASSIGNMENT)


# --- what is in the zip


def test_the_same_assignment_gives_the_same_bytes(files):
    again = autograder_files(json.loads(json.dumps(ASSIGNMENT)))
    assert zipped(files, MODES) == zipped(dict(reversed(again.items())), MODES)


def test_scripts_are_at_the_root_and_executable(files):
    with zipfile.ZipFile(BytesIO(zipped(files, MODES))) as archive:
        modes = {each.filename: each.external_attr >> 16 & 0o777 for each in archive.infolist()}
    assert modes["setup.sh"] == modes["run_autograder"] == 0o755
    assert modes[TESTS] == 0o600
    assert {mode for name, mode in modes.items() if name.endswith(".py")} == {0o644}


def test_it_holds_what_grading_needs_and_no_more(files):
    tops = {name.split("/")[0] for name in files}
    assert tops == {
        *("cudasim", "kernels", "private", "tools", "setup.sh", "run_autograder"),
        *("requirements.txt", "requirements-no-deps.txt", "uv.txt"),
    }
    assert "tools/grade/sandbox/inside/agent.py" in files and "kernels/start.py" in files
    assert not any(name.startswith(("tools/site", "cudasim/tests")) for name in files)
    assert sum(map(len, files.values())) < 5_000_000
    holders = [name for name, data in files.items() if CANARY.encode() in data]
    assert holders == [TESTS]


def test_the_pins_are_those_of_the_book(files):
    book = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    lines = files["requirements.txt"].decode().splitlines()
    assert all(f"{line} " in book or f"{line}\n" in book for line in lines)
    names = {re.match(r"[\w.-]+", line)[0] for line in lines}
    assert {"torch", "numpy", "matplotlib", "ipython", "pyseccomp", "sympy", "wcwidth"} <= names
    assert not {"sphinx", "pytest", "playwright", "jupyter-book", "distributed"} & names
    assert re.fullmatch(r"uv==[\d.]+\n", files["uv.txt"].decode())
    with pytest.raises(BookError, match="grading needs no-such-package; name it in requirements"):
        pins_of(["no-such-package"])


def test_pip_finds_no_conflict_in_the_pins(files, tmp_path):
    """All that they need is among them: without an index, nothing is left to be installed."""
    (tmp_path / "pins").write_bytes(files["requirements.txt"])
    pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-index", "--quiet"]
    run = subprocess.run([*pip, "-r", tmp_path / "pins"], capture_output=True, text=True, cwd="/")
    assert (run.returncode, run.stdout) == (0, ""), run.stderr


def test_what_is_imported_is_pinned(files):
    """Of every module in the zip, what is imported with it."""
    pins = {line.partition("==")[0] for line in files["requirements.txt"].decode().splitlines()}
    needed = imported_packages(imported_modules(PROGRAM))
    assert {canonicalize_name(name) for name in needed} <= pins
    assert {"nbformat", "PyYAML"} <= needed


def test_what_a_module_imports_is_found(tmp_path):
    folder = tmp_path / "tools" / "grade"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("import tools.errors")
    (folder / "a.py").write_text(
        "import json, yaml\nfrom tools.grade import b\ndef f(): import torch"
    )
    (folder / "b.py").write_text("from . import c\nfrom tools.grade.a import x\nimport numpy.fft")
    modules = imported_modules("tools.grade.a", tmp_path)
    assert modules == {"tools.grade", "tools.grade.a", "tools.grade.b"}
    assert imported_packages(modules, tmp_path) == {"PyYAML", "numpy"}


def test_scripts_parse_and_stop_at_the_first_error(files):
    for name in ("setup.sh", "run_autograder"):
        assert files[name].startswith(b"#!/bin/bash\n")
        run = subprocess.run(["bash", "-n"], input=files[name], capture_output=True)
        assert (run.returncode, run.stderr) == (0, b"")
    assert b"\nset -euo pipefail\n" in files["setup.sh"]


def test_a_master_that_is_not_there_is_an_error_in_one_line(tmp_path):
    (tmp_path / "other.md").write_text("x")
    with pytest.raises(BookError, match=r"no master 'doubling'; name one with CHAPTER=: other$"):
        make_autograder("doubling", None, tmp_path)


# --- at Gradescope


class Gradescope:
    """What their harness does, in a folder that stands for `/autograder`."""

    def __init__(self, root, archive):
        self.root, self.source = root, root / "source"
        with zipfile.ZipFile(BytesIO(archive)) as content:
            content.extractall(self.source)
        shutil.copy(self.source / "run_autograder", root / "run_autograder")
        (root / "submission").mkdir()
        (root / "results").mkdir()

    def bash(self, *command, container=False, **variables):
        within = (sys.executable, Path(__file__).with_name("container.py")) if container else ()
        environment = os.environ | {"AUTOGRADER": str(self.root), "GRADING_PYTHON": sys.executable}
        return subprocess.run(
            [*within, "bash", *command],
            cwd=self.root,
            env=environment | variables,
            capture_output=True,
            text=True,
            timeout=300,
        )

    def setup(self):
        run = self.bash(self.source / "setup.sh", "--permissions")
        assert run.returncode == 0, run.stderr

    def grade(self, handed_in, **options):
        """The results for files, and what was printed."""
        for each in (self.root / "submission", self.root / "results"):
            shutil.rmtree(each)
            each.mkdir()
        for name, data in handed_in.items():
            (self.root / "submission" / name).write_bytes(data)
        (self.root / "submission_metadata.json").write_text('{"users": ["Jane Doe"]}')
        run = self.bash(self.root / "run_autograder", **options)
        results = json.loads((self.root / "results" / "results.json").read_text())
        check_format(results)
        return results, run.stdout + run.stderr


TEXT = ("text", None)
ENTRY = {
    *("score", "max_score", "name", "name_format", "number", "output", "output_format"),
    *("status", "visibility"),
}


def check_format(results):
    """That Gradescope would take it: its specification of the file, and texts that are plain."""
    whole = {"score", "output", "output_format", "stdout_visibility", "visibility", "tests"}
    assert set(results) <= whole | {"extra_data", "test_output_format", "test_name_format"}
    assert isinstance(results["score"], int | float) and isinstance(results["output"], str)
    assert results["output_format"] == "text" and results["stdout_visibility"] == "hidden"
    for entry in results.get("tests", []):
        assert set(entry) <= ENTRY and isinstance(entry["output"], str)
        assert entry["output_format"] == entry["name_format"] == "text"
        assert entry.get("status", "passed") in ("passed", "failed")
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", entry["output"] + entry["name"])


@pytest.fixture(scope="module")
def harness(files):
    if os.name == "nt" or os.geteuid() != 0:
        pytest.skip("Gradescope runs the autograder as root, and this is not root")
    root = Path(tempfile.mkdtemp(prefix="autograder-"))
    root.chmod(0o755)
    made = Gradescope(root, zipped(files, MODES))
    made.setup()
    yield made
    shutil.rmtree(root)


@pytest.fixture(scope="module")
def right(harness):
    """The results of a right notebook, and what was printed."""
    return harness.grade({"doubling.ipynb": submitted()})


def as_student(*command):
    """Run a command as a user who is not root."""
    drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]
    return subprocess.run([*drop, *command], capture_output=True, text=True)


def test_tests_are_readable_by_root_alone(files):
    if os.name == "nt" or os.geteuid() != 0:
        pytest.skip("only root can make a file its own")
    root = Path(tempfile.mkdtemp(prefix="autograder-"))
    root.chmod(0o755)
    try:
        made = Gradescope(root, zipped(files, MODES))
        tests = made.source / TESTS
        assert CANARY in as_student("cat", tests).stdout  # as it is unpacked: the bite
        made.setup()
        refusal = as_student("cat", tests)
        assert refusal.returncode and "Permission denied" in refusal.stderr
        assert as_student("ls", tests.parent).returncode
        assert as_student("touch", root / "results" / "results.json").returncode
        assert as_student("cat", made.source / "tools" / "errors.py").returncode == 0
    finally:
        shutil.rmtree(root)


def test_a_right_notebook(right):
    results, said = right
    assert results["score"] == 4, said
    assert results["output"] == "4 of 4 points by tests. A person reads exercise 2 besides."
    entries = [
        (each["number"], each["name"], each["score"], each["max_score"], each["status"])
        for each in results["tests"]
        if "score" in each
    ]
    assert entries == [
        ("1.1", "Double it: Doubles any number.", 2, 2, "passed"),
        ("1.2", "Double it: Doubles a tensor.", 1, 1, "passed"),
        ("2.1", "Say why: Is a text.", 1, 1, "passed"),
    ]
    assert results["extra_data"]["class"] == "0123456789ab" and results["extra_data"]["sandbox"]
    assert "Traceback" not in said and CANARY not in json.dumps(results) + said


def test_the_same_notebook_gives_the_same_results(harness, right):
    """Under another name, and in a zip."""
    made = BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("another name.ipynb", submitted())
    assert harness.grade({"work.zip": made.getvalue()}) == right


def test_a_wrong_notebook_gets_part(harness):
    wrong = "def double(x):\n    return 2 * x if isinstance(x, int) else x"
    results, _ = harness.grade({"work.ipynb": submitted(wrong, "why = ...")})
    scores = {each["number"]: each["score"] for each in results["tests"] if "score" in each}
    assert (results["score"], scores) == (2, {"1.1": 2, "1.2": 0, "2.1": 0})


def test_what_a_student_shows_stays_text(harness):
    shows = "print('<script>alert(1)</script>\\x1b[31m\\x07 **b** ')\n" + GOOD
    results, _ = harness.grade({"work.ipynb": submitted(shows)})
    [entry] = [each for each in results["tests"] if each["number"] == "1"]
    assert "<script>alert(1)</script> **b**" in entry["output"]  # declared as text: check_format


HANDED_IN = {
    "nothing": ({}, "Not graded: nothing was handed in."),
    "no notebook": ({"a.pdf": b"%PDF"}, "Not graded: 'a.pdf': no notebook, which ends in .ipynb."),
    "two": ({"a.ipynb": b"", "b.ipynb": b""}, "'a.ipynb' and 'b.ipynb' were handed in; keep one"),
    "cut short": ({"a.ipynb": submitted()[:-30]}, "its JSON ends or errs in line 1"),
    "format 3": ({"a.ipynb": submitted(nbformat=3)}, "the file is in format 3"),
    "another class": (
        {"a.ipynb": submitted(metadata={"assignment": {"name": "doubling", "class": "book"}})},
        "another class",
    ),
    "R": ({"a.ipynb": submitted(metadata={"kernelspec": {"name": "ir"}})}, "in 'r'"),
    "=cmd()": ({"=cmd()\n,.pdf": b""}, "'=cmd() ,.pdf': no notebook"),
}


@pytest.mark.parametrize("name", HANDED_IN)
def test_what_cannot_be_graded_gets_its_reason(name, harness):
    handed_in, expected = HANDED_IN[name]
    results, said = harness.grade(handed_in)
    assert results["score"] == 0 and expected in results["output"]
    assert "Traceback" not in said and "tests" not in results


HOSTILE = """
import glob, os, subprocess
from pathlib import Path
found = []
for folder in (ROOT, "/autograder"):
    for path in [f"{folder}/source/private/assignment.json", f"{folder}/results/results.json",
                 f"{folder}/submission_metadata.json", *glob.glob(f"{folder}/**/*.json")]:
        try:
            found.append(Path(path).read_text())
        except OSError as error:
            print(type(error).__name__)
        try:
            Path(path).write_text('{"score": 4}')
        except OSError as error:
            print(type(error).__name__)
for path in sum([glob.glob("/proc/*/" + name) for name in ("environ", "cmdline", "cwd/*")], []):
    try:
        found.append(Path(path).read_bytes().decode("latin-1"))
    except OSError:
        pass
print("FOUND", found)
try:
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
except OSError as error:
    print(type(error).__name__)
def double(x):
    return found
"""


def test_a_hostile_notebook_reads_no_test_and_writes_no_result(harness):
    before = (harness.source / TESTS).read_bytes()
    code = HOSTILE.replace("ROOT", repr(str(harness.root)))
    results, said = harness.grade({"work.ipynb": submitted(code, "why = str(found)")})
    assert results["score"] == 1  # that why is a text
    shown = json.dumps(results) + said
    assert CANARY not in shown and "Jane Doe" not in shown and "test_numbers(student" not in shown
    assert (harness.source / TESTS).read_bytes() == before
    assert not any("sleep 1000" in each for each in running())


def running():
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_bytes().replace(b"\0", b" ").decode("latin-1")
        except OSError:
            pass


def test_a_loop_costs_its_exercise_only(harness):
    results, _ = harness.grade({"work.ipynb": submitted("while True: pass")})
    scores = {each["number"]: each["score"] for each in results["tests"] if "score" in each}
    assert scores == {"1.1": 0, "1.2": 0, "2.1": 1}


def test_a_notebook_that_kills_its_process_gets_results(harness):
    kill = "import os\nos.kill(os.getppid(), 9)\nos.kill(-1, 9)\nos._exit(0)"
    results, _ = harness.grade({"work.ipynb": submitted(kill)})
    assert results["score"] == 1 and len(results["tests"]) >= 3


def test_in_a_container_another_sandbox_holds(harness, right):
    """Where no namespace can be had, as root of a container of Docker's has none."""
    code = HOSTILE.replace("ROOT", repr(str(harness.root)))
    inside, said = harness.grade({"work.ipynb": submitted()}, container=True)
    assert inside["score"] == 4, said
    sandboxes = [each["extra_data"]["sandbox"] for each in (right[0], inside)]
    assert "namespaces" in sandboxes[0] and "namespaces" not in sandboxes[1]
    results, said = harness.grade(
        {"work.ipynb": submitted(code, "why = str(found)")}, container=True
    )
    assert results["score"] == 1
    shown = json.dumps(results) + said
    assert CANARY not in shown and "Jane Doe" not in shown and "test_numbers(student" not in shown
    assert not any("sleep 1000" in each for each in running())


@pytest.mark.parametrize("broken", ["tests", "python", "tools"])
def test_a_grader_that_fails_says_so(broken, harness, tmp_path):
    moved, variables = None, {}
    if broken == "python":
        variables["GRADING_PYTHON"] = "/no/such/python"
    else:
        moved = harness.source / {"tests": TESTS, "tools": "tools/grade/judge.py"}[broken]
        moved.rename(moved.with_suffix(".moved"))
    try:
        results, said = harness.grade({"work.ipynb": submitted()}, **variables)
    finally:
        if moved:
            moved.with_suffix(".moved").rename(moved)
    assert results["score"] == 0 and "That is no fault of your notebook" in results["output"]
    assert said and "private" not in results["output"]


def test_the_command_makes_the_zip_of_a_class(tmp_path):
    """Of a master in a folder of the instructor's own."""
    shutil.copy(ROOT / "masters" / "computing-devices.md", tmp_path)
    path = make_autograder("computing-devices", "a key of a class", tmp_path)
    try:
        with zipfile.ZipFile(path) as archive:
            made = json.loads(archive.read(TESTS))
    finally:
        path.unlink()
    assert made["name"] == "computing-devices" and path.stem.endswith(made["class"])
    assert "a key of a class" not in json.dumps(made)
