"""Train with DistributedDataParallel, and gather the timelines of both ranks."""

import torch
from modelled_ranks import answer, gpu, join, meet, rank, spans_of
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import cudasim

join()
torch.manual_seed(0)
layers = [nn.Linear(512, 512) for _ in range(6)]
net = DistributedDataParallel(nn.Sequential(*layers).to(gpu), bucket_cap_mb=2)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
X = torch.ones(2048 + 2048 * rank, 512, device=gpu)  # rank 1 has twice the work


def step():
    optimizer.zero_grad()
    net(X).sum().backward()
    optimizer.step()


step()
step()
meet()
with cudasim.timeline() as own:
    step()
    torch.cuda.synchronize()
both = own.gather()
if rank == 0:
    both.save("ranks.json")
answer(
    own=spans_of(own),
    both=spans_of(both),
    text=str(both),
    busy=both.busy("rank 1: cuda:1"),
)
