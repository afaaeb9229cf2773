"""The order of the package's modules: each imports only those that come before it."""

import ast

import pytest
from programs import PACKAGE

import cudasim

ORDER = (
    "modes device timing startup_file config frameworks jax tensorflow clock patching session "
    "dispatch patches backends simulation recorded testing startup ipython kernel __main__"
).split()
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.parent.name != "inherit")
TYPES = {"cuda", "mps"}


def part(name):
    """The package or module in ORDER to which a dotted name in `cudasim` belongs."""
    return name.split(".")[1] if "." in name else "__init__"


def imported(path):
    """The dotted names that a module imports from `cudasim`, in functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: a relative import"
            yield from (f"{node.module}.{each.name}" for each in node.names)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_a_module_imports_only_what_comes_before_it(path):
    mine = path.relative_to(PACKAGE).with_suffix("").parts[0]
    if mine == "__init__":  # its names are looked up when they are used
        return
    before = ORDER[: ORDER.index(mine) + 1]
    names = [name for name in imported(path) if name.split(".")[0] == "cudasim"]
    assert [name for name in names if part(name) not in before] == []


def test_the_order_names_every_module():
    parts = {path.relative_to(PACKAGE).with_suffix("").parts[0] for path in MODULES}
    assert parts == {*ORDER, "__init__"}


def test_no_module_takes_the_place_of_a_public_name():
    """As an attribute of the package, once it is imported."""
    names = {path.relative_to(PACKAGE).with_suffix("").parts[0] for path in MODULES}
    assert not names & {*cudasim.__all__}


def test_only_a_type_and_its_backend_compare_names_of_types():
    found = []
    for path in MODULES:
        if {"types", "cuda"} & set(path.parts[len(PACKAGE.parts) :]):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare):
                names = {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)}
                found += [f"{path.name}:{node.lineno}"] if names & TYPES else []
    assert found == []
