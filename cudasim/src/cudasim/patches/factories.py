"""Functions that make tensors, given `device=`: the CPU makes them, a GPU is their home."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from cudasim.device.gpu import GPU, Allocation
from cudasim.dispatch import random
from cudasim.dispatch.booking import book_copy
from cudasim.dispatch.copies import Copy
from cudasim.dispatch.devices import (
    ELSEWHERE,
    in_fake_mode,
    in_graph_trace,
    resolve,
)
from cudasim.dispatch.pinning import mark_pinned
from cudasim.dispatch.tables import TABLES
from cudasim.dispatch.tags import TAG, device_of, gpu_of, put, storage_of
from cudasim.dispatch.waiting import watch_copy
from cudasim.patching import Patches, around, replaces
from cudasim.session import session
from cudasim.torch_private import dispatch as private
from cudasim.torch_private.tensors import MAKE_WRAPPER_SUBCLASS
from cudasim.words import WORDS

FACTORIES = TABLES["factories"]
RANDOM = ("normal", "rand", "randint", "randn", "randperm")
# These may return the argument of that name, or share its memory.
SHARING = {"asarray": "obj", "as_tensor": "data"}
# These make tensors of numbers that the host has.
CONVERTERS = ("tensor", "new_tensor", *SHARING)
INTERFACE = "__cuda_array_interface__"  # of what other libraries keep on a GPU
DEVICE_POSITION = 7  # of `device` among the arguments of `_make_wrapper_subclass`


def patch_factories(patches: Patches) -> None:
    for name in FACTORIES["makers"]:
        _patch_factory(patches, torch, name, share if name in SHARING else make)
    for name in ("fftfreq", "rfftfreq"):
        _patch_factory(patches, torch.fft, name, make)
    # `with torch.device(...)` remembers which functions take its device.
    patches.forget(private.default_device)

    wrapper = around(make_wrapper, MAKE_WRAPPER_SUBCLASS.read())
    patches.replace(*MAKE_WRAPPER_SUBCLASS, staticmethod(wrapper))


def _patch_factory(
    patches: Patches, module: Any, name: str, function: Callable
) -> None:
    original = getattr(module, name)
    session.factories[original] = patches.wrap(module, name, function)


@replaces(private.default_device.DeviceContext, "__torch_function__")
def within(
    original: Callable,
    self: Any,
    func: Callable,
    types: Any,
    args: tuple = (),
    kwargs: Any = None,
) -> Any:
    """Give a factory within `with torch.device(...)` that device, if it names none."""
    kwargs = kwargs or {}
    factory = session.factories.get(func)
    if factory is None or kwargs.get("device") is not None:
        return original(self, func, types, args, kwargs)
    return factory(*args, **{**kwargs, "device": self.device})


# With tensors it takes their device, so `with torch.device(...)` gives it none.
@replaces(torch, "normal")
def make(original: Callable, *args, **kwargs) -> Tensor:
    if kwargs.get("pin_memory"):
        return mark_pinned(make(original, *args, **{**kwargs, "pin_memory": False}))

    name = original.__name__
    gpu = _requested_gpu(kwargs)
    if gpu is ELSEWHERE:
        return original(*args, **kwargs)
    # Tracers write down the device that is given to C++.
    is_traced = (private.is_tracing() or in_graph_trace()) and name not in CONVERTERS
    if gpu is not None and (in_fake_mode() or is_traced):
        return original(*args, **kwargs)

    if kwargs.get("out") is not None:
        _require_type_of_out(kwargs["out"], gpu)
        return original(*args, **{**kwargs, "device": "cpu"})
    if gpu is None:
        tensor = original(*args, **kwargs)
        if name == "tensor":
            put(tensor, None)
        return tensor
    if name in RANDOM:
        kwargs["generator"] = random.source(gpu, kwargs.get("generator"))
    tensor = _allocate(original, gpu, args, kwargs)
    return _deliver(tensor, gpu, name)


def _requested_gpu(kwargs: dict) -> GPU | object | None:
    """Return what `device=` names; ELSEWHERE if it is left out."""
    device = kwargs.get("device")
    return ELSEWHERE if device is None else resolve(device)


def _type_name(gpu: GPU | None) -> str:
    return "cpu" if gpu is None else session.type.name


def _require_type_of_out(out: Tensor, gpu: GPU | None) -> None:
    requested = _type_name(gpu)
    actual = _type_name(gpu_of(out))
    if requested != actual:
        raise RuntimeError(WORDS["devices"]["out"].format(requested, actual))


def share(original: Callable, *args, **kwargs) -> Tensor:
    """Make a tensor as `as_tensor` does: of a tensor itself, of anything else a copy."""
    name = original.__name__
    if SHARING[name] in kwargs:
        args = (kwargs.pop(SHARING[name]),)
    gpu = _requested_gpu(kwargs) if args else ELSEWHERE
    if gpu is ELSEWHERE or (gpu is not None and in_fake_mode()):
        return original(*args, **kwargs)

    source = args[0]
    if gpu and not isinstance(source, Tensor) and hasattr(source, INTERFACE):
        source = _of_other_library(source, gpu)
    if kwargs.get("copy") is False:
        _require_alias(original, source, gpu)
    if isinstance(source, Tensor):  # itself, or what it becomes there: one copy at most
        if gpu_of(source) is not gpu:
            kwargs.pop("copy", None)
            source = source.to(kwargs["device"], dtype=kwargs.get("dtype"))
        kwargs["device"] = "cpu"
        return original(source, **kwargs)

    tensor = _allocate(original, gpu, args, kwargs)
    if gpu is None:
        return tensor
    # Memory that Python holds is not the GPU's.
    memory = Allocation(gpu, tensor.numel() * tensor.element_size())
    copy = put(tensor.clone(), gpu, memory)
    return _deliver(copy, gpu, name)


def _of_other_library(source: Any, gpu: GPU) -> Tensor:
    """Return a tensor that shares the memory of another library's array on `gpu`.

    It stands in no statistics of PyTorch's allocator (torch/csrc/utils/tensor_numpy.cpp,
    `tensor_from_cuda_array_interface`).
    """
    import numpy

    interface = getattr(source, INTERFACE)
    holder = SimpleNamespace(__array_interface__=interface, owner=source)
    tensor = torch.from_numpy(numpy.asarray(holder))
    setattr(storage_of(tensor), TAG, Allocation(gpu, 0))
    return tensor


def _require_alias(original: Callable, source: Any, gpu: GPU | None) -> None:
    """Raise ValueError if a tensor on `gpu` cannot share the memory of `source`."""
    if not isinstance(source, Tensor):
        source = original(source, copy=False)
    if gpu_of(source) is not gpu:
        here = device_of(source)
        there = gpu.device if gpu else "cpu"
        raise ValueError(f"can't alias tensor from device '{here}' to '{there}'.")


@replaces(torch, *FACTORIES["likes"])
@replaces(Tensor, *FACTORIES["news"])
def make_like(original: Callable, input: Tensor, *args, **kwargs) -> Tensor:
    if kwargs.get("pin_memory"):
        kwargs["pin_memory"] = False
        return mark_pinned(make_like(original, input, *args, **kwargs))

    name = original.__name__
    if kwargs.get("device") is None:
        return _make_beside(original, input, *args, **kwargs)
    gpu = resolve(kwargs["device"])
    if gpu is ELSEWHERE:
        return original(input, *args, **kwargs)
    is_traced = private.is_tracing() or in_graph_trace()
    if gpu is not None and (in_fake_mode() or is_traced):
        return original(input, *args, **kwargs)

    if name == "new" and _type_name(gpu) != _type_name(gpu_of(input)):
        expected = _type_name(gpu_of(input))
        message = WORDS["devices"]["legacy"]
        raise RuntimeError(message.format(expected, _type_name(gpu)))
    tensor = _allocate(original, gpu, (input, *args), kwargs)
    return _deliver(tensor, gpu, name)


def _make_beside(original: Callable, input: Tensor, *args, **kwargs) -> Tensor:
    """Make a tensor where `input` is."""
    name = original.__name__
    gpu = gpu_of(input)
    if name == "new" and args and isinstance(args[0], Tensor):
        if _type_name(gpu_of(args[0])) != _type_name(gpu):
            raise TypeError(f"expected {input.type()} (got {args[0].type()})")

    tensor = original(input, *args, **kwargs)
    # No dispatch mode saw these two, except a tensor that `new` was given, and views.
    if name in ("new", "new_tensor") and gpu is not None and gpu_of(tensor) is None:
        put(tensor, gpu)
    return tensor


def _deliver(tensor: Tensor, gpu: GPU | None, name: str) -> Tensor:
    """Put what the factory `name` made on its device, and return it.

    Numbers that the host had are copied there.
    """
    if gpu is not None and name in CONVERTERS:
        watch_copy(None, gpu, non_blocking=False, host=tensor)
        if session.clock is not None:
            book_copy(Copy(tensor, tensor, non_blocking=False), None, gpu)
    if gpu is not None and gpu_of(tensor) is gpu:
        return tensor
    return put(tensor, gpu)


def _allocate(original: Callable, gpu: GPU | None, args: tuple, kwargs: dict) -> Tensor:
    """Call `original` on the CPU.

    Where the host's memory does not suffice, the error is one of the simulated GPU's.
    """
    state = session.thread.operation
    state.factory_gpu = None if original.__name__ in CONVERTERS else gpu
    kwargs["device"] = "cpu"
    try:
        return original(*args, **kwargs)
    except RuntimeError as error:
        size = _refused_size(str(error))
        if gpu is None or size is None:
            raise
    finally:
        state.factory_gpu = None

    Allocation(gpu, size)  # raises, with CUDA's text, if it is more than the card has
    raise MemoryError(
        f"the host cannot hold the {size} bytes that the simulated {gpu.device} can"
    )


def _refused_size(message: str) -> int | None:
    """Return the bytes that the allocator of the CPU did not get, if that is the error."""
    words = message.split()
    if "DefaultCPUAllocator:" not in words or "bytes." not in words:
        return None
    return int(words[words.index("bytes.") - 1])


def make_wrapper(original: Callable, *args, **kwargs) -> Tensor:
    """Make a DTensor or its like, whose GPU C++ must not see: its storage names it."""
    is_positional = len(args) > DEVICE_POSITION
    device = args[DEVICE_POSITION] if is_positional else kwargs.get("device")
    gpu = resolve(device)
    if not isinstance(gpu, GPU):
        return original(*args, **kwargs)

    if is_positional:
        args = (*args[:DEVICE_POSITION], "cpu", *args[DEVICE_POSITION + 1 :])
    else:
        kwargs["device"] = "cpu"
    made = original(*args, **kwargs)
    setattr(storage_of(made), TAG, Allocation(gpu, 0))
    return made
