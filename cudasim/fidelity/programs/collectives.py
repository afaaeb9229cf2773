"""Collectives of NCCL in a group of one rank: what they take and refuse."""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed import ReduceOp

from fidelity.helpers import in_a_group


def tensors_in_pieces_are_refused():
    x = torch.ones(4, device="cuda")
    pieces = torch.ones(8, device="cuda")[::2]
    return in_a_group(
        lambda: dist.all_reduce(pieces),
        lambda: dist.broadcast(pieces, 0),
        lambda: dist.reduce(pieces, 0),
        lambda: dist.all_gather([x], pieces),
        lambda: dist.all_gather_into_tensor(pieces, x),
        lambda: dist.reduce_scatter(pieces, [x]),
        lambda: dist.reduce_scatter_tensor(x, pieces),
        lambda: dist.all_to_all_single(x, pieces),
        lambda: dist.all_reduce(torch.ones(2, 3, device="cuda").t()),
        lambda: dist.all_reduce_coalesced([x, pieces]),
        lambda: dist.all_reduce(x.to_sparse()),
    )


def layouts_that_are_taken():
    x = torch.ones(4, device="cuda")
    image = torch.ones(2, 3, 4, 5, device="cuda")
    return in_a_group(
        lambda: dist.all_reduce_coalesced([x, torch.ones(2, 3, device="cuda")]),
        lambda: dist.all_reduce(image.to(memory_format=torch.channels_last)),
        lambda: dist.all_reduce(x.to(torch.complex64)),  # as pairs
    )


def types_that_are_refused():
    x = torch.ones(4, device="cuda")
    return in_a_group(
        lambda: dist.all_reduce(x.to(torch.int16)),
        lambda: dist.all_gather([x.to(torch.uint16)], x.to(torch.uint16)),
        lambda: dist.all_to_all_single(x.to(torch.uint32), x.to(torch.uint32)),
        lambda: functional.all_reduce(x.to(torch.int16), "avg", dist.group.WORLD),
        lambda: dist.gather(x.to(torch.complex64), [x.to(torch.complex64)]),
        lambda: dist.all_gather_into_tensor(x.int(), x),
    )


def reductions_that_are_refused():
    x = torch.ones(4, device="cuda")
    return in_a_group(
        lambda: dist.all_reduce(x.int(), op=ReduceOp.BXOR),
        lambda: functional.all_reduce(x.int(), "band", dist.group.WORLD),
        lambda: dist.all_reduce(x.bool(), op=ReduceOp.AVG),
        lambda: functional.all_reduce(x.bool(), "avg", dist.group.WORLD),
        lambda: dist.all_reduce(x.int(), op=dist._make_nccl_premul_sum(2.0)),
    )


def what_is_on_the_cpu_or_from_anybody():
    x = torch.ones(4)
    return in_a_group(
        lambda: dist.all_reduce(x),
        lambda: functional.all_reduce(x, "avg", dist.group.WORLD),
        lambda: dist.recv(x.cuda()),
    )
