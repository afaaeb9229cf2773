"""Which kernel of attention CUDA would take, and its refusal where there is none.

`scaled_dot_product_attention` has four kernels on a GPU, of which `sdpa_kernel` allows some. Each
has conditions, some of the card (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp). The CPU
has other kernels with others, so it computes with all of them allowed.
"""

import functools
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._higher_order_ops.flex_attention import FlexAttentionHOP
from torch.nn.attention import SDPBackend

from cudasim.device.gpu import GPU
from cudasim.dispatch.devices import fakes
from cudasim.dispatch.dtypes import NAMES
from cudasim.dispatch.tags import device_of, gpu_of
from cudasim.patching import Patches
from cudasim.session import session

FUSED = torch.float16, torch.bfloat16
AMPERE = (8, 0)  # the least capability of flash attention, of cuDNN's, and of bfloat16 in them
LONGEST = 256  # numbers of a head in flash attention
SWITCHES = "flash mem_efficient math cudnn".split()


class Asked(NamedTuple):
    """What an attention is of, as `torch.backends.cuda.SDPAParams`."""

    query: Tensor
    key: Tensor
    value: Tensor
    attn_mask: Tensor | None
    dropout: float
    is_causal: bool
    enable_gqa: bool


def patch_attention(patches: Patches) -> None:
    """Make attention choose among CUDA's kernels, and refuse as CUDA does."""
    if not session.type.lists_kernels:
        return
    attend = make_attend(torch._C._nn.scaled_dot_product_attention)
    for owner in (torch._C._nn, torch.nn.functional):
        patches.replace(owner, "scaled_dot_product_attention", attend)
    for name, reasons in (("flash", flash), ("efficient", efficient), ("cudnn", cudnn)):
        patches.replace(torch.backends.cuda, f"can_use_{name}_attention", make_can_use(reasons))
    patches.replace(torch.backends.cuda, "is_flash_attention_available", lambda: True)
    flexible = sys.modules[FlexAttentionHOP.__module__]  # whose package has an operator by its name
    trace = make_gradient(flexible.create_fw_bw_graph)
    patches.replace(flexible, "create_fw_bw_graph", trace)


