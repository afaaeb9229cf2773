"""Which kernel of attention CUDA would take, and its refusal where there is none.

The rules are those of aten/src/ATen/native/transformers/cuda/sdp_utils.cpp. The CPU
computes with any kernel of its own.
"""

import warnings
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.backends.cuda import SDPAParams
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from cudasim.dispatch.devices import in_fake_mode
from cudasim.dispatch.dtypes import CPP_NAMES
from cudasim.dispatch.tags import device_of, gpu_of
from cudasim.patching import replaces
from cudasim.session import session
from cudasim.torch_private import dispatch
from cudasim.torch_private import tensors as private
from cudasim.words import WORDS

HALF_TYPES = (torch.float16, torch.bfloat16)
VOLTA = (7, 0)  # the first cards with units that multiply matrices
AMPERE = (8, 0)  # the first with flash attention, cuDNN's, and bfloat16 in any of them
LONGEST_HEAD = 256  # numbers of a head in flash attention
LONGEST_CUDNN_HEAD = 128

CPU_BACKENDS = [
    SDPBackend.MATH,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
]
# The arguments of SDPAParams, in its order, with what they are if they are left out.
DEFAULTS = {
    "query": None,
    "key": None,
    "value": None,
    "attn_mask": None,
    "dropout_p": 0.0,
    "is_causal": False,
    "enable_gqa": False,
}
# The kernels, in the order in which CUDA looks at them, with their names in warnings.
TITLES = {
    "efficient": "Memory efficient",
    "flash": "Flash attention",
    "cudnn": "cuDNN attention",
}
MESSAGES = WORDS["attention"]


class Attention:
    """A call of attention, and the reasons why each of the kernels cannot run it."""

    def __init__(self, params: SDPAParams) -> None:
        self.params = params
        self.tensors = (params.query, params.key, params.value)
        self.heads = [tensor.shape[-1] for tensor in self.tensors]
        self.dtypes = [tensor.dtype for tensor in self.tensors]

        gpu = gpu_of(params.query) or session.current()
        self.capability = gpu.card.capability
        self.is_ampere = self.capability >= AMPERE
        self.half_types = list(HALF_TYPES) if self.is_ampere else [torch.float16]

    def refusal(self, kernel: str) -> str | None:
        """Return the first reason why `kernel` cannot run; None if it can."""
        reasons = getattr(self, kernel)()
        return next(reasons, None)

    def flash(self) -> Iterator[str]:
        yield from self._general_reasons("Flash", private.is_flash_attention_enabled())
        if self.params.attn_mask is not None:
            yield "Flash Attention does not support non-null attn_mask."
        if len(set(self.heads)) > 1 or self.heads[0] > LONGEST_HEAD:
            yield MESSAGES["flash heads"].format(*self.heads)
        if not self.is_ampere:
            yield MESSAGES["capability"].format("Flash attention", *self.capability)

        query_length = self.params.query.shape[-2]
        key_length = self.params.key.shape[-2]
        if self.params.is_causal and query_length != key_length:
            yield MESSAGES["causal"].format(query_length, key_length)
        yield from self._type_reasons(self.half_types)

    def efficient(self) -> Iterator[str]:
        enabled = private.is_efficient_attention_enabled()
        yield from self._general_reasons("Memory Efficient", enabled)

        step = self._row_step()
        fits = all(head > 0 and head % step == 0 for head in self.heads)
        if not fits or self.heads[0] != self.heads[1]:
            yield MESSAGES["efficient heads"].format(step, *self.heads)

        allowed = [torch.float16, torch.float32]
        if self.is_ampere:
            allowed.append(torch.bfloat16)
        yield from self._type_reasons(allowed)

    def _row_step(self) -> int:
        """Rows are multiples of what the units that multiply matrices take."""
        if self.dtypes[0] in HALF_TYPES and self.capability >= VOLTA:
            return 8
        return 4 if self.is_ampere else 1

    def cudnn(self) -> Iterator[str]:
        yield from self._general_reasons("cuDNN", private.is_cudnn_attention_enabled())
        yield from self._type_reasons(self.half_types)
        if not self.is_ampere:
            yield MESSAGES["capability"].format("cuDNN MHA", *self.capability)

        query, _, value = self.heads
        if max(query, value) > LONGEST_CUDNN_HEAD:
            yield "head_dim should be no more than 128"
        if query % 8 or value % 8:
            yield "head_dim should be a multiple of 8"

    def _general_reasons(self, name: str, enabled: bool) -> Iterator[str]:
        if not enabled:
            yield MESSAGES["disabled"].format(name)
        if gpu_of(self.params.query) is None:
            yield MESSAGES["devices"].format(*map(device_of, self.tensors))
        dimensions = [tensor.dim() for tensor in self.tensors]
        if dimensions != [4, 4, 4]:
            yield MESSAGES["dimensions"].format(*dimensions)

    def _type_reasons(self, allowed: list[torch.dtype]) -> Iterator[str]:
        if self.dtypes[0] not in allowed or len(set(self.dtypes)) > 1:
            names = ", ".join(CPP_NAMES[dtype] for dtype in allowed)
            yield MESSAGES["types"].format(names, *map(_name_in_cpp, self.dtypes))


