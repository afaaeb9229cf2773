"""Start processes in three ways, each of which computes on a GPU: `[enable]`.

With `enable` the simulation begins in this file; else it must be there already.
"""

import sys

import torch

if "enable" in sys.argv:
    import cudasim

    cudasim.enable(gpus=2)


def compute(number, queue):
    x = torch.full((2,), float(number), device="cuda:1")
    queue.put((str(x.device), (x + 1).tolist()))


if __name__ == "__main__":
    for method in ("fork", "spawn"):
        context = torch.multiprocessing.get_context(method)
        queue = context.SimpleQueue()
        process = context.Process(target=compute, args=(4, queue))
        process.start()
        print(method, queue.get())
        process.join()

    torch.multiprocessing.spawn(compute, (queue,), nprocs=2)
    print(sorted([queue.get(), queue.get()]))
