"""What is known of an operation, and what runs for it: one record for each, made when it is met."""

import functools
from collections.abc import Callable
from typing import Any

from torch._ops import OpOverload

from cudasim.dispatch import foresight, random

Rule = Callable[[Callable, tuple, dict], Any]  # (operation, its arguments) -> its result

# What runs for an operation instead of the general rule, which stands under None.
OWN: dict[Callable | None, Rule] = {}
# The same for kinds of them: an operation -> its rule, or None.
KINDS: list[Callable[[Callable], Rule | None]] = []
# (names of operators and operations, what runs around the rule of each); the first is innermost.
LAYERS: list[tuple[frozenset, Callable]] = []


def rule(*funcs: Callable) -> Callable:
    """Give the operations `funcs` the decorated rule instead of the general one."""

    def register(function: Rule) -> Rule:
        OWN.update(dict.fromkeys(funcs, function))
        return function

    return register


def around(*which: str | Callable) -> Callable:
    """Let the decorated function, which is told the rule so far, run around it.

    `which` are operations, or names of PyTorch's operators, which stand for all their overloads and
    for their forms in place.
    """

    def register(function: Callable) -> Callable:
        LAYERS.append((frozenset(which), function))
        return function

    return register


def name_of(func: Callable) -> str:
    """The name of an operator of PyTorch, the same for its form in place; else no name."""
    known = isinstance(func, OpOverload) and func.namespace == "aten"
    return func.overloadpacket.__name__.removesuffix("_") if known else ""


class Operator:
    """How an operation is run on a GPU."""

    __slots__ = ("bound", "call", "direct", "factor", "func", "makes", "outs", "plain", "rule")
    __slots__ += ("single", "steps", "usual", "written")

    def __init__(self, func: Callable) -> None:
        """Of `func`, met for the first time."""
        self.func = func  # so that no other has its identity
        own = OWN.get(func) or next(filter(None, (kind(func) for kind in KINDS)), None)
        name = name_of(func)
        layers = [layer for which, layer in LAYERS if name in which or func in which]
        # What runs, from the outside in; None where that is the general rule alone.
        self.steps = (*reversed(layers), own or OWN[None])
        self.rule: Rule | None = own
        for layer in layers:
            self.rule = functools.partial(layer, self.rule or OWN[None])
        self.usual = self.direct = False
        if hasattr(func, "_schema"):
            self._read(func)

    def _read(self, func: Callable) -> None:
        """What the schema tells, which operators that take functions do not have."""
        schema = func._schema
        # What an operator of PyTorch calls in turn, without the call of Python before it.
        self.call = func._op if type(func) is OpOverload else func
        # Whether a result may be a new tensor: not of a view, nor of what writes to an argument.
        aliases = schema.returns and all(result.alias_info is not None for result in schema.returns)
        self.makes = not aliases
        # The names of results that it is given, as `out=`, and may make larger.
        self.outs = [argument.name for argument in schema.arguments if argument.is_out]
        # (position, name) of the arguments that it changes.
        self.written = [
            (position, argument.name)
            for position, argument in enumerate(schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]
        makes = self.makes or self.outs
        self.bound = foresight.bound_of(func) if makes else foresight.nothing
        self.plain = random.kind(func) == random.PLAIN  # whether it draws no random numbers
        # What the counts of its operands are multiplied by for a bound that is found quicker: 0
        # where nothing is made, COUNT where only `bound` knows one.
        quick = self.bound in foresight.MULTIPLIED
        self.factor = 0 if not self.makes else 1 if quick else foresight.COUNT
        self.single = len(schema.returns) == 1 and not self.outs
        # Whether its tensors are no lists, and nothing else about it is out of the ordinary.
        kinds = [str(argument.type) for argument in schema.arguments]
        lists = any("Tensor" in kind and "List" in kind for kind in kinds)
        self.usual = self.plain and not self.outs and not lists
        self.direct = self.usual and self.rule is None


OPERATORS: dict[int, Operator] = {}  # by identity: to hash an operator takes a call of Python


def operator_of(func: Callable) -> Operator:
    """The record of `func`."""
    found = OPERATORS.get(id(func))
    if found is None:
        found = OPERATORS[id(func)] = Operator(func)
    return found


def written_by(func: Callable, args: tuple, kwargs: dict) -> list[Any]:
    """The arguments that an operation changes; None for one that is left out."""
    return [
        args[position] if position < len(args) else kwargs.get(name)
        for position, name in operator_of(func).written
    ]
