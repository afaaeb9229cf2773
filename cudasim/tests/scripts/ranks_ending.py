"""Python ends while the threads of gloo want its lock, to let go of tensors."""

import sys
import time

import torch
import torch.distributed as dist
from ranks import join

join()
held = dist.group.WORLD  # so that the threads of gloo live on
dist.barrier()
x = torch.ones(4, device="cuda")
sys.setswitchinterval(60)  # none of them gets Python's lock unless it is given to them
for _ in range(20):
    dist.all_reduce(x.clone(), async_op=True)
dist.destroy_process_group()

end = time.perf_counter() + 0.2  # by now they want it
while time.perf_counter() < end:
    pass
