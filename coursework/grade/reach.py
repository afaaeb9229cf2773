"""Lines in which a student's code reaches where answers have no business, for a person to look at.

It judges nobody: all of this may be honest, and all of it can be hidden from a look at the code.
Code is read as a syntax tree and never run. A name is followed to what it stands for, so that
`from sys import _getframe as g` is seen for what it is; what the code makes itself is its own, and
it may do with that as it likes. What is looked for stands in `reach.toml`.
"""

import ast
import builtins
import re
import tomllib
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

from coursework.grade.intake import clean
from coursework.grade.source import UNREADABLE, WRAPS, tree_of, without_magics

MOST = 60  # entries of a submission
WIDTH = 160  # characters of a line that are shown
DEEP = 8  # steps from a name: `a.b.c` is two. What goes on further is taken for its own

# What a name stands for: a path such as `torch.nn`, or one of these
OWN = ""  # made by the code itself
ARGUMENT = "(argument)"  # of a function: whoever calls it knows what it is
GIVEN = "(given)"  # by the notebook
NAMES = "(names)"  # `globals()` and the like
A_CLASS = "(class)"  # of some object, by `type(x)`
FOREIGN = re.compile(r"\w")  # how a path begins

FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
SCOPES = FUNCTIONS | ast.ClassDef
UNREAD = "cannot be read, so nothing in it was looked for"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
PATHS, ATTRIBUTES, KNOWN_NAMES = (
    {
        word: kind["text"]
        for kind in TABLE["kind"]
        for word in kind.get(form, "").split()
    }
    for form in ("paths", "attributes", "names")
)
METHODS, HONEST, TOLD, HOOKS = (
    _words(TABLE["changed"][name]) for name in ("methods", "honest", "told", "hooks")
)
SETTINGS = tuple(TABLE["changed"]["settings"].split())
VALUES, PLAIN, ANYWHERE, IMITATED = (
    _words(TABLE["classes"][name])
    for name in ("values", "plain", "anywhere", "imitated")
)
PUBLIC = _words(TABLE["cudasim"]["public"])
ROOTS = {path.partition(".")[0] for path in PATHS} | {
    "cudasim",
    "torch",
    "numpy",
    "builtins",
}
PYTHONS_OWN = frozenset(dir(builtins))


@dataclass(frozen=True, order=True)
class Entry:
    exercise: int | None  # None: above the exercises
    line: int  # of the answer
    text: str  # what kind it is, in plain words
    code: str  # the line itself


def reaches(sources: Mapping[int | None, list[str]], assignment: dict) -> list[dict]:
    """Entries as plain data, for the student's own cells by exercise, in the order of lines.

    A fault of ours is printed, and stops no grading: the list is for people.
    """
    try:
        return [asdict(entry) for entry in _entries(sources, assignment)]
    except Exception as error:
        traceback.print_exc()
        return [asdict(Entry(None, 1, f"{UNREAD} ({type(error).__name__})", ""))]


def _entries(sources: Mapping[int | None, list[str]], assignment: dict) -> list[Entry]:
    look = Look(assignment)
    cells = [cell for number, own in sources.items() for cell in _cells(number, own)]
    for cell in cells:
        if cell.tree:
            look.bind_module(cell.tree)
    for cell in cells:
        if cell.tree:
            look.at(cell)
        elif cell.source.strip():
            look.add(cell, 1, UNREAD)
    return look.listed()


# --- cells


@dataclass(frozen=True)
class Cell:
    exercise: int | None
    source: str  # without magics
    tree: ast.Module | None = field(repr=False)
    above: int  # lines of the answer that stand above its first

    def line(self, number: int) -> str:
        lines = re.split("\r\n|\r|\n", self.source)
        return clean(lines[number - 1], WIDTH) if 0 < number <= len(lines) else ""


def _cells(number: int | None, sources: Iterable[str]) -> Iterator[Cell]:
    """An exercise's cells; lines are counted as in the answer, where an empty one parts cells."""
    above = 0
    for source in sources:
        yield Cell(
            number,
            plain := without_magics(source),
            tree_of(plain),
            above + _taken(source),
        )
        above += source.count("\n") + 2


