"""Suggests which answers a person should look at: a short look at their syntax trees.

It judges nothing. An exercise of this book has no use for what is listed here, and most ways to
trick a grader need some of it.
"""

import ast
from collections.abc import Iterator

from tools.grade.source import tree_of
from tools.grade.splice import finding

LISTED = {  # what code does with a name: why a person should look
    (does, name): reason
    for does, names, reason in [
        ("imports", "gc inspect ctypes marshal pickle dis types", "looks inside Python"),
        ("imports", "subprocess multiprocessing pty signal threading", "starts or stops processes"),
        ("imports", "socket urllib requests http ssl ftplib", "uses the network"),
        ("imports", "os shutil pathlib glob tempfile mmap fcntl", "reads or writes files"),
        ("imports", "importlib runpy builtins codecs base64 zlib", "hides what it runs"),
        ("imports", "sys atexit faulthandler IPython", "reaches into the notebook's process"),
        ("calls", "exec eval compile __import__", "hides what it runs"),
        ("calls", "globals locals vars get_ipython breakpoint", "looks inside the notebook"),
        ("calls", "open input", "reads or writes files"),
        ("calls", "setattr delattr", "changes what is not its own"),
        ("defines", "__eq__ __ne__ __hash__ __instancecheck__", "decides what equals what"),
        (
            "uses",
            "reset_peak_memory_stats reset_accumulated_memory_stats enable disable",
            "changes what time and memory are told by",
        ),
        ("uses", "f_globals f_locals f_back f_code tb_frame gi_frame cr_frame", "looks at frames"),
    ]
    for name in names.split()
}
DUNDER = set(  # that ordinary classes and contexts have
    "__init__ __call__ __repr__ __str__ __len__ __getitem__ __setitem__ __iter__ __next__ "
    "__enter__ __exit__ __post_init__ __class__ __name__ __main__ __doc__ __torch_function__ "
    "__torch_dispatch__".split()
)


def lint(source: str, exercise: int | None) -> list[dict]:
    """Findings on a student's code, each once."""
    nodes = list(ast.walk(tree_of(source) or ast.Module([], [])))
    own = {"self", "cls"} | {node.arg for node in nodes if isinstance(node, ast.arg)}
    own |= {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    own |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    found = dict.fromkeys(text for node in nodes for text in _odd(node, own))
    return [finding("lint", exercise, text) for text in found]


def _odd(node: ast.AST, own: set[str]) -> Iterator[str]:
    """What is odd about a node; `own` are the names that the code makes itself."""
    done: list[tuple[str, str]] = []
    match node:
        case ast.Import(names=names):
            done = [("imports", alias.name.split(".")[0]) for alias in names]
        case ast.ImportFrom(module=str(module)):
            done = [("imports", module.split(".")[0])]
        case ast.FunctionDef(name=name):
            done = [("defines", name)]
        case ast.Call(func=ast.Name(id="getattr"), args=[_, second, *_]):
            if not isinstance(second, ast.Constant):
                yield "calls getattr with a name that it computes: hides what it runs"
        case ast.Call(func=ast.Name(id="type"), args=[_, _, _]):
            yield "makes a class by calling type: hides what it runs"
        case ast.Call(func=ast.Attribute(attr="timeline"), args=[_]) | ast.keyword(arg="card"):
            yield "names a card: changes what time is told by"
        case ast.Call(func=ast.Name(id=name)):
            done = [("calls", name)]
        case ast.Attribute(attr=name) | ast.Name(id=name):
            if isinstance(node, ast.Attribute):
                done = [("uses", name)]
                root = ast.unparse(node).partition(".")[0].partition("(")[0].partition("[")[0]
                if not isinstance(node.ctx, ast.Load) and root.isidentifier() and root not in own:
                    yield f"sets {ast.unparse(node)[:60]}: changes what is not its own"
            if name.startswith("__") and name.endswith("__") and name not in DUNDER:
                yield f"uses {name}: looks inside Python"
    yield from (
        f"{does} {name}: {LISTED[does, name]}" for does, name in done if (does, name) in LISTED
    )
