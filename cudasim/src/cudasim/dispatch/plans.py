"""What is known of an operation before it runs, found once for each from its schema."""

from collections.abc import Callable

from torch._ops import OpOverload

from cudasim.dispatch import foresight, random
from cudasim.dispatch.foresight import Bound


class Plan:
    """How an operation is run on a GPU."""

    __slots__ = ("bound", "call", "func", "makes", "outs", "plain")

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
