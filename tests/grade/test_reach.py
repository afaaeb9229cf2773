"""Lines that reach where answers have no business are listed, and honest code is not."""

import json
import tomllib
from dataclasses import replace

import pytest
from classroom import DATA, HERE, SMALL, edition, small
from helpers import ROOT

import cudasim
from coursework.exercises.masters import read_master
from coursework.grade.command import assignments_of
from coursework.grade.reach import PUBLIC, reaches
from coursework.grade.results import Grade

TABLE = tomllib.loads((DATA / "reach.toml").read_text(encoding="utf-8"))
ASKS = (
    'def test_x(student, rng):\n    student.ask("lanes_now = double(1)\\nlanes_now")\n'
)
QUESTION = replace(SMALL.exercises[0], tests=ASKS)
ASSIGNMENT = small(given=TABLE["given"]["code"], exercises=[QUESTION])
LISTED = [(text, code) for text, codes in TABLE["listed"].items() for code in codes]


@pytest.mark.parametrize(("text", "code"), LISTED)
def test_what_reaches_too_far_is_listed_with_its_line(text, code):
    entries = reaches({1: [code]}, ASSIGNMENT)
    lines = {entry.text: entry for entry in entries}
    assert text in lines, entries
    assert lines[text].exercise == 1
    own = code.splitlines()
    assert lines[text].code == own[lines[text].line - 1].strip()


@pytest.mark.parametrize("code", TABLE["honest"]["code"])
def test_honest_code_is_not(code):
    assert reaches({1: [code]}, ASSIGNMENT) == []


def codes_of_masters():
    """Yield all code that may stand in an honest cell: (assignment, exercise, part, code)."""
    for name, assignment in assignments_of(None, None, None).items():
        master = read_master(ROOT / "masters" / f"{name}.md", ROOT)
        for exercise in master.exercises:
            for part in ("Solution", "Wrong answer", "Starter"):
                for answer in exercise.parts[part]:
                    yield assignment, exercise.number, part, answer.blocks[0]


def test_nothing_that_the_books_masters_hold_is_listed_but_a_computed_name():
    listed = []
    for assignment, number, part, code in codes_of_masters():
        for entry in reaches({number: [code]}, assignment):
            listed.append((assignment.name, number, part, entry.code))
    # It finds a parameter's module by the parameter's name.
    looked_up = "parameter = getattr(module, last)"
    assert listed == [("neural-networks-on-gpus", 2, "Wrong answer", looked_up)]


def test_lines_are_counted_as_in_the_answer_and_a_text_that_is_run_is_read():
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
    assert {*cudasim.__all__} <= PUBLIC


@pytest.mark.parametrize(
    "code",
    [
        "x" + ".a" * 900,
        "torch" + "[0]" * 900 + " = 1",
        "sys._getframe()\n" * 20_000,
        "\n".join(f"{' ' * n}if 1:" for n in range(90)) + f"\n{' ' * 90}pass",
        "x = " + "(lambda: " * 80 + "1" + ")" * 80,
        "def f():\n x = 1\n" * 20_000,
        "\n".join(f"a{n} = a{n + 1} = sys" for n in range(20_000)),
        "exec(" + repr("exec(" + repr("exec('x')") + ")") + ")",
    ],
    ids=range(8),
)
def test_odd_code_takes_no_longer_than_its_size(code, request):
    assert len(reaches({1: [code]}, ASSIGNMENT)) <= 61


def test_they_stand_in_the_review_and_in_the_results_and_take_no_points(
    grade, tmp_path
):
    notebook = edition(HERE | {1: f"import sys\nsys._getframe()\n\n{HERE[1]}"})
    ids = [cell["id"] for cell in notebook["cells"]]
    own_cell = {
        "cell_type": "code",
        "id": "mine",
        "metadata": {},
        "outputs": [],
        "execution_count": None,
        "source": "import gc # <b>",
    }
    notebook["cells"].insert(ids.index("exercise-1"), own_cell)
    grade({"Ann": notebook, "Bob": HERE})

    review = (tmp_path / "out" / "review.html").read_text(encoding="utf-8")
    _, heading, section = review.partition("Code that reaches beyond its exercise")
    section = section.partition("<h2>")[0]
    assert heading
    assert "no verdict" in review
    assert "Ann: small, exercise 1, line 2: looks into stack frames" in section
    assert "<code>sys._getframe()</code>" in section
    place = "Ann: small, above the exercises, line 1"
    assert f"{place}: looks through all of Python" in section
    assert "&lt;b&gt;" in section
    assert "Bob: small, exercise" not in section

    grades = {}
    for path in (tmp_path / "out" / "results").iterdir():
        result = Grade.from_json(json.loads(path.read_text()))
        grades[result.student] = result
    assert grades["Bob"].reach == []
    assert grades["Ann"].points == 9
    entry = grades["Ann"].reach[0]
    assert (entry.exercise, entry.line, entry.code) == (None, 1, "import gc # <b>")
