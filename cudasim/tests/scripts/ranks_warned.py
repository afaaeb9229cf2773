"""Two ranks pass on messages in ways that C++ warns of, and leave the group: `lazy | eager`."""

import sys
import warnings

import torch
import torch.distributed as dist
from ranks import join, rank

gpu = torch.device("cuda", rank)
join(**({"device_id": gpu} if "eager" in sys.argv else {}))
warnings.simplefilter("error")  # these are not Python's
for _ in range(2):
    column = torch.ones(2, 3, device=gpu).t()
    if rank == 0:
        dist.send(column, 1)
    else:
        dist.recv(column, 0)
