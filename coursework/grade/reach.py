"""Lines in which a student's code reaches where an answer has no business.

They are listed for a person to look at. The list judges nobody: all of this may be
honest, and code can be hidden from any list. The code is read and never run. What it
makes itself is its own, and it may do with that as it likes; `origins.py` finds out what
is. `reach.toml` says what is looked for.
"""

import ast
import re
import tomllib
import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from coursework.exercises.tasks import Assignment
from coursework.grade.download import clean
from coursework.grade.origins import (
    A_CLASS,
    ARGUMENT,
    FUNCTIONS,
    GIVEN,
    NAMES,
    OWN,
    SCOPES,
    SETTABLE,
    Scope,
    constant,
    is_path,
    own_nodes,
)
from coursework.grade.results import ReachEntry
from coursework.grade.student_code import (
    UNREADABLE,
    below_magics,
    tree_of,
    without_magics,
)

MOST = 60  # entries of a submission
WIDTH = 160  # characters of a line that are shown
UNREAD = "cannot be parsed, so nothing in it was looked for"
TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def _words(section: str, name: str) -> frozenset[str]:
    return frozenset(TABLE[section][name].split())


def _texts(form: str) -> dict[str, str]:
    """Return what to say about each word that the table lists in this form."""
    texts = {}
    for kind in TABLE["kind"]:
        for word in kind.get(form, "").split():
            texts[word] = kind["text"]
    return texts


PATHS = _texts("paths")
ATTRIBUTES = _texts("attributes")
UNBOUND_NAMES = _texts("names")

CHANGING_METHODS = _words("changed", "changing_methods")
OBSERVED_ATTRIBUTES = _words("changed", "observed_attributes")
HOOKS = _words("changed", "hooks")
SETTINGS = tuple(_words("changed", "settings"))
SETTINGS_OF_ENVIRONMENT = ("CUDA_", "PYTORCH_", "TORCH_", "OMP_")

VALUE_TYPES = _words("classes", "value_types")
PLAIN_METHODS = _words("classes", "plain_methods")
LYING_METHODS = _words("classes", "lying_methods")
IMITATING_METHODS = _words("classes", "imitating_methods")
COMPARISONS = ("__eq__", "__ne__", "__bool__")

PUBLIC = _words("cudasim", "public")
RUNS_TEXT = ("builtins.exec", "builtins.eval", "builtins.compile")
ROOTS = {"cudasim", "torch", "numpy", "builtins"}
ROOTS.update(path.partition(".")[0] for path in PATHS)


def reaches(
    sources: Mapping[int | None, list[str]], assignment: Assignment
) -> list[ReachEntry]:
    """Return the entries for a student's own cells, by exercise.

    A fault in here is printed and stops no grading, because the list is for people.
    """
    try:
        entries = _entries(sources, assignment)
    except Exception as error:
        traceback.print_exc()
        entries = [ReachEntry(None, 1, f"{UNREAD} ({type(error).__name__})", "")]
    return entries


def _entries(
    sources: Mapping[int | None, list[str]], assignment: Assignment
) -> list[ReachEntry]:
    reader = Reader(assignment)
    cells = []
    for number, own_sources in sources.items():
        cells += _cells(number, own_sources)
    for cell in cells:  # first, because all cells share their names
        if cell.tree:
            reader.bind(cell.tree)
    for cell in cells:
        if cell.tree:
            reader.read(cell)
        elif cell.source.strip():
            reader.add(cell, 1, UNREAD)
    return reader.listed()


# --- cells


@dataclass(frozen=True)
class Cell:
    exercise: int | None
    source: str  # without magics
    tree: ast.Module | None = field(repr=False)
    lines_above: int  # in the answer

    def line(self, number: int) -> str:
        lines = re.split("\r\n|\r|\n", self.source)
        return clean(lines[number - 1], WIDTH) if 0 < number <= len(lines) else ""


def _cells(exercise: int | None, sources: Iterable[str]) -> Iterator[Cell]:
    """Yield the cells of an exercise.

    Lines are counted as in its answer, where an empty line stands between cells.
    """
    lines_above = 0
    for source in sources:
        plain = without_magics(source)
        magics = source.count("\n") - below_magics(source).count("\n")
        yield Cell(exercise, plain, tree_of(plain), lines_above + magics)
        lines_above += source.count("\n") + 2


