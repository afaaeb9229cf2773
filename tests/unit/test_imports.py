"""Data flows one way: a module imports only from those before it."""

import ast

import pytest
from helpers import ROOT

# Each part of a package may import those before it.
LAYERS = {
    "tools": (
        *("errors", "root", "environment", "files", "book", "commands"),
        *("languages", "record", "site", "rules", "others"),
    ),
    "coursework": ("exercises", "grade", "others"),
}
MAY_IMPORT = {"tools": {"tools"}, "coursework": {"coursework", "tools"}}
# What each package imports of the other one: the door opens both; coursework never draws a page.
DOOR = ROOT / "tools" / "__main__.py"
# The one place that reads what simulated GPUs do, in the process where answers run.
METER = ROOT / "coursework/grade/sandbox/inside/meter.py"
# The one place that reads what the simulator models, in a process of its own.
MODELS = ROOT / "tools/site/simulated_models.py"


def imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield f"{'.' * node.level}{node.module or ''}"


@pytest.mark.parametrize("package", LAYERS)
def test_modules_import_only_what_comes_before_them(package):
    layers = LAYERS[package]

    def layer(part):
        return layers.index(part if part in layers else "others")

    steps = set()
    for path in (ROOT / package).rglob("*.py"):
        own = path.relative_to(ROOT / package).with_suffix("").parts[0]
        for name in imported(path):
            assert not name.startswith(".."), (path, name)
            first, *rest = name.split(".")
            if first == package and rest:
                steps.add((own, rest[0]))
    assert steps
    assert [step for step in steps if layer(step[1]) > layer(step[0])] == []


@pytest.mark.parametrize("package", LAYERS)
def test_packages_import_only_what_they_may(package):
    ours = {"tools", "coursework", "tests", "helpers", "cudasim", "kernels"}
    for path in (ROOT / package).rglob("*.py"):
        allowed = set(MAY_IMPORT[package])
        if path in (METER, MODELS):
            allowed.add("cudasim")
        if path == DOOR:
            allowed.add("coursework")
        for name in imported(path):
            first = name.split(".")[0]
            assert first not in ours - allowed, (path, name)
            if package == "coursework":
                assert not name.startswith("tools.site"), (path, name)


def test_the_simulator_knows_nothing_of_the_book():
    folders = (ROOT / "cudasim" / name for name in ("src", "fidelity", "tests"))
    files = [path for folder in folders for path in folder.rglob("*.py")]
    firsts = {name.split(".")[0] for path in files for name in imported(path)}
    books = {"tools", "coursework", "book", "kernels", "helpers"}
    assert "cudasim" in firsts and not firsts & books


def test_rules_only_check():
    """What reads a chapter lies in `tools.book`, so nothing but the command needs a rule."""
    importers = []
    for package in ("tools", "coursework"):
        for path in (ROOT / package).rglob("*.py"):
            where = path.relative_to(ROOT)
            if where.parts[:2] == ("tools", "rules"):
                continue
            if any(name.startswith("tools.rules") for name in imported(path)):
                importers.append(where.as_posix())
    assert importers == ["tools/cli.py"]
