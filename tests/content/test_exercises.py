"""Exercises are tried in the kernel that ran their chapter, by a plugin beside nbval."""

import shutil

import pytest
from helpers import ROOT, code, notebook, prose
from nbformat.v4 import new_output
from nbval_net import run_nbval

from tools.book.notebooks import write_notebook

SOLUTION, WRONG = "double = lambda x: 2 * x", "double = lambda x: x"
CHECK = """\
if double is not ...:
    assert double(3) == 6
'Exercise {n}: ' + ('no answer yet' if double is ... else 'it holds')"""
BLANK = "no answer yet"
FOLDS = "\n\n".join(
    f'<details class="{kind}">\n<summary>It</summary>\n\n```python\n{{{kind}}}\n```\n\n</details>'
    for kind in ("solution", "wrong")
)
SILENT = CHECK.replace("'Ex", "_ = 'Ex")
PARTS = {
    "answer": "double = ...",
    "shows": "3 if double is ... else 4",
    "check": CHECK,
    "blank": BLANK,
    "solution": SOLUTION,
    "wrong": WRONG,
    "folds": FOLDS,
}
# What is changed in a sound exercise, and what is said of it then.
FAULTS = [
    ({}, None),
    (
        {"answer": SOLUTION, "shows": "3", "blank": "it holds"},
        "blank, its check shows 'Exercise 2: it holds'",
    ),
    ({"check": SILENT, "blank": None}, "blank, its check shows nothing"),
    ({"wrong": "double = lambda x: x + 3"}, "does not refuse the wrong answer"),
    ({"wrong": "double = lambda x: x / 0"}, None),
    ({"wrong": "double = nothing"}, "an answer itself fails: NameError"),
    ({"solution": WRONG}, "its solution does not hold: AssertionError"),
    ({"shows": "3 if double is ... else 3 / 0"}, "does not hold: ZeroDivisionError"),
    (
        {"check": CHECK.replace("it holds", "fine")},
        "solved, its check shows 'Exercise 9: fine'",
    ),
    ({"folds": "Think."}, "it lacks a solution"),
]


def exercise(n, **changes):
    """Return the cells of an exercise as they are recorded, sound but for `changes`."""
    parts = PARTS | changes
    shown = [value("3")]
    check = parts["check"].replace("{n}", str(n))
    checked = []
    if parts["blank"]:
        checked = [value(f"'Exercise {n}: {parts['blank']}'")]
    return [
        prose(f"exercise-{n}", f"**{n}. Double.** *Recall.* Write it."),
        code(f"answer-{n}", parts["answer"]),
        code(f"shows-{n}", parts["shows"], outputs=shown, execution_count=1),
        code(f"holds-{n}", check, outputs=checked, execution_count=1),
        prose(f"solution-{n}", parts["folds"].format(**parts)),
    ]


def value(text):
    return new_output("execute_result", {"text/plain": text})


def tried(folder, recorded, runner="cpu"):
    for place in ("notebooks", f"outputs/{runner}"):
        (folder / place).mkdir(parents=True)
        write_notebook(recorded, folder / place / "small.ipynb", folder)
    plugin = ("-p", "tools.nbval_exercises")
    return run_nbval(folder, *plugin, runner=runner, notebooks=f"outputs/{runner}")


def test_an_exercise_that_does_not_work_is_named(tmp_path):
    cells = []
    expected = {}
    for n, (changes, words) in enumerate(FAULTS, start=1):
        cells += exercise(n, **changes)
        if words:
            expected[f"exercise-{n}"] = words

    returncode, failed, log = tried(tmp_path, notebook(*cells))
    assert returncode == 1, log
    assert failed == list(expected), log
    for name, words in expected.items():
        reasons = [line for line in log.splitlines() if f"::{name}: " in line]
        assert words in "".join(reasons), log


def test_an_exercise_is_tried_on_its_first_runner_only(tmp_path):
    (tmp_path / "outputs" / "simulated").mkdir(parents=True)
    (tmp_path / "outputs" / "simulated" / "small.ipynb").touch()
    faulty = notebook(*exercise(1, wrong=SOLUTION))
    _, failed, log = tried(tmp_path, faulty)
    assert failed == ["exercise-1"], log
    # A full run tries it on every runner, a quick one does not.
    quick = ("-p", "tools.nbval_exercises", "-m", "not full")
    returncode, failed, log = run_nbval(tmp_path, *quick, notebooks="outputs/cpu")
    assert returncode == 0, log
    assert failed == []


@pytest.mark.full
def test_an_operator_without_a_modelled_time_is_named(tmp_path):
    shutil.copytree(ROOT / "kernels", tmp_path / "kernels")
    (tmp_path / "cudasim").symlink_to(ROOT / "cudasim")
    rare = code("rare", "import torch\ntorch.linalg.cholesky(torch.eye(2)); x = 3")
    returncode, failed, log = tried(tmp_path, notebook(rare), "simulated")
    assert returncode == 1, log
    assert failed == ["operators"], log
    assert "for {'aten.linalg_cholesky_ex.default'}" in log
