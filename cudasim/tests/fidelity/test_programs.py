"""The programs: all answered by cudasim, as ever and in every order; and the index of them."""

import ast
import sys
from importlib.metadata import version

import pytest

from fidelity import running
from fidelity.index import HERE, programs

THEMES = sorted(
    path for path in (HERE / "programs").glob("*.py") if path.stem != "__init__"
)
ALONE = {"fidelity", "torch", "numpy"}  # what a bare machine with a GPU has
AFRESH = "python cudasim/facts simulate > cudasim/tests/fidelity/answers.json"
COUNTS = "saving.loading_to_a_gpu_that_is_not_there"  # its answer tells how many GPUs there are


# What other versions of PyTorch than that of the answers say in other words.
SAID_SINCE = """factories.what_is_no_device_for_a_factory
    training.a_value_that_backward_needs_is_not_changed_in_place
    training.changed_values_are_named_by_their_type"""
OTHERWISE = {
    "2.11": f"{SAID_SINCE} training.a_network_moved_to_the_other_gpu_after_the_first_step",
    "2.12": SAID_SINCE,
    "2.14": "mixing.attention",
}


@pytest.mark.parametrize("theme", THEMES, ids=lambda path: path.stem)
def test_a_theme_holds_programs_and_nothing_else(theme):
    """The hash of a program sees constants and helpers, but no classes and no statements."""
    first, *rest = ast.parse(theme.read_text(encoding="utf-8")).body
    assert isinstance(first, ast.Expr)  # its docstring
    kinds = (ast.Import, ast.ImportFrom, ast.Assign, ast.FunctionDef)
    assert [type(node) for node in rest if not isinstance(node, kinds)] == []
    assert all(not node.args.args for node in rest if isinstance(node, ast.FunctionDef))


def test_recording_needs_nothing_but_torch_and_numpy():
    recorder = [
        HERE / f"{name}.py" for name in ("asking", "index", "recording", "running")
    ]
    for path in [*THEMES, *recorder, HERE.parent / "facts" / "__main__.py"]:
        names = set()
        for node in ast.parse(
            path.read_text(encoding="utf-8")
        ).body:  # not in its functions
            if isinstance(node, ast.Import | ast.ImportFrom):
                names |= {getattr(node, "module", alias.name) for alias in node.names}
        assert {
            name.split(".")[0] for name in names
        } - sys.stdlib_module_names <= ALONE, path


@pytest.mark.parametrize(
    "machine", [(2, "T4"), pytest.param((1, "H100", 1), marks=pytest.mark.full)]
)
def test_cudasim_answers_as_it_did(simulated, kept, machine):
    gpus, _, *seed = machine
    answers, names = simulated(*machine), running.suitable(programs(), gpus)
    assert set(answers) == set(names) and (list(answers) == names) == (not seed)
    assert [name for name in names if running.unexpected(answers[name])] == []
    if gpus == 1:
        del answers[COUNTS]
    for name in OTHERWISE.get(version("torch")[:4], "").split():
        answers.pop(name, None)
    differ = [
        (name, kept.get(name), now)
        for name, now in answers.items()
        if kept.get(name) != now
    ]
    assert differ == [], f"(program, before, now); if now is right: {AFRESH}"


SMALL = {
    "asking.py": "def ask():\n    return 1\n\n\ndef other():\n    return 2\n",
    "programs/a.py": "N = 1\n\n\ndef one():\n    return ask()\n\n\n"
    "@gpus(2, fork=True)\ndef two():\n    return N\n",
}


def index(folder, old="", new=""):
    """The index of the small suite, with a text of it replaced by another."""
    (folder / "programs").mkdir(exist_ok=True)
    for name, text in SMALL.items():
        (folder / name).write_text(text.replace(old, new) if old else text)
    return programs(folder)


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
def test_the_index_tells_needs_and_hashes_the_code_that_counts(
    tmp_path, old, new, changed
):
    before, after = index(tmp_path), index(tmp_path, old, new)
    needs = {name: (program.gpus, program.fork) for name, program in before.items()}
    assert needs == {"a.one": (1, False), "a.two": (2, True)}
    assert {name for name in before if before[name].code != after[name].code} == changed
