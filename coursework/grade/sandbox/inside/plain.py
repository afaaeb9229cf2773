"""Copies of what a student's code hands over, so that it says the same however often it is read.

An answer, and what it returns, may be an object of a class of the student's own: a list that gives
other elements the second time, a tensor that lies about its device. Every value passes through
`Plain` once: containers and numbers come out as Python's own types, read past any method that a
subclass has in the place of theirs, tensors as PyTorch's own.
"""

import json
import operator
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy
import torch

DEPTH, SIZE = (
    32,
    1 << 19,
)  # how deep data may be nested, and how many bytes of JSON it may be
BITS = 1024  # of the largest whole number
NUMBERS = (type(None), bool, int, float, complex, str, bytes)
# What cannot say two things: it is handed on as it is.
TENSORS = (torch.Tensor, torch.nn.Parameter)
SOLID = (
    *NUMBERS,
    range,
    type(...),
    Fraction,
    Decimal,
    torch.dtype,
    torch.layout,
    torch.Size,
)
SOLID += (torch.device, numpy.ndarray, *TENSORS)
# What of `torch.nn.Module` a class of a student's own may say anew: how it is made and called.
OWN_OF_A_MODULE = {
    "__init__",
    "forward",
    "extra_repr",
    "__module__",
    "__doc__",
    "__annotations__",
}


class NotData(Exception):
    """A value has no form that JSON holds, is too large, or cannot be read without its own code."""


class Call:
    """A function of the student's, or what is called like one: its results come out plain.

    Its attributes are there, plain as well. `guard` is entered around the call.
    """

    def __init__(self, function: Callable, plain: "Plain") -> None:
        object.__setattr__(self, "_function", function)
        object.__setattr__(self, "_plain", plain)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._plain.call(self._function, arguments, named)

    def __getattr__(self, name: str) -> Any:
        return self._plain.call(getattr, (self._function, name), {})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Call) and other._function is self._function

    def __hash__(self) -> int:
        return id(self._function)


class Lookup:
    """An object of the student's own class of which only items can be had: each is plain."""

    def __init__(self, items: Any, plain: "Plain") -> None:
        self._items, self._plain = items, plain

    def __getitem__(self, key: Any) -> Any:
        return self._plain.call(operator.getitem, (self._items, key), {})


class Plain:
    """Makes values plain. `run(function, arguments, named)` calls code of the student's, and
    `restore()` undoes what objects did as they went; classes that are not among those of
    `libraries` are the student's own."""

    def __init__(
        self,
        run: Callable[[Callable, tuple, dict], Any],
        restore: Callable[[], None],
        libraries: set[type],
    ) -> None:
        self._run, self._restore, self._libraries = run, restore, libraries

    def call(self, function: Callable, arguments: tuple, named: dict) -> Any:
        """Call a function of the student's; what it returns is made plain, and let go."""
        returned = self._run(function, arguments, named)
        plain = self(returned)
        del returned
        self._restore()
        return plain

    def steps(self, function: "Call", *arguments: Any) -> "Steps":
        """Begin a generator of the student's, to be sent values step by step."""
        return Steps(self._run(function._function, arguments, {}), self)

    def __call__(self, value: Any, depth: int = 0) -> Any:
        """A plain copy of `value`; a tensor is the same one. Raises NotData."""
        kind = type(value)
        if kind in TENSORS:
            uncover(value)
        if kind in SOLID or isinstance(value, numpy.generic):
            return value
        if depth >= DEPTH:
            raise NotData("nested too deep")
        if issubclass(kind, torch.Tensor):
            return self._tensor(value)
        if issubclass(kind, torch.nn.Module):
            return self._module(value)
        if issubclass(kind, numpy.ndarray):
            return numpy.ndarray.view(value, numpy.ndarray)
        if issubclass(kind, str | int | float):
            return number_or_text(value)
        if issubclass(kind, list | tuple | dict | set | frozenset):
            return self._container(value, depth)
        if kind in self._libraries:
            return self._of_a_library(value, depth)
        if callable(value):
            return Call(value, self)
        return self._own(value, depth)

    def _tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        with torch._C.DisableTorchFunctionSubclass():
            alias = tensor.as_subclass(torch.Tensor)
        uncover(alias)
        return alias

    def _module(self, module: torch.nn.Module) -> torch.nn.Module:
        """A module, if it and those within it have parameters and devices as PyTorch keeps them."""
        for part in torch.nn.Module.modules(module):
            uncover(part)
            for weight in part._parameters.values():
                uncover(weight)
            for kind in type(part).__mro__:
                if kind in self._libraries:
                    break
                changed = (
                    vars(kind).keys() & vars(torch.nn.Module).keys() - OWN_OF_A_MODULE
                )
                if changed:
                    raise NotData(f"a module with {min(changed)} of its own")
        return module

    def _container(self, value: Any, depth: int) -> Any:
        if isinstance(value, dict):
            pairs = dict.items(value)
            copy = {self(key, depth + 1): self(item, depth + 1) for key, item in pairs}
            is_default = (
                type(value) is defaultdict and value.default_factory is not None
            )
            return (
                defaultdict(self(value.default_factory), copy) if is_default else copy
            )
        for base in (list, tuple):
            if isinstance(value, base):
                elements = base.__getitem__(value, slice(None))
                return base([self(element, depth + 1) for element in elements])
        base = set if isinstance(value, set) else frozenset
        return base(
            [
                self(element, depth + 1)
                for element in base.union(base(), base.copy(value))
            ]
        )

    def _of_a_library(self, value: Any, depth: int) -> Any:
        """Of Python's and PyTorch's own types: views and proxies of containers are copied."""
        if isinstance(value, Mapping):
            return {key: self(value[key], depth + 1) for key in value}
        if isinstance(value, Set):
            return {self(element, depth + 1) for element in value}
        if isinstance(value, Collection):
            return [self(element, depth + 1) for element in value]
        if isinstance(value, Iterator):  # which may compute as it is read
            return self._list(value, depth)
        return Call(value, self) if callable(value) else value

    def _own(self, value: Any, depth: int) -> Any:
        """An object of the student's own class: a mapping, or what can be gone through."""
        if isinstance(value, Mapping):
            pairs = self._run(
                lambda mapping: [(key, mapping[key]) for key in mapping], (value,), {}
            )
            return {self(key, depth + 1): self(item, depth + 1) for key, item in pairs}
        if isinstance(value, Iterable):
            return self._list(value, depth)
        if hasattr(type(value), "__getitem__"):
            return Lookup(value, self)
        raise NotData(type(value).__name__)

    def _list(self, value: Any, depth: int) -> list[Any]:
        elements = self._run(list, (value,), {})
        return [self(element, depth + 1) for element in elements]


