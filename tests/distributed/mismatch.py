"""Two ranks call collectives that do not fit: `mismatch.py shape`, or `mismatch.py order`."""

import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
if sys.argv[1] == "shape":
    dist.all_reduce(torch.ones(4 + rank))
elif rank == 0:
    dist.all_reduce(torch.ones(4))
else:
    dist.broadcast(torch.ones(4), src=0)
