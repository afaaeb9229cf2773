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
from cudasim.dispatch.operators import rule
from cudasim.dispatch.placement import tag_results
from cudasim.dispatch.tags import gpu_of, put
from cudasim.torch_private.operators import attention as kernels
from cudasim.torch_private.operators import schema_of
from cudasim.words import WORDS

# Types in which the sums of products are kept.
SUMS = {torch.float16: torch.float32, torch.bfloat16: torch.float32}
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
        heads = {tensor.shape[-1] for tensor in self[:3]}
        lengths = {tensor.shape[1] for tensor in self[:3]}
        return (
            not self.dropout
            and not self.shift
            and len(heads) == len(lengths) == 1
            and 0 not in heads
        )


def compute(call: Call) -> tuple[Tensor, Tensor]:
    """Return the result of `call`, and the logarithm of each row's sum of exponentials."""
    if call.fits_cpu:
        options = {"attn_mask": call.bias, "scale": call.scale}
        return kernels.on_cpu(*call[:3], 0.0, call.is_causal, **options)

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
    query, key, value = (tensor.to(dtype) for tensor in call[:3])
    repeats = query.shape[1] // key.shape[1]
    key = key.repeat_interleave(repeats, 1)
    value = value.repeat_interleave(repeats, 1)

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
        options = {"attn_mask": call.bias, "scale": call.scale}
        arguments = (gradient, *call[:3], out, logsumexp, 0.0, call.is_causal)
        return *kernels.on_cpu_backward(*arguments, **options), None

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
    grouped = [_sum_groups(tensor, heads) for tensor in (of_key, of_value)]
    of_bias = of_scores.sum_to_size(call.bias.shape) if needs_bias else None

    dtype = call.query.dtype
    gradients = [tensor.to(dtype) for tensor in (of_query, *grouped)]
    return *gradients, None if of_bias is None else of_bias.to(dtype)


def _sum_groups(tensor: Tensor, heads: int) -> Tensor:
    """Add up the gradients of the query heads that share a head of keys and values."""
    return tensor.unflatten(1, (heads, -1)).sum(2)


def _forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    dropout: float,
    is_causal: bool,
    scale: float | None,
    shift: int = 0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the result, the logarithms of its sums, and the seed of its dropout."""
    seed = _new_seed(dropout, _require_gpu(query))
    call = Call(query, key, value, bias, dropout, is_causal, scale, seed, shift)
    out, logsumexp = compute(call)
    return out, logsumexp, torch.tensor(seed)


def _require_gpu(query: Tensor) -> GPU:
    gpu = gpu_of(query)
    if gpu is None:
        raise NotImplementedError(WORDS["attention"]["by name"])
    return gpu


def _new_seed(dropout: float, gpu: GPU) -> int:
    """Return the seed of a call's dropout, drawn from the GPU's generator."""
    if not dropout:
        return 0
    return int(torch.randint(2**62, (), generator=random.source(gpu, None)))


def _like_query(out: Tensor, query: Tensor) -> Tensor:
    """Lay `out` out in memory as `query` is, which flash attention does."""
    if out.shape != query.shape:
        return out
    return torch.empty_like(query).copy_(out)


@rule(kernels.flash)
def flash(func: Callable, args: tuple, kwargs: dict) -> Any:
    named = _arguments(func, args, kwargs)
    query, key, value = args[:3]
    options = named["dropout_p"], named["is_causal"], named["scale"]
    shift = _flash_shift(named)
    out, logsumexp, seed = _forward(query, key, value, None, *options, shift)
    gpu = gpu_of(query)
    nothing = torch.empty(0, dtype=query.dtype)
    result = (
        tag_results(_like_query(out, query), gpu),
        tag_results(logsumexp, gpu),
        None,
        None,
        query.shape[2],
        key.shape[2],
        tag_results(torch.stack([seed, torch.tensor(0)]), gpu),
        tag_results(torch.empty(0, dtype=torch.int64), gpu),
        tag_results(nothing, gpu),
    )
    return result


@rule(kernels.flash_backward)
def flash_backward(func: Callable, args: tuple, kwargs: dict) -> Any:
    named = _arguments(func, args, kwargs)
    seed = int(named["philox_seed"][0])
    shift = _flash_shift(named)
    gradients = _backward(named, named["grad_out"], None, seed, False, shift)
    return gradients[:3]


def _flash_shift(named: dict[str, Any]) -> int:
    """Return by how much flash attention shifts what is causal: its end is the keys' end."""
    if not named["is_causal"]:
        return 0
    return named["key"].shape[2] - named["query"].shape[2]


