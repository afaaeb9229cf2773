"""What an operator of PyTorch does on its device: the table of rules.

A rule gives the work of one family of operators from shapes, types and layouts alone, so that
tensors without data (meta, fake) have a cost too. Sources: flops of products, convolutions and
attention are those of torch.utils.flop_counter; bytes are what the kernel must read and write
once (or as often as the rule says), whatever the caches hold; PyTorch's tags say which
operators are pointwise. Rules are looked up by overload, and found by name the first time.
"""

from collections.abc import Callable, Iterable
from math import ceil, prod
from typing import Any

import torch
from torch import Tensor

from cudasim.timing.formulas import Work

Rule = Callable[[tuple, dict, Any], Work | None]

# Operators that make the host wait for the device: it must know a value, or a size that
# depends on values. `waits` adds those that do so for some arguments only.
WAITS = frozenset(
    "_local_scalar_dense item nonzero nonzero_numpy masked_select equal is_nonzero _unique "
    "_unique2 unique_dim unique_consecutive unique_dim_consecutive bincount "
    "repeat_interleave".split()
)

PRECISIONS = {
    torch.float64: "float64",
    torch.complex128: "float64",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.int8: "int8",
    torch.uint8: "int8",
}  # all others work as float32 does


def work_of(func: Callable, args: tuple, kwargs: dict, out: Any) -> Work | None:
    """The work of `func`, from shapes, types and layouts alone; None for a view or a question."""
    rule = _rules.get(func)
    if rule is None:
        rule = _rules[func] = _find(func)
    return rule(args, kwargs, out)


def waits(func: Callable, args: tuple) -> bool:
    """True if the host must wait for the device to know what `func` gives."""
    name = _names.get(func)
    if name is None:
        name = _names[func] = _name(func)
    if name in WAITS:
        return name != "repeat_interleave" or isinstance(args[0], Tensor)
    if name == "index":
        return _has_mask(args[1])
    if name in ("index_put", "_index_put_impl"):  # one value is filled in where the mask is true
        return _has_mask(args[1]) and args[2].numel() != 1
    return False


def without_rule() -> list[str]:
    """The names of the operators met so far whose work is only their bytes, for want of a rule."""
    return sorted(_unknown)


def size_of(tensor: Tensor) -> int:
    """The bytes behind `tensor`: those that a dimension of stride 0 repeats count once."""
    if tensor.is_contiguous():
        return tensor.nbytes
    if tensor.layout is not torch.strided:  # sparse: as many as if it were not
        return tensor.numel() * tensor.element_size()
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    return prod(size for size, stride in sizes if stride) * tensor.element_size()


_rules: dict[Callable, Rule] = {}
_names: dict[Callable, str] = {}
_unknown: set[str] = set()


def _name(func: Callable) -> str:
    """The name of an operator, without namespace and overload, in place or not."""
    packet = getattr(func, "overloadpacket", None)
    name = packet.__name__ if packet is not None else str(getattr(func, "__name__", func))
    return name if name.startswith("__") else name.rstrip("_")


def _find(func: Callable) -> Rule:
    """The rule of an overload met for the first time."""
    name = _name(func)
    if name in TABLE:
        return TABLE[name]
    if getattr(func, "is_view", False):
        return nothing
    tags = getattr(func, "tags", ())
    if name.startswith("_foreach_"):
        return foreach
    if torch.Tag.pointwise in tags:
        return pointwise(PRICES.get(name, 1))
    if torch.Tag.reduction in tags:
        return reduction()
    if torch.Tag.view_copy in tags:
        return copied
    _unknown.add(str(func))
    return unknown


def _tensors(values: Iterable) -> Iterable[Tensor]:
    """The tensors among `values`, in lists and tuples too."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _read(args: tuple, kwargs: dict) -> int:
    """The bytes of all inputs."""
    size = 0
    for value in args:
        if isinstance(value, Tensor):
            size += size_of(value)
        elif isinstance(value, list | tuple):
            size += sum(map(size_of, _tensors(value)))
    for key, value in kwargs.items():
        if key != "out":
            size += sum(map(size_of, _tensors((value,))))
    return size


def _written(out: Any) -> int:
    """The bytes of all results."""
    return size_of(out) if isinstance(out, Tensor) else sum(map(size_of, _tensors((out,))))


def _precision(tensor: Tensor) -> str:
    return PRECISIONS.get(tensor.dtype, "float32")


def _product_precision(tensor: Tensor, kind: str = "matmul") -> str:
    """The precision of a product: tf32 where PyTorch's settings allow it for float32."""
    if tensor.dtype is not torch.float32:
        return _precision(tensor)
    asked = torch._C._get_fp32_precision_getter("cuda", kind)
    return "tf32" if asked == "tf32" else "float32"


