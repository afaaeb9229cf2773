"""The table of what takes the place of torch's functions while devices are simulated."""

from collections.abc import Callable
from functools import partial
from typing import Any

from cudasim.patching import Patches

Condition = Callable[[], bool]

_table: list[tuple[Any, str, Callable, bool, Condition | None]] = []


def replaces(
    owner: Any, *names: str, overridable: bool = False, when: Condition | None = None
) -> Callable:
    """Let the decorated function run `around` those of `owner` that are called `names`.

    Only where `when()` says so as a simulation begins. Of a function that is named twice, what
    is decorated later, or stands above, runs first.
    """

    def register(function: Callable) -> Callable:
        _table.extend((owner, name, function, overridable, when) for name in names)
        return function

    return register


def checks(owner: Any, *names: str, when: Condition | None = None) -> Callable:
    """The same for a function that looks at the name and the arguments first, and may raise."""

    def register(check: Callable[..., None]) -> Callable:
        for name in names:
            replaces(owner, name, when=when)(partial(_checked, check, name))
        return check

    return register


def _checked(check: Callable, name: str, original: Callable, /, *args, **kwargs) -> Any:
    check(name, *args, **kwargs)
    return original(*args, **kwargs)


def patch_functions(patches: Patches) -> None:
    """Let all of them take their places."""
    for owner, name, function, overridable, when in _table:
        if when is None or when():
            patches.wrap(owner, name, function, overridable)
