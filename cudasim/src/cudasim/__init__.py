"""Simulated GPUs for PyTorch, CUDA's or Apple's: real values, computed on the CPU."""

import gc
import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cudasim.clock.costs import without_rule
    from cudasim.device.specs import CARDS
    from cudasim.dispatch.races import races
    from cudasim.recorded import timeline
    from cudasim.simulation import disable, enable, is_enabled, simulate

__all__ = ["CARDS", "disable", "enable", "is_enabled"]
__all__ += ["races", "simulate", "timeline", "without_rule"]
__version__ = "0.1.0"

# Where each public name is. They are fetched when they are used, because a Python that starts
# with CUDASIM_GPUS set imports this package, and must not import torch for that.
_HOMES = {
    "CARDS": "device.specs",
    "races": "dispatch.races",
    "timeline": "recorded",
    "without_rule": "clock.costs",
    **dict.fromkeys(("disable", "enable", "is_enabled", "simulate"), "simulation"),
    **dict.fromkeys(("load_ipython_extension", "unload_ipython_extension"), "ipython"),
}


if not TYPE_CHECKING:  # which would take every name for one of ours

    def __getattr__(name: str) -> Any:
        if name in ("jax", "tensorflow"):
            return importlib.import_module(f"cudasim.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module 'cudasim' has no attribute '{name}'")
        collects = gc.isenabled()
        gc.disable()  # loading makes no garbage, and torch's objects are many to look through
        try:
            value = getattr(importlib.import_module(f"cudasim.{_HOMES[name]}"), name)
        finally:
            if collects:
                gc.enable()
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
