"""`torch.autocast` on a GPU: which operations run in half precision, and which in float32.

Every build of PyTorch has the rules for every type of GPU, but they check in C++ whether a tensor
is on a GPU, which is false for simulated ones. So kernels that know simulated GPUs replace
them, at the same place of the dispatcher (above autograd), from the first region that needs
them until the simulation ends. Outside a region nothing is checked and nothing is slower.

The lists are those of `aten/src/ATen/autocast_mode.h` of PyTorch 2.11 to 2.13. Of these names, the
PyTorch at hand casts those for which it has a kernel: not all for MPS, and not all in each version.
"""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._C import DispatchKey, DispatchKeySet

from cudasim.dispatch.arguments import mapped, tensors_in
from cudasim.dispatch.tags import gpu_of, is_scratch
from cudasim.patching import Patches
from cudasim.session import session

HALF = """
    _convolution _convolution.deprecated conv1d conv2d conv3d conv_tbc conv_transpose1d
    conv_transpose2d.input conv_transpose3d.input convolution prelu addmm addmv addr matmul einsum
    mm mv linalg_vecdot linear addbmm baddbmm bmm chain_matmul linalg_multi_dot
    _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell
    _scaled_dot_product_flash_attention scaled_dot_product_attention
""".split()
CUDNN = """
    lstm.input lstm.data gru.input gru.data
    rnn_tanh.input rnn_tanh.data rnn_relu.input rnn_relu.data
""".split()  # in half precision too where cuDNN computes them, by autocast_RNN.cpp
FLOAT = """
    acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan
    pow.Tensor_Scalar pow.Tensor_Tensor pow.Scalar softplus layer_norm native_layer_norm rms_norm
    group_norm frobenius_norm.dim nuclear_norm nuclear_norm.dim cosine_similarity poisson_nll_loss
    cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss kl_div l1_loss smooth_l1_loss
    huber_loss mse_loss margin_ranking_loss multilabel_margin_loss soft_margin_loss
    triplet_margin_loss multi_margin_loss binary_cross_entropy_with_logits dist pdist cdist renorm
    logsumexp upsample_nearest1d _upsample_nearest_exact1d upsample_nearest2d
    _upsample_nearest_exact2d upsample_nearest3d _upsample_nearest_exact3d upsample_linear1d
    upsample_bilinear2d _upsample_bilinear2d_aa upsample_trilinear3d upsample_bicubic2d
    _upsample_bicubic2d_aa
""".split()
FLOAT_BY_DTYPE = """
    prod prod.dim_int softmax.int log_softmax.int cumprod cumsum linalg_vector_norm
    linalg_matrix_norm linalg_matrix_norm.str_ord sum sum.dim_IntList
    prod.dim_Dimname softmax.Dimname log_softmax.Dimname cumprod.dimname cumsum.dimname
    sum.dim_DimnameList
""".split()  # the last two lines are of versions whose dimensions may have names
FLOAT_BY_OVERLOAD = {
    "norm.Scalar": "norm.ScalarOpt_dtype",
    "norm.ScalarOpt_dim": "norm.ScalarOpt_dim_dtype",
    "norm.names_ScalarOpt_dim": "norm.names_ScalarOpt_dim_dtype",
}
WIDEST = """
    addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add
""".split()
BANNED = ["binary_cross_entropy"]
HOST = "AutocastCPU"  # the place in the dispatcher of autocast on the CPU


def patch_autocast(patches: Patches) -> None:
    """Make `torch.autocast` work on simulated GPUs."""
    original = torch.set_autocast_enabled
    key = _key()

    def set_autocast_enabled(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)  # refuses what it does not understand
        values = [*args, *kwargs.values()]
        enabled = next(value for value in values if isinstance(value, bool))
        named = values if len(values) > 1 else ["cuda"]
        if "cpu" in named and enabled and session.host_autocast is None:
            session.host_autocast = _sparing()
        if session.type.name not in named:
            return  # without a device it means CUDA
        if enabled and session.autocast is None:
            session.autocast = _stand_in()
        torch._C._dispatch_tls_set_dispatch_key_included(key, enabled)

    forget = torch.clear_autocast_cache

    def clear_autocast_cache() -> None:
        forget()
        session.autocast_kept.clear()

    patches.replace(torch, "set_autocast_enabled", set_autocast_enabled)
    patches.replace(torch, "clear_autocast_cache", clear_autocast_cache)
    patches.finally_do(_stand_back)


