"""Attributes and methods of `torch.Tensor` that depend on its device."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, UntypedStorage
from torch._C._functorch import TransformType
from torch._functorch.autograd_function import custom_function_call
from torch.nn.parameter import UninitializedTensorMixin

from cudasim.device.gpu import GPU
from cudasim.dispatch.booking import read_back
from cudasim.dispatch.tags import TAG, gpu_of, gpu_read, is_scratch
from cudasim.dispatch.waiting import wait_for
from cudasim.patches import storage
from cudasim.patches.moves import functionalized, move
from cudasim.patching import Patches, around, changed, checks, replaces
from cudasim.session import session
from cudasim.words import WORDS

_device = torch.Tensor.device  # the C++ attributes that the patches below cover
_is_cpu = torch.Tensor.is_cpu
_grad = torch.Tensor.grad


class Attribute(property):
    """A property that names its class, as C++'s do: torch._dynamo of 2.11 reads it."""

    __objclass__ = Tensor


def patch_tensor(patches: Patches) -> None:
    type = session.type.name
    for name, attribute in (
        ("device", Attribute(device)),
        (f"is_{type}", Attribute(lambda self: seen_on(self) is not None)),
        (
            "is_cpu",
            Attribute(lambda self: _is_cpu.__get__(self) and seen_on(self) is None),
        ),
        ("get_device", get_device),
        # Read by C++ as before; only what is assigned is looked at.
        ("grad", Attribute(_grad.__get__, assign_gradient, _grad.__delete__)),
    ):
        patches.replace(Tensor, name, attribute)
    patches.replace(UntypedStorage, "device", property(storage.device_of))
    setattr(UntypedStorage, TAG, None)  # that of those on the CPU
    patches.finally_do(delattr, UntypedStorage, TAG)
    rules, kind = custom_function_call.functorch_table, TransformType.Functionalize
    patches.replace_item(rules, kind, around(functionalized, rules[kind]))
    moved = [
        Tensor.copy_,
        Tensor.to,
        Tensor.cpu,
    ]  # a lazy layer's parameters allow them by name
    if hasattr(Tensor, type):  # there is no Tensor.mps
        moved.append(patches.wrap(Tensor, type, move, overridable=True))
    allowed = [*UninitializedTensorMixin._allowed_methods, *moved]
    patches.replace(UninitializedTensorMixin, "_allowed_methods", allowed)


def device(self: Tensor) -> torch.device:
    gpu = gpu_of(self) or seen_on(self)
    return gpu.device if gpu else _device.__get__(self)


def seen_on(self: Tensor) -> GPU | None:
    """The GPU that a tensor names; a DTensor, made in C++, has that of its local part."""
    gpu = gpu_of(self)
    if gpu is None and hasattr(type(self), "_local_tensor"):
        return gpu_of(self._local_tensor)
    return gpu


def get_device(self: Tensor) -> int:
    gpu = seen_on(self)
    return gpu.index if gpu else -1


def assign_gradient(self: Tensor, value: Tensor | None) -> None:
    """Assigning `Tensor.grad`: a gradient lives where its tensor does (python_variable.cpp)."""
    if (
        isinstance(value, Tensor)
        and gpu_of(self) is not gpu_of(value)
        and not is_scratch(value)
    ):
        home, other = gpu_of(self), gpu_of(value)
        if home and other:
            theirs, mine = (
                f"located on device with index '{g.index}'" for g in (other, home)
            )
        else:
            theirs, mine = (
                f"with device type '{t.device.type}'" for t in (value, self)
            )
        raise RuntimeError(WORDS["devices"]["gradient"].format(theirs, mine))
    _grad.__set__(self, value)


@replaces(Tensor, "type", overridable=True)
def type_of(original: Callable, self: Tensor, dtype: Any = None, **kwargs) -> Any:
    prefix = f"torch.{session.type.name}."
    if dtype is None:
        name = original(self)
        return name.replace("torch.", prefix, 1) if gpu_of(self) else name
    if isinstance(dtype, torch.dtype):
        return original(self, dtype, **kwargs)
    name = dtype if isinstance(dtype, str) else str(dtype)
    if not name.startswith("torch."):  # a class, such as torch.FloatTensor
        name = f"{dtype.__module__}.{dtype.__name__}"
    if name.startswith(prefix):
        moved = self if gpu_of(self) else self.to(session.type.name)
        return original(moved, name.replace(prefix, "torch.", 1), **kwargs)
    return original(self.cpu(), name, **kwargs)


@replaces(Tensor, "tolist")
@replaces(torch._tensor_str, "_str")
def told(original: Callable, self: Tensor, *args, **kwargs) -> Any:
    """What reads a tensor's numbers where no dispatch mode sees it; the host waits for a GPU."""
    gpu = gpu_read(self)
    if gpu is not None and session.watching:
        wait_for(gpu)
    if gpu is not None and session.clock is not None:
        number, name = self.numel(), original.__name__
        if name == "_str":
            number, name = min(number, torch._tensor_str.PRINT_OPTS.threshold), "print"
        read_back(gpu, name, number * self.element_size())
    with changed(session.thread, telling=True):
        return original(self, *args, **kwargs)


@replaces(torch.utils._python_dispatch, "_disable_current_modes")
@contextmanager
def without_modes(original: Callable) -> Iterator[list]:
    """What PyTorch does in sight of no mode: on a card it is computed there, too."""
    ours = (
        session.mode is not None and not session.thread.telling
    )  # compilers keep the function
    with original() as modes, type(session.mode)() if ours else nullcontext():
        yield modes


@replaces(Tensor, "numpy", "__array__")
def numpy(original: Callable, self: Tensor, *args, **kwargs) -> Any:
    gpu = gpu_of(self)
    if gpu and not kwargs.get("force"):
        raise TypeError(WORDS["devices"]["numpy"].format(gpu.device))
    return original(self.cpu() if gpu else self, *args, **kwargs)


@checks(Tensor, "apply_", "map_", "map2_")
def elementwise(name: str, self: Tensor, *args) -> None:
    if any(gpu_of(each) for each in (self, *args) if isinstance(each, Tensor)):
        raise TypeError(f"{name} is only implemented on CPU tensors")
