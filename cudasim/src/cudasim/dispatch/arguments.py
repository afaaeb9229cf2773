"""The tensors among the arguments of an operation."""

import functools
from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor

LISTS = (list, tuple)


def tensors_in(values: Iterable[Any]) -> list[Tensor]:
    found = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, LISTS) and value and type(value[0]) is not int:
            found += tensors_in(value)
    return found


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """`value` with what `function` gives for each part of it, in lists and dictionaries too."""
    if type(value) in LISTS:
        return type(value)([mapped(function, item) for item in value])
    if type(value) is dict:
        return {name: mapped(function, item) for name, item in value.items()}
    return function(value)


def named_tensors(
    func: Callable, args: tuple, kwargs: dict
) -> list[tuple[str, Tensor]]:
    by_name = given(func, args, kwargs).items()
    return [
        (name, tensor) for name, value in by_name for tensor in tensors_in((value,))
    ]


def mapped_tensors(function: Callable[[Tensor], Any], value: Any) -> Any:
    return mapped(
        lambda item: function(item) if isinstance(item, Tensor) else item, value
    )


def given(func: Callable, args: tuple, kwargs: dict) -> dict[str, Any]:
    return {**dict(zip(defaults_of(func), args, strict=False)), **kwargs}


@functools.cache
def defaults_of(func: Callable) -> dict[str, Any]:
    """The names of the arguments of `func`, with their values if they are left out, or None."""
    return {
        argument.name: argument.default_value for argument in func._schema.arguments
    }