@rule(kernels.efficient)
def efficient(func: Callable, args: tuple, kwargs: dict) -> Any:
    named = _arguments(func, args, kwargs)
    query, key, value, bias = args[:4]
    out, logsumexp, seed = _forward(
        query, key, value, bias, named["dropout_p"], named["is_causal"], named["scale"]
    )
    gpu = gpu_of(query)
    rows = 0
    if named["compute_log_sumexp"]:
        rows = math.ceil(logsumexp.shape[-1] / ROWS) * ROWS
    padded = logsumexp.new_full((*logsumexp.shape[:2], rows), math.inf)
    if rows:
        padded[..., : logsumexp.shape[-1]] = logsumexp
    by_rows = out.transpose(1, 2).contiguous().transpose(1, 2)
    host = put(seed, None), put(torch.tensor(0), None)
    return tag_results(by_rows, gpu), tag_results(padded, gpu), *host


@rule(kernels.efficient_backward)
def efficient_backward(func: Callable, args: tuple, kwargs: dict) -> Any:
    named = _arguments(func, args, kwargs)
    bias = named["attn_bias"]
    needed = named["grad_input_mask"]
    seed = int(named["philox_seed"])
    gradients = _backward(named, named["grad_out_"], bias, seed, needed[3])
    none = torch.Tensor()
    return tuple(
        gradient if is_needed and gradient is not None else none
        for gradient, is_needed in zip(gradients, needed, strict=True)
    )


@rule(kernels.cudnn)
def cudnn(func: Callable, args: tuple, kwargs: dict) -> Any:
    named = _arguments(func, args, kwargs)
    query, key, value, bias = args[:4]
    out, logsumexp, seed = _forward(
        query, key, value, bias, named["dropout_p"], named["is_causal"], named["scale"]
    )
    gpu = gpu_of(query)
    result = (
        tag_results(_like_query(out, query), gpu),
        tag_results(logsumexp.unsqueeze(-1), gpu),
        None,
        None,
        query.shape[2],
        key.shape[2],
        put(seed, None),
        put(torch.tensor(0), None),
        tag_results(torch.empty(0, dtype=query.dtype), gpu),
    )
    return result


@rule(kernels.cudnn_backward)
def cudnn_backward(func: Callable, args: tuple, kwargs: dict) -> Any:
    named = _arguments(func, args, kwargs)
    bias = named["attn_bias"]
    gradients = _backward(
        named, named["grad_out"], bias, int(named["philox_seed"]), False
    )
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

    def calls(self, bias: Tensor | None, causal: str | None, named: dict) -> list[Call]:
        """Return a call for each sequence; `causal` counts from the `start` or the `end`."""
        calls = []
        for query, key, value in zip(
            *map(self.split, self[:3], self._starts()), strict=True
        ):
            shift = key.shape[2] - query.shape[2] if causal == "end" else 0
            options = named["dropout_p"], causal is not None, named["scale"]
            calls.append(Call(query, key, value, bias, *options, named["seed"], shift))
        return calls

    def _starts(self) -> tuple:
        return self.begins, self.begins_of_keys, self.begins_of_keys

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
        joined = torch.cat(rows)
        rest = like.shape[-3] - joined.shape[0]  # that no sequence has
        joined = torch.cat([joined, joined.new_zeros(rest, *joined.shape[1:])])
        return joined.unsqueeze(0) if like.dim() == 4 else joined


CAUSAL = {0: None, 1: "start", 2: "end"}  # the efficient kernel's numbers


def _packed(
    func: Callable, args: tuple, kwargs: dict, begins: str
) -> tuple[Packed, dict]:
    """Return the sequences of a call whose arguments for their begins are named alike."""
    named = _arguments(func, args, kwargs)
    for name in ("window_size_left", "window_size_right", "window_size"):
        if named.get(name) not in (None, -1):
            raise NotImplementedError(WORDS["attention"]["window"])
    for name in ("alibi_slopes", "seqused_k", "seqlen_k", "block_table"):
        if named.get(name) is not None:
            raise NotImplementedError(WORDS["attention"]["window"])
    tensors = (named[name] for name in ("query", "key", "value"))
    return Packed(*tensors, named[f"{begins}_q"], named[f"{begins}_k"]), named


@rule(kernels.packed_flash)
def packed_flash(func: Callable, args: tuple, kwargs: dict) -> Any:
    packed, named = _packed(func, args, kwargs, "cum_seq")
    gpu = _require_gpu(packed.query)
    named["seed"] = _new_seed(named["dropout_p"], gpu)
    causal = "end" if named["is_causal"] else None
    results = [compute(call) for call in packed.calls(None, causal, named)]
    out = packed.join([out for out, _ in results], packed.query)
    sums = [logsumexp for _, logsumexp in results]
    logsumexp = sums[0] if packed.begins is None else torch.cat(sums, -1).squeeze(0)
    return (
        tag_results(out.contiguous(), gpu),
        tag_results(logsumexp, gpu),
        tag_results(torch.tensor([named["seed"], 0]), gpu),
        tag_results(torch.empty(0, dtype=torch.int64), gpu),
        tag_results(torch.empty(0, dtype=out.dtype), gpu),
    )


