"""Time a message from rank 0 to rank 1, then two messages that cross."""

import time

import torch
import torch.distributed as dist
from modelled_ranks import answer, gpu, join, meet, rank, spans_of

import cudasim

join()
x = torch.full((2**22,), float(rank), device=gpu)
received = torch.empty_like(x)
meet()
with cudasim.timeline() as one_way:
    if rank == 0:
        time.sleep(0.1)
        dist.send(x, 1)
    else:
        dist.recv(x, 0)
        x += 1
    torch.cuda.synchronize()

dist.barrier()
with cudasim.timeline() as both_ways:
    messages = [
        dist.P2POp(dist.isend, x, 1 - rank),
        dist.P2POp(dist.irecv, received, 1 - rank),
    ]
    for work in dist.batch_isend_irecv(messages):
        work.wait()
    received += 1
    torch.cuda.synchronize()
answer(
    one_way=spans_of(one_way),
    both_ways=spans_of(both_ways),
    values=[x[0].item(), received[0].item()],
)
