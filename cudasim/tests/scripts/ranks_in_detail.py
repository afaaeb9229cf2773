"""Two ranks ask for different collectives, with TORCH_DISTRIBUTED_DEBUG=DETAIL.

They do so with the CPU first, where gloo's group is wrapped by PyTorch itself.
"""

import torch
import torch.distributed as dist
from ranks import join, rank, report

dist.set_debug_level_from_env()  # as PyTorch does when it is imported
gpu = join()
on_cpu = dist.new_group(backend="gloo")


def reports_of(group, device):
    def ones(*shape, dtype=torch.float32):
        return torch.ones(*shape, dtype=dtype, device=device)

    def reduce_or_broadcast():
        if rank == 0:
            dist.all_reduce(ones(4), group=group)
        else:
            dist.broadcast(ones(4), 0, group=group)

    def reduce_or_wait():
        if rank == 0:
            dist.all_reduce(ones(4), group=group)
        else:
            dist.barrier(group=group)

    def gather():
        parts = [ones(4 + rank), ones(4 + rank)]
        dist.all_gather(parts, ones(4 + rank), group=group)

    dtypes = torch.float32, torch.float64
    shapes = (2, 3), (3, 2)
    name = torch.device(device).type
    dist.all_reduce(ones(4), group=group)
    report(f"{name} size", lambda: dist.all_reduce(ones(4 + rank), group=group))
    report(
        f"{name} type",
        lambda: dist.all_reduce(ones(4, dtype=dtypes[rank]), group=group),
    )
    report(f"{name} shape", lambda: dist.all_reduce(ones(shapes[rank]), group=group))
    report(f"{name} kind", reduce_or_broadcast)
    report(f"{name} barrier", reduce_or_wait)
    report(f"{name} gather", gather)
    report(f"{name} equal", lambda: dist.all_reduce(ones(4), group=group))


reports_of(on_cpu, "cpu")
reports_of(dist.group.WORLD, gpu)
report("cuda root", lambda: dist.broadcast(torch.ones(4, device=gpu), rank))

model = torch.nn.Linear(2, 2).to(gpu)
replica = torch.nn.parallel.DistributedDataParallel(model)
replica(torch.ones(1, 2, device=gpu)).sum().backward()
report("trained", lambda: None)
del on_cpu, replica
dist.destroy_process_group()
