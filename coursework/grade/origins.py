"""What the names in a student's code stand for.

The code is read as a syntax tree and never run. A name is followed to where it comes
from: after `from sys import _getframe as g`, `g` stands for `sys._getframe`.
"""

import ast
import builtins
import re
from collections.abc import Iterable, Iterator

# What an expression stands for: a path such as `torch.nn`, or one of these.
OWN = ""  # the code made it itself
ARGUMENT = "(argument)"  # of a function: its caller knows what it is
GIVEN = "(given)"  # by the notebook
NAMES = "(names)"  # `globals()` and the like
A_CLASS = "(class)"  # of some object, by `type(x)`

DEEP = 8  # steps from a name: `a.b.c` is two. What goes further counts as its own
PYTHONS_OWN = frozenset(dir(builtins))
# Of a tensor, a parameter or a module: meant to be assigned to.
SETTABLE = frozenset({"grad", "data", "requires_grad", "training"})
# Methods that give parts of a module.
GIVES_PARTS = frozenset(
    {
        "modules",
        "children",
        "parameters",
        "buffers",
        "named_modules",
        "named_children",
        "named_parameters",
    }
)

FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
SCOPES = FUNCTIONS | ast.ClassDef


def is_path(origin: str) -> bool:
    return re.match(r"\w", origin) is not None


def constant(node: ast.AST | None) -> object:
    """Return the value of a constant, or None for any other expression."""
    return node.value if isinstance(node, ast.Constant) else None


class Scope:
    """What the names of a function, or of the notebook, stand for."""

    def __init__(self, roots: Iterable[str], above: "Scope | None" = None) -> None:
        """`roots` are the modules that are known even where nothing imports them."""
        self.roots = roots
        self.above = above
        self.names: dict[str, str] = {}

    def inner(self) -> "Scope":
        return Scope(self.roots, self)

    # --- what it knows

    def has(self, name: str) -> bool:
        return name in self.names or (self.above is not None and self.above.has(name))

    def origin(self, name: str) -> str:
        """Return what a name stands for."""
        scope: Scope | None = self
        while scope:
            if name in scope.names:
                return scope.names[name]
            scope = scope.above
        if name == "__builtins__":
            return "builtins"
        if name in PYTHONS_OWN:
            return f"builtins.{name}"
        return name if name in self.roots else GIVEN

    def origin_of(self, node: ast.AST, depth: int = DEEP) -> str:
        """Return what an expression stands for: `sys.modules` for `s.modules`."""
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
                return _part(self.origin_of(value, depth - 1), attribute)
            case ast.Subscript(value=value, slice=slice):
                return _item(self.origin_of(value, depth - 1), slice)
            case ast.Call():
                return self._origin_of_call(node, depth)
        return OWN

    def _origin_of_call(self, node: ast.Call, depth: int) -> str:
        function = self.origin_of(node.func, depth - 1).removeprefix("builtins.")
        match function, node.args:
            case "vars" | "globals" | "locals", []:
                return NAMES
            case "vars" | "next" | "iter", [value, *_]:
                return self.origin_of(value, depth - 1)
            case "type", [value]:
                return OWN if _is_self(value) else A_CLASS
            case "getattr", [value, ast.Constant(value=name), *_]:
                return _part(self.origin_of(value, depth - 1), str(name))
            case "getattr", [value, _, *_]:
                return _part(self.origin_of(value, depth - 1), "?")
            case "__import__" | "importlib.import_module", [name, *_]:
                module = constant(name)
                return module if isinstance(module, str) else OWN
        if isinstance(node.func, ast.Attribute) and node.func.attr in GIVES_PARTS:
            return self.origin_of(node.func.value, depth - 1)
        return OWN

    # --- what it learns

    def bind(self, name: str, origin: str) -> None:
        """Note what a name stands for, from here on or until it gets another value.

        Nobody knows which of two values it has when the code runs. So a name that has
        once stood for a path, or for a class of others, stands for that for good.
        """
        before = self.names.get(name, OWN)
        if not is_path(before) and before != A_CLASS:
            self.names[name] = origin

    def bind_arguments(self, function: ast.AST) -> None:
        arguments = function.args
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        for argument in (*named, arguments.vararg, arguments.kwarg):
            if argument is not None:
                is_own = argument.arg in ("self", "cls")
                self.names[argument.arg] = OWN if is_own else ARGUMENT

    def bind_all(self, nodes: Iterable[ast.AST]) -> None:
        """Note what these nodes of the scope give values to."""
        of_module = set()
        for node in nodes:
            if isinstance(node, ast.Global):
                of_module.update(node.names)

        for node in nodes:
            self._bind_import(node)
            for name, origin in self._bindings(node):
                if name not in of_module:
                    self.bind(name, origin)
        for node in nodes:  # given a value in some other way
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                if node.id not in of_module:
                    self.names.setdefault(node.id, OWN)

    def _bind_import(self, node: ast.AST) -> None:
        match node:
            case ast.Import(names=aliases):
                for alias in aliases:
                    package = alias.name.partition(".")[0]
                    origin = alias.name if alias.asname else package
                    self.names[alias.asname or package] = origin
            case ast.ImportFrom(module=str(module), names=aliases):
                for alias in aliases:
                    self.names[alias.asname or alias.name] = f"{module}.{alias.name}"

    def _bindings(self, node: ast.AST) -> Iterator[tuple[str, str]]:
        """Yield each name that a node gives a value to, and what that stands for."""
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield from self._assigned(target, value)
            case ast.AnnAssign(target=ast.Name(id=name), value=value):
                yield name, self.origin_of(value) if value else OWN
            case ast.NamedExpr(target=ast.Name(id=name), value=value):
                yield name, self.origin_of(value)
            case (
                ast.For(target=target, iter=values)
                | ast.AsyncFor(target=target, iter=values)
                | ast.comprehension(target=target, iter=values)
            ):
                origin = self.origin_of(_looped_over(values))
                for part in ast.walk(target):
                    if isinstance(part, ast.Name):
                        yield part.id, origin
            case (
                ast.withitem(optional_vars=ast.Name(id=name))
                | ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
                | ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
            ):
                yield name, OWN

    def _assigned(self, target: ast.AST, value: ast.AST) -> Iterator[tuple[str, str]]:
        targets = [target]
        values = [value]
        if isinstance(target, ast.Tuple | ast.List):
            targets = target.elts
            values = [value] * len(targets)
            is_pairwise = isinstance(value, ast.Tuple | ast.List)
            if is_pairwise and len(value.elts) == len(targets):
                values = value.elts
        for part, its_value in zip(targets, values, strict=True):
            if isinstance(part, ast.Name):
                yield part.id, self.origin_of(its_value)


