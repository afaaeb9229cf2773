"""Functions that make tensors, given `device=`: the CPU makes them, the GPU is their home."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils import _device

from cudasim.device.gpu import GPU, Allocation
from cudasim.dispatch import random
from cudasim.dispatch.booking import book_copy
from cudasim.dispatch.devices import ELSEWHERE, in_fake_mode, resolve
from cudasim.dispatch.tables import TABLES
from cudasim.dispatch.tags import TAG, device_of, gpu_of, put, storage_of
from cudasim.dispatch.waiting import watch_copy
from cudasim.patches.storage import pinned
from cudasim.patching import Patches, around, replaces
from cudasim.session import session
from cudasim.words import WORDS

MAKERS = TABLES["factories"]["makers"]
LIKES = TABLES["factories"]["likes"]
NEWS = TABLES["factories"]["news"]
RANDOM = ("normal", "rand", "randint", "randn", "randperm")
SHARING = {
    "asarray": "obj",
    "as_tensor": "data",
}  # may return this argument, or share its memory
CONVERTERS = ("tensor", "new_tensor", *SHARING)  # of numbers that the host has
DEVICE = 7  # the position of `device` among the arguments of `_make_wrapper_subclass`


def patch_factories(patches: Patches) -> None:
    for module, names in ((torch, MAKERS), (torch.fft, ("fftfreq", "rfftfreq"))):
        for name in names:
            original, how = getattr(module, name), share if name in SHARING else make
            session.factories[original] = patches.wrap(module, name, how)
    patches.forget(
        _device
    )  # `with torch.device(...)` knows which functions take its device
    wrapper = around(make_wrapper, Tensor._make_wrapper_subclass)
    patches.replace(Tensor, "_make_wrapper_subclass", staticmethod(wrapper))


@replaces(_device.DeviceContext, "__torch_function__")
def within(
    original: Callable,
    self: Any,
    func: Callable,
    types: Any,
    args: tuple = (),
    kwargs: Any = None,
) -> Any:
    """`with torch.device(...)`: what a factory is given as `device=` if nothing is named."""
    maker, kwargs = session.factories.get(func), kwargs or {}
    if maker is None or kwargs.get("device") is not None:
        return original(self, func, types, args, kwargs)
    return maker(*args, **{**kwargs, "device": self.device})


# With tensors it takes their device, so `with torch.device(...)` gives it none.
@replaces(torch, "normal")
def make(original: Callable, *args, **kwargs) -> Tensor:
    if kwargs.get("pin_memory"):
        return pinned(make(original, *args, **{**kwargs, "pin_memory": False}))
    device, name = kwargs.get("device"), original.__name__
    gpu = ELSEWHERE if device is None else resolve(device)
    # TorchScript writes down the device that it is given.
    traced = gpu and (
        in_fake_mode() or (torch._C._is_tracing() and name not in CONVERTERS)
    )
    if gpu is ELSEWHERE or traced:
        return original(*args, **kwargs)
    if (out := kwargs.get("out")) is not None:
        wanted, given = (
            session.type.name if each else "cpu" for each in (gpu, gpu_of(out))
        )
        if wanted != given:
            raise RuntimeError(WORDS["devices"]["out"].format(wanted, given))
        return original(*args, **{**kwargs, "device": "cpu"})
    if gpu is None:
        made = original(*args, **kwargs)
        return put(made, None) if name == "tensor" else made
    if name in RANDOM:
        kwargs["generator"] = random.source(gpu, kwargs.get("generator"))
    return _sent(_allocating(original, gpu, args, kwargs), gpu, name)


def share(original: Callable, *args, **kwargs) -> Tensor:
    name = original.__name__
    if SHARING[name] in kwargs:
        args = (kwargs.pop(SHARING[name]),)
    device = kwargs.get("device")
    gpu = ELSEWHERE if device is None or not args else resolve(device)
    if gpu is ELSEWHERE or (gpu and in_fake_mode()):
        return original(*args, **kwargs)
    source = args[0]
    if kwargs.get("copy") is False:
        seen = source if isinstance(source, Tensor) else original(source, copy=False)
        if gpu_of(seen) is not gpu:
            here, there = device_of(seen), gpu.device if gpu else "cpu"
            raise ValueError(f"can't alias tensor from device '{here}' to '{there}'.")
    if isinstance(
        source, Tensor
    ):  # itself or what it becomes there, and a copy once at most
        if gpu_of(source) is not gpu:
            kwargs.pop("copy", None)
            source = source.to(device, dtype=kwargs.get("dtype"))
        kwargs["device"] = "cpu"
        return original(source, **kwargs)
    made = _allocating(original, gpu, args, kwargs)
    if gpu is None:
        return made
    memory = Allocation(gpu, made.numel() * made.element_size())
    return _sent(
        put(made.clone(), gpu, memory), gpu, name
    )  # Python's memory is not the GPU's


@replaces(torch, *LIKES)
@replaces(Tensor, *NEWS)
def make_like(original: Callable, input: Tensor, *args, **kwargs) -> Tensor:
    if kwargs.get("pin_memory"):
        return pinned(
            make_like(original, input, *args, **{**kwargs, "pin_memory": False})
        )
    device, name = kwargs.get("device"), original.__name__
    if device is None:
        if name == "new" and isinstance(next(iter(args), None), Tensor):
            if bool(gpu_of(args[0])) is not bool(gpu_of(input)):
                raise TypeError(f"expected {input.type()} (got {args[0].type()})")
        made = original(input, *args, **kwargs)
        # No dispatch mode saw these, except a tensor that `new` was given, which it views.
        if (
            name in ("new", "new_tensor")
            and (gpu := gpu_of(input))
            and not gpu_of(made)
        ):
            put(made, gpu)
        return made
    gpu = resolve(device)
    if gpu is ELSEWHERE or (gpu and (in_fake_mode() or torch._C._is_tracing())):
        return original(input, *args, **kwargs)
    if name == "new" and bool(gpu) is not bool(gpu_of(input)):
        mine, theirs = (
            (session.type.name, "cpu") if gpu is None else ("cpu", session.type.name)
        )
        raise RuntimeError(WORDS["devices"]["legacy"].format(mine, theirs))
    return _sent(_allocating(original, gpu, (input, *args), kwargs), gpu, name)


def _sent(made: Tensor, gpu: GPU | None, name: str) -> Tensor:
    if name in CONVERTERS and gpu is not None:
        watch_copy(None, gpu, non_blocking=False)
        if session.clock is not None:
            book_copy(made, made, None, gpu, non_blocking=False)
    return made if gpu is not None and gpu_of(made) is gpu else put(made, gpu)


def _allocating(
    original: Callable, gpu: GPU | None, args: tuple, kwargs: dict
) -> Tensor:
    """Call `original` on the CPU; a refusal of the host's memory is one of the simulated GPU's."""
    doing = session.thread.doing
    doing.making = None if original.__name__ in CONVERTERS else gpu
    kwargs["device"] = "cpu"
    try:
        return original(*args, **kwargs)
    except RuntimeError as error:
        words = str(error).split()
        if gpu is None or "DefaultCPUAllocator:" not in words or "bytes." not in words:
            raise
        size = int(words[words.index("bytes.") - 1])
    finally:
        doing.making = None
    Allocation(gpu, size)  # raises, with CUDA's text, if it is more than the card has
    raise MemoryError(
        f"the host cannot hold the {size} bytes that the simulated {gpu.device} can"
    )


def make_wrapper(original: Callable, *args, **kwargs) -> Tensor:
    """What makes DTensors and the like; C++ must not see their GPU, which the storage names."""
    gpu = resolve(args[DEVICE] if len(args) > DEVICE else kwargs.get("device"))
    if not isinstance(gpu, GPU):
        return original(*args, **kwargs)
    if len(args) > DEVICE:
        args = (*args[:DEVICE], "cpu", *args[DEVICE + 1 :])
    else:
        kwargs["device"] = "cpu"
    made = original(*args, **kwargs)
    setattr(storage_of(made), TAG, Allocation(gpu, 0))
    return made