# Rules without parameters.


def nothing(args: tuple, kwargs: dict, out: Any) -> None:
    """A view, a question, or memory that is not written: no kernel."""
    return None


def unknown(args: tuple, kwargs: dict, out: Any) -> Work:
    """An operator without a rule: its inputs read and its results written once."""
    return Work("other", 0.0, float(_read(args, kwargs) + _written(out)))


def written(args: tuple, kwargs: dict, out: Any) -> Work:
    """A result that is filled: written, nothing read."""
    return Work("pointwise", 0.0, float(_written(out)))


def copied(args: tuple, kwargs: dict, out: Any) -> Work:
    """Bytes moved: the source read, the result written."""
    source = args[1] if len(args) > 1 and isinstance(args[1], Tensor) else args[0]
    return Work("copy", 0.0, float(size_of(source) + _written(out)))


def joined(args: tuple, kwargs: dict, out: Any) -> Work:
    """cat, stack: everything read and written once."""
    return Work("copy", 0.0, 2.0 * _written(out))


def one_value(args: tuple, kwargs: dict, out: Any) -> Work:
    """A value taken to the host: a copy of its bytes."""
    return Work("copy", 0.0, float(args[0].element_size()))


def gathered(args: tuple, kwargs: dict, out: Any) -> Work:
    """Rows or elements picked by an index: index read, picked bytes read and written."""
    index = sum(size_of(each) for each in _tensors(args[1:]) if not each.is_floating_point())
    kernels = 3 if len(args) > 1 and _has_mask(args[1]) else 1
    return Work("gather", 0.0, float(index + 2 * _written(out)), kernels=kernels)


def scattered(args: tuple, kwargs: dict, out: Any) -> Work:
    """Elements changed where an index says, in a copy of the input unless done in place."""
    index, source = _read(args[1:-1], {}), _read(args[-1:], kwargs)
    copied_ = 0 if out is args[0] else 2 * _written(out)
    kernels = 2 if copied_ else 1
    return Work("gather", 0.0, float(index + 3 * source + copied_), kernels=kernels)


def embedding_backward(args: tuple, kwargs: dict, out: Any) -> Work:
    """The table's gradient: filled with zeros, then rows added."""
    size = _read(args[:2], {}) + 2 * size_of(args[0]) + _written(out)
    return Work("gather", 0.0, float(size), kernels=3)


def sorted_(args: tuple, kwargs: dict, out: Any) -> Work:
    """A radix sort: keys and 8-byte positions moved once for each byte of a key."""
    keys = args[0]
    passes = keys.element_size()
    moved = 2.0 * keys.numel() * (passes + 8) * passes
    return Work("other", 0.0, moved, kernels=2 + passes)


def foreach(args: tuple, kwargs: dict, out: Any) -> Work:
    """Lists of tensors in few kernels: about 36 tensors, or 320 chunks of 65536 elements, each.

    Source: PyTorch, ATen/native/cuda/MultiTensorApply.cuh.
    """
    results = list(_tensors((out,))) or list(_tensors(args[:1]))
    written_ = sum(map(size_of, results))
    elements = sum(each.numel() for each in _tensors(args[:1]))
    count = len(list(_tensors(args[:1])))
    kernels = max(1, ceil(count / 36), ceil(elements / (320 * 65536)))
    precision = _precision(results[0]) if results else "float32"
    size = float(_read(args, kwargs) + written_)
    return Work("pointwise", 2.0 * elements, size, precision, kernels)


def fused_optimizer(args: tuple, kwargs: dict, out: Any) -> Work:
    """A whole step of an optimizer: each list read, all but the gradients written."""
    read, gradients = _read(args, kwargs), sum(map(size_of, _tensors((args[1],))))
    elements = sum(each.numel() for each in args[0])
    kernels = max(1, ceil(len(args[0]) / 36), ceil(elements / (320 * 65536)))
    return Work("pointwise", 12.0 * elements, float(2 * read - gradients), kernels=kernels)