def _part(base: str, name: str) -> str:
    """Return what an attribute of something stands for."""
    if is_path(base):
        return f"{base}.{name}"
    return OWN if name in SETTABLE else base


def _item(base: str, key: ast.AST) -> str:
    name = constant(key)
    if not isinstance(name, str):
        return _part(base, "?")
    return name if base == "sys.modules" else _part(base, name)


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _looped_over(values: ast.AST) -> ast.AST:
    match values:
        case ast.Call(
            func=ast.Name(id="enumerate" | "zip" | "reversed"), args=[first, *_]
        ):
            return first
    return values


# --- the nodes of a scope


def own_nodes(scope: ast.AST) -> tuple[list[ast.AST], list[ast.AST]]:
    """Return the nodes that belong to a scope itself, and the scopes within it."""
    own = []
    within = []
    waiting = [scope.body] if isinstance(scope, ast.Lambda) else scope.body[::-1]
    while waiting:
        node = waiting.pop()
        own.append(node)
        if isinstance(node, SCOPES):
            within.append(node)
            waiting += _evaluated_outside(node)
        else:
            waiting += reversed(list(ast.iter_child_nodes(node)))
    return own, within


def _evaluated_outside(node: ast.AST) -> list[ast.AST]:
    """Return the parts of a function or class that are evaluated where it is defined."""
    decorators = getattr(node, "decorator_list", [])
    if isinstance(node, ast.ClassDef):
        keywords = [keyword.value for keyword in node.keywords]
        return [*decorators, *node.bases, *keywords]
    defaults = [default for default in node.args.kw_defaults if default is not None]
    return [*decorators, *node.args.defaults, *defaults]