class Steps:
    """A generator of the student's, which a question drives: what it yields is plain."""

    def __init__(self, generator: Any, plain: Plain) -> None:
        self._generator, self._plain = generator, plain

    def send(self, value: Any) -> tuple[bool, Any]:
        """Go on to the next `yield`: (True, what it yields), or (False, what it returns)."""
        return self._plain.call(self._sent, (value,), {})

    def _sent(self, value: Any) -> tuple[bool, Any]:
        try:
            return True, self._generator.send(value)
        except StopIteration as end:
            return False, end.value


def uncover(value: Any) -> None:
    """Take from an object the attributes of its own that hide those of its class."""
    attributes = getattr(value, "__dict__", None)
    for name in [name for name in attributes or () if hasattr(type(value), name)]:
        del attributes[name]


def every_class() -> set[type]:
    """The classes that there are by now; before the first cell, of Python and of libraries."""
    found, waiting = {object}, [object]
    while waiting:
        for kind in type.__subclasses__(waiting.pop()):
            if kind not in found:
                found.add(kind)
                waiting.append(kind)
    return found


def number_or_text(value: Any) -> Any:
    """The number or text within a value of a subclass, such as an `Enum` of texts."""
    for base, read in (
        (str, str.__str__),
        (int, int.__int__),
        (float, float.__float__),
    ):
        if isinstance(value, base):
            plain = read(value)
            return plain if type(plain) is base else base(plain)
    raise NotData(type(value).__name__)


def data(value: object, depth: int = 0) -> Any:
    """A plain value as what JSON holds. Raises NotData."""
    kind = type(value)
    if kind is str:
        value.encode()  # half a surrogate is no text
        return value
    if kind is int:
        if value.bit_length() > BITS:
            raise NotData("a number of more than a thousand bits")
        return value
    if kind in (type(None), bool, float):
        return value
    if depth >= DEPTH:
        raise NotData("nested too deep")
    if kind in (list, tuple, torch.Size, range):
        return [data(element, depth + 1) for element in value]
    if kind is dict:
        if not all(type(key) is str for key in value):
            raise NotData("a dictionary with keys that are no texts")
        return {data(key): data(item, depth + 1) for key, item in value.items()}
    if kind is Fraction and value.denominator == 1:
        return data(value.numerator)
    if kind in (Fraction, Decimal):
        return float(value)
    if issubclass(kind, numpy.floating):
        return float(value)
    if issubclass(kind, torch.Tensor | numpy.ndarray | numpy.generic):
        return data(value.tolist(), depth + 1)
    raise NotData(kind.__name__)


def is_small(value: Any) -> bool:
    return len(json.dumps(value)) <= SIZE