def _taken(source: str) -> int:
    """How many lines `without_magics` takes away at the head."""
    lines = source.lstrip().split("\n")
    taken = source[: len(source) - len(source.lstrip())].count("\n")
    while (
        lines
        and lines[0].startswith("%%")
        and lines[0][2:].split(" ")[0].strip() in WRAPS
    ):
        taken += 1
        lines = "\n".join(lines[1:]).lstrip().split("\n")
    return taken if lines and taken and source.lstrip().startswith("%%") else 0


# --- names


class Scope:
    """What the names of a function, or of the notebook, stand for."""

    def __init__(self, above: "Scope | None" = None) -> None:
        self.above = above
        self.names: dict[str, str] = {}

    def bind(self, name: str, origin: str) -> None:
        """A path outlives what else a name is given: it may be hidden, and is looked for."""
        before = self.names.get(name, OWN)
        if not FOREIGN.match(before) and before != A_CLASS:
            self.names[name] = origin

    def has(self, name: str) -> bool:
        return name in self.names or bool(self.above and self.above.has(name))

    def origin(self, name: str) -> str:
        scope: Scope | None = self
        while scope:
            if name in scope.names:
                return scope.names[name]
            scope = scope.above
        if name == "__builtins__":
            return "builtins"
        if name in PYTHONS_OWN:
            return f"builtins.{name}"
        return name if name in ROOTS else GIVEN  # nothing here makes it

    def origin_of(self, node: ast.AST, depth: int = DEEP) -> str:
        """What an expression stands for: `s.modules` for `sys.modules`, if `s` is `sys`."""
        if depth == 0:
            return OWN
        match node:
            case ast.Name(id=name):
                return self.origin(name)
            case ast.NamedExpr(value=value) | ast.Starred(value=value):
                return self.origin_of(value, depth - 1)
            case ast.Attribute(value=value, attr="__dict__"):
                return self.origin_of(value, depth - 1)
            case ast.Attribute(value=value, attr="__class__"):
                return OWN if _is_self(value) else A_CLASS
            case ast.Attribute(value=value, attr=attribute):
                return _within(self.origin_of(value, depth - 1), attribute)
            case ast.Subscript(value=value, slice=ast.Constant(value=str(key))):
                base = self.origin_of(value, depth - 1)
                return key if base == "sys.modules" else _within(base, key)
            case ast.Subscript(value=value):
                return _within(self.origin_of(value, depth - 1), "?")
            case ast.Call():
                return self._origin_of_call(node, depth)
        return OWN

    def _origin_of_call(self, node: ast.Call, depth: int) -> str:
        function = self.origin_of(node.func, depth - 1)
        first = node.args[0] if node.args else None
        match function.removeprefix("builtins."), node.args:
            case "vars" | "globals" | "locals", []:
                return NAMES
            case "vars" | "next" | "iter", [value, *_]:
                return self.origin_of(value, depth - 1)
            case "type", [value]:
                return OWN if _is_self(value) else A_CLASS
            case "getattr", [value, name, *_]:
                key = name.value if isinstance(name, ast.Constant) else "?"
                return _within(self.origin_of(value, depth - 1), str(key))
            case "__import__" | "importlib.import_module", [_, *_]:
                return first.value if isinstance(_constant(first), str) else OWN
        if isinstance(node.func, ast.Attribute) and node.func.attr in _PARTS:
            return self.origin_of(node.func.value, depth - 1)
        return OWN


_PARTS = _words(
    "modules children parameters buffers named_modules named_children named_parameters"
)


def _within(base: str, name: str) -> str:
    """What a part of something stands for."""
    if name in HONEST and not FOREIGN.match(base):
        return OWN
    return f"{base}.{name}" if FOREIGN.match(base) else base


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _constant(node: ast.AST | None) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def _own_nodes(scope: ast.AST) -> tuple[list[ast.AST], list[ast.AST]]:
    """The nodes that belong to a scope itself, and the scopes within it."""
    own, within = [], []
    if isinstance(scope, ast.Lambda):
        waiting = [scope.body]
    else:
        waiting = scope.body[::-1]
    while waiting:
        node = waiting.pop()
        own.append(node)
        if isinstance(node, SCOPES):
            within.append(node)
            waiting += _outside(node)
        else:
            waiting += [*ast.iter_child_nodes(node)][::-1]
    return own, within


