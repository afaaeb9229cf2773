"""What neither CPython nor PyTorch promises: slots of classes, and C++'s table of devices. Tried
with CPython 3.11 and PyTorch 2.11 and 2.13; where memory does not look as there, it stays as it is.
A class in the place of `torch.device` or `torch.Generator` would not be the `type` of what C++
makes: so their own get a `__new__`, and the slot by which CPython calls it. C++ ends the process
where a traced tensor (`torch.export`) names a device that it does not know: so it finds what it
knows of the CPU (c10/core/impl/DeviceGuardImplInterface.h)."""

import gc
from collections.abc import Callable
from ctypes import (
    CDLL,
    PYFUNCTYPE,
    Array,
    c_int,
    c_void_p,
    py_object,
    pythonapi,
    sizeof,
)
from pathlib import Path
from typing import Any

import torch

from cudasim.patching import Patches
from cudasim.session import session

NEW = 65  # the number of the slot `tp_new` (CPython, Include/typeslots.h)
REGISTRY = (
    "_ZN3c104impl26device_guard_impl_registryE"  # c10::impl::device_guard_impl_registry
)
CPU = 0  # its number among the types of devices

_slot = PYFUNCTYPE(c_void_p, py_object, c_int)(("PyType_GetSlot", pythonapi))
_modified = PYFUNCTYPE(None, py_object)(("PyType_Modified", pythonapi))
_function = PYFUNCTYPE(*[py_object] * 4)


def patch_making(patches: Patches, cls: type, make: Callable) -> None:
    """Have `make(new, cls, args, kwargs)` make the objects of `cls`, of C++, until `restore`.
    Raises RuntimeError on a Python that does not keep its slots in the memory of the class."""
    before = _slot(cls, NEW)
    words = (c_void_p * (type.__basicsize__ // sizeof(c_void_p))).from_address(id(cls))
    places = [place for place, word in enumerate(words) if word == before]
    if len(places) != 1:
        raise RuntimeError(
            f"cudasim knows no way to make objects of {cls} on this Python"
        )
    pointer = _function(before)

    def __new__(kind: type, *args, **kwargs) -> Any:
        return make(pointer, kind, args, kwargs)

    (namespace,) = gc.get_referents(
        cls.__dict__
    )  # which is a view of it that cannot be written
    patches.finally_do(_modified, cls)
    patches.finally_do(words.__setitem__, places[0], before)
    patches.replace_item(namespace, "__new__", staticmethod(__new__))
    words[places[0]] = _slot(
        torch.nn.Parameter, NEW
    )  # as of any class with a `__new__` in Python
    _modified(cls)


def patch_guards(patches: Patches) -> None:
    """Let C++ find for the simulated type what it knows of the CPU, where that can be done."""
    patches.forget(torch.overrides)  # which remembers functions that are replaced
    known, number = registry(), session.type.number
    if known is not None:
        patches.finally_do(known.__setitem__, number, known[number])
        known[number] = known[CPU]


def registry() -> Array | None:
    """What C++ knows of each type of device, by number; None where its library hides that."""
    found = list(Path(torch.__file__).with_name("lib").glob("*c10.*"))
    try:
        library = CDLL(str(found[0]))
        return (c_void_p * (session.type.number + 1)).in_dll(library, REGISTRY)
    except (IndexError, OSError, ValueError):
        return None
