"""Private names of PyTorch: all of them are in `cudasim.torch_private`, and in PyTorch.

To support a new version of PyTorch, run this file with it. The first tests name what the
version no longer has, and the lines of `cudasim/torch_private` to change.
"""

import ast
import functools
import importlib
import pkgutil
import re
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from programs import PACKAGE

import cudasim
from cudasim.torch_private import (
    CALLED_BY_PYTORCH,
    NOT_EVERYWHERE,
    TRIED,
    Attribute,
    Bindings,
)

# The groups of names are imported within the tests. If a name is gone, its group cannot be
# imported, and the first test says which names are missing.
TORCH = Path(torch.__file__).parent
FOLDER = PACKAGE / "torch_private"
GROUPS = (
    "dispatch",
    "operators",
    "tensors",
    "devices",
    "distributed",
    "compiler",
    "flex",
    "gradients",
    "graph_trees",
    "inductor",
    "rpc",
)
MODULES = sorted(PACKAGE.rglob("*.py"))

NOT_IN_PYTORCH = (
    f"PyTorch {torch.__version__} lacks names that {', '.join(TRIED)} have:"
)

# Private names of Python and of its library.
OF_PYTHON = {
    "_MEIPASS",
    "_as_parameter_",
    "_bootstrap_inner",
    "_getframe",
    "_it",
    "_replace",
    "_run_module_as_main",
    "_thread",
}
# Functions of Python that take an attribute by its name.
BY_NAME = {"getattr", "hasattr", "setattr", "delattr"}


class Mention(NamedTuple):
    """A name in a file of the package."""

    path: Path
    line: int
    name: str

    def __str__(self):
        return f"{self.path.relative_to(PACKAGE)}:{self.line}: {self.name}"


def lines_of(heading, mentions):
    return "\n".join([heading, *map(str, mentions)])


def is_private(name):
    return bool(re.fullmatch(r"_[A-Za-z]\w*", name))


def has_private_part(path):
    return any(map(is_private, path.split(".")))


@functools.cache
def syntax_tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def names_in_pytorch():
    """The private names in PyTorch's Python files, and in its stubs of `torch._C`."""
    pattern = re.compile(r"\b_\w+")
    names = set()
    for path in [*TORCH.rglob("*.py"), *(TORCH / "_C").glob("*.pyi")]:
        text = path.read_text(errors="replace")
        names.update(pattern.findall(text))
    return names


@functools.cache
def our_names():
    """The names that cudasim's own functions, classes and variables have."""
    names = set()
    for path in MODULES:
        for node in ast.walk(syntax_tree(path)):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                names.add(node.attr)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
    return names


# What a version of PyTorch has.


def names_read(path):
    """The private names that a group reads, each with all of its path: `torch._C._name`."""
    tree = syntax_tree(path)
    full_names = imported_names(tree)
    inner = {node.value for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Attribute) and node not in inner:
            root, dot, rest = ast.unparse(node).partition(".")
            names = [full_names.get(root, root) + dot + rest]
        for name in names:
            if has_private_part(name) and not name.startswith("self."):
                yield Mention(path, node.lineno, name)


