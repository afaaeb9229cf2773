"""`torch.autocast` on a GPU, by the lists of `aten/src/ATen/autocast_mode.h`.

PyTorch's own rules check in C++ whether a tensor is on a GPU. So kernels that know simulated
GPUs replace them in the dispatcher, from the first region that needs them.
"""

import warnings
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.library import Library

from cudasim.dispatch.arguments import (
    arguments_by_name,
    default_arguments,
    map_tensors,
    operands_of,
)
from cudasim.dispatch.operators import Rule
from cudasim.dispatch.tables import TABLES
from cudasim.dispatch.tags import gpu_of, is_scratch
from cudasim.patching import Patches, releasing
from cudasim.session import session
from cudasim.torch_private import dispatch as private
from cudasim.torch_private.dispatch import DispatchKey, DispatchKeySet
from cudasim.torch_private.operators import OpOverload, destroy, inner_function
from cudasim.torch_private.tensors import is_cached_tensor, is_view
from cudasim.words import WORDS

_LISTS = TABLES["autocast"]
HALF: list[str] = _LISTS["half"]
# In half precision too where cuDNN computes them (AutocastRNN.cpp, autocast_mode.cpp).
CUDNN: list[str] = _LISTS["half_by_cudnn"]
FLOAT: list[str] = _LISTS["float"]
FLOAT_BY_DTYPE: list[str] = _LISTS["float_by_dtype"]
# operation -> its overload with an argument `dtype`
FLOAT_BY_OVERLOAD: dict[str, str] = _LISTS["float_by_overload"]
WIDEST: list[str] = _LISTS["widest"]
# Operators whose kernel is chosen by functions of Python, which `patches/fused.py` replaces.
CHOSEN_IN_PYTHON: dict[OpOverload, str] = {
    torch.ops.aten.softmax.int: "softmax",
    torch.ops.aten.log_softmax.int: "log_softmax",
    torch.ops.aten.rms_norm.default: "rms_norm",
}


class Kernel(NamedTuple):
    """A kernel of autocast that replaces PyTorch's own."""

    func: OpOverload
    policy: Rule | None  # what runs if an operand is on a GPU; None: `func` itself
    elsewhere: Callable  # what runs if none is


def patch_autocast(patches: Patches) -> None:
    """Let `torch.autocast` know simulated GPUs."""

    def set_autocast_enabled(original: Callable, *args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)  # refuses what it does not understand
        if torch.is_autocast_enabled("cpu") and session.host_autocast is None:
            session.host_autocast = _host_library()
        enabled = torch.is_autocast_enabled(session.type.name)
        if enabled and session.autocast is None:
            session.autocast = _gpu_library()
        private.include_key(autocast_key(), enabled)

    def clear_autocast_cache(original: Callable) -> None:
        original()
        session.autocast_kept.clear()

    patches.wrap(torch, "set_autocast_enabled", set_autocast_enabled)
    patches.wrap(torch, "clear_autocast_cache", clear_autocast_cache)
    patches.finally_do(_restore)


def _restore() -> None:
    private.include_key(autocast_key(), False)
    for library in (session.autocast, session.host_autocast):
        if library is not None:
            destroy(library)


def autocast_key() -> DispatchKey:
    """Return the dispatch key of autocast on the simulated type of device."""
    return getattr(DispatchKey, f"Autocast{session.type.key}")


def policies() -> list[tuple[Rule, list[str]]]:
    """Return how operations run whose operands are on a GPU, and their names."""
    to_half = partial(_cast_operands, None)
    to_float = partial(_cast_operands, torch.float32)
    rows = [(to_half, HALF), (to_float, FLOAT), (_cast_to_widest, WIDEST)]
    if session.type.casts_sums:
        rows.append((to_float, [*FLOAT_BY_DTYPE, "batch_norm"]))
    else:
        rows.append((partial(_compute_in_float, None), FLOAT_BY_DTYPE))
        for name, with_dtype in FLOAT_BY_OVERLOAD.items():
            policy = partial(_compute_in_float, overload(with_dtype))
            rows.append((policy, [name]))
        rows.append((_refuse, ["binary_cross_entropy"]))
        # New in torch 2.14, and not in the header's lists.
        rows.append((to_float, ["linalg_matrix_sqrth"]))

    known_rows = []
    for policy, names in rows:
        known_rows.append((policy, list(filter(casts, names))))
    if session.type.has_cudnn:
        known_rows.append((to_half, CUDNN))
    return known_rows


def casts(name: str) -> bool:
    """Return whether this PyTorch has a kernel of autocast for an operation."""
    func = overload(name)
    return func is not None and private.has_kernel(func.name(), autocast_key().name)


def overload(name: str) -> OpOverload | None:
    """Return the operation called `name`, as `softmax.int`; None if there is none."""
    packet_name, _, overload_name = name.partition(".")
    packet = getattr(torch.ops.aten, packet_name, None)
    return getattr(packet, overload_name or "default", None)


def _gpu_library() -> Library:
    """Register kernels of autocast for tensors on simulated GPUs."""
    kernels = []
    for policy, names in policies():
        for name in names:
            func = overload(name)
            kernels.append(Kernel(func, policy, func))
    return _register(autocast_key(), kernels)


