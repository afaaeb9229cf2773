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

TABLE = tomllib.loads((DATA / "reach.toml").read_text(encoding="utf-8"))
ASKS = (
    'def test_x(student, rng):\n    student.ask("lanes_now = double(1)\\nlanes_now")\n'
)
QUESTION = replace(SMALL.questions[0], tests=ASKS)
ASSIGNMENT = small(given=TABLE["given"]["code"], questions=[QUESTION])
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


def test_nothing_that_the_books_masters_hold_is_listed_but_a_computed_name():
    listed = []
    for name, assignment in assignments_of(None, None, None).items():
        master = read_master(ROOT / "masters" / f"{name}.md", ROOT)
        for exercise in master.exercises:
            for part in ("Solution", "Wrong answer", "Starter"):
                for answer in exercise.parts[part]:
                    sources = {exercise.number: answer.blocks[:1]}
                    entries = reaches(sources, assignment)
                    listed += [
                        (name, exercise.number, part, one.code) for one in entries
                    ]
    # It finds a parameter's module by the parameter's name.
    looked_up = "parameter = getattr(module, last)"
    assert listed == [("neural-networks-on-gpus", 2, "Wrong answer", looked_up)]


def test_lines_are_counted_as_in_the_answer_and_a_text_that_is_run_is_read():
    cells = [
        "%%time\nx = 1\nsys.settrace(f)",
        "a = 1\n\nexec('torch.stack = f; s.f_back')",
    ]
    found = [
        (entry.line, entry.text) for entry in reaches({None: [], 1: cells}, ASSIGNMENT)
    ]
    assert found == [
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
    above = edition(HERE | {1: f"import sys\nsys._getframe()\n\n{HERE[1]}"})
    place = next(
        n for n, cell in enumerate(above["cells"]) if cell["id"] == "exercise-1"
    )
    code = {"cell_type": "code", "id": "mine", "metadata": {}, "outputs": []}
    above["cells"].insert(
        place, code | {"execution_count": None, "source": "import gc # <b>"}
    )
    grade({"Ann": above, "Bob": HERE})
    out = tmp_path / "out"
    review = (out / "review.html").read_text(encoding="utf-8")
    assert "Code that reaches beyond its exercise" in review and "no verdict" in review
    assert "Ann: small, exercise 1, line 2: looks into stack frames" in review
    assert "<code>sys._getframe()</code>" in review and "&lt;b&gt;" in review
    assert (
        "Ann: small, above the exercises, line 1: looks through all of Python" in review
    )
    assert (
        "Bob: small, exercise"
        not in review.partition("Code that reaches")[2].partition("<h2>")[0]
    )
    results = [json.loads(path.read_text()) for path in (out / "results").iterdir()]
    by_student = {result["student"]: result for result in results}
    assert by_student["Bob"]["reach"] == [] and by_student["Ann"]["points"] == 9
    assert {"exercise": None, "line": 1, "code": "import gc # <b>"}.items() <= (
        by_student["Ann"]["reach"][0].items()
    )
