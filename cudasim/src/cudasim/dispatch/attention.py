"""The fused kernels of attention, under CUDA's names: the CPU computes, autograd sees CUDA's.

So `grad_fn`, the counter of flops and refusals of a second derivative name what a card would.
The formulas are those of https://arxiv.org/abs/2307.08691, written out.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cudasim.device.gpu import GPU
from cudasim.dispatch import random
from cudasim.dispatch.arguments import all_arguments
from cudasim.dispatch.checks import common_gpu
from cudasim.dispatch.dtypes import SUMS
from cudasim.dispatch.operators import rule
from cudasim.dispatch.placement import tag_results
from cudasim.dispatch.tags import put
from cudasim.torch_private.operators import attention as kernels
from cudasim.words import WORDS

ROWS = 32  # the efficient kernel rounds the length of its `logsumexp` up to these


class Call(NamedTuple):
    """What one call of attention computes with; shapes are (batch, heads, length, numbers)."""

    query: Tensor
    key: Tensor
    value: Tensor
    bias: Tensor | None
    dropout: float
    is_causal: bool
    scale: float | None
    seed: int | None  # of the numbers that dropout draws
    # By how much more keys than queries there are, if causal means "from the end".
    shift: int = 0

    @property
    def fits_cpu(self) -> bool:
        """Whether the CPU has a fused kernel for the call, which takes little memory."""
        if self.dropout or self.shift:
            return False
        tensors = (self.query, self.key, self.value)
        heads = {tensor.shape[1] for tensor in tensors}
        lengths_of_heads = {tensor.shape[-1] for tensor in tensors}
        if len(heads) > 1 or len(lengths_of_heads) > 1:
            return False
        return 0 not in lengths_of_heads


def compute(call: Call) -> tuple[Tensor, Tensor]:
    """Return the result of `call`, and the logarithm of each row's sum of exponentials."""
    if call.fits_cpu:
        return kernels.on_cpu(
            call.query,
            call.key,
            call.value,
            is_causal=call.is_causal,
            attn_mask=call.bias,
            scale=call.scale,
        )

    scores, _, value = _scores(call)
    weights = scores.softmax(-1)
    mask = _dropout_mask(call, weights)
    if mask is not None:
        weights = weights * mask
    out = (weights @ value).to(call.query.dtype)
    return out, scores.logsumexp(-1).float()


def _scores(call: Call) -> tuple[Tensor, Tensor, Tensor]:
    """Return the scores of all pairs, and the keys and values, one head for each query's."""
    dtype = SUMS.get(call.query.dtype, call.query.dtype)
    repeats = call.query.shape[1] // call.key.shape[1]
    query = call.query.to(dtype)
    key = call.key.to(dtype).repeat_interleave(repeats, 1)
    value = call.value.to(dtype).repeat_interleave(repeats, 1)

    scores = query @ key.transpose(-1, -2) * _scale(call)
    if call.bias is not None:
        scores = scores + call.bias
    if call.is_causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1 + call.shift)
        scores = scores.masked_fill(later, -math.inf)
    return scores, key, value


def _scale(call: Call) -> float:
    if call.scale is not None:
        return call.scale
    return 1 / math.sqrt(max(1, call.query.shape[-1]))


def _dropout_mask(call: Call, weights: Tensor) -> Tensor | None:
    """Return what the weights are multiplied by: 0, or what makes up for the zeros."""
    if not call.dropout:
        return None
    generator = torch.Generator().manual_seed(call.seed)
    kept = torch.rand(weights.shape, generator=generator) >= call.dropout
    return kept.to(weights.dtype) / (1 - call.dropout)


