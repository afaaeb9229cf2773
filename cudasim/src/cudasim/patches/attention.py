"""Which kernel of attention CUDA takes, and its refusal where there is none.

The rules are those of aten/src/ATen/native/transformers/cuda/sdp_utils.cpp and
attention.cpp. The kernel that is taken is called by CUDA's name: `dispatch/attention.py`
computes it.
"""

import copy
import math
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.backends.cuda import SDPAParams
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import handle_torch_function, has_torch_function

from cudasim.dispatch.arguments import all_arguments
from cudasim.dispatch.autocast import as_in_region
from cudasim.dispatch.checks import common_gpu
from cudasim.dispatch.dtypes import CPP_NAMES
from cudasim.dispatch.operators import rule
from cudasim.dispatch.tags import CPU, device_of, gpu_of
from cudasim.importing import after_import
from cudasim.patching import Patches, replaces
from cudasim.session import session
from cudasim.torch_private import dispatch
from cudasim.torch_private import tensors as private
from cudasim.torch_private.operators import attention as kernels
from cudasim.torch_private.operators import tree_map_only
from cudasim.words import WORDS

# Modules that most programs never import.
BIASES = "torch.nn.attention.bias"
HALF_TYPES = (torch.float16, torch.bfloat16)
VOLTA = (7, 0)  # the first cards with units that multiply matrices
AMPERE = (8, 0)  # the first with flash attention, cuDNN's, and bfloat16 in any of them
LONGEST_HEAD = 256  # numbers of a head in flash attention
LONGEST_CUDNN_HEAD = 128
SMALL_MEMORY = ((8, 6), (8, 9), (12, 0), (12, 1))
FLASH_STEP = 8  # numbers: flash attention pads heads to a multiple of these
CUDNN_STEP = 8  # numbers: cuDNN takes heads of a multiple of these

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
OPERANDS = ("query", "key", "value")
# The kernels, in the order in which CUDA looks at them, with their names in warnings.
TITLES = {
    "efficient": "Memory efficient",
    "flash": "Flash attention",
    "cudnn": "cuDNN attention",
}
BY_NUMBER = {
    SDPBackend.FLASH_ATTENTION.value: "flash",
    SDPBackend.EFFICIENT_ATTENTION.value: "efficient",
    SDPBackend.CUDNN_ATTENTION.value: "cudnn",
}
SWITCHES = (
    private.is_math_attention_enabled,
    private.is_flash_attention_enabled,
    private.is_efficient_attention_enabled,
    private.is_cudnn_attention_enabled,
)
NUMBERS = {"math": SDPBackend.MATH.value} | {
    kernel: number for number, kernel in BY_NUMBER.items()
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
            yield MESSAGES["flash mask"]
        if len(set(self.heads)) > 1 or self.heads[0] > LONGEST_HEAD:
            yield MESSAGES["flash heads"].format(*self.heads)
        if not self.is_ampere:
            yield MESSAGES["capability"].format("Flash attention", *self.capability)
        if self._is_too_wide_to_train():
            yield MESSAGES["wide heads"].format(
                self.params.dropout, self.heads[0], *self.capability
            )

        query_length = self.params.query.shape[-2]
        key_length = self.params.key.shape[-2]
        if self.params.is_causal and query_length != key_length:
            yield MESSAGES["causal"].format(query_length, key_length)
        yield from self._type_reasons(self.half_types)
        yield from self._dense_reasons(ignore_single=True, grouped=True)

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
        yield from self._dense_reasons(ignore_single=False, grouped=False)

    def _is_too_wide_to_train(self) -> bool:
        """Return whether this card's units have too little memory for the gradients."""
        if self.capability not in SMALL_MEMORY:
            return False
        if not any(tensor.requires_grad for tensor in self.tensors):
            return False
        head = self.heads[0]
        return 192 < head <= 224 or (head > 224 and self.params.dropout > 0)

    def _row_step(self) -> int:
        """Rows are multiples of what the units that multiply matrices take."""
        if self.dtypes[0] in HALF_TYPES and self.capability >= VOLTA:
            return 8
        return 4 if self.is_ampere else 1

    def cudnn(self) -> Iterator[str]:
        yield from self._general_reasons("cuDNN", private.is_cudnn_attention_enabled())
        if torch.are_deterministic_algorithms_enabled():
            if not torch.is_deterministic_algorithms_warn_only_enabled():
                yield MESSAGES["nondeterministic"]
        yield from self._type_reasons(self.half_types)
        if not self.is_ampere:
            yield MESSAGES["capability"].format("cuDNN MHA", *self.capability)
        yield from self._dense_reasons(ignore_single=True, grouped=True)

        query, _, value = self.heads
        if max(query, value) > LONGEST_CUDNN_HEAD:
            yield MESSAGES["long cudnn heads"].format(LONGEST_CUDNN_HEAD)
        if query % CUDNN_STEP or value % CUDNN_STEP:
            yield MESSAGES["cudnn heads"].format(CUDNN_STEP)

    def _general_reasons(self, name: str, enabled: bool) -> Iterator[str]:
        if not enabled:
            yield MESSAGES["disabled"].format(name)
        if gpu_of(self.params.query) is None:
            yield MESSAGES["devices"].format(*map(device_of, self.tensors))
        dimensions = [tensor.dim() for tensor in self.tensors]
        if dimensions != [4, 4, 4]:
            yield MESSAGES["dimensions"].format(*dimensions)

    def _dense_reasons(self, ignore_single: bool, grouped: bool) -> Iterator[str]:
        """Yield what is wrong with the shapes and strides of tensors that are not nested.

        `ignore_single` takes any stride of rows of one number; `grouped` kernels let
        several heads of queries share one of keys, if the program asks for it.
        """
        batches = {tensor.shape[0] for tensor in self.tensors}
        heads = {tensor.shape[1] for tensor in self.tensors}
        is_grouped = grouped and self.params.enable_gqa
        if len(batches) > 1 or (len(heads) > 1 and not is_grouped):
            shapes = [list(tensor.shape) for tensor in self.tensors]
            yield MESSAGES["batch"].format(*shapes)
        if 0 in (self.params.query.shape[-2], self.params.key.shape[-2]):
            yield MESSAGES["empty"]

        strides = [tensor.stride(-1) for tensor in self.tensors]
        fits = strides == [1, 1, 1] or (ignore_single and self.heads[0] == 1)
        text = MESSAGES["strides"].format(*strides)
        mask = self.params.attn_mask
        if mask is not None:
            text += MESSAGES["stride of mask"].format(mask.stride(-1))
            if mask.stride(-1) != 1:
                fits = False
        if not fits:
            yield text

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
    return session.type.is_cuda


@replaces(torch.backends.cuda, "is_flash_attention_available", when=_has_kernels)
def is_flash_attention_available(original: Callable) -> bool:
    return True


def patch_attention(patches: Patches) -> None:
    """Take over attention, which is one function under two names: some know either."""
    if not _has_kernels():
        return
    attention = patches.wrap(*private.ATTENTION, attend)
    patches.replace(functional, "scaled_dot_product_attention", attention)
    # That module imports the compiler, which takes a second.
    give_up = after_import(BIASES, partial(_patch_biases, patches))
    patches.finally_do(give_up)


def _patch_biases(patches: Patches) -> None:
    biases = sys.modules[BIASES].CausalBias
    patches.replace(biases, "__new__", staticmethod(_make_bias))


def _make_bias(cls: type, *arguments) -> Tensor:
    """Make a bias, whose class inherits from Tensor, out of sight of the mode."""
    with dispatch.DisableTorchDispatch():
        return Tensor.__new__(cls, *arguments)


def attend(original: Callable, query: Tensor, *args, **kwargs) -> Tensor:
    """Take the kernel that CUDA would."""
    operands = (query, *args, *kwargs.values())
    if has_torch_function(operands):
        attention = private.ATTENTION.read()
        return handle_torch_function(attention, operands, query, *args, **kwargs)
    if type(query) not in (Tensor, torch.nn.Parameter):
        return original(query, *args, **kwargs)
    positional = dict(zip(DEFAULTS, (query, *args), strict=False))
    arguments = as_in_region(DEFAULTS | positional | kwargs)
    _check_devices([arguments[name] for name in OPERANDS])
    if gpu_of(query) is None or not _takes_mask(query, arguments["attn_mask"]):
        return original(query, *args, **kwargs)  # which refuses such a mask

    params = SDPAParams(*[arguments[name] for name in DEFAULTS])
    kernel = choose(params)
    if kernel == "math":
        with sdpa_kernel(SDPBackend.MATH):
            return original(query, *args, **kwargs)
    return KERNELS[kernel](params, kwargs.get("scale"))


def _check_devices(operands: list[Any]) -> None:
    """Refuse operands on several devices, as `validate_sdpa_input` of attention.cpp does.

    C++ itself sees every tensor on the CPU. The dtypes, which it compares first, it sees.
    """
    if not all(isinstance(operand, Tensor) for operand in operands):
        return
    dtypes = {tensor.dtype for tensor in operands}
    devices = [device_of(tensor) for tensor in operands]
    if len(dtypes) == 1 and len(set(devices)) > 1:
        raise RuntimeError(MESSAGES["operands apart"].format(*devices))


def _takes_mask(query: Tensor, mask: Tensor | None) -> bool:
    """Return whether `validate_sdpa_input` lets a mask of that dtype go to a kernel."""
    return mask is None or mask.dtype in (torch.bool, torch.float32, query.dtype)


def choose(params: SDPAParams) -> str:
    """Return the first kernel, in PyTorch's order, that can compute a call.

    Raises RuntimeError, and warns of each reason, if there is none. A program that has
    disabled all of them gets no reasons.
    """
    attention = Attention(params)
    refusals = {}
    for backend in private.attention_order():
        if backend == SDPBackend.MATH.value:
            if private.is_math_attention_enabled():
                return "math"
        elif backend in BY_NUMBER:
            kernel = BY_NUMBER[backend]
            refusals[kernel] = attention.refusal(kernel)
            if refusals[kernel] is None:
                return kernel
    if not any(is_enabled() for is_enabled in SWITCHES):
        raise RuntimeError(MESSAGES["all disabled"])
    for kernel, title in TITLES.items():
        warnings.warn(MESSAGES["not used"].format(title), stacklevel=4)
        warnings.warn(refusals[kernel], stacklevel=4)
    raise RuntimeError(MESSAGES["no kernel"])


@rule(kernels.choice)
def choose_by_number(func: Callable, args: tuple, kwargs: dict) -> int:
    """Return the number of the kernel (`_fused_sdp_choice_cuda` in cuda/attention.cu)."""
    query = args[0]
    if gpu_of(query) is None or query.is_nested or not _has_kernels():
        return func(*args, **kwargs)
    common_gpu(func, args, kwargs)
    arguments = all_arguments(func, args, kwargs)
    params = SDPAParams(*[arguments[name] for name in DEFAULTS])
    return NUMBERS[choose(params)]


def _flash(params: SDPAParams, scale: float | None) -> Tensor:
    """Call flash attention, which pads the numbers of a head with zeros."""
    head = params.query.shape[-1]
    if scale is None:
        scale = max(1, head) ** -0.5
    tensors = [params.query, params.key, params.value]
    padding = -head % FLASH_STEP
    if padding:
        tensors = [functional.pad(tensor, (0, padding)) for tensor in tensors]
    out, *_ = kernels.flash(*tensors, params.dropout, params.is_causal, scale=scale)
    return out[..., :head] if padding else out


def _with_mask(kernel: Callable, params: SDPAParams, scale: float | None) -> Tensor:
    """Call a kernel that takes a mask, and keeps what gradients need if some are needed."""
    out, *_ = kernel(
        params.query,
        params.key,
        params.value,
        _additive_mask(params),
        _needs_gradients(params),
        params.dropout,
        params.is_causal,
        scale=scale,
    )
    return out


def _efficient(params: SDPAParams, scale: float | None) -> Tensor:
    """Call efficient attention, whose kernel reads a mask of numbers as the query's.

    The check is that of `_efficient_attention_forward` in cuda/attention.cu.
    """
    mask = params.attn_mask
    if mask is not None and mask.dtype not in (torch.bool, params.query.dtype):
        raise RuntimeError(MESSAGES["mask dtype"])
    return _with_mask(kernels.efficient, params, scale)


KERNELS = {
    "flash": _flash,
    "efficient": _efficient,
    "cudnn": partial(_with_mask, kernels.cudnn),
}


def _additive_mask(params: SDPAParams) -> Tensor | None:
    """Return the mask as numbers that are added to the scores, one for each of them."""
    mask = params.attn_mask
    if mask is None:
        return None
    if mask.dtype == torch.bool:
        excluded = torch.full_like(mask, -math.inf, dtype=params.query.dtype)
        mask = torch.where(mask, 0.0, excluded)
    query, key = params.query, params.key
    return mask.expand(*query.shape[:3], key.shape[2])


def _needs_gradients(params: SDPAParams) -> bool:
    tensors = (params.query, params.key, params.value)
    needed = any(tensor.requires_grad for tensor in tensors)
    return needed and torch.is_grad_enabled()


@replaces(*dispatch.FLEX_ATTENTION_GRAPH, when=_has_kernels)
def create_fw_bw_graph(
    original: Callable, change: Callable, places: tuple, *buffers
) -> tuple:
    """Trace the gradients of `flex_attention` on the CPU, for tensors of a GPU.

    C++'s engine has no queue for those of a GPU.
    """
    device = places[0].device
    if device.type != session.type.name:
        return original(change, places, *buffers)
    from cudasim.torch_private import flex

    on_host = change
    if isinstance(change, torch.fx.GraphModule):
        on_host = copy.deepcopy(change)
        flex.name_device(on_host, CPU)
    with flex.making_fakes(places):
        places, buffers = tree_map_only(Tensor, _stand_in, (places, buffers))
    _, gradients = original(on_host, places, *buffers)
    flex.name_device(gradients, device)
    return change, gradients


def _stand_in(tensor: Tensor) -> Tensor:
    """Return a tensor of the CPU like `tensor`, without its numbers."""
    return torch.empty_strided(
        tensor.size(),
        tensor.stride(),
        dtype=tensor.dtype,
        requires_grad=tensor.requires_grad,
        device=CPU,
    )


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
