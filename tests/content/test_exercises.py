"""Exercises are tried in the kernel that ran their chapter, by a plugin beside nbval."""

import shutil

import pytest
from helpers import ROOT, code, notebook, prose
from nbformat.v4 import new_output
from nbval_net import run_nbval

from tools.book.notebooks import write_notebook

SOLUTION = "double = lambda x: 2 * x"
WRONG = "double = lambda x: x"
CHECK = """\
if double is not ...:
    assert double(3) == 6
'Exercise {n}: ' + ('no answer yet' if double is ... else 'passed')"""
SILENT_CHECK = CHECK.replace("'Ex", "_ = 'Ex")
OTHER_CHECK = CHECK.replace("passed", "fine")
FOLD = '<details class="{}">\n<summary>It</summary>\n\n```python\n{}\n```\n\n</details>'


def exercise(
    n,
    answer="double = ...",
    shows="3 if double is ... else 4",
    check=CHECK,
    shown="no answer yet",
    solution=SOLUTION,
    wrong=WRONG,
):
    """Return the cells of an exercise as they are recorded: sound, unless an argument is not.

    `shown` is what its check has shown, None for nothing; `solution` is None for a text
    without one.
    """
    check_outputs = []
    if shown:
        check_outputs = [value(f"'Exercise {n}: {shown}'")]
    folds = "Think."
    if solution:
        folds = FOLD.format("solution", solution) + "\n\n" + FOLD.format("wrong", wrong)
    return [
        prose(f"exercise-{n}", f"**{n}. Double.** *Recall.* Write it."),
        code(f"answer-{n}", answer),
        code(f"shows-{n}", shows, outputs=[value("3")], execution_count=1),
        code(
            f"holds-{n}",
            check.replace("{n}", str(n)),
            outputs=check_outputs,
            execution_count=1,
        ),
        prose(f"solution-{n}", folds),
    ]


def value(text):
    return new_output("execute_result", {"text/plain": text})


def tried(folder, recorded, runner="cpu"):
    """Try the exercises of a recorded chapter on a runner, as `run_nbval` returns it."""
    for place in ("notebooks", f"outputs/{runner}"):
        (folder / place).mkdir(parents=True)
        write_notebook(recorded, folder / place / "small.ipynb", folder)
    plugin = ("-p", "tools.nbval_exercises")
    return run_nbval(folder, *plugin, runner=runner, notebooks=f"outputs/{runner}")


# What is changed in a sound exercise, and what is said of it then.
SOUND = [{}, {"wrong": "double = lambda x: x / 0"}]
FAULTY = [
    (
        {"answer": SOLUTION, "shows": "3", "shown": "passed"},
        "blank, its check shows 'Exercise 3: passed'",
    ),
    ({"check": SILENT_CHECK, "shown": None}, "blank, its check shows nothing"),
    ({"check": OTHER_CHECK}, "solved, its check shows 'Exercise 5: fine'"),
    ({"wrong": "double = lambda x: x + 3"}, "does not refuse the wrong answer"),
    ({"wrong": "double = nothing"}, "an answer itself fails: NameError"),
    ({"solution": WRONG}, "its solution does not hold: AssertionError"),
    ({"shows": "3 if double is ... else 3 / 0"}, "does not hold: ZeroDivisionError"),
    ({"solution": None}, "it lacks a solution"),
]


def test_an_exercise_that_does_not_work_is_named(tmp_path):
    cells = []
    for n, changes in enumerate(SOUND, start=1):
        cells += exercise(n, **changes)
    expected = {}
    for n, (changes, words) in enumerate(FAULTY, start=3):
        cells += exercise(n, **changes)
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
