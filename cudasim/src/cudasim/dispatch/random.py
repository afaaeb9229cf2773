"""Random operations draw from the generator of their own GPU, never from the CPU's."""

import functools
import threading
from collections.abc import Callable
from typing import Any

import torch

from cudasim.device.generator import find
from cudasim.device.gpu import GPU
from cudasim.session import session

WRONG = "Expected a '{}' device type for generator but found '{}'"
PLAIN, NAMED, GLOBAL = range(
    3
)  # draws nothing; takes `generator=`; draws from the default one
_borrowed = threading.Lock()  # held while an operation has the CPU's default generator


@functools.cache
def kind(func: Callable) -> int:
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return PLAIN
    named = any(argument.name == "generator" for argument in func._schema.arguments)
    return NAMED if named else GLOBAL


def source(gpu: GPU, given: torch._C.Generator | None) -> torch._C.Generator:
    chosen = gpu.generator if given is None else find(given)
    if chosen is None:
        raise RuntimeError(WRONG.format(session.type.name, "cpu"))
    return chosen.draw()


def draw(func: Callable, args: tuple, kwargs: dict, gpu: GPU) -> Any:
    """Run `func` on the CPU; what it draws, it draws from the stream of `gpu`."""
    how = kind(func)
    if how == PLAIN:
        return func(*args, **kwargs)
    if how == NAMED:
        return func(
            *args, **{**kwargs, "generator": source(gpu, kwargs.get("generator"))}
        )
    default = torch.default_generator
    with _borrowed:
        before = default.get_state()
        default.manual_seed(gpu.generator.draw().initial_seed())
        try:
            return func(*args, **kwargs)
        finally:
            default.set_state(before)