def _name_in_cpp(dtype: torch.dtype) -> str:
    """Return the name of `dtype` as C++ prints it."""
    if dtype in HALF_TYPES:
        return f"c10::{CPP_NAMES[dtype]}"
    return CPP_NAMES.get(dtype, str(dtype)).lower()


def _has_kernels() -> bool:
    return session.type.lists_kernels


@replaces(torch.backends.cuda, "is_flash_attention_available", when=_has_kernels)
def is_flash_attention_available(original: Callable) -> bool:
    return True


@replaces(*private.ATTENTION, when=_has_kernels)
@replaces(functional, "scaled_dot_product_attention", when=_has_kernels)
def attend(original: Callable, query: Tensor, *args, **kwargs) -> Tensor:
    """Refuse what no kernel of CUDA can do, and compute the rest with any of the CPU's."""
    is_plain = type(query) in (Tensor, torch.nn.Parameter)
    if not is_plain or gpu_of(query) is None:
        return original(query, *args, **kwargs)

    if not private.is_math_attention_enabled():  # which can do everything
        values = dict(zip(DEFAULTS, (query, *args), strict=False))
        arguments = DEFAULTS | values | kwargs
        _require_kernel(SDPAParams(*[arguments[name] for name in DEFAULTS]))
    with sdpa_kernel(CPU_BACKENDS):
        return original(query, *args, **kwargs)


def _require_kernel(params: SDPAParams) -> None:
    """Raise RuntimeError, and warn of each reason, if CUDA has no kernel for a call."""
    attention = Attention(params)
    refusals = {kernel: attention.refusal(kernel) for kernel in TITLES}
    if not all(refusals.values()):
        return
    for kernel, reason in refusals.items():
        warnings.warn(f"{TITLES[kernel]} kernel not used because:", stacklevel=4)
        warnings.warn(reason, stacklevel=4)
    raise RuntimeError("No available kernel. Aborting execution.")


@replaces(*dispatch.FLEX_ATTENTION_GRAPH, when=_has_kernels)
def create_fw_bw_graph(
    original: Callable, change: Callable, places: tuple, *buffers
) -> tuple:
    """Trace gradients of `flex_attention`.

    C++'s engine has no queue for those of a GPU.
    """
    if in_fake_mode() or gpu_of(places[0]) is None:
        return original(change, places, *buffers)

    def gradient(score: Tensor, *place_and_gradient: Tensor) -> list:
        *place, incoming = place_and_gradient
        _, back = torch.func.vjp(lambda score: change(score, *place), score)
        return [*back(incoming), None, None, None, None]

    return change, gradient


@replaces(
    torch.backends.cuda,
    "can_use_efficient_attention",
    "can_use_flash_attention",
    "can_use_cudnn_attention",
    when=_has_kernels,
)
def can_use(original: Callable, params: SDPAParams, debug: bool = False) -> bool:
    kernel = original.__name__.removeprefix("can_use_").removesuffix("_attention")
    reason = Attention(params).refusal(kernel)
    if reason and debug:
        warnings.warn(reason, stacklevel=3)
    return reason is None
