"""`torch.use_deterministic_algorithms`: refuses what has no deterministic kernel on CUDA.

The names of the kernels are those that PyTorch's own tests expect
(`check_nondeterministic_alert`), or that the kernels pass to `alertNotDeterministic`.

PyTorch's documentation still lists `cumsum` and `ReflectionPad2d`, whose kernels have been
deterministic where that is demanded since https://github.com/pytorch/pytorch/pull/136224
and 136241. The libraries of 2.11 to 2.14 do not contain their messages.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cudasim.dispatch.arguments import arguments_by_name
from cudasim.dispatch.autocast import overload
from cudasim.dispatch.operators import Rule, layer
from cudasim.dispatch.tables import TABLES
from cudasim.dispatch.tags import gpu_of
from cudasim.notices import warn_program
from cudasim.torch_private.dispatch import alert_not_deterministic, is_deterministic
from cudasim.torch_private.operators import attention as kernels
from cudasim.words import WORDS

# arguments by name -> whether CUDA's kernel is not deterministic for them
Condition = Callable[[dict[str, Any]], bool]


def _always(arguments: dict) -> bool:
    return True


def _counts_floats(arguments: dict) -> bool:
    return arguments["self"].is_floating_point()


def _reduces(arguments: dict) -> bool:
    return arguments["reduction"] != 0


def _takes_maximum(arguments: dict) -> bool:
    return arguments["mode"] == 2


def _accumulates(arguments: dict) -> bool:
    """Without accumulation PyTorch refuses the operation on the CPU as well."""
    return bool(arguments.get("accumulate"))


def _has_weights(arguments: dict) -> bool:
    return arguments.get("weights") is not None


def _multiplies(arguments: dict) -> bool:
    return arguments["reduce"] in ("prod", "multiply")


# Operators whose kernel is deterministic for some arguments.
_CONDITIONS: dict[str, Condition] = {
    "nll_loss2d_forward": _reduces,
    "_embedding_bag_backward": _takes_maximum,
    "put": _accumulates,
    "put_": _accumulates,
    "bincount": _has_weights,
    "scatter.reduce": _multiplies,
    "scatter.reduce_out": _multiplies,
    "scatter_.reduce": _multiplies,
    "scatter_reduce.two": _multiplies,
    "scatter_reduce.two_out": _multiplies,
    "scatter_reduce_.two": _multiplies,
    "histc": _counts_floats,
    "histc.out": _counts_floats,
}
_KERNELS: dict[str, str] = TABLES["nondeterministic"]
_NAMES = {overload(name): name for name in _KERNELS}


@layer(*_NAMES, idle=lambda args: not is_deterministic())
def refuse_nondeterministic(
    inner: Rule, func: Callable, args: tuple, kwargs: dict
) -> Any:
    """Warn or raise, as PyTorch does, where CUDA's kernel is not deterministic."""
    if is_deterministic():
        name = _NAMES[func]
        is_nondeterministic = _CONDITIONS.get(name, _always)
        arguments = arguments_by_name(func, args, kwargs)
        if _is_on_gpu(args) and is_nondeterministic(arguments):
            alert_not_deterministic(_KERNELS[name])
    return inner(func, args, kwargs)


# Kernels of attention's gradients that are deterministic only if that is demanded, by
# what warnings call them (native/transformers/cuda/attention_backward.cu).
_ATTENTION = {
    kernels.flash_backward: "Flash Attention",
    kernels.efficient_backward: "Memory Efficient attention",
    kernels.cudnn_backward: "cuDNN Attention",
    kernels.packed_flash_backward: "Flash Attention",
    kernels.packed_efficient_backward: "Memory Efficient attention",
}


def _only_warns() -> bool:
    return torch.is_deterministic_algorithms_warn_only_enabled()


@layer(*_ATTENTION, idle=lambda args: not _only_warns())
def warn_of_attention(inner: Rule, func: Callable, args: tuple, kwargs: dict) -> Any:
    """Warn, once in a process, of gradients whose last digits may differ."""
    if _only_warns() and is_deterministic() and _is_on_gpu(args):
        _warn_once(WORDS["attention"]["may differ"].format(_ATTENTION[func]))
    return inner(func, args, kwargs)


@functools.cache
def _warn_once(message: str) -> None:
    warn_program(message, UserWarning)


def _is_on_gpu(args: tuple) -> bool:
    """Return whether the first tensor among the arguments is on a GPU."""
    for value in args:
        if isinstance(value, Tensor):
            return gpu_of(value) is not None
    return False