def compute_backward(
    call: Call, gradient: Tensor, out: Tensor, logsumexp: Tensor, needs_bias: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Return the gradients of the queries, the keys, the values and the bias."""
    if call.fits_cpu and not needs_bias:
        gradients = kernels.on_cpu_backward(
            gradient,
            call.query,
            call.key,
            call.value,
            out,
            logsumexp,
            call.dropout,
            call.is_causal,
            attn_mask=call.bias,
            scale=call.scale,
        )
        return *gradients, None

    scores, key, value = _scores(call)
    weights = scores.softmax(-1)
    mask = _dropout_mask(call, weights)
    gradient = gradient.to(weights.dtype)
    of_weights = gradient @ value.transpose(-1, -2)
    kept = weights
    if mask is not None:
        of_weights = of_weights * mask
        kept = weights * mask
    of_scores = weights * (of_weights - (of_weights * weights).sum(-1, keepdim=True))

    query = call.query.to(weights.dtype)
    of_query = of_scores @ key * _scale(call)
    of_key = of_scores.transpose(-1, -2) @ query * _scale(call)
    of_value = kept.transpose(-1, -2) @ gradient
    heads = call.key.shape[1]
    of_key = _sum_groups(of_key, heads)
    of_value = _sum_groups(of_value, heads)

    dtype = call.query.dtype
    of_bias = None
    if needs_bias:
        of_bias = of_scores.sum_to_size(call.bias.shape).to(dtype)
    return of_query.to(dtype), of_key.to(dtype), of_value.to(dtype), of_bias


def _sum_groups(tensor: Tensor, heads: int) -> Tensor:
    """Add up the gradients of the query heads that share a head of keys and values."""
    return tensor.unflatten(1, (heads, -1)).sum(2)


def _call_of(
    named: dict[str, Any], bias: Tensor | None, seed: int, shift: int = 0
) -> Call:
    """Return what a kernel computes with, from its arguments by name."""
    return Call(
        query=named["query"],
        key=named["key"],
        value=named["value"],
        bias=bias,
        dropout=named["dropout_p"],
        is_causal=named["is_causal"],
        scale=named["scale"],
        seed=seed,
        shift=shift,
    )


def _forward(
    named: dict[str, Any], gpu: GPU, bias: Tensor | None = None, shift: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the result, the logarithms of its sums, and the seed of its dropout."""
    seed = _new_seed(named["dropout_p"], gpu)
    out, logsumexp = compute(_call_of(named, bias, seed, shift))
    return out, logsumexp, torch.tensor(seed)


def _new_seed(dropout: float, gpu: GPU) -> int:
    """Return the seed of a call's dropout, drawn from the GPU's generator."""
    if not dropout:
        return 0
    return random.new_seed(gpu)


def _like_query(out: Tensor, query: Tensor) -> Tensor:
    """Lay `out` out in memory as `query` is, which flash attention does."""
    if out.shape != query.shape:
        return out
    return torch.empty_like(query).copy_(out)


@rule(kernels.flash)
def flash(func: Callable, args: tuple, kwargs: dict) -> Any:
    gpu = common_gpu(func, args, kwargs)
    named = all_arguments(func, args, kwargs)
    query, key = named["query"], named["key"]
    out, logsumexp, seed = _forward(named, gpu, shift=_flash_shift(named))
    seed_and_offset = torch.stack([seed, torch.tensor(0)])
    unused = torch.empty(0, dtype=torch.int64)
    debug_mask = torch.empty(0, dtype=query.dtype)
    return (
        tag_results(_like_query(out, query), gpu),
        tag_results(logsumexp, gpu),
        None,
        None,
        query.shape[2],
        key.shape[2],
        tag_results(seed_and_offset, gpu),
        tag_results(unused, gpu),
        tag_results(debug_mask, gpu),
    )


@rule(kernels.flash_backward)
def flash_backward(func: Callable, args: tuple, kwargs: dict) -> Any:
    gpu = common_gpu(func, args, kwargs)
    named = all_arguments(func, args, kwargs)
    seed = int(named["philox_seed"][0])
    shift = _flash_shift(named)
    gradients = _backward(
        named, gpu, named["grad_out"], None, seed, needs_bias=False, shift=shift
    )
    return gradients[:3]


def _flash_shift(named: dict[str, Any]) -> int:
    """Return by how much flash attention shifts what is causal: its end is the keys' end."""
    if not named["is_causal"]:
        return 0
    return named["key"].shape[2] - named["query"].shape[2]


@rule(kernels.efficient)
def efficient(func: Callable, args: tuple, kwargs: dict) -> Any:
    gpu = common_gpu(func, args, kwargs)
    named = all_arguments(func, args, kwargs)
    out, logsumexp, seed = _forward(named, gpu, named["attn_bias"])
    length = logsumexp.shape[-1]
    rows = _padded_rows(named, length)
    padded = logsumexp.new_full((*logsumexp.shape[:2], rows), math.inf)
    if rows:
        padded[..., :length] = logsumexp
    by_rows = out.transpose(1, 2).contiguous().transpose(1, 2)
    return (
        tag_results(by_rows, gpu),
        tag_results(padded, gpu),
        put(seed, None),
        put(torch.tensor(0), None),
    )


def _padded_rows(named: dict[str, Any], length: int) -> int:
    """Return how many sums the efficient kernel keeps for backward, for `length` rows."""
    if not named["compute_log_sumexp"]:
        return 0
    return math.ceil(length / ROWS) * ROWS


@rule(kernels.efficient_backward)
def efficient_backward(func: Callable, args: tuple, kwargs: dict) -> Any:
    gpu = common_gpu(func, args, kwargs)
    named = all_arguments(func, args, kwargs)
    bias = named["attn_bias"]
    needed = named["grad_input_mask"]
    seed = int(named["philox_seed"])
    gradients = _backward(named, gpu, named["grad_out_"], bias, seed, needed[3])
    results = []
    for gradient, is_needed in zip(gradients, needed, strict=True):
        if is_needed and gradient is not None:
            results.append(gradient)
        else:
            results.append(torch.Tensor())
    return tuple(results)


@rule(kernels.cudnn)
def cudnn(func: Callable, args: tuple, kwargs: dict) -> Any:
    gpu = common_gpu(func, args, kwargs)
    named = all_arguments(func, args, kwargs)
    query, key = named["query"], named["key"]
    out, logsumexp, seed = _forward(named, gpu, named["attn_bias"])
    debug_mask = torch.empty(0, dtype=query.dtype)
    return (
        tag_results(_like_query(out, query), gpu),
        tag_results(logsumexp.unsqueeze(-1), gpu),
        None,
        None,
        query.shape[2],
        key.shape[2],
        tag_results(seed, gpu),
        tag_results(torch.tensor(0), gpu),
        tag_results(debug_mask, gpu),
    )


@rule(kernels.cudnn_backward)
def cudnn_backward(func: Callable, args: tuple, kwargs: dict) -> Any:
    gpu = common_gpu(func, args, kwargs)
    named = all_arguments(func, args, kwargs)
    seed = int(named["philox_seed"])
    bias = named["attn_bias"]
    gradients = _backward(named, gpu, named["grad_out"], bias, seed, needs_bias=False)
    return gradients[:3]


# Kernels that are called by nested tensors and `varlen_attn`: sequences of several lengths are
# packed in one tensor of shape (numbers of all, heads, numbers), and `cum_seq` says where each
# begins. Without it tensors have the shape (batch, length, heads, numbers).


class Packed(NamedTuple):
    """The sequences of a call, each with its own queries, keys and values."""

    query: Tensor
    key: Tensor
    value: Tensor
    begins: Tensor | None
    begins_of_keys: Tensor | None

    def calls(
        self,
        named: dict[str, Any],
        bias: Tensor | None,
        causal: str | None,
        seed: int,
    ) -> list[Call]:
        """Return a call for each sequence; `causal` counts from the `start` or the `end`."""
        queries = self.split(self.query, self.begins)
        keys = self.split(self.key, self.begins_of_keys)
        values = self.split(self.value, self.begins_of_keys)
        calls = []
        for query, key, value in zip(queries, keys, values, strict=True):
            shift = 0
            if causal == "end":
                shift = key.shape[2] - query.shape[2]
            call = Call(
                query=query,
                key=key,
                value=value,
                bias=bias,
                dropout=named["dropout_p"],
                is_causal=causal is not None,
                scale=named["scale"],
                seed=seed,
                shift=shift,
            )
            calls.append(call)
        return calls

    @staticmethod
    def split(tensor: Tensor, begins: Tensor | None) -> list[Tensor]:
        """Return the sequences of `tensor`, of shape (batch, heads, length, numbers)."""
        if begins is None:
            return [tensor.transpose(1, 2)]
        if tensor.dim() == 4:  # a batch of one, which the efficient kernel is given
            tensor = tensor.squeeze(0)
        lengths = begins.diff().tolist()
        parts = tensor[: sum(lengths)].split(lengths)
        return [part.transpose(0, 1).unsqueeze(0) for part in parts]

    def join(self, parts: list[Tensor], like: Tensor) -> Tensor:
        """Put the sequences together again, in the shape of `like`."""
        if self.begins is None:
            return parts[0].transpose(1, 2)
        rows = [part.squeeze(0).transpose(0, 1) for part in parts]
        count = sum(map(len, rows))
        rest = like.shape[-3] - count  # rows that no sequence has
        rows.append(rows[0].new_zeros(rest, *rows[0].shape[1:]))
        joined = torch.cat(rows)
        return joined.unsqueeze(0) if like.dim() == 4 else joined


CAUSAL = {0: None, 1: "start", 2: "end"}  # the efficient kernel's numbers
# Arguments that nothing here computes with.
WINDOWS = ("window_size_left", "window_size_right", "window_size")
OTHERS = ("alibi_slopes", "seqused_k", "seqlen_k", "block_table")


def _packed(
    func: Callable, args: tuple, kwargs: dict, begins: str
) -> tuple[Packed, dict]:
    """Return the sequences of a call whose arguments for their begins are named alike."""
    named = all_arguments(func, args, kwargs)
    has_window = any(named.get(name) not in (None, -1) for name in WINDOWS)
    has_others = any(named.get(name) is not None for name in OTHERS)
    if has_window or has_others:
        raise NotImplementedError(WORDS["attention"]["window"])
    packed = Packed(
        named["query"],
        named["key"],
        named["value"],
        begins=named[f"{begins}_q"],
        begins_of_keys=named[f"{begins}_k"],
    )
    return packed, named


@rule(kernels.packed_flash)
def packed_flash(func: Callable, args: tuple, kwargs: dict) -> Any:
    gpu = common_gpu(func, args, kwargs)
    packed, named = _packed(func, args, kwargs, "cum_seq")
    seed = _new_seed(named["dropout_p"], gpu)
    causal = "end" if named["is_causal"] else None
    out, sums = _packed_forward(packed, packed.calls(named, None, causal, seed))
    if packed.begins is None:
        logsumexp = sums[0]
    else:
        logsumexp = torch.cat(sums, -1).squeeze(0)

    unused = torch.empty(0, dtype=torch.int64)
    debug_mask = torch.empty(0, dtype=out.dtype)
    return (
        tag_results(out, gpu),
        tag_results(logsumexp, gpu),
        tag_results(torch.tensor([seed, 0]), gpu),
        tag_results(unused, gpu),
        tag_results(debug_mask, gpu),
    )


@rule(kernels.packed_flash_backward)
def packed_flash_backward(func: Callable, args: tuple, kwargs: dict) -> Any:
    gpu = common_gpu(func, args, kwargs)
    packed, named = _packed(func, args, kwargs, "cum_seq")
    seed = int(named["rng_state"][0])
    causal = "end" if named["is_causal"] else None
    calls = packed.calls(named, None, causal, seed)
    return _packed_backward(packed, gpu, calls, named["grad_out"])


@rule(kernels.packed_efficient)
def packed_efficient(func: Callable, args: tuple, kwargs: dict) -> Any:
    gpu = common_gpu(func, args, kwargs)
    packed, named = _packed(func, args, kwargs, "cu_seqlens")
    seed = _new_seed(named["dropout_p"], gpu)
    causal = CAUSAL[named["custom_mask_type"]]
    calls = packed.calls(named, named["bias"], causal, seed)
    out, sums = _packed_forward(packed, calls)
    longest = max(logsumexp.shape[-1] for logsumexp in sums)
    # What is kept for backward is not read there: it is computed again.
    shape = (len(sums), out.shape[-2], _padded_rows(named, longest))
    kept = out.new_full(shape, math.inf, dtype=torch.float)
    return (
        tag_results(out, gpu),
        tag_results(kept, gpu),
        put(torch.tensor(seed), None),
        put(torch.tensor(0), None),
        named["max_seqlen_q"] or longest,
        named["max_seqlen_k"] or packed.key.shape[1],
    )


@rule(kernels.packed_efficient_backward)
def packed_efficient_backward(func: Callable, args: tuple, kwargs: dict) -> Any:
    gpu = common_gpu(func, args, kwargs)
    packed, named = _packed(func, args, kwargs, "cu_seqlens")
    seed = int(named["philox_seed"])
    causal = CAUSAL[named["custom_mask_type"]]
    bias = named["bias"]
    if bias is not None and named["bias_requires_grad"]:
        raise NotImplementedError(WORDS["attention"]["window"])
    calls = packed.calls(named, bias, causal, seed)
    gradients = _packed_backward(packed, gpu, calls, named["grad_out_"])
    return *gradients, torch.Tensor()


def _packed_forward(packed: Packed, calls: list[Call]) -> tuple[Tensor, list[Tensor]]:
    """Return the result of all sequences, and the logarithms of the sums of each."""
    parts = []
    sums = []
    for call in calls:
        out, logsumexp = compute(call)
        parts.append(out)
        sums.append(logsumexp)
    return packed.join(parts, packed.query).contiguous(), sums


def _packed_backward(
    packed: Packed, gpu: GPU, calls: list[Call], gradient: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of the queries, the keys and the values of all sequences."""
    of_queries = []
    of_keys = []
    of_values = []
    gradients = packed.split(gradient, packed.begins)
    for call, part in zip(calls, gradients, strict=True):
        # Computed again, because the results are laid out otherwise.
        out, logsumexp = compute(call)
        of_query, of_key, of_value, _ = compute_backward(
            call, part, out, logsumexp, needs_bias=False
        )
        of_queries.append(of_query)
        of_keys.append(of_key)
        of_values.append(of_value)

    return (
        tag_results(packed.join(of_queries, packed.query).contiguous(), gpu),
        tag_results(packed.join(of_keys, packed.key).contiguous(), gpu),
        tag_results(packed.join(of_values, packed.value).contiguous(), gpu),
    )


def _backward(
    named: dict[str, Any],
    gpu: GPU,
    gradient: Tensor,
    bias: Tensor | None,
    seed: int,
    needs_bias: bool,
    shift: int = 0,
) -> list[Tensor | None]:
    """Return the gradients of a call of one kernel, None for those that it has not."""
    if bias is not None and not bias.numel():
        bias = None
    call = _call_of(named, bias, seed, shift)
    logsumexp = named["logsumexp"]
    if logsumexp.dim() == 4:  # cuDNN's
        logsumexp = logsumexp.squeeze(-1)
    logsumexp = logsumexp[..., : call.query.shape[2]].contiguous()
    needs_bias = needs_bias and bias is not None
    gradients = compute_backward(call, gradient, named["out"], logsumexp, needs_bias)
    return [tag_results(result, gpu) for result in gradients]
