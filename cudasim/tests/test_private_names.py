"""Private names of PyTorch: they are in `cudasim.torch_private`, and in PyTorch.

A new version of PyTorch may have renamed any of them. To support it, run this file with
it, and mend `cudasim/torch_private` until it passes.
"""

import ast
import functools
import importlib
import pkgutil
import re
from pathlib import Path

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

# The modules of the list are imported within the tests: without a name that they read they
# cannot be, and then the first test says which names are missing.
TORCH = Path(torch.__file__).parent
FOLDER = PACKAGE / "torch_private"
GROUPS = ("dispatch", "tensors", "devices", "distributed")
# These use private names of their own still.
WAITING = {
    "clock",
    "device",
    "dispatch",
    "modes.py",
    "recorded.py",
    "session.py",
    "simulation.py",
    "testing",
}
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

# These read and set attributes by name.
BY_NAME = {"getattr", "hasattr", "setattr", "delattr"}
# These are there only in builds with CUDA, and are added where they are not.
ONLY_IF_ABSENT = {"_cuda_CUDAAllocator_AllocatorState", "_set_cached_tensors_enabled"}
# What the parts that wait replace.
REPLACED_BY_OTHERS = {"_optimizer_step_code"}


def is_private(name):
    return bool(re.fullmatch(r"_[A-Za-z]\w*", name))


def has_private_part(path):
    return any(map(is_private, path.split(".")))


@functools.cache
def listed():
    """The attributes that are listed as replaced, with the module that lists them."""
    attributes = {}
    for group in GROUPS:
        module = importlib.import_module(f"cudasim.torch_private.{group}")
        for value in vars(module).values():
            if isinstance(value, Attribute):
                attributes[value] = module.__name__
            elif isinstance(value, Bindings):
                attributes.update(dict.fromkeys(value, module.__name__))
            elif isinstance(value, tuple) and value and type(value[0]) is Attribute:
                attributes.update(dict.fromkeys(value, module.__name__))
    return attributes


@functools.cache
def names_in_pytorch():
    """The private names in PyTorch's Python files, and in its stubs of `torch._C`."""
    pattern = re.compile(r"\b_\w+")
    paths = [*TORCH.rglob("*.py"), *(TORCH / "_C").glob("*.pyi")]
    names = set()
    for path in paths:
        names.update(pattern.findall(path.read_text(errors="replace")))
    return names


def is_in_pytorch(attribute):
    """True if the attribute is there, or if PyTorch calls it in a build for GPUs."""
    if hasattr(attribute.owner, attribute.name):
        return True
    return attribute.owner is torch._C and attribute.name in names_in_pytorch()


def names_read(path):
    """The private names that a module of `torch_private` reads: (line, `torch._C._name`)."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.Attribute) and is_private(node.attr):
            if ast.unparse(node.value) != "self":
                yield node.lineno, ast.unparse(node)


def can_be_read(name):
    """True if PyTorch has `torch._C._name`, or mentions the `_name` of another object."""
    if not name.startswith("torch."):
        return name.rpartition(".")[2] in names_in_pytorch()
    try:
        pkgutil.resolve_name(name)
    except (AttributeError, ImportError):
        return False
    return True


def names_defined(path):
    """The names under which a module of `torch_private` offers private ones."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                yield target.id


def names_used(path):
    """The private names of PyTorch that another module uses: (line, name).

    Attributes and the names in calls of `getattr` count if nothing of ours has that name.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("torch"):
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if has_private_part(name):
                    yield node.lineno, name
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("torch") and has_private_part(alias.name):
                    yield node.lineno, alias.name
        elif isinstance(node, ast.Attribute) and is_private(node.attr):
            path_of_torch = ast.unparse(node).startswith("torch.")
            if path_of_torch or node.attr not in our_names() | OF_PYTHON:
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in BY_NAME:
            for name in map(text_of, node.args):
                if is_private(name) and name not in our_names() | OF_PYTHON:
                    yield node.lineno, ast.unparse(node)


def text_of(node):
    """The text of a literal; nothing for any other expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return ""


