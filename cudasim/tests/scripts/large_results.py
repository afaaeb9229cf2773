"""Programs that make two GiB of results from little, on a card of which 256 MiB are allowed.

As a script: print what each was told, the most that it took of the host's memory, in MiB, and what
it left on the card, as JSON, by the names of the programs.
"""

import json
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import cudasim

N = 2**29  # numbers of four bytes


def ones(*shape):
    return torch.ones(*shape, device="cuda")


def empty():
    return torch.empty(0, device="cuda")


def sparse_vector():
    place = torch.zeros(1, 1, dtype=torch.int64)
    return torch.sparse_coo_tensor(place, [1.0], (N,)).cuda()


def sparse_eye():
    return torch.eye(2, device="cuda").to_sparse()


def many_rows():
    return nn.Linear(1, 2**14, device="cuda")(ones(2**15, 1))


def like_a_tensor_of_the_cpu():
    on_cpu = torch.ones(1).expand(N)
    return torch.ones_like(on_cpu, device="cuda")


def two_results():
    out = (empty(), empty().long())
    return torch.sort(ones(1).expand(N // 2), out=out)


PROGRAMS = {
    # Factories.
    "ones": lambda: ones(N),
    "empty": lambda: torch.empty(N, device="cuda").fill_(1),
    "arange": lambda: torch.arange(float(N), device="cuda"),
    "eye": lambda: torch.eye(2**15, device="cuda"),
    "new_ones": lambda: ones(1).new_ones(N),
    "like a tensor of the CPU": like_a_tensor_of_the_cpu,
    # Moves.
    "to": lambda: torch.ones(1).expand(N).cuda(),
    "to another type": lambda: ones(1).expand(N // 2).double(),
    # Operations.
    "broadcast": lambda: ones(2**15, 1) + ones(2**14),
    "diagonal": lambda: torch.diag(ones(2**15)),
    "product": lambda: ones(2**15, 1) @ ones(1, 2**14),
    "linear": many_rows,
    "repeat": lambda: ones(2**9).repeat(2**20),
    "cat": lambda: torch.cat([ones(1).expand(N // 2)] * 2),
    "pad": lambda: F.pad(ones(1, 1), (0, N)),
    "pad, of an empty tensor": lambda: F.pad(empty(), (0, N)),
    "product, over nothing": lambda: ones(2**15, 0) @ ones(0, 2**14),
    "sum, over nothing": lambda: ones(0, N).sum(0),
    "distances, over nothing": lambda: torch.cdist(ones(2**15, 0), ones(2**14, 0)),
    "upsample": lambda: F.interpolate(ones(1, 1, 2, 2), size=(2**15, 2**14)),
    "pooling": lambda: F.adaptive_max_pool2d(ones(1, 1, 2, 2), (2**15, 2**14)),
    "embedding": lambda: F.embedding(ones(2**15).int(), ones(2, 2**14)),
    "index": lambda: ones(1, 2**14)[ones(2**15).long() - 1],
    "places": lambda: ones(1).expand(N // 4).nonzero(),
    "convolution": lambda: F.conv1d(ones(2, 1, 2**12), ones(2**16, 1, 1)),
    "distances": lambda: torch.cdist(ones(2**15, 1), ones(2**14, 1)),
    "lists": lambda: torch._foreach_add([ones(1).expand(N)], 1),
    "blocks": lambda: torch.block_diag(ones(2**15, 1), ones(1, 2**14)),
    "dense": lambda: sparse_vector().to_dense(),
    "sparse product": lambda: sparse_eye() @ ones(2, 1).expand(2, N // 2),
    # Storages.
    "resize_": lambda: ones(1).resize_(N).fill_(1),
    "storage": lambda: torch.UntypedStorage(4 * N, device="cuda").fill_(1),
    "storage, resized": lambda: ones(1).untyped_storage().resize_(4 * N).fill_(1),
    # Results that are given.
    "ones, out": lambda: torch.ones(N, out=empty()),
    "sum, out": lambda: torch.add(ones(2**15, 1), ones(2**14), out=empty()),
    "cat, out": lambda: torch.cat([ones(1).expand(N // 2)] * 2, out=empty()),
    "two results, out": two_results,
}


def most_held():
    """Return the most MiB that this process has held since the last call."""
    status = Path("/proc/self/status").read_text()
    kib = int(status.split("VmHWM:")[1].split()[0])
    Path("/proc/self/clear_refs").write_text("5")
    return kib // 1024


def run(program):
    """Return the error of a program, the MiB that it took, and the bytes that it left."""
    most_held()
    before = most_held()
    error = "no error"
    try:
        program()
    except torch.OutOfMemoryError as refusal:
        error = str(refusal).split(".")[0]
    return error, most_held() - before, torch.cuda.memory_allocated()


def main():
    cudasim.enable(gpus=1, force=True)
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(256 * 2**20 / total)
    answers = {name: run(program) for name, program in PROGRAMS.items()}
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
