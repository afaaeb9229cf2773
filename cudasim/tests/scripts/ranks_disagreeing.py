"""Two ranks ask for different collectives.

No name holds the group: it ends in `destroy_process_group`, and its thread with it. A group that
outlives that lets gloo's thread drop a tensor while the interpreter ends, and PyTorch aborts.
"""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from ranks import join, rank, report

gpu = join()


def ones(*shape, dtype=torch.float32):
    return torch.ones(*shape, dtype=dtype, device=gpu)


def different_types():
    dtypes = torch.float32, torch.int32
    dist.all_reduce(ones(4, dtype=dtypes[rank]))


def different_collectives():
    if rank == 0:
        dist.broadcast(ones(4), 0)
    else:
        dist.all_reduce(ones(4))


def a_barrier_and_a_collective():
    if rank == 0:
        dist.all_reduce(ones(4))
    else:
        dist.barrier()


def functional_sizes():
    functional.all_reduce(ones(4 + rank), "sum", dist.group.WORLD)


def functional_rows():
    functional.all_gather_tensor(ones(4 + rank, 2), 0, dist.group.WORLD)


def shapes_of_as_many_numbers():
    shapes = (2, 3), (3, 2)
    dist.all_reduce(ones(shapes[rank]))


def gather_parts_of_different_sizes():
    dist.all_gather([ones(1), ones(2)], ones(1 + rank))


def gather_into_different_sizes():
    dist.all_gather([ones(1 + 2 * rank), ones(2)], ones(1 + rank))


report("shape", lambda: dist.all_reduce(ones(4 + rank)))
report("type", different_types)
report("order", different_collectives)
report("root", lambda: dist.broadcast(ones(4), rank))
report("barrier", a_barrier_and_a_collective)
report("functional", functional_sizes)
report("rows", functional_rows)
report("apart", gather_into_different_sizes)

# What may differ.
report("same", shapes_of_as_many_numbers)
report("list", gather_parts_of_different_sizes)

x = ones(1)
for _ in range(200):  # more than are kept in the store
    dist.all_reduce(x)
report("after", lambda: dist.all_reduce(ones(4)))
dist.destroy_process_group()
