"""Students' code, read and never run: magics made plain, names that it binds, its tree.

A tree is None where the code cannot be read, however odd it is: nothing here raises.
"""

import ast
import re
from collections.abc import Iterable, Iterator

LINE = re.compile(
    r"(?P<indent>\s*)(?P<target>[A-Za-z_][\w.]*\s*=\s*)?(?P<sign>%{1,2}|!{1,2})(?P<rest>.*)"
)
TIMED = re.compile(r"(?:time|timeit|prun|memit)\b(?:\s+-\w+(?:\s+\d+)?)*\s*(?P<code>.*)")
WRAPS = ("time", "timeit", "capture", "prun", "memit", "python", "python3")  # cells that are Python
BINDS = re.compile(r"^(?:async +)?(?:def|class) +(\w+)|^(\w+) *=(?!=)", re.M)
HELP = re.compile(r"\s*(\?{1,2}[\w.]+|[\w.]+\?{1,2})\s*")
BLOCKS = (ast.If, ast.With, ast.For, ast.While, ast.Try)
PARTS = ("body", "orelse", "finalbody")
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)


def tree_of(source: str) -> ast.Module | None:
    """The syntax tree of a cell as it would run, or None if Python cannot read it."""
    try:
        return ast.parse(without_magics(source))
    except UNREADABLE:
        return None


def without_magics(source: str) -> str:
    """A cell without what only IPython understands: what is timed runs, commands do not.

    `%%time` and its like go, and the cell below stays; a cell in another language (`%%bash`, `%%R`)
    becomes empty; `%time f()` becomes `f()`, and `!pip install`, `%matplotlib` and `f?` become
    `pass`. A cell that is Python already is left as it is.
    """
    stripped = source.lstrip()
    if stripped.startswith("%%"):
        first, _, rest = stripped.partition("\n")
        return without_magics(rest) if first[2:].split(" ")[0].strip() in WRAPS else ""
    if not re.search(r"^[^#\n]*[%!?]", source, re.M) or _is_python(source):
        return source
    plain = "\n".join(_plain_line(line) for line in source.split("\n"))
    return plain if _is_python(plain) else source


def _is_python(source: str) -> bool:
    try:
        ast.parse(source)
    except UNREADABLE:
        return False
    return True


def _plain_line(line: str) -> str:
    """A line without its magic."""
    if HELP.fullmatch(line):
        return line[: len(line) - len(line.lstrip())] + "pass"
    match = LINE.fullmatch(line)
    if match is None:
        return line
    indent, target = match["indent"], match["target"] or ""
    if match["sign"] == "%" and (timed := TIMED.fullmatch(match["rest"])) and timed["code"]:
        return indent + target + timed["code"]
    return indent + (f"{target}[]" if target else "pass")


def imports_of(sources: Iterable[str]) -> list[str]:
    """Every import statement in these cells, in order, each once."""
    trees = filter(None, map(tree_of, sources))
    found = (ast.unparse(node) for tree in trees for node in ast.walk(tree) if _imports(node))
    return list(dict.fromkeys(found))


def _imports(node: ast.AST) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def bound(source: str) -> set[str]:
    """The names that a cell binds at its top level to more than `...`.

    Where the code cannot be read, by the look of its lines.
    """
    tree = tree_of(source)
    if tree is None:
        return {name for match in BINDS.findall(source) for name in match if name}
    names, statements = set(), tree.body
    while statements:  # no recursion: a student may write `elif` a thousand times
        names.update(name for statement in statements for name in _bound_by(statement))
        blocks = [each for each in statements if isinstance(each, BLOCKS)]
        parts = [getattr(each, part, ()) for each in blocks for part in PARTS]
        statements = [inner for part in parts for inner in part]
    return names


def _bound_by(node: ast.stmt) -> Iterator[str]:
    """What a statement binds by itself."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.Assign(value=ast.Constant(value=value)) if value is ...:
            return
        case ast.Assign(targets=targets):
            inside = (each for target in targets for each in ast.walk(target))
            for each in inside:
                if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                    yield each.id
        case ast.AnnAssign(target=ast.Name(id=name), value=value) if value is not None:
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (each.asname or each.name for each in names)
