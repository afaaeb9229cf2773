"""Lines that reach where answers have no business are listed, and honest code is not."""

import tomllib
from dataclasses import replace

import pytest
from classroom import ANSWERS, DATA, SMALL, edition, insert_cell, results, small
from helpers import ROOT

import cudasim
from coursework.exercises.masters import read_master
from coursework.grade.command import assignments_of
from coursework.grade.reach import PUBLIC, reaches

TABLE = tomllib.loads((DATA / "reach.toml").read_text(encoding="utf-8"))
HIDDEN_TEST = r"""
def test_x(student, rng):
    student.ask("lanes_now = double(1)\nlanes_now")
"""
QUESTION = replace(SMALL.exercises[0], tests=HIDDEN_TEST)
ASSIGNMENT = small(given=TABLE["given"]["code"], exercises=[QUESTION])


def listed_cases():
    """Return each code that is listed, with the words that it is listed with."""
    cases = []
    for text, codes in TABLE["listed"].items():
        cases += [(text, code) for code in codes]
    return cases


@pytest.mark.parametrize(("text", "code"), listed_cases())
def test_what_reaches_too_far_is_listed_with_its_line(text, code):
    entries = {entry.text: entry for entry in reaches({1: [code]}, ASSIGNMENT)}
    assert text in entries
    entry = entries[text]
    assert entry.exercise == 1
    line = code.splitlines()[entry.line - 1]
    assert entry.code == line.strip()


@pytest.mark.parametrize("code", TABLE["honest"]["code"])
def test_honest_code_is_not(code):
    assert reaches({1: [code]}, ASSIGNMENT) == []


def codes_of(exercise):
    """Return all code of a master that may stand in an honest cell."""
    answers = []
    for part in ("Solution", "Wrong answer", "Starter"):
        answers += exercise.parts[part]
    return [answer.blocks[0] for answer in answers]


def test_of_the_books_masters_only_a_computed_name_is_listed():
    listed = []
    for name, assignment in assignments_of(None, None, None).items():
        master = read_master(ROOT / "masters" / f"{name}.md", ROOT)
        for exercise in master.exercises:
            for code in codes_of(exercise):
                entries = reaches({exercise.number: [code]}, assignment)
                listed += [(name, exercise.number, entry.code) for entry in entries]
    # A wrong answer finds a parameter's module by the parameter's name.
    looked_up = "parameter = getattr(module, last)"
    assert listed == [("neural-networks-on-gpus", 2, looked_up)]


def test_a_line_is_counted_from_the_top_of_its_answer():
    timed = "%%time\nx = 1\nsys.settrace(f)"
    runs_text = "a = 1\n\nexec('torch.stack = f; s.f_back')"
    entries = reaches({None: [], 1: [timed, runs_text]}, ASSIGNMENT)
    assert [(entry.line, entry.text) for entry in entries] == [
        (3, "traces what runs"),
        (7, "looks into stack frames"),
        (7, "replaces an attribute of `torch`"),
        (7, "runs code that is given as text or data"),
    ]


def test_what_is_public_of_the_simulator_is_known():
    assert PUBLIC >= set(cudasim.__all__)


def nested_ifs(depth):
    lines = [f"{' ' * n}if 1:" for n in range(depth)]
    lines.append(f"{' ' * depth}pass")
    return "\n".join(lines)


ODD_CODE = {
    "attributes": "x" + ".a" * 900,
    "indices": "torch" + "[0]" * 900 + " = 1",
    "calls": "sys._getframe()\n" * 20_000,
    "ifs": nested_ifs(90),
    "lambdas": "x = " + "(lambda: " * 80 + "1" + ")" * 80,
    "functions": "def f():\n x = 1\n" * 20_000,
    "assignments": "\n".join(f"a{n} = a{n + 1} = sys" for n in range(20_000)),
    "texts that are run": """exec('exec("exec(\\'x\\')")')""",
}


@pytest.mark.parametrize("code", ODD_CODE.values(), ids=ODD_CODE.keys())
def test_odd_code_takes_no_longer_than_its_size(code):
    assert len(reaches({1: [code]}, ASSIGNMENT)) <= 61


@pytest.fixture
def graded(grade, out):
    """The grades of Ann, whose code reaches too far, and of Bob."""
    answer = f"import sys\nsys._getframe()\n\n{ANSWERS[1]}"
    notebook = edition(ANSWERS | {1: answer})
    insert_cell(notebook, "exercise-1", "code", "import gc # <b>")
    grade({"Ann": notebook, "Bob": ANSWERS})
    return out


def test_the_review_lists_each_line(graded):
    review = (graded / "review.html").read_text(encoding="utf-8")
    assert "not a verdict" in review
    _, heading, rest = review.partition("Code that reaches beyond its exercise")
    assert heading
    section = rest.partition("<h2>")[0]
    assert "Ann: small, exercise 1, line 2: looks into stack frames" in section
    assert "<code>sys._getframe()</code>" in section
    above = "Ann: small, above the exercises, line 1"
    assert f"{above}: looks through all of Python" in section
    assert "&lt;b&gt;" in section
    assert "Bob: small, exercise" not in section


def test_a_result_keeps_each_line_and_its_points(graded):
    grades = results(graded)
    assert grades["Bob"].reach == []
    assert grades["Ann"].points == 9
    entry = grades["Ann"].reach[0]
    assert entry.exercise is None
    assert entry.line == 1
    assert entry.code == "import gc # <b>"