# Products. Shapes are (batch, m, n, k).


def _product(batch: int, m: int, n: int, k: int, args: tuple, out: Any, sample: Tensor) -> Work:
    flops = 2.0 * batch * m * n * k
    size = float(_read(args, {}) + _written(out))
    return Work("matmul", flops, size, _product_precision(sample), 1, (batch, m, n, k))


def matmul(first: int) -> Rule:
    """mm, bmm and their kin: the factors are arguments `first` and `first` + 1."""

    def rule(args: tuple, kwargs: dict, out: Any) -> Work:
        a, b = args[first], args[first + 1]
        *_, m, k = a.shape
        n = b.shape[-1] if b.dim() > 1 else 1
        batch = a.shape[0] if a.dim() > 2 else 1
        return _product(batch, m, n, k, args, out, a)

    return rule


def dot(args: tuple, kwargs: dict, out: Any) -> Work:
    """The product of two vectors: two kernels, bound by memory."""
    size = float(_read(args, kwargs) + _written(out))
    return Work("reduction", 2.0 * args[0].numel(), size, _precision(args[0]), 2)


def outer(args: tuple, kwargs: dict, out: Any) -> Work:
    """The outer product: written once."""
    size = float(_read(args, kwargs) + _written(out))
    return Work("pointwise", 2.0 * out.numel(), size, _precision(out))


def linear(args: tuple, kwargs: dict, out: Any) -> Work:
    """Rows times a weight of (out, in)."""
    features, k = args[1].shape if args[1].dim() > 1 else (1, args[1].shape[0])
    return _product(1, args[0].numel() // max(k, 1), features, k, args, out, args[0])


def _grouped(x: Tensor, weight: Tensor, out: Tensor, transposed: bool, groups: int) -> tuple:
    """A convolution as (batch, m, n, k): groups, positions, channels out, channels in x window."""
    window = prod(weight.shape[2:])
    if transposed:
        positions = x.shape[0] * prod(x.shape[2:])
        return groups, positions, weight.shape[1] * window, x.shape[1] // groups
    positions = out.shape[0] * prod(out.shape[2:])
    return groups, positions, weight.shape[0] // groups, weight.shape[1] * window


def _channels_last(x: Tensor) -> bool:
    """True for images whose channels lie side by side."""
    return x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last)


def _convolution(shape: tuple, products: int, size: float, x: Tensor) -> Work:
    batch, m, n, k = shape
    flops = 2.0 * products * batch * m * n * k
    precision = _product_precision(x, "conv")
    if batch > 1 and n == 1:  # one channel a group: no product, done without tensor cores
        return Work("pointwise", flops, size, _precision(x), products)
    kernels = products
    if "float16" in precision and not _channels_last(x):  # as tensor cores want inputs, results
        size *= 3
        kernels += 2
    return Work("convolution", flops, size, precision, kernels, shape)


def convolution(args: tuple, kwargs: dict, out: Any) -> Work:
    """A convolution as an implicit product. Source: cuDNN, https://arxiv.org/abs/1410.0759."""
    x, weight, *_ = args
    transposed, groups = (args[6], args[8]) if len(args) > 8 else (False, 1)
    shape = _grouped(x, weight, out, transposed, groups)
    return _convolution(shape, 1, float(_read(args, kwargs) + _written(out)), x)


def convolution_backward(args: tuple, kwargs: dict, out: Any) -> Work:
    """As many flops as forward for each of the two gradients that are asked for."""
    grad, x, weight = args[:3]
    transposed, groups, mask = args[7], args[9], args[10]
    products = max(1, int(mask[0]) + int(mask[1]))
    shape = _grouped(x, weight, grad, transposed, groups)
    size = products * size_of(grad) + size_of(x) * mask[1] + size_of(weight) * mask[0]
    return _convolution(shape, products, float(size + _written(out)), x)


def attention(products: int, first: int) -> Rule:
    """Fused attention, queries and keys from argument `first` on: half the flops if causal.

    Source: torch.utils.flop_counter; FlashAttention-2, https://arxiv.org/abs/2307.08691.
    """

    def rule(args: tuple, kwargs: dict, out: Any) -> Work:
        query, key = args[first], args[first + 1]
        *batch, rows, size = query.shape
        causal = kwargs.get("is_causal") or any(each is True for each in args)
        flops = 2.0 * products * prod(batch) * rows * key.shape[-2] * size
        moved = float(_read(args, {}) + _written(out))
        return Work("attention", flops / 2 if causal else flops, moved, _product_precision(query))

    return rule


