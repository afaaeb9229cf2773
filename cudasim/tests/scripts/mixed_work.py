"""Train, copy, compute on several streams and GPUs, and print times: `THREADS`.

Whatever the number of the CPU's threads, the modelled times are the same to the nanosecond.
"""

import sys
import time
import timeit

import torch
from torch import nn

import cudasim

torch.set_num_threads(int(sys.argv[1]))
cudasim.enable(gpus=2, card="T4", clock="modelled")
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).cuda()
optimizer = torch.optim.Adam(net.parameters())
for _ in range(6):
    X = torch.randn(256, 64).pin_memory()
    y = torch.arange(256, device="cuda") % 10
    scores = net(X.cuda(non_blocking=True))
    loss = nn.functional.cross_entropy(scores, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

with torch.cuda.stream(torch.cuda.Stream()):
    matrix = torch.randn(512, 512, device="cuda")
    (matrix @ matrix).to("cuda:1")
seconds = timeit.timeit("x + 1", globals={"x": matrix}, number=100)
print(time.perf_counter_ns(), seconds)

batch = torch.randn(64, 64, device="cuda")
nn.DataParallel(net)(batch).sum().backward()
torch.cuda.synchronize()
spans = cudasim.timeline().spans
print(time.time_ns(), len(spans), cudasim.without_rule())