def _outside(node: ast.AST) -> list[ast.AST]:
    """What of a function or a class is computed where it is defined."""
    if isinstance(node, ast.ClassDef):
        return [
            *node.decorator_list,
            *node.bases,
            *(word.value for word in node.keywords),
        ]
    defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
    return [*getattr(node, "decorator_list", []), *defaults]


def _arguments(node: ast.AST) -> list[str]:
    every = node.args
    known = [
        *every.posonlyargs,
        *every.args,
        *every.kwonlyargs,
        every.vararg,
        every.kwarg,
    ]
    return [argument.arg for argument in known if argument]


def _bind(scope: Scope, nodes: Iterable[ast.AST]) -> None:
    """Enter what the statements of a scope give names to."""
    elsewhere = {
        name for node in nodes if isinstance(node, ast.Global) for name in node.names
    }

    def bind(target: ast.AST, origin: str) -> None:
        if isinstance(target, ast.Name) and target.id not in elsewhere:
            scope.bind(target.id, origin)

    for node in nodes:
        match node:
            case ast.Import(names=aliases):
                for alias in aliases:
                    name = alias.asname or alias.name.partition(".")[0]
                    scope.names[name] = alias.name if alias.asname else name
            case ast.ImportFrom(module=str(module), names=aliases):
                for alias in aliases:
                    scope.names[alias.asname or alias.name] = f"{module}.{alias.name}"
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    for part, origin in _parts(target, value, scope):
                        bind(part, origin)
            case (
                ast.AnnAssign(target=target, value=value)
                | ast.NamedExpr(target=target, value=value)
            ):
                bind(target, scope.origin_of(value) if value else OWN)
            case (
                ast.For(target=target, iter=values)
                | ast.AsyncFor(target=target, iter=values)
            ):
                _bind_loop(bind, scope, target, values)
            case ast.comprehension(target=target, iter=values):
                _bind_loop(bind, scope, target, values)
            case ast.withitem(optional_vars=ast.Name() as target, context_expr=value):
                bind(target, OWN)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                scope.bind(name, OWN)
            case ast.ClassDef(name=name) | ast.ExceptHandler(name=str(name)):
                scope.bind(name, OWN)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                scope.bind(name, OWN)
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            if node.id not in elsewhere:
                scope.names.setdefault(node.id, OWN)


def _parts(
    target: ast.AST, value: ast.AST, scope: Scope
) -> Iterator[tuple[ast.AST, str]]:
    """The names that an assignment binds, and what each stands for."""
    if isinstance(target, ast.Tuple | ast.List):
        several = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(
            target.elts
        )
        origin = OWN if several else scope.origin_of(value)
        for place, part in enumerate(target.elts):
            yield part, scope.origin_of(value.elts[place]) if several else origin
    else:
        yield target, scope.origin_of(value)


def _bind_loop(
    bind: Callable[[ast.AST, str], None], scope: Scope, target: ast.AST, values: ast.AST
) -> None:
    match values:
        case ast.Call(
            func=ast.Name(id="enumerate" | "zip" | "reversed"), args=[first, *_]
        ):
            values = first
    origin = scope.origin_of(values)
    for part in ast.walk(target):
        bind(part, origin)


# --- the look