# --- reading


class Reader:
    """Reads a student's cells, and lists the lines that a person should see."""

    def __init__(self, assignment: Assignment) -> None:
        self.entries: set[ReachEntry] = set()
        self.hidden = hidden_names(assignment)
        self.notebook_scope = Scope(ROOTS)
        self.imported_names: set[str] = set()  # by which modules are imported whole

        given, _ = own_nodes(tree_of(assignment.given) or ast.Module([], []))
        self._bind(given)
        for name, origin in self.notebook_scope.names.items():
            self.notebook_scope.names[name] = origin or GIVEN
        answers = {exercise.answer_name for exercise in assignment.exercises}
        self.imported_names -= answers
        self.given_definitions = set()
        for node in given:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                self.given_definitions.add(node.name)
        self.given_definitions -= answers

    def bind(self, tree: ast.Module) -> None:
        """Note what a cell gives names to."""
        nodes, _ = own_nodes(tree)
        self._bind(nodes)

    def _bind(self, nodes: list[ast.AST]) -> None:
        self.notebook_scope.bind_all(nodes)
        for node in nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    package = alias.name.partition(".")[0]
                    self.imported_names.add(alias.asname or package)

    def add(self, cell: Cell, line: int, text: str) -> None:
        if len(self.entries) < MOST:
            place = cell.lines_above + line
            entry = ReachEntry(cell.exercise, place, clean(text), cell.line(line))
            self.entries.add(entry)

    def listed(self) -> list[ReachEntry]:
        def place(entry: ReachEntry) -> tuple[int, int, str]:
            return entry.exercise or 0, entry.line, entry.text

        entries = sorted(self.entries, key=place)
        if len(entries) == MOST:
            last = entries[-1]
            text = f"and more: only {MOST} lines are listed"
            entries.append(ReachEntry(last.exercise, last.line, text, ""))
        return entries

    def read(self, cell: Cell) -> None:
        self._read(cell, cell.tree)

    def _read(self, cell: Cell, tree: ast.Module, line: int | None = None) -> None:
        """Read a cell, or code that stands in a text on one `line` of it."""
        waiting = [(tree, self.notebook_scope)]
        while waiting:
            owner, outside = waiting.pop()
            nodes, inner = own_nodes(owner)
            scope = outside
            if isinstance(owner, SCOPES):
                scope = outside.inner()
            if isinstance(owner, FUNCTIONS):
                scope.bind_arguments(owner)
                scope.bind_all(nodes)
            is_module = isinstance(owner, ast.Module)
            for node in nodes:
                for text in self._remarks(node, scope, is_module):
                    if text:
                        self.add(cell, line or getattr(node, "lineno", 1), text)
                code = _code_in(node, scope)
                if code and line is None:
                    self._read(cell, code, node.lineno)
            waiting += [(part, scope) for part in inner]

    def _remarks(
        self, node: ast.AST, scope: Scope, is_module: bool
    ) -> Iterator[str | None]:
        """Yield what is odd about a node of a tree, None for nothing."""
        match node:
            case ast.Import(names=aliases):
                for alias in aliases:
                    yield _about_path(alias.name)
            case ast.ImportFrom(module=str(module), names=aliases):
                for alias in aliases:
                    yield _about_path(f"{module}.{alias.name}")
            case ast.Name(id=name, ctx=ast.Load()):
                yield _about_path(scope.origin(name))
                if not scope.has(name):  # else it is a name of their own
                    yield self._about_hidden(name)
                    yield UNBOUND_NAMES.get(name)
            case ast.Name(id=name) if is_module and name in self.imported_names:
                yield f"puts something else in place of `{name}`"
            case ast.Name(id=name) if is_module:
                yield self._about_definition(name)
            case ast.Attribute(attr=name):
                yield ATTRIBUTES.get(name)
                yield _about_attribute(node, scope)
            case ast.Subscript():
                yield _about_item(node, scope)
            case ast.Constant(value=str(text)):
                for name in text.split("."):  # a path, as `attrgetter` takes
                    yield ATTRIBUTES.get(name)
                yield self._about_hidden(text)
            case ast.MatchClass(kwd_attrs=names):
                for name in names:
                    yield ATTRIBUTES.get(name)
            case ast.Global(names=names):
                for name in names:
                    yield self._about_hidden(name)
            case ast.Call():
                yield _about_path(scope.origin_of(node))
                yield _about_call(node, scope)
                if isinstance(node.func, ast.Attribute):
                    yield from _about_method(node.func, scope)
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Lambda(body=ast.Constant())
            ):
                yield _about_constant(name)
            case ast.ClassDef(name=name):
                yield _about_class(node, scope)
                if is_module:
                    yield self._about_definition(name)
            case ast.FunctionDef(name=name, body=[*_, last]):
                if name == "__del__":
                    yield "leaves behind code that runs later by itself"
                match last:
                    case ast.Return(value=ast.Constant()):
                        yield _about_constant(name)
                if is_module:
                    yield self._about_definition(name)

    def _about_hidden(self, name: str) -> str | None:
        if name in self.hidden:
            return f"uses the name `{name}`, which occurs only in hidden questions"
        return None

    def _about_definition(self, name: str) -> str | None:
        if name in self.given_definitions:
            return f"redefines `{name}`, which the notebook provides"
        return None


