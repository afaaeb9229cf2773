"""What the machine beside the GPU can do, and what calls cost it, in the keys of `timing/hosts`."""

import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from calibration.stopwatch import Stopwatch

PYTHON = 0.4  # of a call: the line of Python, which cannot be timed alone; as in `timing/hosts`
TENTH = ("float16", "bfloat16")  # precisions without fast units: assumed, not measured
KERNEL = 500e-6  # seconds to load a kernel when it is first used: assumed
LEAST = 1e-9  # seconds: a sheet has positive figures only


def host(watch: Stopwatch, submit: float, first: dict[str, float], quick: bool) -> dict:
    """The figures of a host; `submit` is a whole call on the GPU, `first` what is loaded once."""
    x, there = torch.rand(8), torch.rand(8, 8, device=watch.device)
    image = torch.rand(1, 8, 8, 8, device=watch.device)
    operation = watch.host(lambda: x + x)
    view = watch.host(lambda: x.view(-1))
    python = PYTHON * operation
    setup = {
        kind: max(LEAST, watch.host(work) - submit)
        for kind, work in {
            "matmul": lambda: there @ there,
            "convolution": lambda: functional.conv2d(image, image),
            "reduction": lambda: there.softmax(-1),
        }.items()
    }
    stacks = [watch.host(lambda n=n: torch.stack([x] * n)) for n in (1, 33)]
    runs = [watch.host(backward(there, n)) for n in (1, 9)]
    steps = [watch.host(optimizer(watch.device, n)) for n in (1, 11)]
    node = (runs[1] - runs[0]) / 8 - (submit - python)
    parameter = (steps[1] - steps[0]) / 10
    size, same = 512 if quick else 4096, nn.Identity()
    block, square = torch.rand(2**20 if quick else 2**26), torch.rand(size, size)
    peak = {
        str(each.dtype).removeprefix("torch."): 2
        * size**3
        / watch.both(lambda a=each: a @ a)
        for each in (square, square.double())
    }
    figures = {
        "operation": operation,
        "python": python,
        "view": view,
        "operand": (stacks[1] - stacks[0]) / 32,
        "module": watch.host(lambda: same(x)),
        "node": node,
        "backward": runs[0] - 2 * node - (submit - python),  # a product, and a leaf
        "parameter": parameter,
        "step": steps[0] - parameter - 2 * view,  # its name, for the profiler
        "bandwidth": 2 * block.nbytes / watch.both(block.clone),
        "clock": watch.host(time.perf_counter),
        "loop": watch.host(lambda: None),
    }
    return {
        "name": "the machine of the card",
        **{name: max(LEAST, figure) for name, figure in figures.items()},
        "setup": setup | {"attention": 2 * setup["matmul"]},
        "peak": peak | dict.fromkeys(TENTH, peak["float32"] / 10),
        "first": first | {"kernel": KERNEL},
    }


def backward(there: Tensor, products: int) -> Callable[[], object]:
    """A run through a graph of so many products and a leaf."""
    x = y = there.clone().requires_grad_()
    for _ in range(products):
        y = y * 2
    return lambda: torch.autograd.grad(y, x, there, retain_graph=True)


def optimizer(device: torch.device, parameters: int) -> Callable[[], object]:
    """A step with so many parameters, none of which has a gradient."""
    return torch.optim.SGD(
        [torch.rand(8, device=device) for _ in range(parameters)], 0.1
    ).step