class Look:
    """Reads a student's cells, and lists the lines that a person should see."""

    def __init__(self, assignment: dict) -> None:
        self.module = Scope()
        self.modules: set[str] = set()  # names of whole modules, imported as such
        self.defined: set[str] = set()  # functions and classes that the notebook gives
        self.entries: dict[Entry, None] = {}
        self.hidden = hidden_names(assignment)
        given = tree_of(assignment["given"]) or ast.Module([], [])
        nodes, _ = _own_nodes(given)
        _bind(self.module, nodes)
        for name, origin in self.module.names.items():
            self.module.names[name] = origin or GIVEN
        self._note_modules(nodes)
        asked = {question["name"] for question in assignment["questions"]}
        kinds = (ast.FunctionDef, ast.ClassDef)
        self.defined = {node.name for node in nodes if isinstance(node, kinds)} - asked
        self.modules -= asked

    def _note_modules(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            if isinstance(node, ast.Import):
                self.modules |= {alias.asname or alias.name for alias in node.names}

    def bind_module(self, tree: ast.Module) -> None:
        """Enter what a cell gives names to; all cells share them."""
        nodes, _ = _own_nodes(tree)
        self._note_modules(nodes)
        _bind(self.module, nodes)

    def add(self, cell: Cell, line: int, text: str) -> None:
        if len(self.entries) < MOST:
            entry = Entry(
                cell.exercise, cell.above + line, clean(text), cell.line(line)
            )
            self.entries[entry] = None

    def listed(self) -> list[Entry]:
        entries = sorted(
            self.entries,
            key=lambda entry: (entry.exercise or 0, entry.line, entry.text),
        )
        if len(entries) == MOST:
            last = entries[-1]
            text = f"and so on: {MOST} lines are listed, and no more"
            entries.append(Entry(last.exercise, last.line, text, ""))
        return entries

    def at(
        self, cell: Cell, tree: ast.Module | None = None, line: int | None = None
    ) -> None:
        """Look at a cell, or at code that stands in a text of it, on one line."""
        waiting: list[tuple[ast.AST, Scope]] = [(tree or cell.tree, self.module)]
        while waiting:
            node, above = waiting.pop()
            scope = Scope(above) if isinstance(node, SCOPES) else above
            nodes, within = _own_nodes(node)
            if isinstance(node, FUNCTIONS):
                self._bind_arguments(node, scope, cell)
            if scope is not self.module and not isinstance(node, ast.ClassDef):
                _bind(scope, nodes)
            is_module = isinstance(node, ast.Module)
            for part in nodes:
                for text in self._odd(part, scope, is_module):
                    self.add(cell, line or getattr(part, "lineno", 1), text)
                if line is None and (code := _code_in(part, scope)):
                    self.at(cell, code, part.lineno)
            waiting += [(part, scope) for part in within]

    def _bind_arguments(self, node: ast.AST, scope: Scope, cell: Cell) -> None:
        for name in _arguments(node):
            scope.names[name] = OWN if name in ("self", "cls") else ARGUMENT

    def _odd(self, node: ast.AST, scope: Scope, is_module: bool) -> Iterator[str]:
        """What is odd about a node of a tree."""
        match node:
            case ast.Import(names=aliases):
                for alias in aliases:
                    yield from _at_path(alias.name)
            case ast.ImportFrom(module=str(module), names=aliases):
                for alias in aliases:
                    yield from _at_path(f"{module}.{alias.name}")
            case ast.Name(id=name):
                yield from self._at_name(node, scope, is_module)
            case ast.Attribute(attr=name, ctx=context):
                if name in ATTRIBUTES:
                    yield ATTRIBUTES[name]
                if isinstance(context, ast.Load):
                    yield from _at_path(scope.origin_of(node))
                else:
                    yield from _at_attribute(node, scope)
            case ast.Subscript(ctx=context):
                if isinstance(context, ast.Load):
                    yield from _at_path(scope.origin_of(node))
                else:
                    yield from _at_item(node, scope)
            case ast.Constant(value=str(text)):
                for name in text.split("."):  # a path, as `attrgetter` takes
                    if name in ATTRIBUTES:
                        yield ATTRIBUTES[name]
                if text in self.hidden:
                    yield f"names `{text}`, which stands in hidden questions alone"
            case ast.MatchClass(kwd_attrs=names):
                for name in ATTRIBUTES.keys() & set(names):
                    yield ATTRIBUTES[name]
            case ast.Global(names=names):
                for name in self.hidden.intersection(names):
                    yield f"names `{name}`, which stands in hidden questions alone"
            case ast.Call():
                yield from _at_path(scope.origin_of(node))
                yield from _at_call(node, scope)
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Lambda(body=ast.Constant())
            ):
                yield from _at_comparison(name)
            case ast.ClassDef():
                yield from _at_class(node, scope)
                yield from self._at_definition(node, is_module)
            case ast.FunctionDef():
                yield from _at_function(node)
                yield from self._at_definition(node, is_module)

    def _at_name(self, node: ast.Name, scope: Scope, is_module: bool) -> Iterator[str]:
        name, origin = node.id, scope.origin(node.id)
        if isinstance(node.ctx, ast.Load):
            if name in self.hidden and not scope.has(
                name
            ):  # else it is a name of their own
                yield f"names `{name}`, which stands in hidden questions alone"
            yield from _at_path(origin)
            if name in KNOWN_NAMES and not scope.has(name):
                yield KNOWN_NAMES[name]
        elif is_module and name in self.modules:
            yield f"puts something else in the place of `{name}`"
        elif is_module and name in self.defined:
            yield f"defines again `{name}`, which the notebook gives"

    def _at_definition(self, node: ast.AST, is_module: bool) -> Iterator[str]:
        if is_module and node.name in self.defined:
            yield f"defines again `{node.name}`, which the notebook gives"


