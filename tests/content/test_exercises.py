"""Exercises are tried in the kernel that ran their chapter, by the plugin of the nbval stages."""

import shutil
from itertools import chain

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
GIVEN = {"answer": SOLUTION, "shows": "3", "blank": "it holds"}
FAULTS = [  # what is changed in a sound exercise, and what is said of it then
    ({}, None),
    (GIVEN, "blank, its check shows 'Exercise 2: it holds'"),
    (
        {"check": CHECK.replace("'Ex", "_ = 'Ex"), "blank": None},
        "blank, its check shows nothing",
    ),
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


def exercise(n, shows="3 if double is ... else 4", check=CHECK, blank=BLANK, **parts):
    parts = {
        "answer": "double = ...",
        "solution": SOLUTION,
        "wrong": WRONG,
        "folds": FOLDS,
    } | parts
    printed = [value(f"'Exercise {n}: {blank}'")] if blank else []
    return [
        prose(f"exercise-{n}", f"**{n}. Double.** *Recall.* Write it."),
        code(f"answer-{n}", parts["answer"]),
        code(f"shows-{n}", shows, outputs=[value("3")], execution_count=1),
        code(
            f"holds-{n}",
            check.replace("{n}", str(n)),
            outputs=printed,
            execution_count=1,
        ),
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


def test_an_exercise_that_does_not_work_is_named_and_a_sound_one_passes(tmp_path):
    cells = (exercise(n, **change) for n, (change, _) in enumerate(FAULTS, start=1))
    returncode, failed, log = tried(tmp_path, notebook(*chain(*cells)))
    said = {
        f"exercise-{n}": words for n, (_, words) in enumerate(FAULTS, start=1) if words
    }
    assert (returncode, failed) == (1, [*said]), log
    for name, words in said.items():
        assert any(
            f"::{name}: " in line and words in line for line in log.splitlines()
        ), log


def test_what_the_first_runner_has_tried_is_left_to_full_on_the_others(tmp_path):
    (tmp_path / "outputs" / "simulated").mkdir(parents=True)
    (tmp_path / "outputs" / "simulated" / "small.ipynb").touch()
    recorded = notebook(*exercise(1, wrong=SOLUTION))
    assert tried(tmp_path, recorded)[:2] == (1, ["exercise-1"])
    quick = ("-p", "tools.nbval_exercises", "-m", "not full")
    assert run_nbval(tmp_path, *quick, notebooks="outputs/cpu")[:2] == (0, [])


@pytest.mark.full
def test_an_operator_that_modelled_time_does_not_know_is_named(tmp_path):
    shutil.copytree(ROOT / "kernels", tmp_path / "kernels")
    (tmp_path / "cudasim").symlink_to(ROOT / "cudasim")
    rare = code("rare", "import torch\ntorch.linalg.cholesky(torch.eye(2)); x = 3")
    returncode, failed, log = tried(tmp_path, notebook(rare), "simulated")
    assert (returncode, failed) == (1, ["operators"]), log
    assert "for {'aten.linalg_cholesky_ex.default'}" in log
