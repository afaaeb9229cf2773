"""Students' code, read and never run: magics made plain, names that it binds, its tree.

A tree is None where the code cannot be read, however odd it is: nothing here raises.
"""

import ast
import re
import symtable

from IPython.core.inputtransformer2 import TransformerManager

WRAPS = (
    "time",
    "timeit",
    "capture",
    "prun",
    "memit",
    "python",
    "python3",
)  # cells that are Python
WRITES = re.compile(
    r"%%(?:writefile|file) +(?P<append>(?:-a|--append) +)?(?P<file>\S+) *$"
)
MAGIC = re.compile(
    r"get_ipython\(\)\.\w+\((?P<said>.*)\)$", re.M
)  # as IPython writes it
TIMED = re.compile(r"(?:time|timeit|prun|memit) (?:-\w+(?: \d+)? +)*(?P<code>.+)")
WAITS = re.compile(r"^\w+ *= *\.\.\.(?= *(?:#.*)?$)", re.M)  # a name without an answer
BINDS = re.compile(r"^(?:async +)?(?:def|class) +(\w+)|^(\w+) *=(?!=)", re.M)
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError, RuntimeError)


def tree_of(source: str) -> ast.Module | None:
    try:
        return ast.parse(without_magics(source))
    except UNREADABLE:
        return None


def without_magics(source: str) -> str:
    """A cell without what only IPython understands: `%%time` goes, and the cell below stays;
    `%%bash` empties its cell; `%%writefile` becomes what writes the file; `%time f()` becomes
    `f()`, `!pip install`, `%matplotlib` and `f?` become `None`. Python stays as it is."""
    first, _, rest = source.lstrip().partition("\n")
    if match := WRITES.fullmatch(first.rstrip()):
        return written(match["file"], rest, append=bool(match["append"]))
    if first.startswith("%%"):
        return without_magics(rest) if first[2:].split(" ")[0].strip() in WRAPS else ""
    try:
        ast.parse(source)
        return source
    except UNREADABLE:
        if not re.search("[%!?]", source):
            return source
    try:
        plain = MAGIC.sub(_without, TransformerManager().transform_cell(source))
        ast.parse(plain)
        return plain
    except UNREADABLE:
        return source


def written(file: str, text: str, append: bool = False) -> str:
    """The code that writes a text to a file, which later cells import."""
    mode = "a" if append else "w"
    lines = (
        "import importlib",
        f"with open({file!r}, {mode!r}, encoding='utf-8') as file:",
        f"    file.write({text!r} + '\\n')",
        "importlib.invalidate_caches()  # the file may be newer than Python's list of the folder",
        "del file, importlib",
    )
    return "\n".join(lines)


def _without(magic: re.Match) -> str:
    timed = TIMED.fullmatch(" ".join(ast.literal_eval(f"({magic['said']},)")))
    return timed["code"] if timed else "None"


def bound(source: str) -> set[str]:
    """The names that a cell binds at its top level to more than `...`; unreadable, by its lines."""
    plain = WAITS.sub("...", without_magics(source))
    try:
        symbols = symtable.symtable(plain, "<cell>", "exec").get_symbols()
    except UNREADABLE:
        return {name for match in BINDS.findall(plain) for name in match if name}
    return {
        name.get_name() for name in symbols if name.is_assigned() or name.is_imported()
    }
