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
ATTRIBUTES = _by_name(
    {
        "changes what time and memory are told by": "reset_peak_memory_stats "
        "reset_accumulated_memory_stats enable disable",
        "looks at frames": "f_globals f_locals f_back f_code tb_frame gi_frame cr_frame",
    }
)
DUNDER = set(  # that ordinary classes and contexts have
    "__init__ __call__ __repr__ __str__ __len__ __getitem__ __setitem__ __iter__ __next__ "
    "__enter__ __exit__ __post_init__ __class__ __name__ __main__ __doc__ __torch_function__ "
    "__torch_dispatch__".split()
)
ALWAYS = {"__eq__", "__ne__", "__hash__", "__instancecheck__"}  # comparison by the student's rules


def lint(source: str, exercise: int | None) -> list[dict]:
    """Findings on a student's code, each once."""
    nodes = list(ast.walk(tree_of(source) or ast.Module([], [])))
    own = {"self", "cls"} | {node.arg for node in nodes if isinstance(node, ast.arg)}
    own |= {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    own |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    found = dict.fromkeys(reason for node in nodes for reason in _reasons(node, own))
    return [finding("lint", exercise, reason) for reason in found]


def _reasons(node: ast.AST, own: set[str]) -> Iterator[str]:
    """What is odd about a node; `own` are the names that the code makes itself."""
    match node:
        case ast.Import(names=names):
            yield from (line for each in names for line in _module(each.name))
        case ast.ImportFrom(module=str(module)):
            yield from _module(module)
        case ast.Call(func=ast.Name(id=name)) if name in CALLS:
            yield f"calls {name}: {CALLS[name]}"
        case ast.Call(func=ast.Name(id="getattr"), args=[_, second, *_]):
            if not isinstance(second, ast.Constant):
                yield "calls getattr with a name that it computes: hides what it runs"
        case ast.Call(func=ast.Name(id="type"), args=[_, _, _]):
            yield "makes a class by calling type: hides what it runs"
        case ast.FunctionDef(name=name) if name in ALWAYS:
            yield f"defines {name}: decides what equals what"
        case ast.Attribute(attr=name) | ast.Name(id=name):
            if isinstance(node, ast.Attribute) and name in ATTRIBUTES:
                yield f"uses {name}: {ATTRIBUTES[name]}"
            if name.startswith("__") and name.endswith("__") and name not in DUNDER:
                yield f"uses {name}: looks inside Python"
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
                base = node.value
                while isinstance(base, ast.Attribute | ast.Subscript | ast.Call):
                    base = base.func if isinstance(base, ast.Call) else base.value
                if isinstance(base, ast.Name) and base.id not in own:
                    yield f"sets {ast.unparse(node)[:60]}: changes what is not its own"


def _module(name: str) -> Iterator[str]:
    first = name.split(".")[0]
    if first in MODULES:
        yield f"imports {first}: {MODULES[first]}"