def _at_path(path: str) -> Iterator[str]:
    """What is odd about using this, which is a path or stands for none."""
    if not FOREIGN.match(path):
        return
    parts = path.split(".")
    for end in range(1, len(parts) + 1):
        if text := PATHS.get(".".join(parts[:end])):
            yield text
            return
    if parts[0] == "cudasim" and parts[1:] and parts[1] not in PUBLIC:
        yield "reaches into the insides of cudasim"
    if parts[0] == "torch" and any(map(_is_private, parts[1:])):
        yield "reaches into the insides of torch"


def _is_private(name: str) -> bool:
    is_known = name.startswith(("__", "_foreach", "_pytree", "_assert"))
    return name.startswith("_") and not is_known


def _at_attribute(node: ast.Attribute, scope: Scope) -> Iterator[str]:
    """An attribute that is assigned to or deleted."""
    base, name = scope.origin_of(node.value), node.attr
    odd = [*_changed(base, name, _root(node))]
    if not odd and base != OWN and name in TOLD:
        odd.append(f"gives an object a `{name}` of its own")
    yield from odd


def _changed(base: str, name: str, root: str) -> Iterator[str]:
    """What is odd about changing the attribute of something that stands for `base`."""
    if base == "builtins":
        yield f"replaces `{name}` of Python itself"
    elif base.startswith(SETTINGS):
        return
    elif FOREIGN.match(base):
        yield f"replaces an attribute of `{base}`"
    elif base == A_CLASS:
        yield "replaces an attribute of a class that it did not make"
    elif base == NAMES:
        yield "changes names of the notebook by `globals()`, `locals()` or `vars()`"
    elif base == GIVEN and name not in HONEST:
        yield f"replaces an attribute of `{root}`, which the notebook gives"
    elif base == ARGUMENT and name in TOLD:
        yield f"replaces `{name}` of an object that it did not make"
    elif name in ("__class__", "__bases__", "__code__"):
        yield f"replaces `{name}` of an object"


def _at_item(node: ast.Subscript, scope: Scope) -> Iterator[str]:
    """An item that is assigned to or deleted."""
    base, key = scope.origin_of(node.value), _constant(node.slice)
    is_dict = isinstance(node.value, ast.Attribute) and node.value.attr == "__dict__"
    if base == "os.environ" and str(key).startswith(
        ("CUDA_", "PYTORCH_", "TORCH_", "OMP_")
    ):
        return
    if base == GIVEN and not is_dict:
        yield f"changes an item of `{_root(node)}`, which the notebook gives"
    elif base == ARGUMENT and is_dict:
        yield "writes into the `__dict__` of an object that it did not make"
    else:
        yield from _changed(base, str(key), _root(node))


