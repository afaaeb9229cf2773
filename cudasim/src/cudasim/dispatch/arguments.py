"""Helpers that find and replace the tensors among the arguments of an operation."""

import functools
from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor

from cudasim.torch_private.operators import schema_of

SEQUENCES = (list, tuple)


def tensors_in(values: Iterable[Any]) -> list[Tensor]:
    """Return the tensors among `values`, with those in lists and tuples."""
    tensors = []
    for value in values:
        if isinstance(value, Tensor):
            tensors.append(value)
        # A sequence that begins with an int is a shape, and need not be searched.
        elif isinstance(value, SEQUENCES) and value and type(value[0]) is not int:
            tensors += tensors_in(value)
    return tensors


def operands_of(args: tuple, kwargs: dict) -> list[Tensor]:
    """Return the tensors among the arguments of a call."""
    return tensors_in((*args, *kwargs.values()))


def map_leaves(function: Callable[[Any], Any], value: Any) -> Any:
    """Return `value` with `function` applied to each leaf of its lists and dicts."""
    if type(value) in SEQUENCES:
        return type(value)([map_leaves(function, item) for item in value])
    if type(value) is dict:
        return {name: map_leaves(function, item) for name, item in value.items()}
    return function(value)


def map_tensors(function: Callable[[Tensor], Any], value: Any) -> Any:
    """Return `value` with `function` applied to each tensor in it."""

    def map_leaf(leaf: Any) -> Any:
        return function(leaf) if isinstance(leaf, Tensor) else leaf

    return map_leaves(map_leaf, value)


def arguments_by_name(func: Callable, args: tuple, kwargs: dict) -> dict[str, Any]:
    """Return the arguments of a call by name, without those that were left out."""
    positional = dict(zip(default_arguments(func), args, strict=False))
    return positional | kwargs


def all_arguments(func: Callable, args: tuple, kwargs: dict) -> dict[str, Any]:
    """Return the arguments of a call by name, with the defaults of those left out."""
    return default_arguments(func) | arguments_by_name(func, args, kwargs)


def tensors_by_name(
    func: Callable, args: tuple, kwargs: dict
) -> list[tuple[str, Tensor]]:
    """Return the tensors of a call, each with the name of its argument."""
    pairs = []
    for name, value in arguments_by_name(func, args, kwargs).items():
        for tensor in tensors_in((value,)):
            pairs.append((name, tensor))
    return pairs


@functools.cache
def default_arguments(func: Callable) -> dict[str, Any]:
    """Return the names of all arguments of `func` with their defaults, None if none."""
    arguments = schema_of(func).arguments
    return {argument.name: argument.default_value for argument in arguments}
