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


def layer(package, part):
    layers = LAYERS[package]
    if part not in layers:
        part = "others"
    return layers.index(part)


@pytest.mark.parametrize("package", LAYERS)
def test_modules_import_only_what_comes_before_them(package):
    checked = 0
    for path in (ROOT / package).rglob("*.py"):
        part = path.relative_to(ROOT / package).with_suffix("").parts[0]
        for name in imported(path):
            assert not name.startswith(".."), (path, name)
            first, *rest = name.split(".")
            if first == package and rest:
                assert layer(package, rest[0]) <= layer(package, part), (path, name)
                checked += 1
    assert checked


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
    packages = set()
    for folder in ("src", "fidelity", "tests"):
        for path in (ROOT / "cudasim" / folder).rglob("*.py"):
            packages.update(name.split(".")[0] for name in imported(path))
    assert "cudasim" in packages
    assert not packages & {"tools", "coursework", "book", "kernels", "helpers"}
