"""Data flows one way: a module imports only from those before it."""

import ast

from helpers import ROOT

# Of tools/; each may use those before it.
LAYERS = (
    *("errors", "root", "environment", "files", "book", "rules", "languages", "record", "site"),
    *("exercises", "grade", "others"),
)
# The one place that reads what simulated GPUs do, in the process where answers run.
METER = ROOT / "tools/grade/sandbox/inside/meter.py"


def imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield f"{'.' * node.level}{node.module or ''}"


def layer(part):
    return LAYERS.index(part if part in LAYERS else "others")


def test_modules_import_only_what_comes_before_them():
    steps = set()
    for path in (ROOT / "tools").rglob("*.py"):
        own = path.relative_to(ROOT / "tools").with_suffix("").parts[0]
        for name in imported(path):
            first, *rest = name.split(".")
            others = {"tests", "helpers", "cudasim", "kernels"}
            assert first not in others - ({"cudasim"} if path == METER else set()), (path, name)
            assert not name.startswith(".."), (path, name)
            if first == "tools" and rest:
                steps.add((own, rest[0]))
    assert ("record", "book") in steps
    assert [step for step in steps if layer(step[1]) > layer(step[0])] == []


def test_the_simulator_knows_nothing_of_the_book():
    folders = (ROOT / "cudasim" / name for name in ("src", "fidelity", "tests"))
    files = [path for folder in folders for path in folder.rglob("*.py")]
    firsts = {name.split(".")[0] for path in files for name in imported(path)}
    assert "cudasim" in firsts and not firsts & {"tools", "book", "kernels", "helpers"}
