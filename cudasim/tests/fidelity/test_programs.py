"""The programs: enough of them, all answered by cudasim, the same in every order."""

import ast
import importlib
import sys

import pytest

from fidelity import running
from fidelity.index import HERE, programs

THEMES = sorted(path for path in (HERE / "programs").glob("*.py") if path.stem != "__init__")
ALONE = {"fidelity", "torch", "numpy"}  # what a bare machine with a GPU has


@pytest.mark.parametrize("theme", THEMES, ids=lambda path: path.stem)
def test_a_theme_holds_programs_and_nothing_else(theme):
    first, *rest = ast.parse(theme.read_text(encoding="utf-8")).body
    assert isinstance(first, ast.Expr)  # its docstring
    kinds = (ast.Import, ast.ImportFrom, ast.Assign, ast.FunctionDef)
    assert [type(node) for node in rest if not isinstance(node, kinds)] == []


def test_there_are_enough_and_most_need_one_gpu():
    known = programs().values()
    assert len(known) >= 150
    assert sum(each.gpus <= 1 for each in known) > 0.9 * len(known)


def test_every_program_is_a_function_that_needs_no_argument():
    for name in programs():
        theme, function = name.split(".")
        program = getattr(importlib.import_module(f"fidelity.programs.{theme}"), function)
        assert program.__code__.co_argcount == 0, name


def test_cudasim_answers_every_program(simulated):
    answers = simulated(2, "T4")
    assert list(answers) == running.suitable(programs(), 2)
    assert {name: each for name, each in answers.items() if running.unexpected(each)} == {}


def test_with_one_gpu_those_that_need_one_answer(simulated):
    answers = simulated(1, "H100")
    assert set(answers) == set(running.suitable(programs(), 1)) < set(simulated(2, "T4"))
    assert {name: each for name, each in answers.items() if running.unexpected(each)} == {}


@pytest.mark.full
def test_answers_depend_neither_on_order_nor_on_the_card(simulated):
    expected, shuffled = simulated(2, "T4"), simulated(2, "H100", seed=1)
    assert list(shuffled) != list(expected)
    assert {name: shuffled[name] for name in expected if shuffled[name] != expected[name]} == {}


def test_an_error_that_a_program_does_not_expect_is_reported():
    said = running.answer("nowhere.nothing")
    assert running.unexpected(said) == (
        "ModuleNotFoundError: No module named 'fidelity.programs.nowhere'"
    )
    assert running.unexpected({"unexpected": "x", "more": 1}) is None


def test_recording_needs_nothing_but_torch_and_numpy():
    recorder = [HERE / f"{name}.py" for name in ("asking", "index", "recording", "running")]
    for path in [*THEMES, *recorder, HERE.parent / "facts" / "__main__.py"]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = set()
        for node in tree.body:  # at the top: cudasim is imported where it is asked for
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names.add(node.module.split(".")[0])
        assert names - sys.stdlib_module_names <= ALONE, path


SMALL = {
    "asking.py": "def ask():\n    return 1\n\n\ndef other():\n    return 2\n",
    "programs/a.py": "N = 1\n\n\ndef one():\n    return ask()\n\n\n"
    "@gpus(2, fork=True)\ndef two():\n    return N\n",
}


def index(folder, **changes):
    """The index of the small suite, with a text of it replaced by another."""
    (folder / "programs").mkdir(exist_ok=True)
    for name, text in SMALL.items():
        for old, new in changes.values():
            text = text.replace(old, new)
        (folder / name).write_text(text)
    return programs(folder)


def test_the_index_tells_what_a_program_needs(tmp_path):
    known = index(tmp_path)
    assert {name: (each.gpus, each.fork) for name, each in known.items()} == {
        "a.one": (1, False),
        "a.two": (2, True),
    }


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("return N", "return -N", {"a.two"}),
        ("@gpus(2", "@gpus(1", {"a.two"}),
        ("return 1", "return 3", {"a.one"}),  # a helper that it calls
        ("return 2", "return 3", set()),  # a helper that nobody calls
        ("N = 1", "N = 2", {"a.one", "a.two"}),  # a constant of the theme
    ],
)
def test_a_hash_changes_with_the_code_that_it_stands_for(tmp_path, old, new, changed):
    before, after = index(tmp_path), index(tmp_path, change=(old, new))
    assert {name for name in before if before[name].code != after[name].code} == changed
