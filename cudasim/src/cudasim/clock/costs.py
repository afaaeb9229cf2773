"""The work that each of PyTorch's operators does on its device.

`operators.json` says which rule an operator follows, and which operators make the host
wait. Operators that are not in it go by PyTorch's tags. One with neither costs its bytes,
and is remembered. Tensors without data, as those of the meta device, cost what others do.
"""

import json
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cudasim.clock import work_rules
from cudasim.clock.work_rules import Rule, is_mask
from cudasim.timing.formulas import Work
from cudasim.torch_private.operators import (
    OpOverload,
    base_name,
    schema_of,
    without_in_place,
)

aten = torch.ops.aten
OnHost = Callable[[Tensor], bool]
Waits = Callable[[tuple, dict, OnHost], bool]
C10D = "c10d"  # the namespace of collectives: its `gather` is not that of tensors

_data = json.loads(
    Path(__file__).with_name("operators.json").read_text(encoding="utf-8")
)
_without_rule: set[str] = set()


def _read_rules() -> dict[str, Rule]:
    rule_of_name = {}
    for row in _data["rules"]:
        rule = partial(getattr(work_rules, row["rule"]), **row.get("options", {}))
        for name in row["operators"]:
            rule_of_name[name] = rule
    return rule_of_name


# Rules by the operator's base name.
RULES = _read_rules()


def work_of(func: Callable, args: tuple, kwargs: dict, out: Any) -> Work | None:
    """Return the work of a call of `func`; None for a view or a question."""
    return rule_of(func)(args, kwargs, out)


def is_packed(func: Callable) -> bool:
    """Return whether the work of `func` depends on the lengths of packed sequences."""
    rule = rule_of(func)
    return getattr(rule, "func", None) is work_rules.packed_attention


def lengths_of(func: Callable, args: tuple) -> list[tuple[int, int]]:
    """Return the lengths of the sequences of a call of packed attention."""
    options = rule_of(func).keywords
    return work_rules.packed_lengths(args, options["first"], options["begins"])


def listed_tensors(args: tuple) -> int:
    """Count the tensors in lists among the arguments: each costs the host some time."""
    count = 0
    for arg in args:
        if isinstance(arg, list | tuple):
            count += sum(isinstance(element, Tensor) for element in arg)
    return count


def without_rule() -> list[str]:
    """Return the names of the operators so far whose work is their bytes, for want of a rule."""
    return sorted(_without_rule)


@cache
def rule_of(func: Callable) -> Rule:
    if getattr(func, "namespace", None) == C10D:
        # The time of the links is booked where the ranks meet.
        return work_rules.traffic
    name = _table_name(func)
    if name in RULES:
        return RULES[name]

    tags = getattr(func, "tags", ())
    if getattr(func, "is_view", False) or torch.Tag.inplace_view in tags:
        return work_rules.no_work
    if name.startswith("_foreach_"):
        return work_rules.foreach
    if torch.Tag.pointwise in tags:
        return work_rules.pointwise
    if torch.Tag.reduction in tags:
        return work_rules.reduction
    if torch.Tag.view_copy in tags:
        return partial(work_rules.traffic, kind="copy", reads=[1])

    _without_rule.add(str(func))
    return work_rules.traffic


def _table_name(func: Callable) -> str:
    if isinstance(func, OpOverload):
        return base_name(func)
    return without_in_place(str(getattr(func, "__name__", func)))


def _always(args: tuple, kwargs: dict, on_host: OnHost) -> bool:
    return True


def _without_output_size(args: tuple, kwargs: dict, on_host: OnHost) -> bool:
    return kwargs.get("output_size") is None


def _by_index(args: tuple, kwargs: dict, on_host: OnHost) -> bool:
    """Return whether reading or writing at an index makes the host wait.

    It does for a mask on the GPU, whose True are counted first, and for an index on the
    CPU, which is copied to the GPU. A single number of the CPU is put under one mask
    without counting (`masked_fill`).
    """
    indices = [index for index in args[1] if isinstance(index, Tensor)]
    value = args[2] if len(args) > 2 else kwargs.get("values")
    is_number = value is not None and value.numel() == 1 and on_host(value)
    if is_number and len(indices) == 1 and is_mask(indices[0]):
        return False
    return any(is_mask(index) != on_host(index) for index in indices)


def _by_numbers(
    args: tuple, kwargs: dict, on_host: OnHost, positions: list[int]
) -> bool:
    """Return whether one of these arguments is a tensor of the GPU that the host reads."""
    numbers = [args[position] for position in positions if position < len(args)]
    return any(isinstance(x, Tensor) and not on_host(x) for x in numbers)


def _by_layout(args: tuple, kwargs: dict, on_host: OnHost) -> bool:
    """Return whether what is not zero is counted: in a dense tensor."""
    return args[0].layout is torch.strided


def _without_bounds(args: tuple, kwargs: dict, on_host: OnHost) -> bool:
    """Return whether `histc` asks for the least and the largest value (SummaryOps.cu)."""
    least = args[2] if len(args) > 2 else kwargs.get("min", 0)
    most = args[3] if len(args) > 3 else kwargs.get("max", 0)
    return least == most and args[0].numel() > 0


def _with_sorter(args: tuple, kwargs: dict, on_host: OnHost) -> bool:
    """Return whether the bounds of a sorter are checked (BucketizationUtils.h)."""
    sorter = kwargs.get("sorter")
    return sorter is not None and sorter.numel() > 0


def _with_lengths(args: tuple, kwargs: dict, on_host: OnHost) -> bool:
    """Return whether the sums of lengths are checked (SegmentReduce.cpp)."""
    return kwargs.get("lengths") is not None and not kwargs.get("unsafe")


_CONDITIONS: dict[str, Callable[..., bool]] = {
    "always": _always,
    "without an output size": _without_output_size,
    "by the index": _by_index,
    "by numbers": _by_numbers,
    "by the layout": _by_layout,
    "without bounds": _without_bounds,
    "with a sorter": _with_sorter,
    "with lengths": _with_lengths,
}


def _read_waits() -> dict[Callable, Waits]:
    waits = {}
    for row in _data["waits"]:
        condition = partial(_CONDITIONS[row["when"]], **row.get("options", {}))
        for name in row["operators"]:
            packet, _, overload = name.partition(".")
            operator = getattr(getattr(aten, packet), overload or "default")
            for form in (operator, *_out_forms(operator)):
                waits[form] = condition
    return waits


def _out_forms(operator: OpOverload) -> list[OpOverload]:
    """Return the overloads that write what `operator` returns into tensors given as `out=`."""
    packet = operator.overloadpacket
    operands = _operands(operator)
    forms = []
    for name in packet.overloads():
        form = getattr(packet, name)
        if form is not operator and _operands(form) == operands:
            forms.append(form)
    return forms


def _operands(operator: OpOverload) -> list[tuple[str, str]]:
    """Return the name and the type of each argument that is no result."""
    arguments = schema_of(operator).arguments
    return [
        (argument.name, str(argument.type))
        for argument in arguments
        if not argument.is_out
    ]


# Operators that may make the host wait for the device: it has to know a value, or a size
# that depends on values, or whether a method converged. The function says whether it waits
# with certain arguments; `on_host` tells of a tensor whether it is in the host's memory.
WAITS = _read_waits()
