"""What an operator of PyTorch does on its device: the table of rules, by name of the operator.

PyTorch's own tags say which operators are pointwise; what has neither rule nor tag counts its
bytes and is remembered. Tensors without data (meta, fake) have a cost too. Rules are looked up
by overload, and found by name the first time.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cudasim.clock import rules
from cudasim.clock.rules import Rule, is_mask
from cudasim.timing.formulas import Work

aten = torch.ops.aten
OnHost = Callable[[Tensor], bool]


def _by_mask(args: tuple, kwargs: dict, on_host: OnHost) -> bool:
    """Indexing by a mask counts its True first; indices on the CPU are copied to the GPU."""
    indices = (each for each in args[1] if isinstance(each, Tensor))
    return any(is_mask(index) is not on_host(index) for index in indices)


def _by_mask_unless_filled(args: tuple, kwargs: dict, on_host: OnHost) -> bool:
    """As `_by_mask`; one number of the CPU under a mask needs no count (`masked_fill`)."""
    indices = [each for each in args[1] if isinstance(each, Tensor)]
    value = args[2] if len(args) > 2 else kwargs["values"]
    if len(indices) == 1 and is_mask(indices[0]) and value.numel() == 1 and on_host(value):
        return False
    return _by_mask(args, kwargs, on_host)


# Operators that make the host wait for the device, which must know a value, or a size that depends
# on values; and for which arguments, given who tells what is with the host.
WAITS: dict[Callable, Callable[[tuple, dict, OnHost], bool]] = {
    **dict.fromkeys(
        (
            aten._local_scalar_dense.default,
            aten.nonzero.default,
            aten.masked_select.default,
            aten.equal.default,
            aten.allclose.default,
            aten.bincount.default,
            aten._unique.default,
            aten._unique2.default,
            aten.unique_dim.default,
            aten.unique_consecutive.default,
            aten.unique_dim_consecutive.default,
            aten._linalg_check_errors.default,
            # These look inside whether the method converged.
            aten._linalg_svd.default,
            aten._linalg_eigh.default,
            aten.linalg_eig.default,
            aten.linalg_pinv.atol_rtol_tensor,
        ),
        lambda *given: True,
    ),
    **dict.fromkeys((aten.index.Tensor, aten._unsafe_index.Tensor), _by_mask),
    **dict.fromkeys(
        (
            aten.index_put.default,
            aten.index_put_.default,
            aten._index_put_impl_.default,
            aten._unsafe_index_put.default,
        ),
        _by_mask_unless_filled,
    ),
    aten.repeat_interleave.Tensor: lambda args, kwargs, _: kwargs.get("output_size") is None,
}

# The namespace of collectives: the links' time is booked where ranks meet, so that here only
# the bytes count; its gather and scatter are others than those of a tensor.
SENDS = "c10d"


def work_of(func: Callable, args: tuple, kwargs: dict, out: Any) -> Work | None:
    """The work of `func`, from shapes, types and layouts alone; None for a view or a question."""
    rule = _rules.get(func)
    if rule is None:
        rule = _rules[func] = _find(func)
    return rule(args, kwargs, out)


def operands(args: tuple) -> int:
    """How many tensors are in lists among the arguments: each costs the host some time."""
    lists = (each for each in args if isinstance(each, list | tuple))
    return sum(isinstance(each, Tensor) for listed in lists for each in listed)


def without_rule() -> list[str]:
    """The names of the operators met so far whose work is only their bytes, for want of a rule."""
    return sorted(_unknown)


_rules: dict[Callable, Rule] = {}
_unknown: set[str] = set()


def _name(func: Callable) -> str:
    """The name of an operator, without namespace and overload, in place or not."""
    packet = getattr(func, "overloadpacket", None)
    name = packet.__name__ if packet is not None else str(getattr(func, "__name__", func))
    return name if name.startswith("__") else name.rstrip("_")


def _find(func: Callable) -> Rule:
    """The rule of an overload met for the first time."""
    if getattr(func, "namespace", None) == SENDS:
        return rules.bytes_alone
    name = _name(func)
    if name in TABLE:
        return TABLE[name]
    tags = getattr(func, "tags", ())
    if getattr(func, "is_view", False) or torch.Tag.inplace_view in tags:
        return rules.nothing
    if name.startswith("_foreach_"):
        return rules.foreach
    if torch.Tag.pointwise in tags:
        return rules.pointwise(PRICES.get(name, 1))
    if torch.Tag.reduction in tags:
        return rules.reduction()
    if torch.Tag.view_copy in tags:
        return rules.copied
    _unknown.add(str(func))
    return rules.bytes_alone


# Flops an element of pointwise operators that cost more than one: rough classes, for the CPU.
PRICES = {
    name: price
    for price, names in {
        4: "reciprocal sqrt rsqrt remainder floor_divide fmod addcdiv threshold_backward lerp",
        10: "exp exp2 expm1 log log2 log10 log1p sigmoid silu sigmoid_backward tanh_backward "
        "silu_backward softplus softplus_backward elu elu_backward",
        20: "tanh gelu gelu_backward sin cos tan pow erf erfc asin acos atan atan2 sinh cosh mish "
        "logit lgamma digamma erfinv",
    }.items()
    for name in names.split()
}

TABLE: dict[str, Rule] = {
    name: rule
    for rule, names in {
        rules.nothing: "empty empty_like new_empty empty_strided new_empty_strided empty_permuted "
        "lift set resize resize_as is_same_size sym_size sym_stride stride size record_stream "
        "is_pinned device _nested_tensor_size _unsafe_view unsafe_split unsafe_split_with_sizes "
        "_fused_sdp_choice _assert_async _assert_scalar sym_constrain_range "
        "_record_function_enter_new _record_function_exit",
        rules.written: "fill zero zeros zeros_like new_zeros ones ones_like new_ones full "
        "full_like new_full arange linspace logspace eye tril_indices triu_indices rand rand_like "
        "randn randn_like randint randint_like randperm normal uniform bernoulli exponential "
        "random geometric cauchy log_normal scalar_tensor _efficientzerotensor normal_functional "
        "hann_window",
        rules.copied: "copy clone _to_copy _copy_from _pin_memory repeat flip roll constant_pad_nd "
        "tril triu as_strided_scatter select_scatter slice_backward select_backward "
        "diagonal_backward unfold_backward im2col col2im pixel_shuffle pixel_unshuffle "
        "channel_shuffle rot90 reflection_pad1d reflection_pad2d replication_pad1d "
        "replication_pad2d",
        rules.joined: "cat stack _chunk_cat split_with_sizes_copy split_copy "
        "unbind_copy repeat_interleave unfold_copy",
        rules.one_value: "_local_scalar_dense _linalg_check_errors",
        rules.gathered: "index masked_select index_select gather take embedding _embedding_bag "
        "_unsafe_index grid_sampler_2d upsample_nearest2d",
        rules.scattered: "index_put index_add index_copy index_fill scatter scatter_add "
        "scatter_reduce masked_scatter put index_reduce _index_put_impl _unsafe_index_put",
        rules.embedding_backward: "embedding_dense_backward _embedding_bag_dense_backward",
        rules.sort: "sort _unique _unique2 unique_dim unique_consecutive",
        rules.fused_optimizer: "_fused_adam _fused_adamw _fused_sgd _fused_adagrad",
        rules.division: "div",
        rules.matmul(0): "mm bmm mv _int_mm _scaled_mm",
        rules.matmul(1): "addmm baddbmm addmv addbmm _addmm_activation",
        rules.inverse: "linalg_inv_ex",
        rules.dot: "dot vdot",
        rules.convolution(8, 6): "convolution _convolution convolution_overrideable",
        rules.convolution(5): "cudnn_convolution",
        rules.convolution_backward: "convolution_backward convolution_backward_overrideable",
        rules.attention(2, 0): "_scaled_dot_product_flash_attention "
        "_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_efficient_attention "
        "_scaled_dot_product_cudnn_attention _scaled_dot_product_fused_attention_overrideable",
        rules.attention(5, 1): "_scaled_dot_product_flash_attention_backward "
        "_scaled_dot_product_flash_attention_for_cpu_backward "
        "_scaled_dot_product_efficient_attention_backward "
        "_scaled_dot_product_cudnn_attention_backward "
        "_scaled_dot_product_fused_attention_overrideable_backward",
        rules.pointwise(2): "addr native_dropout native_dropout_backward _fused_dropout where "
        "masked_fill addcmul mse_loss_backward smooth_l1_loss_backward huber_loss_backward "
        "_amp_update_scale _weight_norm_interface isin bucketize searchsorted "
        "_fake_quantize_learnable_per_tensor_affine",
        rules.pointwise(4): "complex polar binary_cross_entropy_with_logits glu glu_backward "
        "hardswish hardswish_backward log_sigmoid_forward log_sigmoid_backward rsub "
        "_prelu_kernel _prelu_kernel_backward soft_margin_loss rrelu_with_noise "
        "diag_embed linalg_cross",
        rules.foreach: "_amp_foreach_non_finite_check_and_unscale",
        rules.reduction(): "sum mean prod amax amin aminmax max min any all argmax argmin nansum "
        "count_nonzero trace mse_loss smooth_l1_loss huber_loss",
        rules.reduction(2, 2): "norm linalg_vector_norm var std var_mean std_mean native_norm "
        "median mode kthvalue binary_cross_entropy _cdist_forward dist nanmedian histc bincount "
        "nonzero nonzero_static equal multinomial",
        rules.softmax: "softmax _softmax log_softmax _log_softmax _safe_softmax",
        rules.reduction(10): "logsumexp _softmax_backward_data _log_softmax_backward_data "
        "_masked_softmax",
        rules.reduction(2, 2, 2): "cumsum cumprod logcumsumexp cummax cummin topk",
        rules.reduction(8): "native_layer_norm _fused_rms_norm",
        rules.reduction(12, 2): "native_layer_norm_backward _fused_rms_norm_backward",
        rules.batch_norm: "native_batch_norm cudnn_batch_norm _native_batch_norm_legit "
        "_native_batch_norm_legit_no_training _batch_norm_no_update",
        rules.reduction(8, 2, 2): "_batch_norm_with_update native_group_norm",
        rules.reduction(12, 2, 2): "native_batch_norm_backward cudnn_batch_norm_backward "
        "batch_norm_backward native_group_norm_backward",
        rules.reduction(4): "max_pool2d_with_indices max_pool3d_with_indices avg_pool2d "
        "avg_pool3d _adaptive_avg_pool2d adaptive_avg_pool2d _adaptive_avg_pool3d "
        "adaptive_max_pool2d avg_pool2d_backward max_pool2d_with_indices_backward "
        "_adaptive_avg_pool2d_backward adaptive_max_pool2d_backward upsample_bilinear2d "
        "upsample_bilinear2d_backward upsample_nearest2d_backward avg_pool1d "
        "upsample_nearest1d upsample_nearest3d upsample_linear1d upsample_bicubic2d "
        "upsample_trilinear3d adaptive_max_pool3d max_unpool2d max_unpool3d allclose",
        rules.picked: "nll_loss_forward nll_loss2d_forward nll_loss_backward nll_loss2d_backward "
        "binary_cross_entropy_backward",
    }.items()
    for name in names.split()
}
