"""Patches of PyTorch's Python attributes, all of which can be taken back exactly.

A function that stands in the place of another is called with the original first:
`function(original, *args, **kwargs)`. The decorators `replaces` and `checks` register
such functions where they are defined; `patch_functions` puts them in place as a
simulation begins, and `Patches.restore` takes everything back as it ends.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import ClassMethodDescriptorType, ModuleType
from typing import Any

from torch.overrides import handle_torch_function, has_torch_function

from cudasim.torch_private import Bindings
from cudasim.tracebacks import release_operands

Condition = Callable[[], bool] | None

_ABSENT = object()  # the value of an attribute or an item that is not there


@dataclass
class Replacement:
    """A function that is to stand in the place of `owner.name`."""

    owner: Any
    name: str
    function: Callable
    overridable: bool
    condition: Condition


_replacements: list[Replacement] = []  # in the order of their registration


def around(
    function: Callable, original: Callable, overridable: bool = False
) -> Callable:
    """Return a function, named like `original`, that calls `function(original, ...)`.

    As with torch's own functions, an `overridable` one is left to operands that have a
    `__torch_function__`.
    """

    @functools.wraps(original)
    def replaced(*args, **kwargs) -> Any:
        try:
            if overridable and has_torch_function(args):
                return handle_torch_function(replaced, args, *args, **kwargs)
            return function(original, *args, **kwargs)
        except BaseException as error:
            release_operands(error)
            del args, kwargs
            raise

    return replaced


def releasing(function: Callable) -> Callable:
    """Return a function that calls `function`, and holds no operands if that fails.

    What `around` returns does the same.
    """

    @functools.wraps(function)
    def call(*args, **kwargs) -> Any:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            release_operands(error)
            del args, kwargs
            raise

    return call


@contextmanager
def changed(owner: Any, **values: Any) -> Iterator[None]:
    """Give attributes of `owner` other values for the length of a `with` block."""
    before = {name: getattr(owner, name) for name in values}
    vars(owner).update(values)
    try:
        yield
    finally:
        vars(owner).update(before)


class Patches:
    """The changes to PyTorch so far.

    `restore` takes all of them back, the last one first, and puts the same objects in
    their places again.
    """

    def __init__(self) -> None:
        # (owner, name, its own value before) of every attribute that was replaced.
        self._attributes: list[tuple[Any, str, Any]] = []
        # What to do on leaving. An ExitStack would take twice the time.
        self._undo: list[Callable] = []

    def finally_do(self, action: Callable, *args) -> None:
        """Call `action(*args)` on `restore`."""
        self._undo.append(functools.partial(action, *args))

    def restore(self) -> None:
        """Take everything back."""
        while self._undo:
            action = self._undo.pop()
            action()

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Set the attribute `name` of `owner` until `restore`."""
        own = vars(owner).get(name, _ABSENT)
        before = own
        if own is _ABSENT and isinstance(owner, ModuleType):  # from its `__getattr__`
            before = getattr(owner, name, _ABSENT)
        self._attributes.append((owner, name, before))
        if own is _ABSENT:  # inherited, or new
            self.finally_do(delattr, owner, name)
        else:
            self.finally_do(setattr, owner, name, own)
        setattr(owner, name, value)

    def bind(self, bindings: Bindings, functions: Mapping[str, Callable]) -> None:
        """Replace `bindings` of `torch._C` by `functions`, by name without the prefix."""
        for name, function in functions.items():
            self.replace(*bindings.attribute(name), function)

    def wrap(
        self, owner: Any, name: str, function: Callable, overridable: bool = False
    ) -> Callable:
        """Let `function` run around `owner.name`; return what then stands there."""
        own = vars(owner).get(name)
        if isinstance(own, classmethod):
            wrapped = classmethod(around(function, own.__func__))
        elif isinstance(own, ClassMethodDescriptorType):  # a class method in C++
            wrapped = classmethod(around(function, own))
        else:
            wrapped = around(function, getattr(owner, name), overridable)
            _name_by_place(wrapped, owner, name)

        self.replace(owner, name, wrapped)
        return wrapped

    def replace_item(self, mapping: MutableMapping, key: Any, value: Any) -> None:
        """Set `mapping[key]` until `restore`, unless the program changes it meanwhile."""
        own = mapping.get(key, _ABSENT)
        self.finally_do(_put_back, mapping, key, own, value)
        mapping[key] = value

    def forget(self, module: ModuleType) -> None:
        """Clear the caches of the functions of `module`, now and on `restore`."""
        for function in vars(module).values():
            if hasattr(function, "cache_clear"):
                function.cache_clear()
                self.finally_do(function.cache_clear)

    def replaced(self) -> list[tuple[Any, Any]]:
        """Return (value before, value now) of every attribute that was there before."""
        return [
            (own, vars(owner)[name])
            for owner, name, own in self._attributes
            if own is not _ABSENT
        ]


def _name_by_place(function: Callable, owner: Any, name: str) -> None:
    """Let `pickle` find a function under the name at which it stands.

    It looks for a function of Python by module and qualified name, and wants the same
    object there (`save_global` in CPython's Lib/pickle.py). A process without a
    simulation finds the original under that name.
    """
    if isinstance(owner, ModuleType):
        function.__module__ = owner.__name__
        function.__qualname__ = name
    elif isinstance(owner, type):
        function.__module__ = owner.__module__
        function.__qualname__ = f"{owner.__qualname__}.{name}"


def _put_back(mapping: MutableMapping, key: Any, own: Any, value: Any) -> None:
    if mapping.get(key) != value:
        return  # the program has set it since
    if own is _ABSENT:
        del mapping[key]
    else:
        mapping[key] = own


def replaces(
    owners: Any, *names: str, overridable: bool = False, when: Condition = None
) -> Callable:
    """Register the decorated function to run around `names` of an owner, or of several.

    It does so only where `when()` holds as a simulation begins. Of two functions around
    the same one, that whose decorator stands above runs first.
    """
    if not isinstance(owners, tuple):
        owners = (owners,)

    def register(function: Callable) -> Callable:
        for owner in owners:
            for name in names:
                replacement = Replacement(owner, name, function, overridable, when)
                _replacements.append(replacement)
        return function

    return register


def checks(owners: Any, *names: str, when: Condition = None) -> Callable:
    """Register a function that looks at each call first, and may refuse it.

    It is called with the name of the function, and with the arguments.
    """

    def register(check: Callable[..., None]) -> Callable:
        def checked(name: str, original: Callable, /, *args, **kwargs) -> Any:
            check(name, *args, **kwargs)
            return original(*args, **kwargs)

        for name in names:
            replaces(owners, name, when=when)(functools.partial(checked, name))
        return check

    return register


def patch_functions(patches: Patches) -> None:
    """Put in place what `replaces` and `checks` have registered."""
    for replacement in _replacements:
        if replacement.condition is None or replacement.condition():
            patches.wrap(
                replacement.owner,
                replacement.name,
                replacement.function,
                replacement.overridable,
            )