def softmax(args: tuple, kwargs: dict, out: Any) -> Work:
    """Read once where a row fits into a processor, else thrice: maximum, sum, result.

    Source: PyTorch, ATen/native/cuda/SoftMax.cu; 48 KiB are what every processor has.
    """
    x, dim = args[0], args[1] if len(args) > 1 else kwargs["dim"]
    row = x.shape[dim] * x.element_size() if x.dim() else 0
    size = float((3 if row > 48 * 2**10 else 1) * size_of(x) + _written(out))
    return Work("reduction", 10.0 * x.numel(), size, _precision(x))


def batch_norm(args: tuple, kwargs: dict, out: Any) -> Work:
    """The input read for its mean and variance where they are not given, then once more."""
    x, training = args[0], any(each is True for each in args[3:])
    size = float((2 if training else 1) * size_of(x) + _written(out))
    return Work("reduction", 8.0 * x.numel(), size, _precision(x), 2 if training else 1)


# Rules with parameters: functions that make a rule.


def pointwise(price: float) -> Rule:
    """Every input read and every result written once; `price` flops an element."""

    def rule(args: tuple, kwargs: dict, out: Any) -> Work:
        size = 0
        for each in args:
            if isinstance(each, Tensor):
                size += size_of(each)
        if kwargs:
            size += _read((), kwargs)
        if isinstance(out, Tensor):
            size += size_of(out)
            precision = PRECISIONS.get(out.dtype, "float32")
            return Work("pointwise", price * out.numel(), float(size), precision)
        results = list(_tensors((out,)))
        size += sum(map(size_of, results))
        elements = results[0].numel() if results else 0
        return Work("pointwise", price * elements, float(size))

    return rule


def reduction(price: float = 1, kernels: int = 1, times: float = 1) -> Rule:
    """The inputs read `times` times, the results written; `price` flops an element read."""

    def rule(args: tuple, kwargs: dict, out: Any) -> Work:
        x = next(iter(_tensors(args)))
        size = times * _read(args, kwargs) + _written(out)
        return Work("reduction", price * x.numel(), float(size), _precision(x), kernels)

    return rule


def picked(args: tuple, kwargs: dict, out: Any) -> Work:
    """Losses that read one element a row: targets, elements, and what is written."""
    few = tuple(each for each in args if isinstance(each, Tensor) and each.dim() < 2)
    size = _read(few, kwargs)
    return Work("gather", 0.0, float(size + _written(out)))


def _has_mask(indices: Any) -> bool:
    """True if a boolean tensor is among the indices."""
    return any(each.dtype in (torch.bool, torch.uint8) for each in _tensors((indices,)))


