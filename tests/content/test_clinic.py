"""The clinic: one script, repaired from chapter to chapter; every repair pays."""

import ast
import difflib
import subprocess
import sys
from itertools import pairwise

import pytest
from helpers import ROOT, cell, read

from tools.book.grammar import TITLE
from tools.record.clinic import (
    CARDS,
    key,
    measure_version,
    read_measured,
    script_paths,
)

# The version that each chapter's clinic begins with.
BEGINS_WITH = {
    "computing-devices": 0,
    "tensors-on-gpus": 1,
    "copying-between-devices": 3,
    "neural-networks-on-gpus": 5,
    "what-costs-time": 7,
    "what-takes-memory": 9,
    "two-gpus-at-once": 11,
}
PATHS = script_paths(ROOT)
MEASURED = read_measured(ROOT)
# Repairs that turn wrong results into right ones, and cost nothing; see below.
RIGHT_RESULT = {6, 7}
START = "\n\nif __name__ == '__main__':"


def definitions(source):
    """Return what a program defines: its functions, classes and assignments, by name."""
    by_name = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            by_name[node.name] = ast.unparse(node)
        elif isinstance(node, ast.Assign):
            by_name[ast.unparse(node.targets[0])] = ast.unparse(node)
    return by_name


def load(number):
    script = {"__name__": "script"}
    exec(PATHS[number].read_text("utf-8"), script)
    return script


def test_what_was_measured_is_up_to_date():
    assert MEASURED["key"] == key(ROOT), "python -m tools clinic"


def test_measuring_again_gives_what_is_recorded(monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)  # as from a shell, without make
    last = PATHS[-1]
    measured = measure_version(last, "T4", ROOT)
    assert measured == MEASURED["versions"][last.stem]["T4"]


@pytest.mark.parametrize(("before", "after"), [*pairwise(range(len(PATHS)))])
def test_versions_differ_only_in_the_repair(before, after):
    first, second = (PATHS[i].read_text("utf-8") for i in (before, after))
    changes = difflib.ndiff(first.splitlines(), second.splitlines())
    changed = [line for line in changes if line[0] in "+-"]
    assert 0 < len(changed) <= 15


@pytest.mark.parametrize("card", CARDS)
def test_every_repair_pays(card):
    versions = [version[card] for version in MEASURED["versions"].values()]
    assert "error" in versions[0]
    assert "error" in versions[1]  # on a GPU: without one it runs
    assert "error" not in versions[2]
    for number in range(3, len(versions)):
        before, after = versions[number - 1], versions[number]
        faster = after["seconds"] <= 0.9 * before["seconds"]
        smaller = after["peak"] <= 0.8 * before["peak"]
        assert faster or smaller or number in RIGHT_RESULT, PATHS[number].stem
    assert versions[-1]["busy"] >= 0.75


def trained_parameters(number):
    model, optimizer = load(number)["make_model"]()
    known = {id(p) for group in optimizer.param_groups for p in group["params"]}
    return sum(id(p) in known for p in model.parameters()), len([*model.parameters()])


def test_repair_6_lets_the_optimizer_train_all_parameters():
    trained, all_parameters = trained_parameters(5)
    assert trained == all_parameters - 2
    assert trained_parameters(6) == (all_parameters, all_parameters)


def losses_of_two_evaluations(number):
    script = load(number)
    model, _, _, unseen = script["prepare"]()
    return [script["evaluate"](model, *unseen)[0].item() for _ in range(2)]


def test_repair_7_makes_two_evaluations_agree():
    first, second = losses_of_two_evaluations(6)
    assert first != second
    first, second = losses_of_two_evaluations(7)
    assert first == second


@pytest.mark.parametrize("number", [1, len(PATHS) - 1])
def test_a_version_runs_by_itself_without_a_gpu(number):
    command = [sys.executable, str(PATHS[number])]
    process = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr
    assert "of unseen notes found" in process.stdout


@pytest.mark.parametrize(("name", "number"), BEGINS_WITH.items())
def test_a_chapter_shows_the_whole_script_as_it_stands(name, number):
    shown = cell(read(ROOT / "notebooks" / f"{name}.ipynb"), "clinic-script").source
    whole, _, _ = PATHS[number].read_text("utf-8").partition(START)
    if number > 0:  # the first clinic shows the script, the others fold it
        title, _, shown = shown.partition("\n")
        assert title.startswith(TITLE)
    assert shown == whole.rstrip()


@pytest.mark.parametrize(
    ("name", "begins", "ends"),
    [
        (name, BEGINS_WITH[name], end)
        for name, end in zip(
            [*BEGINS_WITH][:-1], [*BEGINS_WITH.values()][1:], strict=True
        )
    ],
)
def test_a_chapter_shows_each_of_its_repairs(name, begins, ends):
    notebook = read(ROOT / "notebooks" / f"{name}.ipynb")
    shown = []
    for code in notebook.cells:
        if code.cell_type == "code" and code.id.startswith("clinic"):
            shown += definitions(code.source).items()
    for number in range(begins + 1, ends + 1):
        for definition in definitions(PATHS[number].read_text("utf-8")).items():
            assert definition in shown, (PATHS[number].stem, definition[0])
