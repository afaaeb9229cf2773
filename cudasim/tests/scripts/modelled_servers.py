"""Time a collective of two ranks on two servers, then ask for what is refused."""

import os

import torch
import torch.distributed as dist
from modelled_ranks import answer, gpu, join, rank, spans_of

import cudasim
from cudasim.clock.clock import Span


def error_of(call):
    try:
        call()
    except (ValueError, RuntimeError) as error:
        return str(error)
    return "no error"


join()
os.environ["GROUP_RANK"] = str(rank)  # as two agents of torchrun set it
x = torch.ones(2**22, device=gpu)
torch.cuda.synchronize()
with cudasim.timeline() as timeline:
    dist.all_reduce(x)
    torch.cuda.synchronize()
spans = spans_of(timeline)

os.environ["CUDASIM_NETWORK"] = "string"
of_network = error_of(lambda: dist.all_reduce(x))
measured = Span("Python", "mm", 0, 5, "operation")
timeline.fill([measured], "measured on a card")
of_gather = error_of(timeline.gather)
answer(spans=spans, of_network=of_network, of_gather=of_gather)
