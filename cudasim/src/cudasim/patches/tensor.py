"""Attributes and methods of `torch.Tensor` that depend on its device."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, UntypedStorage

from cudasim.device.gpu import GPU
from cudasim.dispatch.booking import read_back
from cudasim.dispatch.tags import TAG, gpu_of, gpu_read, is_scratch
from cudasim.dispatch.waiting import wait_for, watch_copy
from cudasim.patches import storage
from cudasim.patches.moves import move, run_functionalized, seen_on
from cudasim.patching import Patches, around, changed, checks, releasing, replaces
from cudasim.session import session
from cudasim.torch_private import dispatch
from cudasim.torch_private import tensors as private
from cudasim.words import WORDS

MESSAGES = WORDS["devices"]

# The attributes of C++ that the patches below cover.
_device = torch.Tensor.device
_is_cpu = torch.Tensor.is_cpu
_grad = torch.Tensor.grad


class Attribute(property):
    """A property that names its class, as C++'s do: torch._dynamo of 2.11 reads it."""

    __objclass__ = Tensor


def patch_tensor(patches: Patches) -> None:
    _patch_attributes(patches)
    patches.replace(UntypedStorage, "device", property(storage.device_of))
    setattr(UntypedStorage, TAG, None)  # the tag of those on the CPU
    patches.finally_do(delattr, UntypedStorage, TAG)

    rules = dispatch.custom_function_call.functorch_table
    kind = dispatch.TransformType.Functionalize
    patches.replace_item(rules, kind, around(run_functionalized, rules[kind]))
    _patch_moves(patches)


def _patch_attributes(patches: Patches) -> None:
    # The gradient is read by C++ as before; only what is assigned is looked at.
    assign = releasing(assign_gradient)
    grad = Attribute(_grad.__get__, assign, _grad.__delete__)
    patches.replace(Tensor, "device", Attribute(device))
    patches.replace(Tensor, f"is_{session.type.name}", Attribute(is_on_gpu))
    patches.replace(Tensor, "is_cpu", Attribute(is_cpu))
    patches.replace(Tensor, "get_device", get_device)
    patches.replace(Tensor, "grad", grad)


def _patch_moves(patches: Patches) -> None:
    """Patch `Tensor.cuda`, and let a lazy layer's parameters allow what is patched."""
    moves = [Tensor.copy_, Tensor.to, Tensor.cpu]
    name = session.type.name
    if hasattr(Tensor, name):  # there is no Tensor.mps
        moves.append(patches.wrap(Tensor, name, move, overridable=True))
    allowed = [*private.ALLOWED_METHODS.read(), *moves]
    patches.replace(*private.ALLOWED_METHODS, allowed)


def device(self: Tensor) -> torch.device:
    gpu = gpu_of(self) or seen_on(self)
    return gpu.device if gpu else _device.__get__(self)


def is_on_gpu(self: Tensor) -> bool:
    return seen_on(self) is not None


def is_cpu(self: Tensor) -> bool:
    return _is_cpu.__get__(self) and seen_on(self) is None


def get_device(self: Tensor) -> int:
    gpu = seen_on(self)
    return gpu.index if gpu else -1


def assign_gradient(self: Tensor, value: Tensor | None) -> None:
    """Assign `Tensor.grad`: a gradient lives where its tensor does (python_variable.cpp)."""
    if isinstance(value, Tensor):
        home = seen_on(self)
        gpu = seen_on(value)
        if home is not gpu and not is_scratch(value):
            raise _gradient_elsewhere(self, home, value, gpu)
    _grad.__set__(self, value)


def _gradient_elsewhere(
    tensor: Tensor, home: GPU | None, gradient: Tensor, gpu: GPU | None
) -> RuntimeError:
    if home and gpu:
        theirs = f"located on device with index '{gpu.index}'"
        mine = f"located on device with index '{home.index}'"
    else:
        theirs = f"with device type '{gradient.device.type}'"
        mine = f"with device type '{tensor.device.type}'"
    return RuntimeError(MESSAGES["gradient"].format(theirs, mine))


@replaces(Tensor, "type", overridable=True)
def type_of(original: Callable, self: Tensor, dtype: Any = None, **kwargs) -> Any:
    """Name the type of a tensor, `torch.cuda.FloatTensor`, or move it to another."""
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
@replaces(*private.TENSOR_TO_TEXT)
def read_numbers(original: Callable, self: Tensor, *args, **kwargs) -> Any:
    """Read a tensor's numbers where no dispatch mode sees it; the host waits for a GPU."""
    gpu = gpu_read(self)
    if gpu is not None and session.watching:
        if original.__name__ == "tolist":  # copies all of it (tensor_list.cpp)
            watch_copy(gpu, None, non_blocking=False, host=None)
        else:
            wait_for(gpu)
    elif session.races is not None:
        session.races.note_host_read(self, original.__name__)
    if gpu is not None and session.clock is not None:
        count = self.numel()
        name = original.__name__
        if name == private.TENSOR_TO_TEXT.name:
            count = min(count, private.print_options.threshold)
            name = "print"
        read_back(gpu, name, count * self.element_size())
    with changed(session.thread, is_printing=True):
        return original(self, *args, **kwargs)


@replaces(Tensor, "__reduce_ex__")
def pickle(original: Callable, self: Tensor, protocol: int) -> Any:
    """Read the numbers of a tensor for `pickle` and `torch.save`."""
    if session.races is not None and gpu_of(self) is None:
        session.races.note_host_read(self, original.__name__)
    return original(self, protocol)


@replaces(*dispatch.DISABLE_MODES)
@contextmanager
def without_modes(original: Callable) -> Iterator[list]:
    """Do what PyTorch does in sight of no mode in sight of ours: a card computes it, too."""
    mode = nullcontext()
    # Compilers keep this function beyond a simulation.
    if session.mode is not None and not session.thread.is_printing:
        mode = type(session.mode)()
    with original() as modes, mode:
        yield modes


@replaces(Tensor, "numpy", "__array__")
def numpy(original: Callable, self: Tensor, *args, **kwargs) -> Any:
    gpu = gpu_of(self)
    if gpu is None:
        return original(self, *args, **kwargs)
    if not kwargs.get("force"):
        if self.layout is not torch.strided:  # C++ looks at the layout first
            return original(self, *args, **kwargs)
        raise TypeError(MESSAGES["numpy"].format(gpu.device))
    return original(self.cpu(), *args, **kwargs)


@checks(Tensor, "apply_", "map_", "map2_")
def elementwise(name: str, self: Tensor, *args) -> None:
    for operand in (self, *args):
        if isinstance(operand, Tensor) and gpu_of(operand) is not None:
            raise TypeError(f"{name} is only implemented on CPU tensors")
