"""What C++ knows of types of devices: where it looks up whom to ask for the streams of one.

Tensors that are traced (`torch.export`, the gradient of `flex_attention`) name a simulated GPU to
C++, which ends the process where it knows nothing of such devices. So while GPUs are simulated it
finds what it knows of the CPU, which has no streams (c10/core/impl/DeviceGuardImplInterface.h).
"""

import ctypes
from pathlib import Path

import torch

from cudasim.patching import Patches
from cudasim.session import session

REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"  # c10::impl::device_guard_impl_registry
CPU = 0  # its number among the types of devices


def patch_guards(patches: Patches) -> None:
    """Let C++ find for the simulated type what it knows of the CPU, where that can be done.

    What PyTorch remembers of functions that are replaced is forgotten.
    """
    patches.forget(torch.overrides)
    known = registry()
    if known is None:
        return
    number = session.type.number
    before, known[number] = known[number], known[CPU]
    patches.finally_do(lambda: known.__setitem__(number, before))


def registry() -> ctypes.Array | None:
    """What C++ knows of each type of device, by number; None where its library hides that."""
    found = list(Path(torch.__file__).with_name("lib").glob("*c10.*"))
    try:
        library = ctypes.CDLL(str(found[0]))
        return (ctypes.c_void_p * (session.type.number + 1)).in_dll(library, REGISTRY)
    except (IndexError, OSError, ValueError):
        return None