def _key() -> DispatchKey:
    """The place in the dispatcher of autocast for the simulated type of GPU."""
    return getattr(DispatchKey, f"Autocast{session.type.key}")


def policies() -> list[tuple[Callable, list[str]]]:
    """What is done to which operations, for the simulated type of GPU."""
    if session.type.casts_sums:
        wide = [*FLOAT, *FLOAT_BY_DTYPE, "batch_norm"]
        found = [(_half, HALF), (_float, wide), (_widest, WIDEST)]
    else:
        found = [(_half, HALF), (_float, FLOAT), (_float_by_dtype, FLOAT_BY_DTYPE)]
        found += [(_float_by_overload, list(FLOAT_BY_OVERLOAD)), (_widest, WIDEST)]
        found.append((_banned, BANNED))
    found = [(policy, [name for name in names if casts(name)]) for policy, names in found]
    return [*found, (_half, CUDNN)] if session.type.has_cudnn else found


def casts(name: str) -> bool:
    """Whether this PyTorch casts the arguments of the operation called `name`."""
    found = overload(name)
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return found is not None and has_kernel(found.name(), _key().name)


def _stand_in() -> torch.library.Library:
    """Kernels in place of those that look at C++'s device."""
    only = DispatchKeySet(_key())
    kernels = [
        (overload(name), _kernel(policy, overload(name), only))
        for policy, names in policies()
        for name in names
    ]
    return _library(_key().name, kernels)


def _sparing() -> torch.library.Library:
    """Kernels over those of autocast on the CPU, which spare tensors on GPUs."""
    only = DispatchKeySet(getattr(DispatchKey, HOST))
    kernels = []
    for name in torch._C._dispatch_get_registrations_for_dispatch_key(HOST):
        namespace, _, operator = name.partition("::")
        func = overload(operator) if namespace == "aten" else None
        if func is not None:
            kernels.append((func, _sparing_kernel(func, only)))
    return _library(HOST, kernels, with_keyset=True)


def _library(key: str, kernels: list[tuple[Any, Callable]], **options: bool) -> Any:
    """A library of `kernels` (operation, what computes it) in place of PyTorch's under `key`."""
    library = torch.library.Library("aten", "IMPL", key)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that a kernel is overridden: it is meant
        for func, kernel in kernels:
            library.impl(func, kernel, allow_override=True, **options)
    return library


def _stand_back() -> None:
    """Restore PyTorch's own kernels."""
    torch._C._dispatch_tls_set_dispatch_key_included(_key(), False)
    for library in (session.autocast, session.host_autocast):
        if library is not None:
            library._destroy()


def _sparing_kernel(func: Any, only: DispatchKeySet) -> Callable:
    """The kernel of `func`, but for tensors on GPUs, which it leaves as they are."""
    original = torch.library.get_kernel(func, HOST)

    def kernel(keys: DispatchKeySet, *args: Any, **kwargs: Any) -> Any:
        if any(gpu_of(each) for each in tensors_in((*args, *kwargs.values()))):
            with torch._C._ExcludeDispatchKeyGuard(only), torch._C.DisableTorchFunction():
                return func(*args, **kwargs)
        return original.call_boxed(keys, *args, **kwargs)

    return kernel


def overload(name: str) -> Any:
    """The operation called `name`, as in `softmax.int`; None if this PyTorch has none."""
    packet, _, which = name.partition(".")
    if not hasattr(torch.ops.aten, packet):
        return None
    return getattr(getattr(torch.ops.aten, packet), which or "default", None)


