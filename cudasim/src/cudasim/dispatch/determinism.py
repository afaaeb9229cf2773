"""`torch.use_deterministic_algorithms`: what has no deterministic kernel on CUDA is refused.

Which operations these are is documented with that function, of the PyTorch in use; the names are
those that PyTorch's own tests expect (`test/test_torch.py`, `check_nondeterministic_alert`).
"""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cudasim.dispatch.operators import Rule, around
from cudasim.dispatch.tags import gpu_of

aten = torch.ops.aten
Condition = Callable[[tuple, dict], bool]


def _on_float(args: tuple, kwargs: dict) -> bool:
    return args[0].is_floating_point() or args[0].is_complex()


def _float_sum(args: tuple, kwargs: dict) -> bool:
    kind = kwargs.get("dtype") or args[0].dtype
    return kind.is_floating_point or kind.is_complex


def _weighted(args: tuple, kwargs: dict) -> bool:
    return (args[1] if len(args) > 1 else kwargs.get("weights")) is not None


def _reduced(args: tuple, kwargs: dict) -> bool:
    return args[3] != 0  # Reduction::None


def _by_maximum(args: tuple, kwargs: dict) -> bool:
    return args[8] == 2  # the mode `max`


def _by_product(args: tuple, kwargs: dict) -> bool:
    return args[4] == "prod"


def _accumulated(args: tuple, kwargs: dict) -> bool:
    return len(args) > 3 and args[3]  # else PyTorch refuses it on the CPU as well


# Operation -> what PyTorch calls its kernel, and the arguments that matter if not all do.
KERNELS: dict[Callable, tuple[str, Condition | None]] = {
    aten.avg_pool3d_backward.default: ("avg_pool3d_backward_cuda", None),
    aten._adaptive_avg_pool2d_backward.default: ("adaptive_avg_pool2d_backward_cuda", None),
    aten._adaptive_avg_pool3d_backward.default: ("adaptive_avg_pool3d_backward_cuda", None),
    aten.adaptive_max_pool2d_backward.default: ("adaptive_max_pool2d_backward_cuda", None),
    aten.fractional_max_pool2d_backward.default: ("fractional_max_pool2d_backward_cuda", None),
    aten.fractional_max_pool3d_backward.default: ("fractional_max_pool3d_backward_cuda", None),
    aten.max_unpool2d.default: ("max_unpooling2d_forward_out", None),
    aten.max_unpool3d.default: ("max_unpooling3d_forward_out", None),
    aten.upsample_linear1d_backward.default: ("upsample_linear1d_backward_out_cuda", None),
    aten.upsample_bilinear2d_backward.default: ("upsample_bilinear2d_backward_out_cuda", None),
    aten.upsample_bicubic2d_backward.default: ("upsample_bicubic2d_backward_out_cuda", None),
    aten.upsample_trilinear3d_backward.default: ("upsample_trilinear3d_backward_out_cuda", None),
    aten.reflection_pad1d_backward.default: ("reflection_pad1d_backward_out_cuda", None),
    aten.reflection_pad2d_backward.default: ("reflection_pad2d_backward_cuda", None),
    aten.reflection_pad3d_backward.default: ("reflection_pad3d_backward_out_cuda", None),
    aten.nll_loss2d_forward.default: ("nll_loss2d_forward_out_cuda_template", _reduced),
    aten._ctc_loss_backward.default: ("ctc_loss_backward_gpu", None),
    aten._ctc_loss_backward.Tensor: ("ctc_loss_backward_gpu", None),
    aten._embedding_bag_backward.default: ("embedding_bag_backward_cuda_max", _by_maximum),
    aten.put_.default: ("put_", _accumulated),
    aten.histc.default: ("_histc_cuda with floating point input", _on_float),
    aten.bincount.default: ("_bincount_cuda", _weighted),
    aten.median.dim: ("median CUDA with indices output", None),
    aten.nanmedian.dim: ("median CUDA with indices output", None),
    aten.grid_sampler_2d_backward.default: ("grid_sampler_2d_backward_cuda", None),
    aten.grid_sampler_3d_backward.default: ("grid_sampler_3d_backward_cuda", None),
    aten.cumsum.default: ("cumsum_cuda_kernel", _float_sum),
    aten.cumsum_.default: ("cumsum_cuda_kernel", _float_sum),
    aten.scatter_reduce.two: ("scatter_reduce_cuda_kernel", _by_product),
    aten.scatter_reduce_.two: ("scatter_reduce_cuda_kernel", _by_product),
}
# Where the PyTorch in use documents them: later ones have a deterministic kernel.
OLDER = {
    "kthvalue": (aten.kthvalue.default, "kthvalue CUDA"),
    "torch.nn.MaxPool3d": (
        aten.max_pool3d_with_indices_backward.default,
        "max_pool3d_with_indices_backward_cuda",
    ),
}
_refused = (torch.use_deterministic_algorithms.__doc__ or "").rpartition("will throw a")[2]
KERNELS |= {func: (name, None) for key, (func, name) in OLDER.items() if key in _refused}

NONE = "{} does not have a deterministic implementation, but you set "
REFUSAL = NONE + (  # aten/src/ATen/Context.cpp (alertNotDeterministic)
    "'torch.use_deterministic_algorithms(True)'. You can turn off determinism just for this "
    "operation, or you can use the 'warn_only=True' option, if that's acceptable for your "
    "application. You can also file an issue at https://github.com/pytorch/pytorch/issues to help "
    "us prioritize adding deterministic support for this operation."
)
WARNING = NONE + (
    "'torch.use_deterministic_algorithms(True, warn_only=True)'. You can file an issue at "
    "https://github.com/pytorch/pytorch/issues to help us prioritize adding deterministic support "
    "for this operation."
)


@around(*KERNELS, idle=lambda args: not torch._C._get_deterministic_algorithms())
def deterministic(inner: Rule, func: Callable, args: tuple, kwargs: dict) -> Any:
    """Refuse what no GPU can do the same twice, or warn, if the program asks for that.

    Raises RuntimeError with PyTorch's words.
    """
    if torch._C._get_deterministic_algorithms():
        _check(func, args, kwargs)
    return inner(func, args, kwargs)


def _check(func: Callable, args: tuple, kwargs: dict) -> None:
    name, matters = KERNELS[func]
    first = next((each for each in args if isinstance(each, Tensor)), None)
    if first is None or gpu_of(first) is None or (matters and not matters(args, kwargs)):
        return
    if torch._C._get_deterministic_algorithms_warn_only():
        warnings.warn(WARNING.format(name), stacklevel=3)
    else:
        raise RuntimeError(REFUSAL.format(name))