def _host_library() -> Library:
    """Register kernels over those of autocast on the CPU that leave GPU tensors alone."""
    key = DispatchKey.AutocastCPU
    kernels = []
    for name in private.operators_with_kernel(key.name):
        func = overload(name.removeprefix("aten::"))
        if func is not None and func.name() == name:
            original = torch.library.get_kernel(func, key.name)
            elsewhere = partial(original.call_boxed, DispatchKeySet(key))
            kernels.append(Kernel(func, None, elsewhere))
    return _register(key, kernels)


def _register(key: DispatchKey, kernels: Iterable[Kernel]) -> Library:
    library = Library("aten", "IMPL", key.name)
    with warnings.catch_warnings():
        # The warning that a kernel is overridden, which is the purpose.
        warnings.simplefilter("ignore", UserWarning)
        for kernel in kernels:
            run = releasing(partial(_run, DispatchKeySet(key), kernel))
            library.impl(kernel.func, run, allow_override=True)
    return library


def _run(off: DispatchKeySet, kernel: Kernel, *args: Any, **kwargs: Any) -> Any:
    """Run a kernel without autocast, whose dispatch keys are `off`."""
    thread = session.thread
    was_below = thread.below_autocast
    thread.below_autocast = True
    try:
        with private.WithoutKeys(off), private.DisableTorchFunction():
            if not any(map(gpu_of, operands_of(args, kwargs))):
                return kernel.elsewhere(*args, **kwargs)
            if kernel.policy is None:
                return inner_function(kernel.func)(*args, **kwargs)
            return kernel.policy(kernel.func, args, kwargs)
    finally:
        thread.below_autocast = was_below


# The policies.


def _cast_operands(
    dtype: torch.dtype | None, func: Callable, args: tuple, kwargs: dict
) -> Any:
    """Cast every eligible tensor to `dtype`, or to that of the region.

    Autograd records the casts.
    """
    args, kwargs = _cast((args, kwargs), dtype or _low_dtype())
    if func in CHOSEN_IN_PYTHON:
        return getattr(torch, CHOSEN_IN_PYTHON[func])(*args, **kwargs)
    # C++ calls it, as it called autocast: scratch tensors among the operands stay scratch.
    return inner_function(func)(*args, **kwargs)


def _low_dtype() -> torch.dtype:
    return torch.get_autocast_dtype(session.type.name)


def _cast(arguments: Any, wanted: torch.dtype) -> Any:
    def cast(tensor: Tensor) -> Tensor:
        return _converted(tensor, wanted) if _is_eligible(tensor) else tensor

    return map_tensors(cast, arguments)


def as_in_region(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of an operation of `HALF` as the current region casts them.

    Functions that choose a kernel in Python call this, before they look at dtypes.
    """
    if not torch.is_autocast_enabled(session.type.name):
        return arguments
    return _cast(arguments, _low_dtype())


def _compute_in_float(
    with_dtype: Callable | None, func: Callable, args: tuple, kwargs: dict
) -> Any:
    """Pass `dtype=torch.float32` unless there is one, to the overload `with_dtype` if any."""
    arguments = arguments_by_name(func, args, kwargs)
    if arguments.get("dtype") is not None or not _is_eligible(args[0]):
        return inner_function(func)(*args, **kwargs)
    arguments = {**default_arguments(func), **arguments, "dtype": torch.float32}
    if func in CHOSEN_IN_PYTHON:
        return getattr(torch, CHOSEN_IN_PYTHON[func])(*arguments.values())
    return inner_function(with_dtype or func)(**arguments)


def _cast_to_widest(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Cast to float32 if an operand has it, and to the dtype of the region if none has."""
    low = _low_dtype()
    operands = operands_of(args, kwargs)
    dtypes = {tensor.dtype for tensor in operands if _is_eligible(tensor)}
    if not dtypes <= {low, torch.float32}:
        raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
    widest = torch.float32 if torch.float32 in dtypes else low
    return _cast_operands(widest, func, args, kwargs)


def _refuse(func: Callable, args: tuple, kwargs: dict) -> Any:
    raise RuntimeError(WORDS["autocast"]["banned"])


def _is_eligible(tensor: Tensor) -> bool:
    """Return whether a tensor is cast: a float but not a double, on a GPU.

    Scratch of C++ counts too, which it makes beside tensors on a GPU.
    """
    if not tensor.is_floating_point() or tensor.dtype is torch.float64:
        return False
    return gpu_of(tensor) is not None or is_scratch(tensor)


def _converted(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Return `tensor` in another dtype.

    The first copy of a weight serves until the outermost region ends, as in `cached_cast`
    of aten/src/ATen/autocast_mode.cpp: a loop within a region keeps its first weights.
    """
    if not _is_kept(tensor, dtype):
        return tensor.to(dtype)
    if tensor not in session.autocast_kept:
        # It may serve training later.
        with torch.inference_mode(False), torch.enable_grad():
            session.autocast_kept[tensor] = tensor.to(dtype)
    return session.autocast_kept[tensor]


def _is_kept(tensor: Tensor, dtype: torch.dtype) -> bool:
    """Return whether a copy of `tensor` in another dtype is kept: that of a weight."""
    return (
        tensor.dtype is torch.float32
        and dtype is _low_dtype()
        and tensor.requires_grad
        and tensor.is_leaf
        and not is_view(tensor)
        and torch.is_autocast_cache_enabled()
        and not is_cached_tensor(tensor)  # CUDA graph trees keep those
    )