def _kernel(policy: Callable, func: Any, only: DispatchKeySet) -> Callable:
    """What runs instead of `func` in a region: `policy`, with autocast (`only`) off from there."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(only), torch._C.DisableTorchFunction():
            if not any(gpu_of(each) for each in tensors_in((*args, *kwargs.values()))):
                return func(*args, **kwargs)  # the CPU's own tensors are not touched
            return policy(func, args, kwargs)

    return kernel


def _half(func: Any, args: tuple, kwargs: dict) -> Any:
    """In the region's type: matrix products and their kin."""
    return _in(torch.get_autocast_dtype(session.type.name), func, args, kwargs)


def _float(func: Any, args: tuple, kwargs: dict) -> Any:
    """In float32: what loses too much in half precision."""
    return _in(torch.float32, func, args, kwargs)


def _in(dtype: torch.dtype, func: Any, args: tuple, kwargs: dict) -> Any:
    """With every eligible tensor of type `dtype`; the casts are recorded."""

    def cast(value: Any) -> Any:
        return _converted(value, dtype) if _eligible(value) else value

    return func(*mapped(cast, args), **mapped(cast, kwargs))


def _float_by_dtype(func: Any, args: tuple, kwargs: dict) -> Any:
    """With `dtype=torch.float32`, unless one is given."""
    place = [argument.name for argument in func._schema.arguments].index("dtype")
    given = args[place] if place < len(args) else kwargs.get("dtype")
    if given is None and _eligible(args[0]):
        args, kwargs = args[:place], {**kwargs, "dtype": torch.float32}
    return func(*args, **kwargs)


def _float_by_overload(func: Any, args: tuple, kwargs: dict) -> Any:
    """By the overload that takes a `dtype`, which is float32."""
    if not _eligible(args[0]):
        return func(*args, **kwargs)
    defaults = [argument.default_value for argument in func._schema.arguments]
    args = (*args, *defaults[len(args) :])
    wide = overload(FLOAT_BY_OVERLOAD[str(func).removeprefix("aten.")])
    return wide(*args, **kwargs, dtype=torch.float32)


def _widest(func: Any, args: tuple, kwargs: dict) -> Any:
    """In the widest type among the tensors: float32 if one has it."""
    low = torch.get_autocast_dtype(session.type.name)
    tensors = tensors_in((*args, *kwargs.values()))
    types = {tensor.dtype for tensor in tensors if _eligible(tensor)}
    if not types <= {low, torch.float32}:
        raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
    return _in(torch.float32 if torch.float32 in types else low, func, args, kwargs)


def _banned(func: Any, args: tuple, kwargs: dict) -> Any:
    """Refused, in CUDA's words."""
    raise RuntimeError(
        "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
        "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
        "In this case, combine the two layers using "
        "torch.nn.functional.binary_cross_entropy_with_logits\n"
        "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
        "safe to autocast."
    )


def _eligible(value: Any) -> bool:
    """True for what autocast may cast: on a GPU, floating point, not of double precision.

    Scratch that C++ made beside a GPU's tensor counts as the GPU's.
    """
    if not isinstance(value, Tensor) or not value.is_floating_point():
        return False
    if value.dtype is torch.float64:
        return False
    return gpu_of(value) is not None or is_scratch(value)


def _converted(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """`tensor` in another type; a weight's first copy serves until the outermost region ends.

    As in `cached_cast` of aten/src/ATen/autocast_mode.cpp: a loop within one region goes on with
    the weights that it began with, on a card too.
    """
    keeps = (
        tensor.dtype is torch.float32
        and dtype is torch.get_autocast_dtype(session.type.name)
        and tensor.requires_grad
        and tensor.is_leaf
        and not tensor._is_view()
        and torch.is_autocast_cache_enabled()
    )
    if not keeps:
        return tensor.to(dtype)
    found = session.autocast_kept.get(tensor)
    if found is None:
        found = session.autocast_kept[tensor] = tensor.to(dtype)
    return found