# Flops an element of pointwise operators that cost more than one: rough classes, for the CPU.
PRICES = {
    name: price
    for price, names in {
        4: "div reciprocal sqrt rsqrt remainder floor_divide fmod addcdiv threshold_backward lerp",
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
        nothing: "empty empty_like new_empty empty_strided new_empty_strided empty_permuted detach "
        "lift lift_fresh alias set resize resize_as is_same_size sym_size sym_stride sym_numel "
        "stride size numel dim is_contiguous _has_compatible_shallow_copy_type _version "
        "record_stream is_pinned device _nested_tensor_size storage_offset "
        "sym_storage_offset _reshape_alias view _unsafe_view data requires_grad retain_grad "
        "_fw_primal _make_dual unsafe_split unsafe_chunk unsafe_split_with_sizes result_type "
        "_fused_sdp_choice _assert_async _assert_scalar sym_constrain_range is_complex "
        "_record_function_enter_new _record_function_exit",
        written: "fill zero zeros zeros_like new_zeros ones ones_like new_ones full full_like "
        "new_full arange linspace logspace eye tril_indices triu_indices rand rand_like randn "
        "randn_like randint randint_like randperm normal uniform bernoulli exponential random "
        "geometric cauchy log_normal scalar_tensor _efficientzerotensor normal_functional "
        "hann_window",
        copied: "copy clone _to_copy contiguous _copy_from _pin_memory repeat flip roll "
        "constant_pad_nd tril triu lift_fresh_copy expand_copy diagonal_copy as_strided_scatter "
        "slice_scatter select_scatter slice_backward select_backward diagonal_backward "
        "unfold_backward im2col col2im pixel_shuffle pixel_unshuffle channel_shuffle rot90 "
        "reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d",
        joined: "cat stack hstack vstack _chunk_cat split_with_sizes_copy split_copy unbind_copy "
        "repeat_interleave unfold_copy",
        one_value: "_local_scalar_dense item is_nonzero",
        gathered: "index index_select gather take embedding _embedding_bag _unsafe_index "
        "grid_sampler_2d upsample_nearest2d",
        scattered: "index_put index_add index_copy index_fill scatter scatter_add "
        "scatter_reduce masked_scatter put index_reduce _index_put_impl _unsafe_index_put",
        embedding_backward: "embedding_dense_backward _embedding_bag_dense_backward",
        sorted_: "sort argsort _unique _unique2 unique_dim unique_consecutive msort",
        fused_optimizer: "_fused_adam _fused_adamw _fused_sgd _fused_adagrad",
        matmul(0): "mm bmm mv _int_mm",
        matmul(1): "addmm baddbmm addmv addbmm _addmm_activation",
        dot: "dot vdot",
        outer: "addr outer ger",
        linear: "linear mkldnn_linear",
        convolution: "convolution _convolution convolution_overrideable cudnn_convolution "
        "mkldnn_convolution _slow_conv2d_forward",
        convolution_backward: "convolution_backward convolution_backward_overrideable",
        attention(2, 0): "_scaled_dot_product_flash_attention "
        "_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_efficient_attention "
        "_scaled_dot_product_cudnn_attention _scaled_dot_product_fused_attention_overrideable",
        attention(5, 1): "_scaled_dot_product_flash_attention_backward "
        "_scaled_dot_product_flash_attention_for_cpu_backward "
        "_scaled_dot_product_efficient_attention_backward "
        "_scaled_dot_product_cudnn_attention_backward "
        "_scaled_dot_product_fused_attention_overrideable_backward",
        pointwise(2): "native_dropout native_dropout_backward _fused_dropout where masked_fill "
        "addcmul mse_loss_backward smooth_l1_loss_backward huber_loss_backward "
        "_amp_update_scale _weight_norm_interface isin bucketize searchsorted "
        "_fake_quantize_learnable_per_tensor_affine",
        foreach: "_amp_foreach_non_finite_check_and_unscale",
        reduction(): "sum mean prod amax amin aminmax max min any all argmax argmin nansum "
        "count_nonzero trace mse_loss smooth_l1_loss huber_loss",
        reduction(2, 2): "norm linalg_vector_norm var std var_mean std_mean native_norm median "
        "mode kthvalue binary_cross_entropy _cdist_forward dist nanmedian histc bincount "
        "nonzero nonzero_static masked_select equal multinomial",
        softmax: "softmax _softmax log_softmax _log_softmax _safe_softmax",
        reduction(
            10
        ): "logsumexp _softmax_backward_data _log_softmax_backward_data _masked_softmax",
        reduction(2, 2, 2): "cumsum cumprod logcumsumexp cummax cummin topk",
        reduction(8): "native_layer_norm rms_norm _fused_rms_norm",
        reduction(12, 2): "native_layer_norm_backward _fused_rms_norm_backward",
        batch_norm: "native_batch_norm cudnn_batch_norm _native_batch_norm_legit "
        "_native_batch_norm_legit_no_training _batch_norm_no_update",
        reduction(8, 2, 2): "_batch_norm_with_update native_group_norm",
        reduction(12, 2, 2): "native_batch_norm_backward cudnn_batch_norm_backward "
        "batch_norm_backward native_group_norm_backward",
        reduction(4): "max_pool2d_with_indices max_pool3d_with_indices max_pool2d avg_pool2d "
        "avg_pool3d _adaptive_avg_pool2d adaptive_avg_pool2d _adaptive_avg_pool3d "
        "adaptive_max_pool2d avg_pool2d_backward max_pool2d_with_indices_backward "
        "_adaptive_avg_pool2d_backward adaptive_max_pool2d_backward upsample_bilinear2d "
        "upsample_bilinear2d_backward upsample_nearest2d_backward avg_pool1d",
        picked: "nll_loss_forward nll_loss2d_forward nll_loss_backward nll_loss2d_backward "
        "binary_cross_entropy_backward",
    }.items()
    for name in names.split()
}
