"""Patches of torch's Python attributes, all of which can be taken back exactly."""

import functools
from collections.abc import Callable, MutableMapping
from types import ModuleType
from typing import Any

_ABSENT = object()


class Patches:
    """A list of replaced attributes, and of what they were."""

    def __init__(self) -> None:
        """No patches yet."""
        self._before: list[tuple[Any, str, Any]] = []
        self._items: list[tuple[MutableMapping, Any, Any, Any]] = []
        self._last: list[Callable[[], None]] = []

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Set `owner.name` to `value` until `restore`."""
        own = vars(owner).get(name, _ABSENT)  # what is inherited is restored by deleting
        self._before.append((owner, name, own))
        setattr(owner, name, value)

    def wrap(self, owner: Any, name: str, around: Callable) -> Callable:
        """Have `owner.name(...)` call `around(original, ...)` until `restore`; returns that."""
        original = getattr(owner, name)

        @functools.wraps(original)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            return around(original, *args, **kwargs)

        self.replace(owner, name, wrapped)
        return wrapped

    def finally_do(self, action: Callable[[], None]) -> None:
        """Have `restore` call `action`, for changes other than to an attribute."""
        self._last.append(action)

    def forget(self, module: ModuleType) -> None:
        """Clear the caches of the functions of `module`, now and on `restore`."""
        for function in vars(module).values():
            if hasattr(function, "cache_clear"):
                function.cache_clear()
                self.finally_do(function.cache_clear)

    def replace_item(self, mapping: MutableMapping, key: Any, value: Any) -> None:
        """Set `mapping[key]` to `value` until `restore`, unless the program sets it meanwhile."""
        self._items.append((mapping, key, mapping.get(key, _ABSENT), value))
        mapping[key] = value

    def replaced(self) -> list[tuple[Any, Any]]:
        """(what it was, what it is) of every attribute replaced so far that was there before."""
        return [(own, vars(owner)[name]) for owner, name, own in self._before if own is not _ABSENT]

    def restore(self) -> None:
        """Put back every replaced attribute and item, as the object that it was."""
        while self._items:
            mapping, key, own, mine = self._items.pop()
            if mapping.get(key) != mine:
                continue
            if own is _ABSENT:
                del mapping[key]
            else:
                mapping[key] = own
        while self._last:
            self._last.pop()()
        while self._before:
            owner, name, own = self._before.pop()
            if own is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, own)
