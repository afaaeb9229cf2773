"""The programs: all answered by cudasim, as ever and in every order; and the index of them."""

import ast
import sys
from importlib.metadata import version

import pytest

from fidelity import index, running
from fidelity.index import HERE, programs

THEMES = sorted((HERE / "programs").glob("[a-z]*.py"))
BARE = {"fidelity", "torch", "numpy"}  # what a bare machine with a GPU has
AFRESH = "python cudasim/facts simulate > cudasim/tests/fidelity/answers.json"

# Programs to which other versions of PyTorch answer in other words than that of the answers.
OTHERWISE = {
    "2.11": ["training.a_network_moved_to_the_other_gpu_after_the_first_step"],
    "2.14": ["mixing.attention"],
}


@pytest.mark.parametrize("theme", THEMES, ids=lambda path: path.stem)
def test_a_theme_holds_programs_and_nothing_else(theme):
    """The hash of a program sees neither constants nor classes beside it."""
    docstring, *rest = ast.parse(theme.read_text(encoding="utf-8")).body
    assert isinstance(docstring, ast.Expr)
    kinds = (ast.Import, ast.ImportFrom, ast.FunctionDef)
    assert [node for node in rest if not isinstance(node, kinds)] == []
    functions = [node for node in rest if isinstance(node, ast.FunctionDef)]
    assert all(not function.args.args for function in functions)


def test_recording_needs_nothing_but_torch_and_numpy():
    door = HERE.parent / "facts" / "__main__.py"
    for path in [*THEMES, *HERE.glob("*.py"), door]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        modules = set()
        for node in tree.body:  # not in its functions
            if isinstance(node, ast.ImportFrom):
                modules.add(node.module)
            if isinstance(node, ast.Import):
                modules |= {alias.name for alias in node.names}
        packages = {module.split(".")[0] for module in modules}
        assert packages - sys.stdlib_module_names <= BARE, path


@pytest.mark.parametrize(
    "machine", [(2, "T4"), pytest.param((1, "H100", 1), marks=pytest.mark.full)]
)
def test_cudasim_answers_as_it_did(simulated, kept, machine):
    answers = simulated(*machine)
    gpus, _, *seed = machine
    suitable = [name for name, each in programs().items() if each.gpus <= gpus]
    assert set(answers) == set(suitable)
    assert (list(answers) == suitable) == (not seed)

    for name in OTHERWISE.get(version("torch")[:4], []):
        answers.pop(name, None)
    differ = {}
    for name, answer in answers.items():
        assert not running.is_unexpected(answer), name
        if answer != kept[name]:
            differ[name] = kept[name], answer
    assert differ == {}, f"(before, now); if now is right: {AFRESH}"
    assert set(kept) == set(programs())


SMALL = {
    "helpers.py": "N = 1\n",
    "programs/a.py": """
from fidelity.helpers import gpus


def one():
    return 1


@gpus(2)
def two():
    return 2
""",
}


def write_small(folder, old="", new=""):
    """Write a small kit, with a text of it replaced by another."""
    (folder / "programs").mkdir(parents=True)
    for name, text in SMALL.items():
        (folder / name).write_text(text.replace(old, new) if old else text)


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("return 1", "return 3", {"a.one"}),
        ("return 2", "return 3", {"a.two"}),
        ("@gpus(2", "@gpus(1", {"a.two"}),
        ("N = 1", "N = 2", {"a.one", "a.two"}),  # of the helpers
    ],
)
def test_a_change_of_the_code_changes_the_hash(
    tmp_path, monkeypatch, old, new, changed
):
    write_small(tmp_path / "before")
    write_small(tmp_path / "after", old, new)

    def read(name):
        folder = tmp_path / name
        monkeypatch.setattr(index, "HERE", folder)
        monkeypatch.setattr("fidelity.programs.__path__", [str(folder / "programs")])
        monkeypatch.delitem(sys.modules, "fidelity.programs.a", raising=False)
        return programs()

    before, after = read("before"), read("after")
    monkeypatch.delitem(sys.modules, "fidelity.programs.a")
    assert {name: each.gpus for name, each in before.items()} == {
        "a.one": 1,
        "a.two": 2,
    }
    assert {name for name in before if before[name].code != after[name].code} == changed
