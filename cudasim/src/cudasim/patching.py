"""Patches of torch's Python attributes, all of which can be taken back exactly."""

import functools
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from types import ClassMethodDescriptorType, ModuleType
from typing import Any

from torch.overrides import handle_torch_function, has_torch_function

When = Callable[[], bool] | None
_ABSENT = object()
_table: list[tuple] = []  # (owner, name, function, overridable, when)


def around(
    function: Callable, original: Callable, overridable: bool = False
) -> Callable:
    """`function(original, *args, **kwargs)` in the place of `original`, under its name.
    An `overridable` one is left to operands with a `__torch_function__`, as torch's own are."""

    @functools.wraps(original)
    def replaced(*args, **kwargs) -> Any:
        if overridable and has_torch_function(args):
            return handle_torch_function(replaced, args, *args, **kwargs)
        return function(original, *args, **kwargs)

    return replaced


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
    """What was replaced; `restore` puts all of it back, the last first, as the same objects."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any]] = []  # attributes
        self._undo: list[Callable] = []  # an ExitStack would take twice the time

    def finally_do(self, action: Callable, *args) -> None:
        self._undo.append(functools.partial(action, *args))

    def restore(self) -> None:
        while self._undo:
            self._undo.pop()()

    def replace(self, owner: Any, name: str, value: Any) -> None:
        own = vars(owner).get(
            name, _ABSENT
        )  # what is inherited is restored by deleting
        self._before.append((owner, name, own))
        undo = (delattr, owner, name) if own is _ABSENT else (setattr, owner, name, own)
        self.finally_do(*undo)
        setattr(owner, name, value)

    def wrap(
        self, owner: Any, name: str, how: Callable, overridable: bool = False
    ) -> Callable:
        """Have `how(original, ...)` answer `owner.name(...)`; returns what stands there."""
        own = vars(owner).get(name)
        if isinstance(
            own, classmethod | ClassMethodDescriptorType
        ):  # the second is C++'s
            wrapped = classmethod(around(how, getattr(own, "__func__", own)))
        else:
            wrapped = around(how, getattr(owner, name), overridable)
        self.replace(owner, name, wrapped)
        return wrapped

    def replace_item(self, mapping: MutableMapping, key: Any, value: Any) -> None:
        """Set `mapping[key]` to `value` until `restore`, unless the program sets it meanwhile."""
        self.finally_do(_put_back, mapping, key, mapping.get(key, _ABSENT), value)
        mapping[key] = value

    def forget(self, module: ModuleType) -> None:
        """Clear the caches of the functions of `module`, now and on `restore`."""
        for function in vars(module).values():
            if hasattr(function, "cache_clear"):
                function.cache_clear()
                self.finally_do(function.cache_clear)

    def replaced(self) -> list[tuple[Any, Any]]:
        """(what it was, what it is) of every attribute replaced so far that was there before."""
        return [
            (own, vars(owner)[name])
            for owner, name, own in self._before
            if own is not _ABSENT
        ]


def _put_back(mapping: MutableMapping, key: Any, own: Any, value: Any) -> None:
    if mapping.get(key) == value:
        if own is _ABSENT:
            del mapping[key]
        else:
            mapping[key] = own


def replaces(
    owners: Any, *names: str, overridable: bool = False, when: When = None
) -> Callable:
    """Let the decorated function run `around` those called `names` of an owner, or of several.
    Only where `when()` holds as a simulation begins. Of two, that which stands above runs first."""

    def register(function: Callable) -> Callable:
        for owner in owners if isinstance(owners, tuple) else (owners,):
            _table.extend((owner, name, function, overridable, when) for name in names)
        return function

    return register


def checks(owners: Any, *names: str, when: When = None) -> Callable:
    """The same for a function that looks at the name and the arguments first, and may raise."""

    def register(check: Callable[..., None]) -> Callable:
        def checked(called: str, original: Callable, /, *args, **kwargs) -> Any:
            check(called, *args, **kwargs)
            return original(*args, **kwargs)

        for name in names:
            replaces(owners, name, when=when)(functools.partial(checked, name))
        return check

    return register


def patch_functions(patches: Patches) -> None:
    for owner, name, function, overridable, when in _table:
        if when is None or when():
            patches.wrap(owner, name, function, overridable)
