"""What questions rely on, as it was before the first cell, and the means to put it back.

A student's code runs in the same process. Whatever it puts in the place of functions of Python,
PyTorch and `cudasim`, only itself should see. So all of that is undone as soon as the code has
returned, before a question goes on.
"""

import builtins
import os
import signal
import sys
import threading
from collections.abc import Iterable
from itertools import chain
from operator import is_not, methodcaller
from typing import Any

import torch
from torch.utils import _python_dispatch

# The modules that questions read, compute and measure by: some by name, and families with
# all modules within them.
NAMED = frozenset(
    """
    torch torch.functional torch.storage torch.overrides torch.serialization torch._tensor
    torch._C numpy time math io json copy random itertools functools operator collections
    contextlib statistics warnings logging numbers fractions
    """.split()
)
FAMILIES = (
    "cudasim",
    "torch.cuda",
    "torch.accelerator",
    "torch.nn",
    "torch.optim",
    "torch.autograd",
    "torch.testing",
)
HEAP = 1 << 9  # Py_TPFLAGS_HEAPTYPE: attributes of other types cannot be set
TOOLS = range(6)  # numbers that `sys.monitoring` has, from Python 3.12 on
VALUES = methodcaller("values")


class Pristine:
    """Python, PyTorch and `cudasim` as they are when this is made, before the first cell."""

    def __init__(self, simulated: bool) -> None:
        self.builtins = dict(vars(builtins))
        self._modules = {
            name: sys.modules[name] for name in list(sys.modules) if is_watched(name)
        }
        owners = [*self._modules.values(), *classes_of(self._modules.values())]
        self._owners = [(owner, dict(vars(owner))) for owner in owners]
        self._live = [vars(owner) for owner in owners]  # these change with them
        self._values = self._live_values()
        self._functions = function_modes()
        self._dispatches = dispatch_modes()
        self._threads = set(sys._current_frames())
        self._silence = open(os.devnull, "w", encoding="utf-8", errors="replace")
        self._simulated = simulated
        # Function modes that a cell entered and did not leave.
        self._left: list[Any] = []

    def restore(self) -> None:
        """Undo what was put in the place of these, or added to them."""
        stop_watching()
        # A cell may have put something else there.
        sys.stdout = sys.stderr = self._silence
        vars(builtins).update(self.builtins)
        sys.modules.update(self._modules)
        torch.cuda = self._modules["torch.cuda"]
        if self._has_changed():
            for owner, before in self._owners:
                put_back(owner, dict(vars(owner)), before)
            self._values = self._live_values()
        if self._simulated and torch.cuda.get_sync_debug_mode():
            torch.cuda.set_sync_debug_mode(0)

    def _has_changed(self) -> bool:
        """Tell whether any attribute is another. Nearly always none is, so this is fast."""
        if sum(map(len, self._live)) != len(self._values):
            return True
        now = chain.from_iterable(map(VALUES, self._live))
        return any(map(is_not, now, self._values))

    def _live_values(self) -> list[Any]:
        return list(chain.from_iterable(map(VALUES, self._live)))

    def set_aside(self, kept: int | None = None) -> None:
        """Take off the modes that a cell entered, such as a default device.

        The first `kept` stay: those of the beginning, or also what a question has entered.
        """
        if kept is None:
            kept = self._functions
        while function_modes() > kept:
            self._left.append(torch._C._pop_torch_function_stack())

    def bring_back(self) -> int:
        """Enter them again, for the code that counts on them.

        Returns how many others there are.
        """
        kept = function_modes()
        while self._left:
            torch._C._push_on_torch_function_stack(self._left.pop())
        return kept

    def is_quiet(self) -> bool:
        """Tell whether no thread runs that a cell, or the answer, has started."""
        return set(sys._current_frames()) <= self._threads

    def is_seen(self) -> bool:
        """Tell whether the modes that see each operation are those of the beginning."""
        while dispatch_modes() > self._dispatches:
            _python_dispatch._pop_mode()
        return dispatch_modes() == self._dispatches


def is_watched(name: str) -> bool:
    if sys.modules[name] is None:
        return False
    is_family = any(name == head or name.startswith(f"{head}.") for head in FAMILIES)
    return name in NAMED or is_family


def classes_of(modules: Iterable[Any]) -> set[type]:
    """Return the classes that these modules define, but for those in C++.

    Their methods may be replaced.
    """
    classes = set()
    for module in modules:
        for value in vars(module).values():
            is_of_python = isinstance(value, type) and value.__flags__ & HEAP
            if is_of_python and is_watched_class(value):
                classes.add(value)
    return classes


def is_watched_class(kind: type) -> bool:
    return kind.__module__ in sys.modules and is_watched(kind.__module__)


def put_back(owner: Any, now: dict[str, Any], before: dict[str, Any]) -> None:
    """Let an `owner`, which has these attributes `now`, have the code that it had `before`."""
    for name in now.keys() - before.keys():
        # A library may load more of itself; what hides another's method is none of its doing.
        if hides(owner, name, now[name]):
            delattr(owner, name)
    for name, value in before.items():
        if now.get(name) is not value and is_code(value):
            setattr(owner, name, value)


def hides(owner: Any, name: str, value: object) -> bool:
    """Tell whether an attribute that was added stands before what its name should mean."""
    if isinstance(owner, type):
        return any(name in vars(base) for base in owner.__mro__[1:])
    return owner.__name__.startswith(("cudasim", "torch.cuda")) and is_code(value)


def is_code(value: object) -> bool:
    return callable(value) or hasattr(value, "__get__")


def stop_watching() -> None:
    """End whatever calls code of its own while other code runs.

    These are traces, profilers, monitoring tools and timers.
    """
    sys.settrace(None)
    sys.setprofile(None)
    threading.settrace(None)
    threading.setprofile(None)
    for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
        signal.setitimer(timer, 0)
    if hasattr(sys, "monitoring"):
        for tool in TOOLS:
            if sys.monitoring.get_tool(tool) is not None:
                sys.monitoring.set_events(tool, 0)
                sys.monitoring.free_tool_id(tool)


def function_modes() -> int:
    return torch._C._len_torch_function_stack()


def dispatch_modes() -> int:
    return torch._C._len_torch_dispatch_stack()