@functools.cache
def our_names():
    """The private names that cudasim's own classes and modules define."""
    names = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                names.add(node.attr)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
    return names


def modules_that_take_names_from_the_list():
    return [
        path
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).parts[0] not in {*WAITING, FOLDER.name}
    ]


@pytest.mark.parametrize(
    "path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem
)
def test_names_that_are_read_are_in_pytorch(path):
    missing = [
        f"{path.name}:{line}: {name}"
        for line, name in names_read(path)
        if has_private_part(name) and not can_be_read(name)
    ]
    assert missing == [], f"not in PyTorch {torch.__version__}; tried with {TRIED}"


def test_names_that_are_replaced_are_in_pytorch():
    missing = [
        f"{module}: {attribute.owner.__name__}.{attribute.name}"
        for attribute, module in listed().items()
        if attribute.name not in NOT_EVERYWHERE and not is_in_pytorch(attribute)
    ]
    assert missing == [], f"not in PyTorch {torch.__version__}; tried with {TRIED}"


@pytest.mark.parametrize(
    "path",
    modules_that_take_names_from_the_list(),
    ids=lambda path: path.relative_to(PACKAGE).as_posix(),
)
def test_private_names_are_taken_from_the_list(path):
    used = [f"{path.name}:{line}: {name}" for line, name in names_used(path)]
    assert used == [], "name it in cudasim/torch_private, and use it from there"


def test_what_waits_has_private_names():
    for name in WAITING:
        path = PACKAGE / name
        paths = [path] if path.is_file() else path.rglob("*.py")
        assert any(True for path in paths for _ in names_used(path)), (
            f"{name} has no private names any more: take it out of WAITING"
        )


def test_methods_that_pytorch_calls_are_ours_and_in_pytorch():
    for name, where in CALLED_BY_PYTORCH.items():
        assert name in our_names(), name
        assert name in names_in_pytorch() or "since" in where, name


def replaced_in_simulations():
    from cudasim.session import session

    attributes = set()
    for kind, clock in (("cuda", "modelled"), ("mps", None)):
        with cudasim.simulate(device_type=kind, clock=clock, force=True):
            attributes.update(
                (owner, name) for owner, name, _ in session.patches._attributes
            )
    return attributes


def test_a_simulation_replaces_what_is_listed_and_nothing_else_that_is_private():
    replaced = replaced_in_simulations()
    names = {attribute.name for attribute in listed()}
    unlisted = {
        f"{owner.__name__}.{name}"
        for owner, name in replaced
        if is_private(name) and is_of_torch(owner)
        if name not in names | REPLACED_BY_OTHERS
    }
    assert unlisted == set(), "list it in cudasim/torch_private"

    unused = [
        f"{module}: {attribute.owner.__name__}.{attribute.name}"
        for attribute, module in listed().items()
        if attribute not in replaced and attribute.name not in ONLY_IF_ABSENT
    ]
    assert unused == [], "nothing replaces it: take it out of cudasim/torch_private"


def is_of_torch(owner):
    module = getattr(owner, "__module__", None) or getattr(owner, "__name__", "")
    return module.startswith("torch")


@pytest.mark.parametrize("group", GROUPS)
def test_every_name_of_the_list_is_used(group):
    own = FOLDER / f"{group}.py"
    others = [path for path in PACKAGE.rglob("*.py") if path != own]
    code = "\n".join(path.read_text(encoding="utf-8") for path in others)
    unused = [
        name for name in names_defined(own) if not re.search(rf"\b{name}\b", code)
    ]
    assert unused == []


def test_every_module_of_the_list_is_a_group():
    assert {path.stem for path in FOLDER.glob("*.py")} == {"__init__", *GROUPS}


def test_the_versions_of_the_list_are_those_that_cudasim_was_tested_with():
    from cudasim import simulation

    assert simulation.TESTED == (TRIED[0], TRIED[-1])
