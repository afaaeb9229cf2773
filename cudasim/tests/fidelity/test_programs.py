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
    docstring, *statements = ast.parse(theme.read_text(encoding="utf-8")).body
    assert isinstance(docstring, ast.Expr)
    for statement in statements:
        assert isinstance(statement, ast.Import | ast.ImportFrom | ast.FunctionDef)
        if isinstance(statement, ast.FunctionDef):
            assert statement.args.args == []  # a program takes no arguments


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


def assert_as_kept(answers, kept):
    """Assert that answers are those of the file, of which other versions differ in a few."""
    differ_by_version = OTHERWISE.get(version("torch")[:4], [])
    changes = {}
    for name, answer in answers.items():
        assert not running.is_unexpected(answer), name
        if answer != kept[name] and name not in differ_by_version:
            changes[name] = kept[name], answer
    assert changes == {}, f"(before, now); if now is right: {AFRESH}"


def test_cudasim_answers_as_it_did(simulated, kept):
    answers = simulated(2, "T4")
    assert list(answers) == list(kept) == list(programs())
    assert_as_kept(answers, kept)


@pytest.mark.full
def test_the_order_and_the_card_of_programs_do_not_matter(simulated, kept):
    answers = simulated(1, "H100", seed=1)
    suitable = [name for name, program in programs().items() if program.gpus == 1]
    assert sorted(answers) == sorted(suitable)
    assert list(answers) != suitable
    assert_as_kept(answers, kept)


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
    assert list(before) == list(after) == ["a.one", "a.two"]
    assert before["a.one"].gpus == 1
    assert before["a.two"].gpus == 2
    for name in before:
        differs = before[name].code != after[name].code
        assert differs == (name in changed)