def _root(node: ast.AST) -> str:
    """The name that an expression begins with."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else "an object"


def _at_call(node: ast.Call, scope: Scope) -> Iterator[str]:
    function = scope.origin_of(node.func)
    short = function.removeprefix("builtins.")
    match short, node.args:
        case "setattr" | "delattr" | "object.__setattr__" | "type.__setattr__", [
            target,
            name,
            *_,
        ]:
            yield from _changed(
                scope.origin_of(target), str(_constant(name)), _root(target)
            )
        case "getattr" | "hasattr", [_, name, *_] if not isinstance(name, ast.Constant):
            yield "looks up a name that is computed"
        case "__import__" | "importlib.import_module", [name, *_]:
            if isinstance(name, ast.Constant):
                yield from _at_path(str(name.value))
            else:
                yield "imports a module by a name that is computed"
        case "operator.attrgetter" | "operator.methodcaller", [*names]:
            if not all(isinstance(name, ast.Constant) for name in names):
                yield "looks up a name that is computed"
        case "type", [_, _, _]:
            yield "makes a class by calling `type`"
        case "cudasim.timeline", _ if any(word.arg == "card" for word in node.keywords):
            yield "models times for another card"
    if isinstance(node.func, ast.Attribute):
        base, method = scope.origin_of(node.func.value), node.func.attr
        if method in HOOKS and base != OWN:
            yield "hooks into a module or a tensor that it did not make"
        if method in METHODS and _is_namespace(node.func.value, base, scope):
            yield from _changed(base, "?", _root(node.func))


def _is_namespace(node: ast.AST, base: str, scope: Scope) -> bool:
    """Is it a list or a dictionary that belongs to a module, or holds names?"""
    if base == NAMES:
        return True
    if not FOREIGN.match(base) or base.startswith("builtins."):
        return False
    is_dict = isinstance(node, ast.Call) or getattr(node, "attr", "") == "__dict__"
    return is_dict or isinstance(node, ast.Attribute) or base in PATHS


def _at_class(node: ast.ClassDef, scope: Scope) -> Iterator[str]:
    bases = [scope.origin_of(base) for base in node.bases]
    functions = [part for part in node.body if isinstance(part, ast.FunctionDef)]
    names = {function.name for function in functions} | _assigned(node)
    own = names - PLAIN
    properties = {function.name for function in functions if function.decorator_list}
    dunder = {name for name in own if name.startswith("__") and name.endswith("__")}
    told = dunder | properties | names & TOLD
    for base in bases:
        if base in VALUES and (told or (own and base.startswith("torch."))):
            kind = base.removeprefix("builtins.")
            yield f"makes a kind of `{kind}` that says of itself what it likes"
            return
    if names & ANYWHERE or "__class__" in names:
        yield "makes objects that say of themselves what they like"
    elif not bases and names & IMITATED:
        yield "makes objects that stand for numbers, lists or tensors"


def _assigned(node: ast.ClassDef) -> set[str]:
    """The names that a class gives values to."""
    targets = [
        target
        for part in node.body
        if isinstance(part, ast.Assign)
        for target in part.targets
    ]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _at_function(node: ast.FunctionDef) -> Iterator[str]:
    last = node.body[-1]
    if node.name == "__del__":
        yield "leaves code that runs by itself later"
    if isinstance(last, ast.Return) and isinstance(last.value, ast.Constant):
        yield from _at_comparison(node.name)


def _at_comparison(name: str) -> Iterator[str]:
    if name in ("__eq__", "__ne__", "__bool__"):
        yield f"defines `{name}` with the same answer for everything"


def _code_in(node: ast.AST, scope: Scope) -> ast.Module | None:
    """The code in a text that is run, if the text stands there."""
    match node:
        case ast.Call(args=[ast.Constant(value=str(text)), *_]):
            if scope.origin_of(node.func) in RUNS:
                return tree_of(text)
    return None


RUNS = {"builtins.exec", "builtins.eval", "builtins.compile"}


# --- hidden questions


def hidden_names(assignment: dict) -> frozenset[str]:
    """Names that hidden questions make and nothing that students see has, of two words at least.

    A shorter one would be met in honest answers.
    """
    questions = assignment["questions"]
    seen = [assignment["given"], *(question["solution"] for question in questions)]
    for question in questions:
        seen += [question["starter"], question["shows"] or "", *question["checks"]]
    known = {word for source in seen for word in re.findall(r"\w+", source)}
    known |= {
        word for question in questions for word in re.findall(r"\w+", question["name"])
    }
    made: set[str] = set()
    for question in questions:
        made |= _made_in(question["tests"])
    return frozenset(name for name in made - known if re.search(r"[a-zA-Z]_+\w", name))


@cache
def _made_in(tests: str) -> frozenset[str]:
    """The names to which the questions in some tests give a value."""
    made = set()
    for node in ast.walk(tree_of(tests) or ast.Module([], [])):
        text = _constant(node)
        if not isinstance(text, str) or not re.search(r"\w_\w", text):
            continue
        try:
            questions = ast.parse(text)
        except UNREADABLE:
            continue
        for part in ast.walk(questions):
            match part:
                case ast.Name(id=name, ctx=ast.Store()) | ast.FunctionDef(name=name):
                    made.add(name)
    return frozenset(made)