@rule(kernels.packed_flash_backward)
def packed_flash_backward(func: Callable, args: tuple, kwargs: dict) -> Any:
    packed, named = _packed(func, args, kwargs, "cum_seq")
    named["seed"] = int(named["rng_state"][0])
    causal = "end" if named["is_causal"] else None
    return _packed_backward(packed, named, named["grad_out"], None, causal)


@rule(kernels.packed_efficient)
def packed_efficient(func: Callable, args: tuple, kwargs: dict) -> Any:
    packed, named = _packed(func, args, kwargs, "cu_seqlens")
    gpu = _require_gpu(packed.query)
    named["seed"] = _new_seed(named["dropout_p"], gpu)
    causal = CAUSAL[named["custom_mask_type"]]
    results = [compute(call) for call in packed.calls(named["bias"], causal, named)]
    out = packed.join([out for out, _ in results], packed.query)
    longest = max(logsumexp.shape[-1] for _, logsumexp in results)
    rows = math.ceil(longest / ROWS) * ROWS if named["compute_log_sumexp"] else 0
    sums = out.new_full(
        (len(results), out.shape[-2], rows), math.inf, dtype=torch.float
    )
    longest_key = named["max_seqlen_k"] or packed.key.shape[1]
    return (
        tag_results(out.contiguous(), gpu),
        tag_results(sums, gpu),
        put(torch.tensor(named["seed"]), None),
        put(torch.tensor(0), None),
        named["max_seqlen_q"] or longest,
        longest_key,
    )


@rule(kernels.packed_efficient_backward)
def packed_efficient_backward(func: Callable, args: tuple, kwargs: dict) -> Any:
    packed, named = _packed(func, args, kwargs, "cu_seqlens")
    named["seed"] = int(named["philox_seed"])
    causal = CAUSAL[named["custom_mask_type"]]
    bias = named["bias"]
    if bias is not None and named["bias_requires_grad"]:
        raise NotImplementedError(WORDS["attention"]["window"])
    gradients = _packed_backward(packed, named, named["grad_out_"], bias, causal)
    return *gradients, torch.Tensor()


def _packed_backward(
    packed: Packed,
    named: dict,
    gradient: Tensor,
    bias: Tensor | None,
    causal: str | None,
) -> tuple[Tensor, ...]:
    gradients = Packed.split(gradient, packed.begins)
    parts = []
    for call, part in zip(packed.calls(bias, causal, named), gradients, strict=True):
        out, logsumexp = compute(
            call
        )  # again: they are laid out otherwise in the results
        parts.append(compute_backward(call, part, out, logsumexp, False)[:3])
    gpu = _require_gpu(packed.query)
    joined = []
    for position, like in enumerate(packed[:3]):
        whole = packed.join([part[position] for part in parts], like)
        joined.append(tag_results(whole.contiguous(), gpu))
    return tuple(joined)


def _arguments(func: Callable, args: tuple, kwargs: dict) -> dict[str, Any]:
    """Return the arguments of a call by their names, with those that are left out."""
    named = {}
    for position, argument in enumerate(schema_of(func).arguments):
        if position < len(args):
            named[argument.name] = args[position]
        else:
            named[argument.name] = kwargs.get(argument.name, argument.default_value)
    return named


def _backward(
    named: dict[str, Any],
    gradient: Tensor,
    bias: Tensor | None,
    seed: int,
    needs_bias: bool,
    shift: int = 0,
) -> list[Tensor | None]:
    query, key, value = (named[name] for name in ("query", "key", "value"))
    has_bias = bias is not None and bias.numel()
    call = Call(
        *(query, key, value, bias if has_bias else None),
        *(named["dropout_p"], named["is_causal"], named["scale"], seed, shift),
    )
    logsumexp = named["logsumexp"]
    if logsumexp.dim() == 4:  # cuDNN's
        logsumexp = logsumexp.squeeze(-1)
    logsumexp = logsumexp[..., : query.shape[2]].contiguous()
    needs_bias = bool(needs_bias and has_bias)
    gradients = compute_backward(call, gradient, named["out"], logsumexp, needs_bias)
    gpu = gpu_of(query)
    return [None if each is None else tag_results(each, gpu) for each in gradients]
