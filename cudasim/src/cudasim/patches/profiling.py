"""`torch.profiler`: it traces the CPU's work, as on a machine whose PyTorch cannot trace GPUs.

Asked for CUDA's, it would call on CUDA at every operation, and print a trace of C++ each time.
"""

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

from torch.autograd import profiler

from cudasim.patching import Patches
from cudasim.session import session

CPU_ONLY = (
    "cudasim: torch.profiler traces the CPU only, simulated GPUs run no kernels; "
    "cudasim.timeline() shows those of modelled time"
)


def patch_profiler(patches: Patches) -> None:
    """Let the profiler leave the simulated type out, and say so."""
    patches.replace(profiler.profile, "__init__", _make_init(profiler.profile.__init__))


def _make_init(original: Callable) -> Callable:
    @wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        given = [name for name in ("use_device", "use_cuda") if kwargs.get(name)]
        if any(kwargs[name] in (True, session.type.name) for name in given):
            warnings.warn(CPU_ONLY, stacklevel=2)
            kwargs.update(dict.fromkeys(given))
        original(self, *args, **kwargs)

    return init
