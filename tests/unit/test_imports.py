"""Data flows one way: a module imports only from those before it."""

import ast
from pathlib import Path

import pytest
from helpers import ROOT

# Of tools/; each may use those before it.
LAYERS = (
    *("errors", "root", "environment", "files", "book", "rules", "record", "site"),
    *("exercises", "grade", "others"),
)


def imported(path):
    """Every module that a file imports, inside of functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield f"{'.' * node.level}{node.module or ''}"


def layer(module):
    """The layer of a module `tools.<part>...`."""
    part = module.split(".")[1]
    return LAYERS.index(part if part in LAYERS else "others")


def backward(path, root):
    """What a file of `root/tools` imports that is not before it: a later layer, or a test."""
    own = layer(".".join(path.relative_to(root).with_suffix("").parts))
    return [
        name
        for name in imported(path)
        if name.startswith("..")
        or name.split(".")[0] in ("tests", "helpers", "cudasim", "kernels")
        or (name.startswith("tools.") and layer(name) > own)
    ]


@pytest.mark.parametrize(
    "path",
    sorted((ROOT / "tools").rglob("*.py")),
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_a_module_imports_only_what_comes_before_it(path):
    assert backward(path, ROOT) == []


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("book/book.py", "from tools.record.execute import execute"),
        ("record/record.py", "def f():\n    import tools.site.site"),
        ("site/merge.py", "from tools.bench import measure"),
        ("site/merge.py", "from tools.exercises.assignment import Assignment"),
        ("exercises/verify.py", "from tools.grade.grade import grade_one"),
        ("site/merge.py", "import cudasim"),
        ("lab.py", "from tests.helpers import code"),
    ],
)
def test_a_step_back_is_found(tmp_path, name, line):
    path = tmp_path / "tools" / name
    path.parent.mkdir(parents=True)
    path.write_text(line)
    assert len(backward(path, tmp_path)) == 1


@pytest.mark.parametrize("folder", ["cudasim/src", "cudasim/fidelity", "cudasim/tests"])
def test_the_simulator_knows_nothing_of_the_book(folder):
    files = sorted(Path(ROOT / folder).rglob("*.py"))
    firsts = {name.split(".")[0] for path in files for name in imported(path)}
    assert files and not firsts & {"tools", "book", "kernels", "helpers"}
