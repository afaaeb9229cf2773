"""The order of the package's modules: each imports only those that come before it."""

import ast

import pytest
from calls import raised
from programs import PACKAGE

import cudasim
from cudasim.dispatch.operators import layer

ORDER = (
    "words behaviour notices installed hardware tracebacks importing torch_private modes device "
    "timing startup_file config frameworks jax tensorflow patching clock session dispatch "
    "patches backends simulation recorded lab testing startup ipython kernel __main__"
).split()
MODULES = sorted(
    path for path in PACKAGE.rglob("*.py") if path.parent.name != "inherit"
)
TYPES = {"cuda", "mps"}
# The folders that may compare names of types. Those of `lab` are of real devices, too.
COMPARING = {"types", "cuda", "lab"}


def part_of(path):
    """Return the name of the module or the folder in the package that a file belongs to."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def nodes_of(path):
    """Return the nodes of a module's syntax tree, those within functions too."""
    return ast.walk(ast.parse(path.read_text(encoding="utf-8")))


def imported_names(path):
    """Return the dotted names that a module imports."""
    names = []
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: a relative import"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


@pytest.mark.parametrize(
    "path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix()
)
def test_a_module_imports_only_what_comes_before_it(path):
    part = part_of(path)
    if part == "__init__":  # its names are looked up when they are used
        return
    allowed = ["__version__", *ORDER[: ORDER.index(part) + 1]]
    for name in imported_names(path):
        package, _, rest = name.partition(".")
        if package == "cudasim":
            imported_part = rest.partition(".")[0]
            assert imported_part in allowed, name


def test_the_order_names_every_module():
    assert {part_of(path) for path in MODULES} == {*ORDER, "__init__"}


def test_no_module_takes_the_place_of_a_public_name():
    assert set(ORDER).isdisjoint(cudasim.__all__)


def constants_of(expression):
    nodes = ast.walk(expression)
    return {node.value for node in nodes if isinstance(node, ast.Constant)}


def test_only_a_type_and_its_backend_compare_names_of_types():
    comparisons = []
    for path in MODULES:
        folders = path.relative_to(PACKAGE).parts
        if COMPARING & set(folders):
            continue
        for node in nodes_of(path):
            if isinstance(node, ast.Compare) and constants_of(node) & TYPES:
                comparisons.append(f"{path.name}:{node.lineno}")
    assert comparisons == []


def test_a_layer_of_a_module_without_a_place_is_refused():
    error = raised(lambda: layer("add")(test_the_order_names_every_module), LookupError)
    assert "add it to LAYER_MODULES" in error
