"""Each rank sees one GPU, as its first: `NUMBER NUMBER`, of the GPU of each rank."""

import os
import sys

import torch
import torch.distributed as dist
from ranks import rank, report

os.environ["CUDA_VISIBLE_DEVICES"] = sys.argv[1 + rank]
dist.init_process_group("nccl")
report("reduce", lambda: dist.all_reduce(torch.ones(2, device="cuda:0")))
dist.destroy_process_group()
