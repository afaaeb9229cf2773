"""Simulated GPUs for PyTorch, CUDA's or Apple's: real values, computed on the CPU.

pytest need not rewrite this module, which a simulation has imported before it begins
(PYTEST_DONT_REWRITE).
"""

import gc
import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cudasim.clock.costs import without_rule
    from cudasim.device.specs import CARDS
    from cudasim.dispatch.races import races
    from cudasim.notices import SimulationWarning
    from cudasim.recorded import timeline
    from cudasim.simulation import disable, enable, is_enabled, simulate

__all__ = [
    "CARDS",
    "SimulationWarning",
    "disable",
    "enable",
    "is_enabled",
    "races",
    "simulate",
    "timeline",
    "without_rule",
]
__version__ = "1.0.0"

# The module of each public name. Modules are imported when a name is used, because a
# Python that starts with CUDASIM_GPUS set imports this package, and should not import
# torch for that.
_HOMES = {
    "CARDS": "device.specs",
    "SimulationWarning": "notices",
    "disable": "simulation",
    "enable": "simulation",
    "is_enabled": "simulation",
    "load_ipython_extension": "ipython",
    "races": "dispatch.races",
    "simulate": "simulation",
    "timeline": "recorded",
    "unload_ipython_extension": "ipython",
    "without_rule": "clock.costs",
}


if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name: str) -> Any:
        if name in ("jax", "lab", "tensorflow"):
            return importlib.import_module(f"cudasim.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module 'cudasim' has no attribute '{name}'")
        was_enabled = gc.isenabled()
        # Importing makes no garbage, and looking through torch's many objects takes long.
        gc.disable()
        try:
            importlib.import_module("cudasim.installed").check_torch()
            module = importlib.import_module(f"cudasim.{_HOMES[name]}")
        finally:
            if was_enabled:
                gc.enable()
        value = getattr(module, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
