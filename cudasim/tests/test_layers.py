"""The order of the package's modules: each imports only those that come before it."""

import ast

import pytest
from programs import PACKAGE

import cudasim

ORDER = (
    "words behaviour installed tracebacks importing torch_private modes device "
    "timing startup_file config frameworks jax tensorflow patching clock session dispatch "
    "patches backends simulation recorded testing startup ipython kernel __main__"
).split()
MODULES = sorted(
    path for path in PACKAGE.rglob("*.py") if path.parent.name != "inherit"
)
PARTS = {path: path.relative_to(PACKAGE).with_suffix("").parts[0] for path in MODULES}
TYPES = {"cuda", "mps"}


def imported(path):
    """The dotted names that a module imports, in functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: a relative import"
            yield from (f"{node.module}.{each.name}" for each in node.names)


@pytest.mark.parametrize(
    "path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix()
)
def test_a_module_imports_only_what_comes_before_it(path):
    if PARTS[path] == "__init__":  # its names are looked up when they are used
        return
    before = ORDER[: ORDER.index(PARTS[path]) + 1]
    names = [f"{name}.__init__".split(".") for name in imported(path)]
    assert [
        name for name in names if name[0] == "cudasim" and name[1] not in before
    ] == []


def test_the_order_names_every_module_and_none_takes_the_place_of_a_public_name():
    assert {*PARTS.values()} == {*ORDER, "__init__"}
    assert not {*ORDER} & {*cudasim.__all__}


def test_only_a_type_and_its_backend_compare_names_of_types():
    found = []
    for path in MODULES:
        if {"types", "cuda"} & {*path.relative_to(PACKAGE).parts}:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare):
                names = {
                    each.value
                    for each in ast.walk(node)
                    if isinstance(each, ast.Constant)
                }
                found += [f"{path.name}:{node.lineno}"] if names & TYPES else []
    assert found == []
