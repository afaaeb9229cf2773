"""What is known of an operation, and what runs for it: one record for each, made when it is met."""

import functools
from collections.abc import Callable
from typing import Any

from torch._ops import OpOverload

from cudasim.dispatch import foresight, random

MANY = 2**62  # where only `bound` knows a bound

Rule = Callable[
    [Callable, tuple, dict], Any
]  # (operation, its arguments) -> its result

OWN: dict[
    Callable | None, Rule
] = {}  # rules of operations; the general one is under None
# The same for kinds of them: an operation -> its rule, or None.
KINDS: list[Callable[[Callable], Rule | None]] = []
Idle = Callable[
    [tuple], bool
]  # tells from its arguments that an operation needs no layer
# (names of operators and operations, what runs around the rule of each, when it does nothing);
# the first is innermost.
LAYERS: list[tuple[frozenset, Callable, Idle]] = []


def rule(*funcs: Callable) -> Callable:
    """Give the operations `funcs` the decorated rule instead of the general one."""

    def register(function: Rule) -> Rule:
        OWN.update(dict.fromkeys(funcs, function))
        return function

    return register


def around(*which: str | Callable, idle: Idle = lambda args: False) -> Callable:
    """Let the decorated function, which is told the rule so far, run around it.

    `which` are operations, or names of PyTorch's operators, which stand for all their overloads and
    for their forms in place. Where plain tensors are all on one GPU, and `idle` of them, it would
    do nothing but heed an error; as with tensors of the CPU."""

    def register(function: Callable) -> Callable:
        LAYERS.append((frozenset(which), function, idle))
        return function

    return register


def name_of(func: Callable) -> str:
    """The name of an operator of PyTorch, the same for its form in place; else no name."""
    known = isinstance(func, OpOverload) and func.namespace == "aten"
    return func.overloadpacket.__name__.removesuffix("_") if known else ""


class Operator:
    __slots__ = (
        "bound",
        "call",
        "direct",
        "factor",
        "func",
        "idle",
        "makes",
        "outs",
        "plain",
    )
    __slots__ += ("rule", "single", "all_tensors", "tensors", "written")

    def __init__(self, func: Callable) -> None:
        self.func = func  # so that no other has its identity
        own = OWN.get(func) or next(filter(None, (kind(func) for kind in KINDS)), None)
        name = name_of(func)
        found = [each for each in LAYERS if name in each[0] or func in each[0]]
        self.idle = _all([idle for _, _, idle in found])
        self.rule: Rule | None = (
            own  # what runs; None where that is the general rule alone
        )
        for _, layer, _ in found:
            self.rule = functools.partial(layer, self.rule or OWN[None])
        self.direct = False
        if hasattr(func, "_schema"):
            self._read(func)
            self.direct &= own is None

    def _read(self, func: Callable) -> None:
        """What the schema tells, which operators that take functions do not have."""
        schema = func._schema
        # What an operator of PyTorch calls in turn, without the call of Python before it.
        self.call = func._op if type(func) is OpOverload else func
        # Whether a result may be a new tensor: not of a view, nor of what writes to an argument.
        self.makes = not schema.returns or any(
            each.alias_info is None for each in schema.returns
        )
        # The names of results that it is given, as `out=`, and may make larger.
        self.outs = [argument.name for argument in schema.arguments if argument.is_out]
        places = [
            (place, each)
            for place, each in enumerate(schema.arguments)
            if each.alias_info
        ]
        # (position, name) of the arguments that it changes.
        self.written = [
            (place, each.name) for place, each in places if each.alias_info.is_write
        ]
        makes = self.makes or self.outs
        self.bound = foresight.bound_of(func) if makes else foresight.nothing
        self.plain = (
            random.kind(func) == random.PLAIN
        )  # whether it draws no random numbers
        # By what the counts of its operands are multiplied for a quick bound; 0 if nothing is made.
        self.factor = foresight.MULTIPLIED.get(self.bound, MANY) if self.makes else 0
        self.single = len(schema.returns) == 1 and not self.outs
        # Whether its tensors are no lists, and nothing else about it is out of the ordinary; they
        # are among the first so many arguments.
        kinds = [
            str(argument.type)
            for argument in schema.arguments
            if not argument.kwarg_only
        ]
        places = [place for place, kind in enumerate(kinds, 1) if "Tensor" in kind]
        lists = any("List" in kinds[place - 1] for place in places)
        self.tensors = max(places, default=0)
        self.all_tensors = self.tensors == len(kinds)
        self.direct = self.plain and not self.outs and not lists


def _all(idle: list[Idle]) -> Idle | None:
    if len(idle) < 2:
        return idle[0] if idle else None
    return lambda args: all(each(args) for each in idle)


RECORD = "_cudasim"  # the attribute of an operation that holds its record


def operator_of(func: Callable) -> Operator:
    found = getattr(func, RECORD, None)
    if found is None:
        found = Operator(func)
        setattr(func, RECORD, found)
    return found


def written_by(func: Callable, args: tuple, kwargs: dict) -> list[Any]:
    """The arguments that an operation changes; None for one that is left out."""
    written = operator_of(func).written
    return [
        args[place] if place < len(args) else kwargs.get(name)
        for place, name in written
    ]
