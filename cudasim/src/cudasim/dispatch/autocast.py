"""`torch.autocast` on a GPU, by the lists of `aten/src/ATen/autocast_mode.h`. PyTorch's own rules
check in C++ whether a tensor is on a GPU. So kernels that know simulated ones replace them in the
dispatcher, from the first region that needs them on."""

import warnings
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._C import DispatchKey, DispatchKeySet
from torch.library import Library

from cudasim.dispatch.arguments import defaults_of, given, mapped_tensors, tensors_in
from cudasim.dispatch.tables import TABLES
from cudasim.dispatch.tags import gpu_of, is_scratch
from cudasim.patching import Patches
from cudasim.session import session
from cudasim.words import WORDS

# Half precision as well where cuDNN computes them: those of autocast_RNN.cpp.
HALF, CUDNN, FLOAT, FLOAT_BY_DTYPE, FLOAT_BY_OVERLOAD, WIDEST = TABLES[
    "autocast"
].values()


def patch_autocast(patches: Patches) -> None:
    def set_autocast_enabled(original: Callable, *args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)  # refuses what it does not understand
        if torch.is_autocast_enabled("cpu") and session.host_autocast is None:
            session.host_autocast = _sparing()
        enabled = torch.is_autocast_enabled(session.type.name)
        if enabled and session.autocast is None:
            kernels = [
                (overload(name), how) for how, names in policies() for name in names
            ]
            session.autocast = _library(
                _key(), [(func, how, func) for func, how in kernels]
            )
        torch._C._dispatch_tls_set_dispatch_key_included(_key(), enabled)

    def clear_autocast_cache(original: Callable) -> None:
        original()
        session.autocast_kept.clear()

    patches.wrap(torch, "set_autocast_enabled", set_autocast_enabled)
    patches.wrap(torch, "clear_autocast_cache", clear_autocast_cache)
    patches.finally_do(_stand_back)


def _key() -> DispatchKey:
    return getattr(DispatchKey, f"Autocast{session.type.key}")


def policies() -> list[tuple[Callable, list[str]]]:
    """How operations run whose operands are on a GPU, and which operations run so."""
    half, full = partial(_in, None), partial(_in, torch.float32)
    listed = [(half, HALF), (full, FLOAT), (_widest, WIDEST)]
    if session.type.casts_sums:
        listed += [(full, [*FLOAT_BY_DTYPE, "batch_norm"])]
    else:
        listed += [(partial(_full_by_dtype, None), FLOAT_BY_DTYPE)]
        for name, wide in FLOAT_BY_OVERLOAD.items():
            listed += [(partial(_full_by_dtype, overload(wide)), [name])]
        # The second is new in torch 2.14, and not in the header's lists.
        listed += [(_banned, ["binary_cross_entropy"]), (full, ["linalg_matrix_sqrth"])]
    found = [(policy, list(filter(casts, names))) for policy, names in listed]
    return [*found, (half, CUDNN)] if session.type.has_cudnn else found


def casts(name: str) -> bool:
    found = overload(name)
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return found is not None and has_kernel(found.name(), _key().name)


def overload(name: str) -> Any:
    """The operation called `name`, as in `softmax.int`; None if this PyTorch has none."""
    packet, _, which = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet, None), which or "default", None)


def _sparing() -> Library:
    """Kernels over those of autocast on the CPU, which leave tensors on GPUs as they are."""
    key, kernels = DispatchKey.AutocastCPU, []
    for name in torch._C._dispatch_get_registrations_for_dispatch_key(key.name):
        func = overload(name.removeprefix("aten::"))
        if func is not None and func.name() == name:
            theirs = torch.library.get_kernel(func, key.name)
            kernels.append(
                (func, None, partial(theirs.call_boxed, DispatchKeySet(key)))
            )
    return _library(key, kernels)


def _library(key: DispatchKey, kernels: Iterable[tuple]) -> Library:
    library = Library("aten", "IMPL", key.name)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", UserWarning
        )  # that a kernel is overridden: it is meant
        for func, policy, elsewhere in kernels:
            kernel = partial(_run, DispatchKeySet(key), func, policy, elsewhere)
            library.impl(func, kernel, allow_override=True)
    return library


def _run(
    off: DispatchKeySet,
    func: Any,
    policy: Any,
    elsewhere: Callable,
    *args: Any,
    **kwargs: Any,
) -> Any:
    with torch._C._ExcludeDispatchKeyGuard(off), torch._C.DisableTorchFunction():
        if any(gpu_of(each) for each in tensors_in((*args, *kwargs.values()))):
            return policy(func, args, kwargs) if policy else func(*args, **kwargs)
        return elsewhere(*args, **kwargs)


def _stand_back() -> None:
    torch._C._dispatch_tls_set_dispatch_key_included(_key(), False)
    for library in filter(None, (session.autocast, session.host_autocast)):
        library._destroy()


def _in(dtype: torch.dtype | None, func: Any, args: tuple, kwargs: dict) -> Any:
    """With every eligible tensor of that type, or the region's own; the casts are recorded."""
    wanted = dtype or torch.get_autocast_dtype(session.type.name)

    def cast(tensor: Tensor) -> Tensor:
        return _converted(tensor, wanted) if _eligible(tensor) else tensor

    args, kwargs = mapped_tensors(cast, (args, kwargs))
    return func(*args, **kwargs)


def _full_by_dtype(wide: Any, func: Any, args: tuple, kwargs: dict) -> Any:
    """With `dtype=torch.float32`, unless one is given, by the overload `wide` or by itself."""
    named = given(func, args, kwargs)
    if named.get("dtype") is not None or not _eligible(args[0]):
        return func(*args, **kwargs)
    return (wide or func)(**{**defaults_of(func), **named, "dtype": torch.float32})


def _widest(func: Any, args: tuple, kwargs: dict) -> Any:
    low = torch.get_autocast_dtype(session.type.name)
    tensors = tensors_in((*args, *kwargs.values()))
    types = {tensor.dtype for tensor in tensors if _eligible(tensor)}
    if not types <= {low, torch.float32}:
        raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
    return _in(torch.float32 if torch.float32 in types else low, func, args, kwargs)


def _banned(func: Any, args: tuple, kwargs: dict) -> Any:
    raise RuntimeError(WORDS["autocast"]["banned"])


def _eligible(tensor: Tensor) -> bool:
    """True for floats but doubles, on a GPU or in what C++ made beside a tensor there."""
    floats = tensor.is_floating_point() and tensor.dtype is not torch.float64
    return floats and (gpu_of(tensor) is not None or is_scratch(tensor))


def _converted(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """`tensor` in another type; a weight's first copy serves until the outermost region ends. As in
    `cached_cast` of aten/src/ATen/autocast_mode.cpp: a loop goes on with its first weights."""
    keeps = (
        tensor.dtype is torch.float32
        and dtype is torch.get_autocast_dtype(session.type.name)
        and tensor.requires_grad
        and tensor.is_leaf
        and not tensor._is_view()
        and torch.is_autocast_cache_enabled()
        and not torch._C._is_cached_tensor(tensor)  # that a graph's trees keep
    )
    if not keeps:
        return tensor.to(dtype)
    if tensor not in session.autocast_kept:
        with (
            torch.inference_mode(False),
            torch.enable_grad(),
        ):  # it may serve training later
            session.autocast_kept[tensor] = tensor.to(dtype)
    return session.autocast_kept[tensor]
