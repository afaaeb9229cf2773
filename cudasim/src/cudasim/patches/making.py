"""Make objects of a class of C++ in another way, while the class stays the object that it is.

`torch.device` cannot be derived from, and a class in its place would not be the `type` of the
devices that C++ makes. So the class itself is told to ask Python: it gets a `__new__` of ours, and
the slot by which CPython makes the objects of every class that has one in Python.
"""

import ctypes
import gc
from collections.abc import Callable
from typing import Any

from cudasim.patching import Patches

NEW = 65  # the number of the slot `tp_new` (CPython, Include/typeslots.h)
WORD = ctypes.sizeof(ctypes.c_void_p)

_slot = ctypes.pythonapi.PyType_GetSlot
_slot.argtypes, _slot.restype = [ctypes.py_object, ctypes.c_int], ctypes.c_void_p
_modified = ctypes.pythonapi.PyType_Modified
_modified.argtypes, _modified.restype = [ctypes.py_object], None
_function = ctypes.PYFUNCTYPE(*[ctypes.py_object] * 4)


class _Asking:
    """Any class whose objects are made by Python."""

    def __new__(cls) -> "_Asking":
        return super().__new__(cls)


def patch_making(patches: Patches, cls: type, make: Callable[[Callable], Callable]) -> None:
    """Have `make(original)` make the objects of `cls`, a class of C++, until `restore`.

    Both functions take what the class is called with; `original` makes an object as before. Raises
    RuntimeError on a Python that does not keep its slots in the memory of the class.
    """
    before = _slot(cls, NEW)
    words = (ctypes.c_void_p * (type.__basicsize__ // WORD)).from_address(id(cls))
    places = [place for place, word in enumerate(words) if word == before]
    if len(places) != 1:
        raise RuntimeError(f"cudasim knows no way to make objects of {cls} on this Python")
    pointer = _function(before)

    def original(*args: Any, **kwargs: Any) -> Any:
        return pointer(cls, args, kwargs)

    made = make(original)

    def __new__(_: type, *args: Any, **kwargs: Any) -> Any:
        return made(*args, **kwargs)

    (namespace,) = gc.get_referents(cls.__dict__)  # which is a view of it that cannot be written
    patches.finally_do(lambda: _modified(cls))
    patches.finally_do(lambda: words.__setitem__(places[0], before))
    patches.replace_item(namespace, "__new__", staticmethod(__new__))
    words[places[0]] = _slot(_Asking, NEW)
    _modified(cls)
