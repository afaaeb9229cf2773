"""What neither CPython nor PyTorch promises: slots of classes, and C++'s table of devices.

A class in the place of `torch.device` or `torch.Generator` would not be the `type` of
what C++ makes. So their own get a `__new__`, and the slot by which CPython calls it, and
methods of theirs are replaced in the dictionary of the class.

C++ ends the process where a traced tensor (`torch.export`) names a type of device that it
does not know. So it finds there what it knows of the CPU
(c10/core/impl/DeviceGuardImplInterface.h).

Tried with CPython 3.11 and PyTorch 2.11 to 2.14. Where memory does not look as there,
it stays as it is.
"""

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

from cudasim.patching import Patches, around
from cudasim.session import session
from cudasim.torch_private.devices import REGISTRY

NEW_SLOT = 65  # the number of `tp_new` (CPython, Include/typeslots.h)
CPU = 0  # its number among the types of devices

_read_slot = PYFUNCTYPE(c_void_p, py_object, c_int)(("PyType_GetSlot", pythonapi))
_announce_change = PYFUNCTYPE(None, py_object)(("PyType_Modified", pythonapi))
_new_function = PYFUNCTYPE(py_object, py_object, py_object, py_object)


def patch_making(patches: Patches, cls: type, make: Callable) -> None:
    """Have `make(new, cls, args, kwargs)` make the objects of a class of C++.

    Raises RuntimeError on a Python that does not keep its slots in the memory of the
    class.
    """
    own_slot = _read_slot(cls, NEW_SLOT)
    size = type.__basicsize__ // sizeof(c_void_p)
    memory = (c_void_p * size).from_address(id(cls))
    positions = [place for place, word in enumerate(memory) if word == own_slot]
    if len(positions) != 1:
        raise RuntimeError(
            f"cudasim knows no way to make objects of {cls} on this Python"
        )
    (position,) = positions
    own_new = _new_function(own_slot)

    def __new__(kind: type, *args, **kwargs) -> Any:
        return make(own_new, kind, args, kwargs)

    patches.finally_do(memory.__setitem__, position, own_slot)
    _replace_in_class(patches, cls, "__new__", staticmethod(__new__))

    # The slot is that of any class with a `__new__` in Python.
    memory[position] = _read_slot(torch.nn.Parameter, NEW_SLOT)
    _announce_change(cls)


def patch_method(patches: Patches, cls: type, name: str, function: Callable) -> None:
    """Let `function(original, self, ...)` run around a method of a class of C++.

    A method whose name CPython keeps in a slot (`__repr__`, for example) needs more.
    """
    original = cls.__dict__[name]
    _replace_in_class(patches, cls, name, around(function, original))


def _replace_in_class(patches: Patches, cls: type, name: str, value: Any) -> None:
    """Replace an attribute of a class whose attributes CPython does not let one set."""
    # `__dict__` is a view that cannot be written, of a dictionary that can.
    (namespace,) = gc.get_referents(cls.__dict__)
    patches.finally_do(_announce_change, cls)
    patches.replace_item(namespace, name, value)
    _announce_change(cls)


def patch_guards(patches: Patches) -> None:
    """Let C++ find for the simulated type what it knows of the CPU, where that can be."""
    patches.forget(torch.overrides)  # which remembers functions that are replaced
    guards = registry()
    if guards is None:
        return
    number = session.type.number
    patches.finally_do(guards.__setitem__, number, guards[number])
    guards[number] = guards[CPU]


def registry() -> Array | None:
    """Return what C++ knows of each type of device, by number.

    None where PyTorch's library hides that.
    """
    libraries = list(Path(torch.__file__).with_name("lib").glob("*c10.*"))
    if not libraries:
        return None
    try:
        library = CDLL(str(libraries[0]))
        return (c_void_p * (session.type.number + 1)).in_dll(library, REGISTRY)
    except (OSError, ValueError):
        return None
