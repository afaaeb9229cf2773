"""The functional collectives, with which DTensor and compiled programs communicate.

Their operators call those of `operators` in C++, where no dispatch mode sees them.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from cudasim.backends.cuda.distributed.clocks import book_functional
from cudasim.backends.cuda.distributed.fingerprints import KINDS, Request
from cudasim.backends.cuda.distributed.operators import meet
from cudasim.backends.cuda.distributed.refusals import refuse_devices, refuse_named, refuse_types
from cudasim.dispatch.arguments import tensors_in
from cudasim.dispatch.placement import run
from cudasim.dispatch.rules import rule
from cudasim.dispatch.tags import gpu_of
from cudasim.session import session

# Operator -> the one of `torch.ops.c10d` that does its work.
UNDERLYING = {
    "all_reduce": "allreduce_",
    "all_reduce_": "allreduce_",
    "all_reduce_coalesced": "allreduce_coalesced_",
    "all_reduce_coalesced_": "allreduce_coalesced_",
    "all_gather_into_tensor": "_allgather_base_",
    "all_gather_into_tensor_out": "_allgather_base_",
    "all_gather_into_tensor_coalesced": "allgather_into_tensor_coalesced_",
    "reduce_scatter_tensor": "_reduce_scatter_base_",
    "reduce_scatter_tensor_out": "_reduce_scatter_base_",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_tensor_coalesced_",
    "all_to_all_single": "alltoall_base_",
    "broadcast": "broadcast_",
    "broadcast_": "broadcast_",
}


def functional(func: Callable, args: tuple, kwargs: dict) -> Any:
    """A functional collective: checked as its operator of `torch.ops.c10d` is, then run.

    An average is a sum and a division, as gloo has none.
    """
    given = dict(zip((argument.name for argument in func._schema.arguments), args, strict=False))
    group = given["group_name"]
    roll = session.rolls.get(getattr(group, "group_name", group))
    tensors = tensors_in((args[0],))
    if roll is not None and gpu_of(tensors[0]) is None and "cpu" not in session.groups[roll.name]:
        raise RuntimeError("No backend type associated with device type cpu")
    if roll is None or gpu_of(tensors[0]) is None:
        return run(func, args, kwargs, tensors_in((*args, *kwargs.values())))
    name = UNDERLYING[func._schema.name.removeprefix("_c10d_functional::")]
    refuse_devices(tensors, roll.bound)
    refuse_types(name, tensors)
    op = given.get("reduce_op")
    if op is not None:
        refuse_named(op.upper(), tensors[0])
    kind = KINDS[name]
    compared = [] if kind.compared is None else tensors
    meet(roll, Request(kind, tensors, compared, given.get("src")), gpu_of(tensors[0]))
    book_functional(roll, name, tensors, gpu_of(tensors[0]).index)
    if op != "avg":
        return run(func, args, kwargs, tensors_in((*args, *kwargs.values())))
    args = tuple("sum" if value is op else value for value in args)
    out = run(func, args, kwargs, tensors_in((*args, *kwargs.values())))
    for tensor in tensors_in((out,)):
        torch.ops._c10d_functional.wait_tensor(tensor).div_(roll.size)
    return out


if dist.is_available():
    for _name in UNDERLYING:
        if hasattr(torch.ops._c10d_functional, _name):
            rule(getattr(torch.ops._c10d_functional, _name).default)(functional)
