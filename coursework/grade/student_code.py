"""Students' code, read and never run: without magics, the names it binds, its tree, its comments.

Nothing here raises, however odd the code is: a tree is None where the code cannot be read.
"""

import ast
import io
import re
import symtable
import tokenize

from IPython.core.inputtransformer2 import TransformerManager

# Cell magics whose cells are Python all the same.
WRAPS = "%%time %%timeit %%capture %%prun %%memit %%python %%python3".split()
WRITES = re.compile(
    r"%%(?:writefile|file) +(?P<append>(?:-a|--append) +)?(?P<file>\S+) *$"
)
# As IPython writes a magic.
MAGIC = re.compile(r"get_ipython\(\)\.\w+\((?P<arguments>.*)\)$", re.M)
TIMED = re.compile(r"(?:time|timeit|prun|memit) (?:-\w+(?: \d+)? +)*(?P<code>.+)")
WAITS = re.compile(r"^\w+ *= *\.\.\.(?= *(?:#.*)?$)", re.M)  # a name without an answer
BINDS = re.compile(r"^(?:async +)?(?:def|class) +(\w+)|^(\w+) *=(?!=)", re.M)
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError, RuntimeError)


def plain(source: str) -> str:
    """Return code in the form in which cells are compared.

    Line ends are of one kind, lines end without spaces, and no empty line is at either end.
    """
    lines = [line.rstrip() for line in re.split("\r\n?|\n", source)]
    return "\n".join(lines).strip("\n")


def tree_of(source: str) -> ast.Module | None:
    try:
        return ast.parse(without_magics(source))
    except UNREADABLE:
        return None


# --- magics


def below_magics(source: str) -> str:
    """Return a cell without the cell magics above it whose cells are Python all the same."""
    first, _, rest = source.lstrip().partition("\n")
    magic = first.split(" ")[0].strip()
    return below_magics(rest) if magic in WRAPS else source


def without_magics(source: str) -> str:
    """Return a cell without what only IPython understands; Python stays as it is.

    `%%time` goes, and the cell below it stays. `%%bash` empties its cell. `%%writefile` becomes
    code that writes the file. `%time f()` becomes `f()`; `!pip install`, `%matplotlib` and `f?`
    become `None`.
    """
    source = below_magics(source)
    first, _, rest = source.lstrip().partition("\n")
    if match := WRITES.fullmatch(first.rstrip()):
        return code_to_write(match["file"], rest, append=bool(match["append"]))
    if first.startswith("%%"):
        return ""
    try:
        ast.parse(source)
        return source
    except UNREADABLE:
        if not re.search("[%!?]", source):
            return source
    try:
        code = MAGIC.sub(_code_in_magic, TransformerManager().transform_cell(source))
        ast.parse(code)
        return code
    except UNREADABLE:
        return source


def code_to_write(file: str, text: str, append: bool) -> str:
    """Return code that writes a text to a file, which later cells import."""
    mode = "a" if append else "w"
    lines = (
        "import importlib",
        f"with open({file!r}, {mode!r}, encoding='utf-8') as file:",
        f"    file.write({text!r} + '\\n')",
        "importlib.invalidate_caches()  # the file may be newer than Python's list of the folder",
        "del file, importlib",
    )
    return "\n".join(lines)


def _code_in_magic(magic: re.Match) -> str:
    words = ast.literal_eval(f"({magic['arguments']},)")
    timed = TIMED.fullmatch(" ".join(words))
    return timed["code"] if timed else "None"


# --- names


def bound(source: str) -> set[str]:
    """Return the names that a cell binds at its top level to more than `...`.

    If the cell cannot be read, its lines are searched for them.
    """
    code = WAITS.sub("...", without_magics(source))
    try:
        symbols = symtable.symtable(code, "<cell>", "exec").get_symbols()
    except UNREADABLE:
        names = set()
        for defined, assigned in BINDS.findall(code):
            names.add(defined or assigned)
        return names
    return {
        symbol.get_name()
        for symbol in symbols
        if symbol.is_assigned() or symbol.is_imported()
    }


# --- comments


def own_comments(source: str, starter: str) -> list[tuple[int, str]]:
    """Return the lines that hold a comment of the student's own, with their numbers.

    Some tasks ask for a sentence as a comment, which a person reads. Comments that the starter has
    as well are left out.
    """
    known = {comment for _, comment in comments(starter)}
    lines = source.split("\n")
    own = []
    for number, comment in comments(source):
        if comment not in known:
            own.append((number, lines[number - 1].strip()))
    return own


def comments(source: str) -> list[tuple[int, str]]:
    """Return the comments of some code with their lines.

    From where the code cannot be read, lines that begin with `#` count.
    """
    numbered = []
    last = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            last = token.start[0]
            if token.type == tokenize.COMMENT:
                numbered.append((last, token.string.strip()))
    except (tokenize.TokenError, *UNREADABLE):
        for number, line in enumerate(source.split("\n")[last:], start=last + 1):
            if line.lstrip().startswith("#"):
                numbered.append((number, line.strip()))
    return numbered