def imported_names(tree):
    """The full names of what a module imports: `torch.distributed` for `dist`."""
    names = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                names[alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    names[alias.asname] = alias.name
    return names


def can_be_read(name):
    """True if PyTorch has `torch._C._name`, or mentions the `_name` of another object."""
    if not name.startswith("torch."):
        return set(re.findall(r"\b_[A-Za-z]\w*", name)) <= names_in_pytorch()
    try:
        pkgutil.resolve_name(name)
    except (AttributeError, ImportError):
        return False
    return True


@pytest.mark.parametrize(
    "path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem
)
def test_names_that_are_read_are_in_pytorch(path):
    missing = [mention for mention in names_read(path) if not can_be_read(mention.name)]
    assert not missing, lines_of(NOT_IN_PYTORCH, missing)


@functools.cache
def listed():
    """The attributes that are listed as replaced, with the module that lists them."""
    attributes = {}
    for group in GROUPS:
        module = importlib.import_module(f"cudasim.torch_private.{group}")
        for value in vars(module).values():
            for attribute in attributes_in(value):
                attributes[attribute] = module.__name__
    return attributes


def attributes_in(value):
    """The attributes for which a variable of a group stands."""
    if isinstance(value, Attribute):
        return [value]
    if isinstance(value, Bindings | tuple):
        return [item for item in value if isinstance(item, Attribute)]
    return []


def full_name(attribute):
    return f"{attribute.owner.__name__}.{attribute.name}"


def is_in_pytorch(attribute):
    """True if the attribute is there, or if PyTorch calls it in a build for GPUs."""
    if hasattr(attribute.owner, attribute.name):
        return True
    return attribute.owner is torch._C and attribute.name in names_in_pytorch()


def test_names_that_are_replaced_are_in_pytorch():
    missing = []
    for attribute, module in listed().items():
        if attribute.name not in NOT_EVERYWHERE and not is_in_pytorch(attribute):
            missing.append(f"{module}: {full_name(attribute)}")
    assert not missing, lines_of(NOT_IN_PYTORCH, missing)


def test_methods_that_pytorch_calls_are_ours_and_in_pytorch():
    for name, where in CALLED_BY_PYTORCH.items():
        assert name in our_names(), name
        assert name in names_in_pytorch() or "since" in where, name


# What the package uses.


def names_used(path):
    """The private names of PyTorch that a module uses of its own.

    An attribute counts if nothing of ours has its name.
    """
    for node in ast.walk(syntax_tree(path)):
        for name in names_in(node):
            yield Mention(path, node.lineno, name)


def names_in(node):
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [name for name in imported(node) if has_private_part(name)]
    if isinstance(node, ast.Attribute) and is_private(node.attr):
        name = ast.unparse(node)
        if name.startswith("torch.") or is_foreign(node.attr):
            return [name]
    if isinstance(node, ast.Call) and ast.unparse(node.func) in BY_NAME:
        if any(is_foreign(text_of(argument)) for argument in node.args):
            return [ast.unparse(node)]
    return []


def imported(node):
    """The names of PyTorch that a statement imports."""
    names = [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        names = [f"{node.module}.{name}" for name in names]
    return [name for name in names if name.startswith("torch")]


def is_foreign(name):
    """True for a private name that is neither ours nor of Python's library."""
    if not is_private(name) or name in OF_PYTHON:
        return False
    return name not in our_names()


def text_of(node):
    """The text of a literal; nothing for any other expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return ""


@pytest.mark.parametrize(
    "path",
    [path for path in MODULES if path.parent != FOLDER],
    ids=lambda path: path.relative_to(PACKAGE).as_posix(),
)
def test_private_names_are_taken_from_the_list(path):
    used = list(names_used(path))
    assert not used, lines_of("take from cudasim/torch_private:", used)


def names_defined(path):
    """The names under which a group offers private ones."""
    for node in syntax_tree(path).body:
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                yield target.id


@pytest.mark.parametrize("group", GROUPS)
def test_every_name_of_the_list_is_used(group):
    own = FOLDER / f"{group}.py"
    used = set()
    for path in MODULES:
        if path != own:
            used.update(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    assert [name for name in names_defined(own) if name not in used] == []


def test_every_module_of_the_list_is_a_group():
    assert {path.stem for path in FOLDER.glob("*.py")} == {"__init__", *GROUPS}


# What a simulation replaces.


def replaced_in_simulations():
    from cudasim.session import session

    attributes = set()
    for kind, clock in (("cuda", "modelled"), ("mps", None)):
        with cudasim.simulate(device_type=kind, clock=clock, force=True):
            for owner, name, _ in session.patches._attributes:
                attributes.add(Attribute(owner, name))
    return attributes


def is_of_torch(owner):
    module = getattr(owner, "__module__", None) or getattr(owner, "__name__", "")
    return module.startswith("torch")


def test_a_simulation_replaces_what_is_listed_and_no_more():
    # This imports the compiler, some of whose names are replaced only then.
    listed_names = {attribute.name for attribute in listed()}
    replaced = replaced_in_simulations()
    unlisted = []
    for attribute in replaced:
        is_of_pytorch = is_private(attribute.name) and is_of_torch(attribute.owner)
        if is_of_pytorch and attribute.name not in listed_names:
            unlisted.append(full_name(attribute))
    assert not unlisted, lines_of("list in cudasim/torch_private:", unlisted)

    unused = []
    for attribute, module in listed().items():
        # Some of NOT_EVERYWHERE are replaced only where they are missing.
        if attribute not in replaced and attribute.name not in NOT_EVERYWHERE:
            unused.append(f"{module}: {full_name(attribute)}")
    assert not unused, lines_of("not replaced, take out of the list:", unused)


def test_the_versions_of_the_list_are_those_tried():
    from cudasim import simulation

    assert simulation.TESTED == (TRIED[0], TRIED[-1])
