"""How fast a GPU computes and reads its memory: what was done, and the seconds that it took.

Flops, with the (batch, m, n, k) of products; or bytes.
"""

from collections.abc import Callable
from functools import partial
from math import prod

import torch
from torch.nn import functional

from calibration.machine import works
from calibration.stopwatch import Stopwatch, tf32

# Sizes of square products, of which the fastest counts: kernels differ in the shapes they like.
SQUARES = {False: (3072, 6144, 8192), True: (1024,)}
LONG = (
    0.05  # seconds: a card so slow in one precision is not asked for a larger product
)
IMAGES = {False: (32, 256, 56), True: (8, 64, 28)}  # number, channels, side
SEQUENCES = {
    False: (4, 16, 2048, 64),
    True: (2, 4, 512, 64),
}  # number, heads, length, width
ELEMENTS = {
    False: 2**27,
    True: 2**23,
}  # too many for any cache, except where it must be quick


def precisions(device: torch.device) -> dict[str, torch.dtype]:
    """The precisions that can be measured on the card, and the type of each.

    TF32 came with capability 8.0 (CUDA C++ Programming Guide, table of compute capabilities).
    """
    known = {
        name: getattr(torch, name)
        for name in ("float64", "float32", "float16", "bfloat16")
    }
    if torch.cuda.get_device_capability(device) >= (8, 0):
        known["tf32"] = torch.float32
    return known


def products(watch: Stopwatch, quick: bool) -> dict[str, dict]:
    """The square product with the most flop/s, by precision."""
    found = {}
    for name, type in precisions(watch.device).items():
        tried = []
        for size in SQUARES[quick]:
            a = torch.rand(size, size, device=watch.device).to(type)
            each = _measure(watch, "product", name, lambda a=a: a @ a, [1, *3 * [size]])
            tried += [each] if each else []
            if each is None or each["seconds"] > LONG:
                break
        if tried:
            found[name] = max(tried, key=lambda each: each["flops"] / each["seconds"])
    return found


def convolutions(watch: Stopwatch, quick: bool) -> dict[str, dict]:
    """3 x 3 convolutions, by precision; in 16 bits the channels come last, as cuDNN wants it."""
    number, channels, side = IMAGES[quick]
    shape = [1, number * side * side, channels, channels * 9]
    found = {}
    for name, type in precisions(watch.device).items():
        layout = torch.channels_last if type.itemsize == 2 else torch.contiguous_format
        x = torch.rand(number, channels, side, side, device=watch.device)
        w = torch.rand(channels, channels, 3, 3, device=watch.device)
        x, w = (each.to(type).contiguous(memory_format=layout) for each in (x, w))
        work = partial(functional.conv2d, x, w, padding=1)
        found[name] = _measure(watch, "convolution", name, work, shape)
    return {name: each for name, each in found.items() if each}


def attentions(watch: Stopwatch, quick: bool) -> dict[str, dict]:
    """Scaled dot-product attention without a mask, by precision."""
    number, heads, length, width = SEQUENCES[quick]
    flops = 4 * number * heads * length * length * width  # two products
    found = {}
    for name, type in precisions(watch.device).items():
        if name == "float64":
            continue
        x = torch.rand(number, heads, length, width, device=watch.device).to(type)
        work = partial(functional.scaled_dot_product_attention, x, x, x)
        found[name] = _measure(watch, "attention", name, work, None, flops)
    return {name: each for name, each in found.items() if each}


def _measure(
    watch: Stopwatch,
    kind: str,
    precision: str,
    work: Callable[[], object],
    shape: list[int] | None,
    flops: float | None = None,
) -> dict | None:
    """Flops, seconds and shape of `work`; None if the card cannot do it in this precision."""
    with tf32(precision == "tf32"):
        if precision != "float32" and not works(f"{kind} in {precision}", work):
            return None
        seconds = watch.card(work, 2)
    return {"flops": flops or 2 * prod(shape), "seconds": seconds, "shape": shape}


def memory(watch: Stopwatch, quick: bool) -> dict[str, dict]:
    """Operations that memory bounds, by kind: their bytes and seconds.

    The bytes are those that must be read and written; an operation that reads its input twice
    reaches less.
    """
    count = ELEMENTS[quick]
    x = torch.rand(count, device=watch.device)
    y = torch.empty_like(x)
    rows = x.view(-1, 1024)
    some = torch.randint(len(rows), (len(rows) // 2,), device=watch.device)
    size = x.numel() * x.element_size()
    works: dict[str, tuple[Callable[[], object], int]] = {
        "pointwise": (lambda: x * 2, 2 * size),
        "copy": (lambda: y.copy_(x), 2 * size),
        "reduction": (lambda: x.sum(), size),
        "softmax": (lambda: torch.softmax(rows, -1), 2 * size),
        "norm": (lambda: functional.layer_norm(rows, (1024,)), 2 * size),
        "gather": (lambda: rows[some], size + 8 * len(some)),
    }
    return {
        kind: {"bytes": moved, "seconds": watch.card(work, 4)}
        for kind, (work, moved) in works.items()
    }