def _code_in(node: ast.AST, scope: Scope) -> ast.Module | None:
    """Return the code that a call runs from a text, if the text stands there."""
    match node:
        case ast.Call(args=[ast.Constant(value=str(text)), *_]):
            if scope.origin_of(node.func) in RUNS_TEXT:
                return tree_of(text)
    return None


# --- what is used


def _about_path(path: str) -> str | None:
    """Return what is odd about using what a path names."""
    if not is_path(path):
        return None
    parts = path.split(".")
    for end in range(1, len(parts) + 1):
        text = PATHS.get(".".join(parts[:end]))
        if text:
            return text
    package, *names = parts
    if package == "cudasim" and names and names[0] not in PUBLIC:
        return "uses internals of cudasim"
    if package == "torch" and any(map(_is_private, names)):
        return "uses internals of torch"
    return None


def _is_private(name: str) -> bool:
    is_known = name.startswith(("__", "_foreach", "_pytree", "_assert"))
    return name.startswith("_") and not is_known


def _about_call(node: ast.Call, scope: Scope) -> str | None:
    function = scope.origin_of(node.func).removeprefix("builtins.")
    match function, node.args:
        case (
            "setattr" | "delattr" | "object.__setattr__" | "type.__setattr__",
            [target, name, *_],
        ):
            base = scope.origin_of(target)
            return _about_change(base, str(constant(name)), _root(target))
        case "getattr" | "hasattr", [_, name, *_]:
            return _about_computed([name])
        case "operator.attrgetter" | "operator.methodcaller", names:
            return _about_computed(names)
        case "__import__" | "importlib.import_module", [ast.Constant(value=name), *_]:
            return _about_path(str(name))
        case "__import__" | "importlib.import_module", [_, *_]:
            return "imports a module whose name is computed"
        case "type", [_, _, _]:
            return "makes a class by calling `type`"
        case "cudasim.timeline", _:
            if any(keyword.arg == "card" for keyword in node.keywords):
                return "models times for another card"
    return None


def _about_computed(names: list[ast.AST]) -> str | None:
    if all(isinstance(name, ast.Constant) for name in names):
        return None
    return "looks up a name that is computed"


def _about_method(function: ast.Attribute, scope: Scope) -> Iterator[str | None]:
    base = scope.origin_of(function.value)
    if function.attr in HOOKS and base != OWN:
        yield "hooks into a module or a tensor that it did not create"
    if function.attr in CHANGING_METHODS and _is_namespace(function.value, base):
        yield _about_change(base, "?", _root(function))


def _is_namespace(node: ast.AST, base: str) -> bool:
    """Tell whether a list or dictionary belongs to a module, or holds names."""
    if base == NAMES:
        return True
    if not is_path(base) or base.startswith("builtins."):
        return False
    return isinstance(node, ast.Call | ast.Attribute) or base in PATHS


# --- what is changed


def _about_attribute(node: ast.Attribute, scope: Scope) -> str | None:
    if isinstance(node.ctx, ast.Load):
        return _about_path(scope.origin_of(node))
    base = scope.origin_of(node.value)
    text = _about_change(base, node.attr, _root(node))
    if not text and base != OWN and node.attr in OBSERVED_ATTRIBUTES:
        text = f"gives an object a `{node.attr}` of its own"
    return text


