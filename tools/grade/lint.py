"""Suggests which answers a person should look at: a short look at their syntax trees.

It judges nothing. An exercise of this book has no use for what is listed here, and most ways to
trick a grader need some of it.
"""

import ast
from collections.abc import Iterator

from tools.grade.source import tree_of
from tools.grade.splice import finding


def _by_name(table: dict[str, str]) -> dict[str, str]:
    return {name: reason for reason, names in table.items() for name in names.split()}


MODULES = _by_name(  # that no exercise needs
    {
        "looks inside Python": "gc inspect ctypes marshal pickle dis types",
        "starts or stops processes": "subprocess multiprocessing pty signal threading",
        "uses the network": "socket urllib requests http ssl ftplib",
        "reads or writes files": "os shutil pathlib glob tempfile mmap fcntl",
        "hides what it runs": "importlib runpy builtins codecs base64 zlib",
        "reaches into the notebook's process": "sys atexit faulthandler IPython",
    }
)
CALLS = _by_name(
    {
        "hides what it runs": "exec eval compile __import__",
        "looks inside the notebook": "globals locals vars get_ipython breakpoint",
        "reads or writes files": "open input",
        "changes what is not its own": "setattr delattr",
    }
)
MEASURES = {"reset_peak_memory_stats", "reset_accumulated_memory_stats", "enable", "disable"}
DUNDER = set(  # that ordinary classes and contexts have
    "__init__ __call__ __repr__ __str__ __len__ __getitem__ __setitem__ __iter__ __next__ "
    "__enter__ __exit__ __post_init__ __class__ __name__ __main__ __doc__ __torch_function__ "
    "__torch_dispatch__".split()
)
FRAMES = set("f_globals f_locals f_back f_code tb_frame gi_frame cr_frame func_globals".split())
ALWAYS = {"__eq__", "__ne__", "__hash__", "__instancecheck__"}  # comparison by the student's rules


def lint(source: str, exercise: int | None) -> list[dict]:
    """Findings on a student's code, each once."""
    tree = tree_of(source)
    if tree is None:
        return []
    own = _own_names(tree)
    found = dict.fromkeys(reason for node in ast.walk(tree) for reason in _reasons(node, own))
    return [finding("lint", exercise, reason) for reason in found]


def _own_names(tree: ast.Module) -> set[str]:
    """Names that the code makes itself: parameters, variables, functions; `self` too."""
    names = {"self", "cls"}
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
    return names


def _reasons(node: ast.AST, own: set[str]) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            for each in names:
                yield from _module(each.name)
        case ast.ImportFrom(module=module) if module:
            yield from _module(module)
        case ast.Call(func=ast.Name(id=name)) if name in CALLS:
            yield f"calls {name}: {CALLS[name]}"
        case ast.Call(func=ast.Name(id="getattr"), args=[_, second, *_]) if not isinstance(
            second, ast.Constant
        ):
            yield "calls getattr with a name that it computes: hides what it runs"
        case ast.Call(func=ast.Name(id="type"), args=[_, _, _]):
            yield "makes a class by calling type: hides what it runs"
        case ast.FunctionDef(name=name) if name in ALWAYS:
            yield f"defines {name}: decides what equals what"
        case ast.Attribute(attr=name) if name in MEASURES:
            yield f"uses {name}: changes what time and memory are told by"
        case ast.Attribute(attr=name) if name in FRAMES:
            yield f"reads {name}: looks at frames"
        case ast.Attribute(attr=name) if _is_dunder(name):
            yield f"uses {name}: looks inside Python"
        case ast.Name(id=name) if _is_dunder(name):
            yield f"uses {name}: looks inside Python"
        case ast.Assign(targets=targets):
            yield from (reason for target in targets for reason in _foreign(target, own))
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            yield from _foreign(target, own)
        case ast.Delete(targets=targets):
            yield from (reason for target in targets for reason in _foreign(target, own))


def _module(name: str) -> Iterator[str]:
    first = name.split(".")[0]
    if first in MODULES:
        yield f"imports {first}: {MODULES[first]}"


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__") and name not in DUNDER


def _foreign(target: ast.expr, own: set[str]) -> Iterator[str]:
    """Is this an attribute of something that the code did not make, such as `torch.equal`?"""
    if isinstance(target, ast.Tuple | ast.List):
        for each in target.elts:
            yield from _foreign(each, own)
    if isinstance(target, ast.Attribute):
        base = target.value
        while isinstance(base, ast.Attribute | ast.Subscript | ast.Call):
            base = base.func if isinstance(base, ast.Call) else base.value
        if isinstance(base, ast.Name) and base.id not in own:
            yield f"sets {ast.unparse(target)[:60]}: changes what is not its own"
