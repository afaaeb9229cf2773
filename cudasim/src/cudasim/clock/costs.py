"""What an operator of PyTorch does on its device, by the rules in `operators.json` and PyTorch's
tags. What has neither counts its bytes and is remembered. Tensors without data have a cost too."""

import json
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cudasim.clock import rules
from cudasim.clock.rules import Rule, is_mask
from cudasim.timing.formulas import Work

aten = torch.ops.aten
OnHost = Callable[[Tensor], bool]
SENDS = "c10d"  # the namespace of collectives, whose gather is not a tensor's

# The rules by operator, without namespace and overload, in place or not; and the flops an element
# of pointwise operators that cost more than one: rough classes, for the CPU.
_read = json.loads(
    Path(__file__).with_name("operators.json").read_text(encoding="utf-8")
)
TABLE: dict[str, Rule] = {
    name: partial(getattr(rules, row["rule"]), **row.get("options", {}))
    for row in _read["rules"]
    for name in row["operators"]
}
PRICES = {
    name: int(price) for price, names in _read["prices"].items() for name in names
}
_unknown: set[str] = set()


def work_of(func: Callable, args: tuple, kwargs: dict, out: Any) -> Work | None:
    """The work of `func`, from shapes, types and layouts alone; None for a view or a question."""
    return rule_of(func)(args, kwargs, out)


def operands(args: tuple) -> int:
    """How many tensors are in lists among the arguments: each costs the host some time."""
    lists = (each for each in args if isinstance(each, list | tuple))
    return sum(isinstance(each, Tensor) for listed in lists for each in listed)


def without_rule() -> list[str]:
    """The names of the operators met so far whose work is only their bytes, for want of a rule."""
    return sorted(_unknown)


@cache
def rule_of(func: Callable) -> Rule:
    if (
        getattr(func, "namespace", None) == SENDS
    ):  # the links' time is booked where ranks meet
        return rules.moved
    packet = getattr(func, "overloadpacket", None)
    name = (
        packet.__name__ if packet is not None else str(getattr(func, "__name__", func))
    )
    name = name if name.startswith("__") else name.rstrip("_")
    tags = getattr(func, "tags", ())
    if name in TABLE:
        return TABLE[name]
    if getattr(func, "is_view", False) or torch.Tag.inplace_view in tags:
        return rules.nothing
    if name.startswith("_foreach_"):
        return rules.foreach
    if torch.Tag.pointwise in tags:
        return partial(rules.pointwise, price=PRICES.get(name, 1))
    if torch.Tag.reduction in tags:
        return rules.reduction
    if torch.Tag.view_copy in tags:
        return partial(rules.moved, kind="copy", reads=[1])
    _unknown.add(str(func))
    return rules.moved


def _by_mask(args: tuple, kwargs: dict, on_host: OnHost) -> bool:
    """Indexing by a mask counts its True first; indices on the CPU are copied to the GPU. One
    number of the CPU put under a mask needs no count (`masked_fill`)."""
    indices = [each for each in args[1] if isinstance(each, Tensor)]
    value = args[2] if len(args) > 2 else kwargs.get("values")
    if value is not None and value.numel() == 1 and on_host(value):
        if len(indices) == 1 and is_mask(indices[0]):
            return False
    return any(is_mask(index) is not on_host(index) for index in indices)


# Operators that make the host wait for the device, which must know a value, or a size that depends
# on values, or look inside whether a method converged; and for which arguments, given who tells
# what is with the host.
WAITS: dict[Callable, Callable[[tuple, dict, OnHost], bool]] = {
    **{getattr(aten, name).default: lambda *given: True for name in _read["waits"]},
    aten.linalg_pinv.atol_rtol_tensor: lambda *given: True,
    aten.repeat_interleave.Tensor: lambda args, kwargs, _: (
        kwargs.get("output_size") is None
    ),
    **dict.fromkeys((aten.index.Tensor, aten._unsafe_index.Tensor), _by_mask),
    **dict.fromkeys((aten.index_put.default, aten.index_put_.default), _by_mask),
    **dict.fromkeys(
        (aten._index_put_impl_.default, aten._unsafe_index_put.default), _by_mask
    ),
}