def _about_item(node: ast.Subscript, scope: Scope) -> str | None:
    if isinstance(node.ctx, ast.Load):
        return _about_path(scope.origin_of(node))
    base = scope.origin_of(node.value)
    key = str(constant(node.slice))
    root = _root(node)
    is_dict = isinstance(node.value, ast.Attribute) and node.value.attr == "__dict__"
    if base == "os.environ" and key.startswith(SETTINGS_OF_ENVIRONMENT):
        return None
    if base == GIVEN and not is_dict:
        return f"changes an item of `{root}`, which the notebook provides"
    if base == ARGUMENT and is_dict:
        return "writes into the `__dict__` of an object that it did not create"
    return _about_change(base, key, root)


def _about_change(base: str, name: str, root: str) -> str | None:
    """Return what is odd about changing the attribute `name` of something.

    `base` is what that stands for, and `root` the name that it is reached by.
    """
    if base == "builtins":
        return f"replaces `{name}` of Python itself"
    if base.startswith(SETTINGS):
        return None
    if is_path(base):
        return f"replaces an attribute of `{base}`"
    if base == A_CLASS:
        return "replaces an attribute of a class that it did not create"
    if base == NAMES:
        return "changes names of the notebook by `globals()`, `locals()` or `vars()`"
    if base == GIVEN and name not in SETTABLE:
        return f"replaces an attribute of `{root}`, which the notebook provides"
    if base == ARGUMENT and name in OBSERVED_ATTRIBUTES:
        return f"replaces `{name}` of an object that it did not create"
    if name in ("__class__", "__bases__", "__code__"):
        return f"replaces `{name}` of an object"
    return None


def _root(node: ast.AST) -> str:
    """Return the name that an expression begins with."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else "an object"


# --- what is defined


def _about_class(node: ast.ClassDef, scope: Scope) -> str | None:
    names = set()
    properties = set()
    for part in node.body:
        match part:
            case ast.FunctionDef(name=name, decorator_list=decorators):
                names.add(name)
                if decorators:
                    properties.add(name)
            case ast.Assign(targets=targets):
                for target in targets:
                    if isinstance(target, ast.Name):
                        names.add(target.id)

    own = names - PLAIN_METHODS
    special = {name for name in own if re.fullmatch("__.*__", name)}
    has_answers = bool(special | properties | (names & OBSERVED_ATTRIBUTES))
    bases = [scope.origin_of(base) for base in node.bases]
    for base in bases:
        is_of_torch = base.startswith("torch.")
        if base in VALUE_TYPES and (has_answers or (own and is_of_torch)):
            kind = base.removeprefix("builtins.")
            return f"defines a kind of `{kind}` that can misreport itself"
    if names & LYING_METHODS or "__class__" in names:
        return "makes objects that can misreport themselves"
    if not bases and names & IMITATING_METHODS:
        return "makes objects that act as numbers, lists or tensors"
    return None


def _about_constant(name: str) -> str | None:
    """Return what is odd about a function of this name that returns a constant."""
    if name in COMPARISONS:
        return f"defines `{name}` with the same answer for everything"
    return None


# --- hidden questions


def hidden_names(assignment: Assignment) -> frozenset[str]:
    """Return the names that occur in hidden questions and in nothing that students see.

    Only names of two words or more count: a shorter one would be met in honest answers.
    """
    seen = [assignment.given]
    hidden = set()
    for exercise in assignment.exercises:
        seen += [exercise.solution, exercise.starter, exercise.demo or ""]
        seen += [*exercise.checks, exercise.answer_name]
        hidden |= _names_in_questions(exercise.tests)
    known = set(re.findall(r"\w+", "\n".join(seen)))
    return frozenset(
        name for name in hidden - known if re.search(r"[a-zA-Z]_+\w", name)
    )


@cache
def _names_in_questions(tests: str) -> frozenset[str]:
    """Return the names to which the questions in some hidden tests give a value."""
    names = set()
    for node in ast.walk(tree_of(tests) or ast.Module([], [])):
        text = constant(node)
        if not isinstance(text, str) or not re.search(r"\w_\w", text):
            continue
        try:
            question = ast.parse(text)
        except UNREADABLE:
            continue
        for part in ast.walk(question):
            match part:
                case ast.Name(id=name, ctx=ast.Store()) | ast.FunctionDef(name=name):
                    names.add(name)
    return frozenset(names)
