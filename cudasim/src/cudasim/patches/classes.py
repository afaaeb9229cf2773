"""Classes that know simulated GPUs: `torch.device`, `torch.Generator`, and tensor types.

The first two are PyTorch's own. A `torch.FloatTensor` and its kin get stand-ins, as no
tensor on a GPU is one.
"""

import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cudasim.device.generator import Generator, check_state
from cudasim.device.gpu import GPU
from cudasim.dispatch.devices import resolve
from cudasim.dispatch.tags import gpu_of
from cudasim.patches.guards import patch_making, patch_method
from cudasim.patching import Patches, replaces
from cudasim.session import session
from cudasim.torch_private import tensors as private


class HostType(type):
    """The class of the stand-ins for the CPU's tensor types.

    A stand-in is equal to the type it stands for, so that tables find it.
    """

    _original: type

    def __call__(cls, *args, **kwargs) -> Any:
        if args and isinstance(args[0], Tensor):
            gpu = gpu_of(args[0])
            if gpu is not None:
                raise _refuse_gpu_tensor(cls._original, args[0].dtype, gpu)
        return cls._original(*args, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls._original) and gpu_of(instance) is None

    def __subclasscheck__(cls, other: type) -> bool:
        return other == cls

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls._original

    def __hash__(cls) -> int:
        return hash(cls._original)

    def __repr__(cls) -> str:
        return repr(cls._original)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls._original, name)


def _refuse_gpu_tensor(kind: type, dtype: torch.dtype, gpu: GPU) -> TypeError:
    """Return the error with which a type of the CPU refuses a tensor on a GPU."""
    # The type refuses tensors of another dtype: bool, or uint8 if it is that of bool.
    refusal = _type_refusal(kind, torch.bool) or _type_refusal(kind, torch.uint8)
    expected = refusal[0]
    same_device = _type_refusal(kind, dtype)
    got = same_device[1] if same_device else expected
    got = got.replace("device=cpu", f"device={gpu.device}")
    return TypeError(f"expected {expected} (got {got})")


def _type_refusal(kind: type, dtype: torch.dtype) -> tuple[str, str] | None:
    """Return what `kind` says that it expected and got, if it refuses a tensor of `dtype`."""
    try:
        kind(torch.empty(0, dtype=dtype))
    except TypeError as error:
        return re.fullmatch(r"expected (.*) \(got (.*)\)", str(error)).groups()
    return None


def _is_index(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def make_device(new: Callable, cls: type, args: tuple, kwargs: dict) -> torch.device:
    """Make a device; an index alone is that of a GPU."""
    values = (*args, *kwargs.values())
    if len(values) != 1 or not _is_index(values[0]):
        return new(cls, args, kwargs)
    index = values[0]
    if index < 0:
        raise RuntimeError("Device index must not be negative")
    return new(cls, (session.type.name, index), {})


def make_generator(
    new: Callable, cls: type, args: tuple, kwargs: dict
) -> torch.Generator:
    device = args[0] if args else kwargs.get("device", "cpu")
    if isinstance(resolve(device), GPU):
        return Generator(torch.device(device))
    return new(cls, args, kwargs)


def set_generator_state(
    original: Callable, self: torch.Generator, state: Any
) -> torch.Generator:
    """Refuse a state on a GPU, which C++ takes for one on the CPU."""
    if isinstance(state, Tensor):
        check_state(state)
    return original(self, state)


def unpickle_generator(
    original: Callable, self: torch.Generator, pickled: tuple
) -> None:
    """Refuse a state that `torch.load` has moved to a GPU."""
    for value in pickled:
        if isinstance(value, Tensor):
            check_state(value)
    original(self, pickled)


def patch_classes(patches: Patches) -> None:
    patch_making(patches, torch.device, make_device)
    patch_making(patches, torch.Generator, make_generator)
    patch_method(patches, torch.Generator, "set_state", set_generator_state)
    patch_method(patches, torch.Generator, "__setstate__", unpickle_generator)
    _patch_default_generators(patches)
    _patch_tensor_types(patches)


def _patch_default_generators(patches: Patches) -> None:
    module = getattr(torch, session.type.name)
    if not hasattr(module, "default_generators"):
        return

    def set_generators() -> None:
        module.default_generators = tuple(gpu.generator for gpu in session.gpus)

    patches.replace(module, "default_generators", None)
    session.when_gpus_change.append(set_generators)
    set_generators()


def _patch_tensor_types(patches: Patches) -> None:
    kind = type(torch.FloatTensor)
    for name, original in list(vars(torch).items()):
        if isinstance(original, kind):
            namespace = {
                "__doc__": original.__doc__,
                "__module__": "torch",
                "_original": original,
            }
            patches.replace(torch, name, HostType(name, (), namespace))


@replaces(*private.SET_DEFAULT_TENSOR_TYPE)
def set_default_tensor_type(original: Callable, chosen: Any) -> None:
    original(chosen._original if isinstance(chosen, HostType) else chosen)


@replaces(*private.PARSE_TO)
def parse_to(original: Callable, *args, **kwargs) -> tuple:
    """Read the arguments of `Module.to`.

    An integer names a GPU, and a tensor stands for the GPU that it is on.
    """
    if args and _is_index(args[0]):
        args = (torch.device(args[0]), *args[1:])
    elif _is_index(kwargs.get("device")):
        kwargs["device"] = torch.device(kwargs["device"])

    parsed = original(*args, **kwargs)
    example = args[0] if args else kwargs.get("tensor")
    gpu = gpu_of(example) if isinstance(example, Tensor) else None
    return parsed if gpu is None else (gpu.device, *parsed[1:])
