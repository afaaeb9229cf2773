"""What questions rely on, as it was before the first cell, and the means to put it back.

A student's code runs in the same process. What it puts in the place of functions of Python,
PyTorch and `cudasim`, it could only ever tell itself: all of that is undone as soon as the code
has returned, before a question goes on.
"""

import builtins
import os
import signal
import sys
import threading
from itertools import chain
from operator import is_not, methodcaller
from typing import Any

import torch
from torch.utils import _python_dispatch

# Modules by name, and all whose names begin so: what questions read, compute and measure by.
NAMED = {
    *(
        "torch",
        "torch.functional",
        "torch.storage",
        "torch.overrides",
        "torch.serialization",
    ),
    *(
        "torch._tensor",
        "torch._C",
        "numpy",
        "time",
        "math",
        "io",
        "json",
        "copy",
        "random",
    ),
    *("itertools", "functools", "operator", "collections", "contextlib", "statistics"),
    *("warnings", "logging", "numbers", "fractions"),
}
FAMILIES = ("cudasim", "torch.cuda", "torch.accelerator", "torch.nn", "torch.optim")
FAMILIES += ("torch.autograd", "torch.testing")
VALUES = methodcaller("values")
TOOLS = range(6)  # numbers that `sys.monitoring` has, from Python 3.12 on


class Pristine:
    """Python, PyTorch and `cudasim` as they are now. Made before the first cell runs."""

    def __init__(self, simulated: bool = True) -> None:
        self.builtins = dict(vars(builtins))
        self._modules = {
            name: sys.modules[name] for name in list(sys.modules) if is_watched(name)
        }
        owners = [*self._modules.values(), *classes_of(self._modules.values())]
        self._owners = [(owner, dict(vars(owner))) for owner in owners]
        self._live = [vars(owner) for owner in owners]  # which change with them
        self._values = self._now()
        self._functions, self._dispatches = function_modes(), dispatch_modes()
        self._threads = set(sys._current_frames())
        self._silence = open(os.devnull, "w", encoding="utf-8", errors="replace")
        self._simulated = simulated
        self._left: list[
            Any
        ] = []  # function modes that a cell entered and did not leave

    def restore(self) -> None:
        """Undo what was put in the place of these, or added to them."""
        stop_watching()
        sys.stdout = sys.stderr = (
            self._silence
        )  # a cell may have put something else there
        vars(builtins).update(self.builtins)
        sys.modules.update(self._modules)
        torch.cuda = self._modules["torch.cuda"]
        # Nearly always nothing has changed, which is quickly seen.
        if sum(map(len, self._live)) != len(self._values) or any(
            map(is_not, chain.from_iterable(map(VALUES, self._live)), self._values)
        ):
            for owner, before in self._owners:
                put_back(owner, dict(vars(owner)), before)
            self._values = self._now()
        if self._simulated and torch.cuda.get_sync_debug_mode():
            torch.cuda.set_sync_debug_mode(0)

    def _now(self) -> list[Any]:
        return [*chain.from_iterable(map(VALUES, self._live))]

    def set_aside(self, kept: int | None = None) -> None:
        """Take modes off that a cell entered, such as a default device, but for the first `kept`:
        those of the beginning, or also what a question has entered."""
        kept = self._functions if kept is None else kept
        while function_modes() > kept:
            self._left.append(torch._C._pop_torch_function_stack())

    def bring_back(self) -> int:
        """Enter them again, for the code that counts on them; returns how many others there are."""
        kept = function_modes()
        while self._left:
            torch._C._push_on_torch_function_stack(self._left.pop())
        return kept

    def is_quiet(self) -> bool:
        """Whether no thread runs that a cell, or the answer, has started."""
        return set(sys._current_frames()) <= self._threads

    def is_seen(self) -> bool:
        """Whether the modes that see each operation are those of the beginning."""
        while dispatch_modes() > self._dispatches:
            _python_dispatch._pop_mode()
        return dispatch_modes() == self._dispatches


def is_watched(name: str) -> bool:
    family = any(name == head or name.startswith(f"{head}.") for head in FAMILIES)
    return (name in NAMED or family) and sys.modules[name] is not None


def classes_of(modules: Any) -> set[type]:
    """The classes that these modules define, whose methods may be replaced: not those in C++."""
    found = set()
    for module in modules:
        for value in vars(module).values():
            if (
                isinstance(value, type)
                and value.__flags__ & HEAP
                and is_watched_class(value)
            ):
                found.add(value)
    return found


HEAP = 1 << 9  # Py_TPFLAGS_HEAPTYPE: attributes of others cannot be set


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
    """Whether an attribute that was added stands before what a question may mean by its name."""
    if isinstance(owner, type):
        return any(name in vars(base) for base in owner.__mro__[1:])
    return owner.__name__.startswith(("cudasim", "torch.cuda")) and is_code(value)


def is_code(value: object) -> bool:
    return callable(value) or hasattr(value, "__get__")


def stop_watching() -> None:
    """End what calls code of its own while other code runs: traces, profilers, monitoring tools,
    timers."""
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
