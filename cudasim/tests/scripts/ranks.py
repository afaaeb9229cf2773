"""What scripts that run as ranks share: which rank this is, and how it reports."""

import os

import torch
import torch.distributed as dist

rank = int(os.environ["RANK"])


def join(**options):
    """Begin a process group of NCCL on this rank's GPU, and return the GPU."""
    gpu = torch.device("cuda", rank)
    torch.cuda.set_device(gpu)
    dist.init_process_group("nccl", **options)
    return gpu


def report(name, call):
    """Print the error of `call` on one line, or "nothing" if there is none."""
    try:
        call()
    except Exception as error:
        lines = [str(error), *getattr(error, "__notes__", [])]
        text = "\n".join(lines).replace("\n", " / ")
        outcome = f"{type(error).__name__}: {text}"
    else:
        outcome = "nothing"

    # In one piece, whatever the other process prints.
    line = f"rank {rank}: {name}: {outcome}\n"
    os.write(1, line.encode())


def assert_equal_everywhere(tensors):
    """Assert that each tensor has the same values in both ranks."""
    for tensor in tensors:
        first = torch.empty_like(tensor)
        second = torch.empty_like(tensor)
        dist.all_gather([first, second], tensor.detach())
        assert torch.equal(first, second)