def make_attend(original: Callable) -> Callable:
    """`torch.nn.functional.scaled_dot_product_attention`."""

    @functools.wraps(original)
    def scaled_dot_product_attention(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        more = {"scale": scale, "enable_gqa": enable_gqa}
        simple = type(query) is Tensor or type(query) is torch.nn.Parameter
        if not simple or gpu_of(query) is None:
            return original(query, key, value, attn_mask, dropout_p, is_causal, **more)
        choose(Asked(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa))
        with _all_allowed():
            return original(query, key, value, attn_mask, dropout_p, is_causal, **more)

    return scaled_dot_product_attention


def make_gradient(original: Callable) -> Callable:
    """What traces the gradient of the `score_mod` of `flex_attention`; on GPUs it is computed.

    C++'s engine has no queue for the tensors of a GPU that a trace is made with.
    """

    @functools.wraps(original)
    def create_fw_bw_graph(score_mod: Callable, index_values: tuple, buffers: tuple) -> tuple:
        if fakes() or gpu_of(index_values[0]) is None:
            return original(score_mod, index_values, buffers)

        def gradient(score: Tensor, *place_and_gradient: Tensor) -> list:
            *place, incoming = place_and_gradient
            _, back = torch.func.vjp(lambda score: score_mod(score, *place), score)
            return [*back(incoming), None, None, None, None]

        return score_mod, gradient

    return create_fw_bw_graph


def choose(asked: Asked) -> SDPBackend:
    """The kernel for an attention. Raises RuntimeError, after CUDA's warnings, if none may run."""
    if torch._C._get_math_sdp_enabled():
        return SDPBackend.MATH
    found = {
        "Memory efficient": (SDPBackend.EFFICIENT_ATTENTION, list(efficient(asked))),
        "Flash attention": (SDPBackend.FLASH_ATTENTION, list(flash(asked))),
        "cuDNN attention": (SDPBackend.CUDNN_ATTENTION, list(cudnn(asked))),
    }
    for kernel, reasons in found.values():
        if not reasons:
            return kernel
    for name, (_, reasons) in found.items():
        warnings.warn(f"{name} kernel not used because:", stacklevel=3)
        warnings.warn(reasons[0], stacklevel=3)
    raise RuntimeError("No available kernel. Aborting execution.")


def make_can_use(reasons: Callable[[Any], Iterator[str]]) -> Callable:
    """`torch.backends.cuda.can_use_..._attention`."""

    def can_use(params: Any, debug: bool = False) -> bool:
        found = list(reasons(params))
        if found and debug:
            warnings.warn(found[0], stacklevel=2)
        return not found

    return can_use


def flash(asked: Any) -> Iterator[str]:
    """Why flash attention cannot run, in the order in which CUDA looks."""
    if not torch._C._get_flash_sdp_enabled():
        yield "Flash attention has been runtime disabled."
    yield from _elsewhere(asked)
    yield from _not_four(asked)
    if asked.attn_mask is not None:
        yield "Flash Attention does not support non-null attn_mask."
    heads = [tensor.shape[-1] for tensor in (asked.query, asked.key, asked.value)]
    if len(set(heads)) > 1 or heads[0] > LONGEST:
        yield (
            "Flash attention requires q,k,v to have the same last dimension and to be less than "
            f"or equal to {LONGEST}. Got Query.size(-1): {heads[0]}, Key.size(-1): {heads[1]}, "
            f"Value.size(-1): {heads[2]} instead."
        )
    yield from _too_old(asked, "Flash attention")
    if asked.is_causal and asked.query.shape[-2] != asked.key.shape[-2]:
        yield (
            "Flash attention does not support the is_causal flag when seqlen_q != seqlen_k. Got "
            f"seqlen_q: {asked.query.shape[-2]} seqlen_k: {asked.key.shape[-2]}. If you would like "
            "to use causal attention with non-square masks, please see CausalAttnMask."
        )
    yield from _other_type(asked, _halves(asked))


def efficient(asked: Any) -> Iterator[str]:
    """Why memory efficient attention cannot run."""
    if not torch._C._get_mem_efficient_sdp_enabled():
        yield "Memory Efficient attention has been runtime disabled."
    yield from _elsewhere(asked)
    yield from _not_four(asked)
    heads = [tensor.shape[-1] for tensor in (asked.query, asked.key, asked.value)]
    step = _alignment(asked)
    if heads[0] != heads[1] or any(not head or head % step for head in heads):
        yield (
            "Mem efficient attention requires last dimension of inputs to be divisible by "
            f"{step}. Got Query.size(-1): {heads[0]}, Key.size(-1): {heads[1]}, "
            f"Value.size(-1): {heads[2]} instead."
        )
    half, *later = _halves(asked)
    yield from _other_type(asked, [half, torch.float32, *later])


def cudnn(asked: Any) -> Iterator[str]:
    """Why cuDNN's attention cannot run."""
    if not torch._C._get_cudnn_sdp_enabled():
        yield "cuDNN attention has been runtime disabled."
    yield from _elsewhere(asked)
    yield from _not_four(asked)
    yield from _other_type(asked, _halves(asked))
    yield from _too_old(asked, "cuDNN MHA")
    most = 128
    heads = asked.query.shape[-1], asked.value.shape[-1]
    if max(heads) > most:
        yield f"head_dim should be no more than {most}"
    if any(head % 8 for head in heads):
        yield "head_dim should be a multiple of 8"


def _elsewhere(asked: Any) -> Iterator[str]:
    if gpu_of(asked.query) is None:
        query, key, value = map(device_of, (asked.query, asked.key, asked.value))
        yield (
            f"All tensors need to be on cuda device. Got query on device: {query}, key on device: "
            f"{key}, value on device: {value}"
        )


def _not_four(asked: Any) -> Iterator[str]:
    query, key, value = (tensor.dim() for tensor in (asked.query, asked.key, asked.value))
    if {query, key, value} != {4}:
        yield (
            "All fused kernels requires query, key and value to be 4 dimensional, but got Query "
            f"dim: {query}, Key dim: {key}, Value dim: {value} instead."
        )


def _too_old(asked: Any, name: str) -> Iterator[str]:
    major, minor = _capability(asked)
    if (major, minor) < AMPERE:
        yield (
            f"{name} only supports gpu architectures in the range [sm80, sm121]. "
            f"Attempting to run on a sm {major}.{minor} gpu."
        )


def _other_type(asked: Any, allowed: list[torch.dtype]) -> Iterator[str]:
    query, key, value = (tensor.dtype for tensor in (asked.query, asked.key, asked.value))
    if query not in allowed or not query == key == value:
        yield (
            "Expected query, key and value to all be of dtype: "
            f"{{{', '.join(NAMES[dtype] for dtype in allowed)}}}. Got Query dtype: "
            f"{_c_name(query)}, Key dtype: {_c_name(key)}, and Value dtype: {_c_name(value)} "
            "instead."
        )


def _c_name(dtype: torch.dtype) -> str:
    """A type as C++ prints that of a tensor: `float`, `c10::Half`."""
    if dtype in FUSED:
        return f"c10::{NAMES[dtype]}"
    return NAMES.get(dtype, str(dtype)).lower()


def _halves(asked: Any) -> list[torch.dtype]:
    return list(FUSED) if _capability(asked) >= AMPERE else [torch.float16]


def _alignment(asked: Any) -> int:
    """Of how many numbers the rows must be multiples, for the units that multiply matrices."""
    capability = _capability(asked)
    half = asked.query.dtype in FUSED
    step = 4 if capability >= AMPERE else 1
    if capability >= AMPERE or (capability >= (7, 0) and half):
        step = max(step, 8 if half else 4)
    return step


def _capability(asked: Any) -> tuple[int, int]:
    gpu: GPU = gpu_of(asked.query) or session.current()
    return gpu.card.capability


@contextmanager
def _all_allowed() -> Iterator[None]:
    """Let the CPU choose among all of its kernels."""
    before = {name: getattr(torch._C, f"_get_{name}_sdp_enabled")() for name in SWITCHES}
    try:
        for name in SWITCHES:
            getattr(torch._C, f"_set_sdp_use_{name}")(True)
        yield
    finally:
        for name, value in before.items():
            getattr(torch._C, f"_set_sdp_use_{name}")(value)
