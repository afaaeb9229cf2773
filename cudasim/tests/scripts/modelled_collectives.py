"""Time collectives whose ranks come late, or that run beside a product or in halves."""

import time

import torch
import torch.distributed as dist
from modelled_ranks import answer, gpu, join, meet, rank, spans_of

import cudasim


def reduce_with_a_late_rank(x):
    if rank == 1:
        time.sleep(0.25)
    with cudasim.timeline() as timeline:
        dist.all_reduce(x)
        x * 2
        torch.cuda.synchronize()
    return timeline


def reduce_beside_a_product(x):
    """Return the timeline, and the seconds that the host waits for the collective."""
    matrix = torch.ones(2000, 2000, device=gpu)
    matrix @ matrix
    meet()
    with cudasim.timeline() as timeline:
        work = dist.all_reduce(x, async_op=True)
        matrix @ matrix
        begin = time.perf_counter()
        work.wait()
        waited = time.perf_counter() - begin
        x * 3
        torch.cuda.synchronize()
    return timeline, waited


def reduce_in_halves(x):
    half = torch.empty(2**21, device=gpu)
    dist.barrier()
    with cudasim.timeline() as timeline:
        dist.reduce_scatter_tensor(half, x)
        dist.all_gather_into_tensor(x, half)
        torch.cuda.synchronize()
    return timeline


def barrier_with_a_late_rank():
    with cudasim.timeline() as timeline:
        if rank == 0:
            time.sleep(0.1)
        dist.barrier()
    return timeline


join()
x = torch.ones(2**22, device=gpu)
meet()
plain = reduce_with_a_late_rank(x)
dist.barrier()
beside, waited = reduce_beside_a_product(x)
halves = reduce_in_halves(x)
dist.barrier()
barrier = barrier_with_a_late_rank()
answer(
    plain=spans_of(plain),
    beside=spans_of(beside),
    waited=waited,
    halves=spans_of(halves),
    barrier=spans_of(barrier),
)
