"""Collectives whose parts have different sizes, and averages of integers and truths."""

import torch
import torch.distributed as dist
from ranks import join, rank

gpu = join()


def exchange_parts():
    own = [torch.full((1,), float(rank), device=gpu)]
    own.append(torch.full((2,), float(rank), device=gpu))
    parts = [torch.empty(rank + 1, device=gpu), torch.empty(rank + 1, device=gpu)]
    dist.all_to_all(parts, own)
    expected = [[[0], [1]], [[0, 0], [1, 1]]]
    assert [part.tolist() for part in parts] == expected[rank]


def scatter_sums():
    part = torch.empty(rank + 1, device=gpu)
    ones = [torch.ones(1, device=gpu), torch.ones(2, device=gpu)]
    dist.reduce_scatter(part, ones)
    expected = [[2], [2, 2]]
    assert part.tolist() == expected[rank]
    assert part.device == gpu


def reduce_truths_and_integers():
    truths = torch.tensor([rank == 1, False], device=gpu)
    dist.all_reduce(truths)
    assert truths.tolist() == [True, False]

    integers = torch.tensor([3, -4 * rank], device=gpu)
    dist.all_reduce(integers, op=dist.ReduceOp.AVG)
    assert integers.tolist() == [3, -2]


exchange_parts()
scatter_sums()
reduce_truths_and_integers()
dist.destroy_process_group()
