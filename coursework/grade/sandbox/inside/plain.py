"""Copies of what a student's code hands over, which say the same however often they are read.

An answer, and what it returns, may be an object of a class of the student's own: a list that
gives other elements the second time, a tensor that lies about its device. So every value passes
through `Plain` once. Containers and numbers come out as Python's own types, read past any method
that a subclass has in the place of theirs, and tensors as PyTorch's own.
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

DEPTH = 32  # how deep data may be nested
SIZE = 1 << 19  # bytes of JSON
BITS = 1024  # of the largest whole number

# Values of these types cannot say two things, so they are handed on as they are.
NUMBERS = (type(None), bool, int, float, complex, str, bytes)
TENSORS = (torch.Tensor, torch.nn.Parameter)
SOLID = (
    *NUMBERS,
    *TENSORS,
    range,
    type(...),
    Fraction,
    Decimal,
    torch.dtype,
    torch.layout,
    torch.Size,
    torch.device,
    numpy.ndarray,
)
# How numbers and texts are read past the methods of a subclass.
CONVERSIONS = ((str, str.__str__), (int, int.__int__), (float, float.__float__))
# What of `torch.nn.Module` a class of a student's own may define anew: how it is made and
# called.
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
    """A function of the student's, or an object that is called like one.

    Its results come out plain, and so do its attributes.
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
    """An object of the student's own class that only has items: each comes out plain."""

    def __init__(self, items: Any, plain: "Plain") -> None:
        self._items = items
        self._plain = plain

    def __getitem__(self, key: Any) -> Any:
        return self._plain.call(operator.getitem, (self._items, key), {})


class Plain:
    """Makes values plain.

    `run(function, arguments, named)` calls code of the student's, and `restore()` undoes
    what objects did as they went. Classes that are not among `libraries` are the student's
    own.
    """

    def __init__(
        self,
        run: Callable[[Callable, tuple, dict], Any],
        restore: Callable[[], None],
        libraries: set[type],
    ) -> None:
        self._run = run
        self._restore = restore
        self._libraries = libraries

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
        """Return a plain copy of a value; a tensor is not copied. Raises NotData."""
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
        """Return a module that has parameters and devices as PyTorch keeps them.

        Raises NotData if it or one within it does not.
        """
        for part in torch.nn.Module.modules(module):
            uncover(part)
            for weight in part._parameters.values():
                uncover(weight)
            for kind in type(part).__mro__:
                if kind in self._libraries:
                    break
                replaced = vars(kind).keys() & vars(torch.nn.Module).keys()
                replaced -= OWN_OF_A_MODULE
                if replaced:
                    raise NotData(f"a module with {min(replaced)} of its own")
        return module

    def _container(self, value: Any, depth: int) -> Any:
        if isinstance(value, dict):
            copy = self._dictionary(dict.items(value), depth)
            if type(value) is defaultdict and value.default_factory is not None:
                return defaultdict(self(value.default_factory), copy)
            return copy
        for base in (list, tuple):
            if isinstance(value, base):
                elements = base.__getitem__(value, slice(None))
                return base(self._elements(elements, depth))
        base = set if isinstance(value, set) else frozenset
        elements = base.union(base(), base.copy(value))
        return base(self._elements(elements, depth))

    def _dictionary(
        self, pairs: Iterable[tuple[Any, Any]], depth: int
    ) -> dict[Any, Any]:
        return {self(key, depth + 1): self(item, depth + 1) for key, item in pairs}

    def _elements(self, elements: Iterable[Any], depth: int) -> list[Any]:
        return [self(element, depth + 1) for element in elements]

    def _of_a_library(self, value: Any, depth: int) -> Any:
        """Copy a view or a proxy of a container, of Python's and PyTorch's own types."""
        if isinstance(value, Mapping):
            return {key: self(value[key], depth + 1) for key in value}
        if isinstance(value, Set):
            return set(self._elements(value, depth))
        if isinstance(value, Collection):
            return self._elements(value, depth)
        if isinstance(value, Iterator):  # it may compute as it is read
            return self._list(value, depth)
        return Call(value, self) if callable(value) else value

    def _own(self, value: Any, depth: int) -> Any:
        """Read an object of the student's own class: a mapping, or anything iterable."""
        if isinstance(value, Mapping):
            return self._dictionary(self._run(pairs_of, (value,), {}), depth)
        if isinstance(value, Iterable):
            return self._list(value, depth)
        if hasattr(type(value), "__getitem__"):
            return Lookup(value, self)
        raise NotData(type(value).__name__)

    def _list(self, value: Any, depth: int) -> list[Any]:
        return self._elements(self._run(list, (value,), {}), depth)


def pairs_of(mapping: Mapping) -> list[tuple[Any, Any]]:
    return [(key, mapping[key]) for key in mapping]


class Steps:
    """A generator of the student's, which a question drives: what it yields is plain."""

    def __init__(self, generator: Any, plain: Plain) -> None:
        self._generator = generator
        self._plain = plain

    def send(self, value: Any) -> tuple[bool, Any]:
        """Go on to the next `yield`.

        Returns (True, what it yields), or (False, what it returns).
        """
        return self._plain.call(self._sent, (value,), {})

    def _sent(self, value: Any) -> tuple[bool, Any]:
        try:
            return True, self._generator.send(value)
        except StopIteration as end:
            return False, end.value


def uncover(value: Any) -> None:
    """Take from an object the attributes of its own that hide those of its class."""
    attributes = getattr(value, "__dict__", None)
    for name in list(attributes or ()):
        if hasattr(type(value), name):
            del attributes[name]


def every_class() -> set[type]:
    """Return all classes: before the first cell, those of Python and of libraries."""
    classes = {object}
    waiting = [object]
    while waiting:
        for kind in type.__subclasses__(waiting.pop()):
            if kind not in classes:
                classes.add(kind)
                waiting.append(kind)
    return classes


def number_or_text(value: Any) -> Any:
    """Return the number or text within a value of a subclass, such as an `Enum` of texts."""
    for base, convert in CONVERSIONS:
        if isinstance(value, base):
            plain = convert(value)
            return plain if type(plain) is base else base(plain)
    raise NotData(type(value).__name__)


def data(value: object, depth: int = 0) -> Any:
    """Return a plain value in a form that JSON holds. Raises NotData."""
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
    if kind in (Fraction, Decimal) or issubclass(kind, numpy.floating):
        return float(value)
    if issubclass(kind, torch.Tensor | numpy.ndarray | numpy.generic):
        return data(value.tolist(), depth + 1)
    raise NotData(kind.__name__)


def is_small(value: Any) -> bool:
    return len(json.dumps(value)) <= SIZE
