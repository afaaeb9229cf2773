"""Attributes and methods of `torch.Tensor` that depend on its device."""

from functools import wraps
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import UninitializedTensorMixin
from torch.overrides import handle_torch_function, has_torch_function_unary

from cudasim.device.gpu import GPU
from cudasim.dispatch.booking import read_back
from cudasim.dispatch.tags import gpu_of, gpu_read, is_scratch
from cudasim.dispatch.waiting import wait_for
from cudasim.patches import moves
from cudasim.patching import Patches
from cudasim.session import session

_device = torch.Tensor.device  # the C++ attributes that the patches below cover
_is_cpu = torch.Tensor.is_cpu


class Attribute(property):
    """A property that names its class, as C++'s do: torch._dynamo of 2.11 reads it."""

    __objclass__ = Tensor


def patch_tensor(patches: Patches) -> None:
    """Make the attributes of tensors report simulated GPUs, and the methods move to them."""
    patches.replace(Tensor, "device", Attribute(device))
    type = session.type.name
    patches.replace(Tensor, f"is_{type}", Attribute(lambda self: seen_on(self) is not None))
    patches.replace(Tensor, "is_cpu", Attribute(is_cpu))
    patches.replace(Tensor, "get_device", get_device)
    grad = Tensor.grad  # read by C++ as before; only what is assigned is looked at
    patches.replace(Tensor, "grad", Attribute(grad.__get__, make_assign(grad), grad.__delete__))
    patches.replace(Tensor, "type", make_type(Tensor.type))
    patches.replace(Tensor, "numpy", make_numpy(Tensor.numpy))
    patches.replace(Tensor, "__array__", make_numpy(Tensor.__array__))
    for name in ("apply_", "map_", "map2_"):
        patches.replace(Tensor, name, make_elementwise(getattr(Tensor, name), name))
    patches.replace(Tensor, "tolist", make_told(Tensor.tolist, "tolist"))
    patches.replace(torch._tensor_str, "_str", make_told(torch._tensor_str._str, "print"))
    patches.replace(Tensor, "to", moves.make_to(Tensor.to))
    patches.replace(Tensor, "type_as", moves.make_type_as(Tensor.type_as))
    patches.replace(Tensor, "cpu", moves.cpu)
    moved = [Tensor.to, Tensor.cpu]  # a lazy layer's parameters allow them by name
    if hasattr(Tensor, type):  # there is no Tensor.mps
        patches.replace(Tensor, type, moves.make_move(type, getattr(Tensor, type)))
        moved.append(getattr(Tensor, type))
    allowed = [*UninitializedTensorMixin._allowed_methods, *moved]
    patches.replace(UninitializedTensorMixin, "_allowed_methods", allowed)


def device(self: Tensor) -> torch.device:
    """`Tensor.device`."""
    gpu = seen_on(self)
    return gpu.device if gpu else _device.__get__(self)


def seen_on(self: Tensor) -> GPU | None:
    """The GPU that a tensor names; a DTensor, made in C++, has that of its local part."""
    gpu = gpu_of(self)
    if gpu is None and hasattr(type(self), "_local_tensor"):
        return gpu_of(self._local_tensor)
    return gpu


def is_cpu(self: Tensor) -> bool:
    """`Tensor.is_cpu`."""
    return _is_cpu.__get__(self) and seen_on(self) is None


def get_device(self: Tensor) -> int:
    """`Tensor.get_device`: the index of the GPU, -1 on the CPU."""
    gpu = seen_on(self)
    return gpu.index if gpu else -1


def make_assign(grad: Any) -> Any:
    """Assigning `Tensor.grad`: a gradient lives where its tensor does (python_variable.cpp)."""

    def assign(self: Tensor, value: Tensor | None) -> None:
        if isinstance(value, Tensor) and not is_scratch(value):
            home, other = gpu_of(self), gpu_of(value)
            if home is not other:
                if home and other:
                    theirs, mine = (f"device with index '{gpu.index}'" for gpu in (other, home))
                    theirs, mine = f"located on {theirs}", f"located on {mine}"
                else:
                    theirs, mine = (f"with device type '{t.device.type}'" for t in (value, self))
                raise RuntimeError(
                    f"attempting to assign a gradient {theirs} to a tensor {mine}. "
                    "Please ensure that the gradient and the tensor are on the same device"
                )
        grad.__set__(self, value)

    return assign


def make_type(original: Any) -> Any:
    """`Tensor.type`: the name of a type contains `cuda` or `mps` for a tensor on a GPU."""
    prefix = f"torch.{session.type.name}."

    def type(self: Tensor, dtype: Any = None, **kwargs: Any) -> Any:
        if has_torch_function_unary(self):
            return handle_torch_function(type, (self,), self, dtype, **kwargs)
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

    return type


def make_told(original: Any, name: str) -> Any:
    """What reads a tensor's numbers where no dispatch mode sees it; the host waits for a GPU."""

    @wraps(original)  # function modes know it by its name
    def told(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        gpu = gpu_read(self)
        if gpu is not None and (session.watching or session.clock is not None):
            _wait_for(self, gpu, name)
        return original(self, *args, **kwargs)

    return told


def _wait_for(tensor: Tensor, gpu: GPU, name: str) -> None:
    if session.watching:
        wait_for(gpu)
    if session.clock is not None:
        shown = min(tensor.numel(), torch._tensor_str.PRINT_OPTS.threshold)
        number = shown if name == "print" else tensor.numel()
        read_back(gpu, name, number * tensor.element_size())


def make_numpy(original: Any) -> Any:
    """`Tensor.numpy`: refused on a GPU, with torch's own words."""

    def numpy(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        gpu = gpu_of(self)
        if gpu and not kwargs.get("force"):
            raise TypeError(
                f"can't convert {gpu.device} device type tensor to numpy. "
                "Use Tensor.cpu() to copy the tensor to host memory first."
            )
        return original(self.cpu() if gpu else self, *args, **kwargs)

    return numpy


def make_elementwise(original: Any, name: str) -> Any:
    """A method that calls Python for each element: refused on a GPU, with torch's own words."""

    def elementwise(self: Tensor, *args: Any) -> Tensor:
        if gpu_of(self):
            raise TypeError(f"{name} is only implemented on CPU tensors")
        return original(self, *args)

    return elementwise
