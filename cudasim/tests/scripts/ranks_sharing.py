"""Two ranks use one GPU, in one collective after the other, then a GPU each."""

import os
import sys

import torch
import torch.distributed as dist
from ranks import rank, report

SHARED = torch.device("cuda:0")


def begin_eagerly():
    dist.init_process_group("nccl", device_id=SHARED)
    dist.destroy_process_group()


def pass_on(x):
    if rank == 0:
        dist.send(x, 1)
    else:
        dist.recv(x, 0)


def reduce_on_own_gpu():
    own = torch.device("cuda", rank)
    dist.all_reduce(torch.ones(4, device=own))


def reduce_alone(x):
    groups = [dist.new_group([0]), dist.new_group([1])]
    dist.all_reduce(x, group=groups[rank])


if "two servers" in sys.argv:
    # One machine that plays two servers, each with GPUs of its own. Source:
    # https://rocm.docs.amd.com/projects/rccl/en/develop/api-reference/env-variables.html
    os.environ["NCCL_HOSTID"] = f"server {rank}"

torch.cuda.set_device(SHARED)
if "eager" in sys.argv:
    report("begin", begin_eagerly)
    sys.exit()

dist.init_process_group("nccl")
x = torch.ones(4, device=SHARED)
report("send", lambda: pass_on(x))
report("barrier", dist.barrier)
report("reduce", lambda: dist.all_reduce(x))
report("apart", reduce_on_own_gpu)
report("alone", lambda: reduce_alone(x))
dist.destroy_process_group()
