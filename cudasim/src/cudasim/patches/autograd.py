"""Gradients: where they begin, where they end, and the errors of the engine. C++ believes every
tensor to be on the CPU, so devices are compared here (torch/csrc/autograd/engine.cpp)."""

from collections.abc import Callable, Iterable
from functools import wraps
from types import EllipsisType, NoneType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction, Function

from cudasim.clock.watching import backward_nodes
from cudasim.dispatch.tags import CPU, device_of, gpu_of, put, storage_of
from cudasim.patches.moves import copy_to
from cudasim.patching import replaces
from cudasim.words import WORDS

PLACES = "_cudasim_places"  # of a step of a graph: the GPUs of its arguments, and of its results
NOWHERE = object()  # that of an argument that is no tensor
CROSSINGS = (
    "ToCopyBackward0",
    "CopyBackwards",
)  # steps of graphs that may change the device
BACKWARDS = [
    name for name in ("apply", "apply_boxed") if hasattr(BackwardCFunction, name)
]


def _tuple(value: Any) -> tuple:
    return value if isinstance(value, tuple) else (value,)


def _sent(source: Any, target: Tensor) -> Any:
    """`source` where `target` is, if its gradient has to find the way back; else itself."""
    if isinstance(source, Tensor) and source.requires_grad and torch.is_grad_enabled():
        gpu = gpu_of(target)
        return source if gpu is gpu_of(source) else copy_to(source, gpu, {})
    return source


@replaces(Tensor, "copy_")
def copy_(original: Callable, self: Tensor, *args, **kwargs) -> Tensor:
    if args:
        args = (_sent(args[0], self), *args[1:])
    elif "src" in kwargs:
        kwargs["src"] = _sent(kwargs["src"], self)
    return original(self, *args, **kwargs)


@replaces(Tensor, "__setitem__")
def setitem(original: Callable, self: Tensor, index: Any, value: Any) -> None:
    """`tensor[index] = value`, the same. Of chosen places, only one number may be elsewhere."""
    if isinstance(value, Tensor):
        is_view = all(
            type(part) in (int, slice, NoneType, EllipsisType) for part in _tuple(index)
        )
        value = _sent(value, self) if is_view or not value.dim() else value
    original(self, index, value)


@replaces(torch.autograd, "_make_grads")
def make_grads(original: Callable, outputs: Iterable, *args, **kwargs) -> tuple:
    """Where backward begins with a gradient that it was given, which has to be at home."""
    outputs = tuple(outputs)
    made = zip(_places(outputs), original(outputs, *args, **kwargs), strict=True)
    return tuple(
        _at_home(*pair, index, "invalid gradient") for index, pair in enumerate(made)
    )


def _at_home(home: Any, gradient: Any, index: int, words: str) -> Any:
    if home is NOWHERE or not isinstance(gradient, Tensor) or gpu_of(gradient) is home:
        return gradient
    if (
        gradient.is_meta or storage_of(gradient) is None
    ):  # batched by `is_grads_batched`
        return gradient
    if not gradient.dim():
        return copy_to(gradient, home, {})
    there, got = home.device if home else CPU, device_of(gradient)
    raise RuntimeError(
        f"{words} at index {index} - expected device {there} but got {got}"
    )


@replaces(Tensor, "register_hook", overridable=True)
@replaces(
    BackwardCFunction, "register_hook", "register_prehook"
)  # C++'s own cannot be replaced
def register_hook(original: Callable, self: Any, hook: Callable) -> Any:
    """What a hook returns is of its gradient's type: the words are check_variable_result's."""

    @wraps(hook)
    def checked(gradients: Any, *more: tuple) -> Any:
        found = hook(gradients, *more)
        for was, now in zip(_tuple(gradients), _tuple(found), strict=False):
            if (
                isinstance(now, Tensor)
                and isinstance(was, Tensor)
                and now.is_cpu is not was.is_cpu
            ):
                changed = getattr(hook, "__name__", "<unknown>"), was.type(), now.type()
                raise RuntimeError(WORDS["devices"]["hook"].format(*changed))
        return found

    return original(self, checked)


@replaces(Function, "apply")
def apply_function(original: Callable, cls: type, *args, **kwargs) -> Any:
    """`Function.apply`, which notes on which devices its gradients have to be."""
    out = original(cls, *args, **kwargs)
    nodes = (made.grad_fn for made in _tuple(out) if isinstance(made, Tensor))
    if node := next(
        (node for node in nodes if isinstance(node, cls._backward_cls)), None
    ):
        setattr(node, PLACES, (_places(args), _places(_tuple(out))))
    return out


def _places(values: tuple) -> list:
    return [gpu_of(each) if isinstance(each, Tensor) else NOWHERE for each in values]


@replaces(BackwardCFunction, *BACKWARDS)
def apply_backward(original: Callable, self: Any, *args) -> Any:
    """The backward of a function of the program's own, whose gradients have to be at home."""
    homes, ends = getattr(self, PLACES, ((), ()))
    for gradient, end in zip(args, ends, strict=False):
        if (
            end is not NOWHERE
            and isinstance(gradient, Tensor)
            and gpu_of(gradient) is not end
        ):
            put(gradient, end)  # zeros, which C++ made for a result that was not used
    found = original(self, *args)
    if not homes:
        return found
    gradients = list(_tuple(found))
    index = -1  # among the tensors, as the engine counts
    for place, (home, needed) in enumerate(
        zip(homes, self.needs_input_grad, strict=False)
    ):
        index += home is not NOWHERE
        if needed and place < len(gradients):
            words = f"Function {type(self).__name__} returned an invalid gradient"
            gradients[place] = _at_home(home, gradients[place], index, words)
    return tuple(gradients)


@replaces(torch.autograd, "_engine_run_backward")
def run_engine(original: Callable, outputs: Any, *args, **kwargs) -> Any:
    """What starts the engine, whose errors name types of tensors."""
    try:
        return original(outputs, *args, **kwargs)
    except RuntimeError as error:
        named = "modified by an inplace operation: [torch." in str(error)
        on_gpus = named and all(
            isinstance(each, Tensor) and gpu_of(each) for each in outputs
        )
        if on_gpus and not any(
            type(step).__name__ in CROSSINGS for step in backward_nodes(outputs)
        ):
            there = outputs[0].type().rpartition(".")[0]
            error.args = (str(error).replace("[torch", f"[{there}", 1),)
        raise
