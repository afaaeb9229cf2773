"""What is known of an operation before it runs, found once for each from its schema."""

from collections.abc import Callable

from torch._ops import OpOverload

from cudasim.dispatch import foresight, random
from cudasim.dispatch.foresight import Bound


class Plan:
    """How an operation is run on a GPU."""

    __slots__ = ("bound", "call", "factor", "func", "makes", "outs", "plain", "single", "usual")

    def __init__(self, func: Callable) -> None:
        """Of `func`, met for the first time."""
        self.func = func  # so that no other has its identity
        # What an operator of PyTorch calls in turn, without the call of Python before it.
        self.call = func._op if type(func) is OpOverload else func
        self.makes = _makes(func)  # whether a result may be a new tensor
        # The names of results that it is given, as `out=`, and may make larger.
        self.outs = [argument.name for argument in func._schema.arguments if argument.is_out]
        makes = self.makes or self.outs
        self.bound: Bound = foresight.bound_of(func) if makes else foresight.nothing
        self.plain = random.kind(func) == random.PLAIN  # whether it draws no random numbers
        # What the counts of its operands are multiplied by for a bound that is found quicker: 0
        # where nothing is made, COUNT where only `bound` knows one.
        quick = self.bound in foresight.MULTIPLIED
        self.factor = 0 if not self.makes else 1 if quick else foresight.COUNT
        self.single = len(func._schema.returns) == 1 and not self.outs
        # Whether its tensors are no lists, and nothing else about it is out of the ordinary.
        kinds = [str(argument.type) for argument in func._schema.arguments]
        lists = any("Tensor" in kind and "List" in kind for kind in kinds)
        self.usual = self.plain and not self.outs and not lists


PLANS: dict[int, Plan] = {}  # by identity: to hash an operator takes a call of Python


def plan_of(func: Callable) -> Plan:
    """The plan of `func`."""
    plan = PLANS.get(id(func))
    if plan is None:
        plan = PLANS[id(func)] = Plan(func)
    return plan


def _makes(func: Callable) -> bool:
    """False for a view, and for what is written to an argument: their storage has its place.

    What is made of other operations (`reshape`) may copy where its schema speaks of a view.
    """
    returns = func._schema.returns
    aliases = returns and all(result.alias_info is not None for result in returns)
    return not aliases or func.has_kernel_for_dispatch_key("CompositeImplicitAutograd")
