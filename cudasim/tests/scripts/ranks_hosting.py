"""Two ranks use one GPU, and rank 0, which hosts the store, ends at once upon the error.

Argument: `collective` or `message`. Rank 1 is slow to read what rank 0 has told it.
"""

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from ranks import rank, report

PORT = Path("port")
read = dist.PrefixStore.multi_get


def read_late(*args):
    time.sleep(1)
    return read(*args)


def meet():
    x = torch.ones(4, device="cuda:0")
    if "collective" in sys.argv:
        dist.all_reduce(x)
    elif rank == 0:
        dist.send(x, 1)
    else:
        dist.recv(x, 0)


if rank == 0:
    store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    Path("unfinished").write_text(str(store.port))
    Path("unfinished").rename(PORT)
else:
    dist.PrefixStore.multi_get = read_late
    while not PORT.exists():
        time.sleep(0.01)
    store = dist.TCPStore("localhost", int(PORT.read_text()))
dist.init_process_group("nccl", store=store, rank=rank, world_size=2)
report("meet", meet)
os._exit(0)
