"""Random operations on a GPU draw from that GPU's generator, never from the CPU's."""

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from cudasim.device.generator import find
from cudasim.device.gpu import GPU
from cudasim.session import session
from cudasim.torch_private.operators import has_schema, schema_of
from cudasim.torch_private.tensors import CppGenerator

# How an operation draws: not at all, from its argument `generator`, or from the default one.
PLAIN, NAMED, GLOBAL = range(3)

_WRONG_GENERATOR = "Expected a '{}' device type for generator but found '{}'"
_default_generator_lock = threading.Lock()


@functools.cache
def kind(func: Callable) -> int:
    """Return how `func` draws random numbers: PLAIN, NAMED or GLOBAL."""
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return PLAIN
    names = [argument.name for argument in schema_of(func).arguments]
    return NAMED if "generator" in names else GLOBAL


@functools.cache
def _generator_position(func: Callable) -> int | None:
    if not has_schema(func):
        return None
    names = [argument.name for argument in schema_of(func).arguments]
    return names.index("generator") if "generator" in names else None


def given_generator(func: Callable, args: tuple, kwargs: dict) -> CppGenerator | None:
    """Return the generator that the program named, by its place or by its name."""
    position = _generator_position(func)
    if position is not None and position < len(args):
        return args[position]
    return kwargs.get("generator")


def wrong_generator(expected: str, found: str) -> RuntimeError:
    """Return PyTorch's error for a generator of another type of device."""
    return RuntimeError(_WRONG_GENERATOR.format(expected, found))


def source(gpu: GPU, given: CppGenerator | None) -> CppGenerator:
    """Return the CPU generator that one operation on `gpu` draws from.

    `given` is the generator that the program named. Raises RuntimeError if it belongs to
    the CPU.
    """
    generator = gpu.generator if given is None else find(given)
    if generator is None:
        raise wrong_generator(session.type.name, "cpu")
    return generator.draw()


def new_seed(gpu: GPU) -> int:
    """Return a seed from the generator of `gpu`, for an operation that keeps it in a tensor."""
    return gpu.generator.draw().initial_seed() % 2**63


def draw(
    func: Callable,
    args: tuple,
    kwargs: dict,
    gpu: GPU,
    compute: Callable | None = None,
) -> Any:
    """Run `func` on the CPU, with random numbers from the stream of `gpu`.

    If `compute` is given, it is called in the place of `func`.
    """
    compute = compute or func
    drawing = kind(func)
    if drawing == PLAIN:
        return compute(*args, **kwargs)
    if drawing == NAMED:
        generator = source(gpu, given_generator(func, args, kwargs))
        position = _generator_position(func)
        if position < len(args):
            return compute(*args[:position], generator, *args[position + 1 :], **kwargs)
        return compute(*args, **{**kwargs, "generator": generator})
    with default_seeded(gpu.generator.draw().initial_seed()):
        return compute(*args, **kwargs)


@contextmanager
def default_seeded(seed: int) -> Iterator[None]:
    """Lend the CPU's default generator, seeded with `seed`, to an operation of a GPU."""
    default = torch.default_generator
    with _default_generator_lock:
        state = default.get_state()
        default.manual_seed(seed)
        try:
            yield
        finally:
            default.set_state(state)
