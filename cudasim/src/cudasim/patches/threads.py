"""Threads: dispatch modes are per thread, so each thread of the program enters one of its own."""

import threading
from concurrent.futures.thread import _WorkItem
from contextlib import nullcontext
from typing import Any

from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from cudasim.patching import Patches
from cudasim.session import session


def patch_threads(patches: Patches) -> None:
    """Make threads, and pools of threads that are older than the simulation, see the GPUs.

    `Thread.run` is not enough: many subclasses have their own.
    """
    for owner, name in ((threading.Thread, "_bootstrap_inner"), (_WorkItem, "run")):
        patches.replace(owner, name, make_run(getattr(owner, name)))


def make_run(original: Any) -> Any:
    """Run a thread, or an item of a pool, in the mode of the simulation."""

    def run(self: Any, *args: Any) -> None:
        mode = type(session.mode)
        entered = any(isinstance(each, mode) for each in _get_current_dispatch_mode_stack())
        with nullcontext() if session.mode is None or entered else mode():
            return original(self, *args)

    return run
