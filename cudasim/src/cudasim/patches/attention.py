"""Which kernel of attention CUDA would take, and its refusal where there is none: as in
aten/src/ATen/native/transformers/cuda/sdp_utils.cpp. The CPU computes with any of its own."""

import sys
import warnings
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch._higher_order_ops.flex_attention import FlexAttentionHOP
from torch.backends.cuda import SDPAParams
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from cudasim.dispatch.devices import in_fake_mode
from cudasim.dispatch.dtypes import CPP_NAMES
from cudasim.dispatch.tags import device_of, gpu_of
from cudasim.patching import replaces
from cudasim.session import session
from cudasim.words import WORDS

FUSED = torch.float16, torch.bfloat16
AMPERE = (
    8,
    0,
)  # the least capability of flash attention, of cuDNN's, and of bfloat16 in them
LONGEST = 256  # numbers of a head in flash attention
ALL = SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION
ASKED = dict.fromkeys(
    ("query", "key", "value", "attn_mask")
)  # by SDPAParams, in this order
ASKED |= {"dropout_p": 0.0, "is_causal": False, "enable_gqa": False}
TITLES = {
    "efficient": "Memory efficient",
    "flash": "Flash attention",
    "cudnn": "cuDNN attention",
}
SAID = WORDS["attention"]


class Attention:
    """An attention, and why each of the kernels cannot run, in the order in which CUDA looks."""

    def __init__(self, asked: SDPAParams) -> None:
        self.asked, self.tensors = asked, (asked.query, asked.key, asked.value)
        self.heads = [tensor.shape[-1] for tensor in self.tensors]
        self.types = [tensor.dtype for tensor in self.tensors]
        self.capability = (gpu_of(asked.query) or session.current()).card.capability
        self.halves = list(FUSED) if self.capability >= AMPERE else [torch.float16]

    def why_not(self, kernel: str) -> str | None:
        return next(getattr(self, kernel)(), None)

    def flash(self) -> Iterator[str]:
        yield from self._not_at_all("Flash", torch._C._get_flash_sdp_enabled())
        if self.asked.attn_mask is not None:
            yield "Flash Attention does not support non-null attn_mask."
        if len(set(self.heads)) > 1 or self.heads[0] > LONGEST:
            yield SAID["flash heads"].format(*self.heads)
        if self.capability < AMPERE:
            yield SAID["capability"].format("Flash attention", *self.capability)
        query, key = (tensor.shape[-2] for tensor in self.tensors[:2])
        if self.asked.is_causal and query != key:
            yield SAID["causal"].format(query, key)
        yield from self._other_type(self.halves)

    def efficient(self) -> Iterator[str]:
        yield from self._not_at_all(
            "Memory Efficient", torch._C._get_mem_efficient_sdp_enabled()
        )
        # Rows must be multiples of what the units that multiply matrices take.
        half = self.types[0] in FUSED and self.capability >= (7, 0)
        step = 8 if half else 4 if self.capability >= AMPERE else 1
        if self.heads[0] != self.heads[1] or any(
            not head or head % step for head in self.heads
        ):
            yield SAID["efficient heads"].format(step, *self.heads)
        yield from self._other_type([torch.float16, torch.float32, *self.halves[1:]])

    def cudnn(self) -> Iterator[str]:
        yield from self._not_at_all("cuDNN", torch._C._get_cudnn_sdp_enabled())
        yield from self._other_type(self.halves)
        if self.capability < AMPERE:
            yield SAID["capability"].format("cuDNN MHA", *self.capability)
        query, _, value = self.heads
        if max(query, value) > 128:
            yield "head_dim should be no more than 128"
        if query % 8 or value % 8:
            yield "head_dim should be a multiple of 8"

    def _not_at_all(self, name: str, enabled: bool) -> Iterator[str]:
        if not enabled:
            yield SAID["disabled"].format(name)
        if gpu_of(self.asked.query) is None:
            yield SAID["devices"].format(*map(device_of, self.tensors))
        dimensions = [tensor.dim() for tensor in self.tensors]
        if dimensions != [4, 4, 4]:
            yield SAID["dimensions"].format(*dimensions)

    def _other_type(self, allowed: list[torch.dtype]) -> Iterator[str]:
        if self.types[0] not in allowed or len(set(self.types)) > 1:
            known = ", ".join(CPP_NAMES[dtype] for dtype in allowed)
            yield SAID["types"].format(known, *map(_in_cpp, self.types))


def _in_cpp(dtype: torch.dtype) -> str:
    """`dtype` as C++ prints it."""
    return (
        f"c10::{CPP_NAMES[dtype]}"
        if dtype in FUSED
        else CPP_NAMES.get(dtype, str(dtype)).lower()
    )


def _has_kernels() -> bool:
    return session.type.lists_kernels


@replaces(torch.backends.cuda, "is_flash_attention_available", when=_has_kernels)
def is_flash_attention_available(original: Callable) -> bool:
    return True


@replaces((torch._C._nn, functional), "scaled_dot_product_attention", when=_has_kernels)
def attend(original: Callable, query: Tensor, *args, **kwargs) -> Tensor:
    if type(query) not in (Tensor, torch.nn.Parameter) or gpu_of(query) is None:
        return original(query, *args, **kwargs)
    if not torch._C._get_math_sdp_enabled():
        given = ASKED | dict(zip(ASKED, (query, *args), strict=False)) | kwargs
        asked = Attention(SDPAParams(*map(given.get, ASKED)))
        reasons = {kernel: asked.why_not(kernel) for kernel in TITLES}
        if all(reasons.values()):
            for kernel, reason in reasons.items():
                warnings.warn(
                    f"{TITLES[kernel]} kernel not used because:", stacklevel=3
                )
                warnings.warn(reason, stacklevel=3)
            raise RuntimeError("No available kernel. Aborting execution.")
    with sdpa_kernel(list(ALL)):
        return original(query, *args, **kwargs)


# In a module whose package has an operator by its name.
@replaces(
    sys.modules[FlexAttentionHOP.__module__], "create_fw_bw_graph", when=_has_kernels
)
def create_fw_bw_graph(
    original: Callable, change: Callable, places: tuple, *buffers
) -> tuple:
    """What traces gradients of `flex_attention`: C++'s engine has no queue for those of a GPU."""
    if in_fake_mode() or gpu_of(places[0]) is None:
        return original(change, places, *buffers)

    def gradient(score: Tensor, *place_and_gradient: Tensor) -> list:
        *place, incoming = place_and_gradient
        _, back = torch.func.vjp(lambda score: change(score, *place), score)
        return [*back(incoming), None, None, None, None]

    return change, gradient


@replaces(
    torch.backends.cuda,
    *(f"can_use_{name}_attention" for name in TITLES),
    when=_has_kernels,
)
def can_use(original: Callable, params: SDPAParams, debug: bool = False) -> bool:
    reason = Attention(params).why_not(original.__name__.split("_")[2])
    if reason and debug:
        warnings.warn(reason, stacklevel=3)
    return reason is None
