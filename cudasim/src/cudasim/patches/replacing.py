"""Tables of what takes the place of torch's functions while devices are simulated."""

import functools
from collections.abc import Callable
from typing import Any

from torch.overrides import handle_torch_function, has_torch_function

from cudasim.patching import Patches

Condition = Callable[[], bool]


def around(function: Callable, original: Callable, overridable: bool = False) -> Callable:
    """`function(original, *args, **kwargs)` in the place of `original`, under its name.

    An `overridable` one is left to operands with a `__torch_function__`, as torch's own are.
    """

    @functools.wraps(original)
    def replaced(*args: Any, **kwargs: Any) -> Any:
        if overridable and has_torch_function(args):
            return handle_torch_function(replaced, args, *args, **kwargs)
        return function(original, *args, **kwargs)

    return replaced


class Replacements:
    """What one module puts in the place of torch's functions."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._entries: list[tuple[Any, str, Callable, bool, Condition | None]] = []

    def __call__(
        self, owner: Any, *names: str, overridable: bool = False, when: Condition | None = None
    ) -> Callable:
        """Let the decorated function run `around` those of `owner` that are called `names`.

        Only where `when()` says so as a simulation begins. Of a function that is named twice, what
        is decorated later, or stands above, runs first.
        """

        def register(function: Callable) -> Callable:
            self._entries += [(owner, name, function, overridable, when) for name in names]
            return function

        return register

    def refusing(
        self, owner: Any, *names: str, error: type[Exception] = RuntimeError, **options: Any
    ) -> Callable:
        """The same for a function that looks at the arguments before `names` are called.

        It is given the name and the arguments, and returns why they are refused, or None.
        """

        def register(why: Callable[..., str | None]) -> Callable:
            for name in names:

                def checked(
                    original: Callable, *args: Any, _name: str = name, **kwargs: Any
                ) -> Any:
                    words = why(_name, *args, **kwargs)
                    if words is not None:
                        raise error(words)
                    return original(*args, **kwargs)

                self(owner, name, **options)(checked)
            return why

        return register

    def install(self, patches: Patches) -> None:
        """Let them take their places until `patches` are restored."""
        for owner, name, function, overridable, when in self._entries:
            if when is None or when():
                replaced = around(function, getattr(owner, name), overridable)
                patches.replace(owner, name, replaced)
