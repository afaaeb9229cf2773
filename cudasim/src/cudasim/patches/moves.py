"""Moves between devices: `to`, `cuda`, `cpu`, and what they cost and return."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._functorch.autograd_function import custom_function_call
from torch._subclasses.functional_tensor import FunctorchFunctionalizeAPI

from cudasim.device.gpu import GPU, Allocation
from cudasim.dispatch.booking import book_copy
from cudasim.dispatch.devices import ELSEWHERE, resolve
from cudasim.dispatch.tags import CPU, gpu_of, gpu_read, pin_as_copied, put
from cudasim.dispatch.waiting import watch_copy
from cudasim.patching import changed, replaces
from cudasim.session import session

STAY = object()  # no device was named
_OPTIONS = {"dtype", "non_blocking", "copy", "memory_format"}
# Types of Python's that torch takes as types of numbers.
_DTYPES = {
    bool: torch.bool,
    int: torch.int64,
    float: torch.float64,
    complex: torch.complex128,
}


def duplicate(source: Tensor, gpu: GPU | None, options: dict) -> Tensor:
    """A copy of the numbers of `source`; `options` are those of `_to_copy`. Nothing is recorded."""
    seen_by_class = type(source).__torch_dispatch__ is not Tensor.__torch_dispatch__
    if seen_by_class or torch._C._len_torch_dispatch_stack() > 1:
        device = gpu.device if gpu else CPU
        with changed(session.thread, to_host=gpu is None):
            return torch.ops.aten._to_copy.default(source, device=device, **options)
    here, non_blocking = gpu_read(source), options.get("non_blocking", False)
    watch_copy(here, gpu, non_blocking)
    memory = None
    if gpu is not None and source.layout is torch.strided:
        memory = Allocation(
            gpu, source.numel() * options.get("dtype", source.dtype).itemsize
        )
    with torch._C._DisableTorchDispatch():
        copy = torch.ops.aten._to_copy.default(source.detach(), **options)
    put(copy, gpu, memory)
    if gpu is None:
        pin_as_copied(copy, non_blocking)
    if session.clock is not None:
        book_copy(source, copy, here, gpu, non_blocking)
    return copy


class ToCopy(torch.autograd.Function):
    """A copy of `source` on `gpu`, or on the CPU, whose gradient is copied home."""

    @staticmethod
    def forward(ctx: Any, source: Tensor, gpu: GPU | None, options: dict) -> Tensor:
        ctx.home, ctx.dtype = gpu_of(source), source.dtype
        return duplicate(source, gpu, options)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return copy_to(gradient, ctx.home, {"dtype": ctx.dtype}), None, None


class ToCopyInTransform(ToCopy):
    """The same within torch.func's transforms, which require more methods."""

    generate_vmap_rule = True
    forward = staticmethod(duplicate)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
        source, ctx.gpu, ctx.options = inputs
        ctx.home, ctx.dtype = gpu_of(source), source.dtype

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *unused: Any) -> Tensor:
        return copy_to(tangent, ctx.gpu, ctx.options)


ToCopy._backward_cls.__name__ = "ToCopyBackward0"  # what CUDA's own prints


def functionalized(
    original: Callable, interpreter: Any, function: type, *operands: Any
) -> Any:
    """What PyTorch lacks: a `Function` within `torch.func.functionalize`, of a copy at least."""
    if function is not ToCopyInTransform:
        return original(interpreter, function, False, *operands)
    level = FunctorchFunctionalizeAPI(interpreter)
    with level.redispatch_to_next():
        copy = custom_function_call(function, *level.unwrap_tensors(operands))
    return level.wrap_tensors(copy)


def copy_to(source: Tensor, gpu: GPU | None, options: dict) -> Tensor:
    if torch._C._are_functorch_transforms_active():
        return ToCopyInTransform.apply(source, gpu, options)
    if source.requires_grad and torch.is_grad_enabled():
        return ToCopy.apply(source, gpu, options)
    return duplicate(source, gpu, options)


def parse_to(args: tuple, kwargs: dict) -> tuple[Any, dict]:
    """The arguments of `Tensor.to`: (place or STAY, those of the copy but the device).
    What torch would refuse, or read as no device, is ELSEWHERE."""
    options, names, target = dict(kwargs), ("dtype", "non_blocking", "copy"), STAY
    first = args[0] if args else options.pop("tensor", None)
    if isinstance(first, Tensor):
        known = first.device.type in ("cpu", session.type.name)
        target = gpu_of(first) if known else ELSEWHERE
        args = (first.dtype, *args[1:])
    elif not isinstance(first, torch.dtype):
        names = ("device", *names)
    options.update(zip(names, args, strict=False))
    device = options.pop("device", None)
    options = {name: value for name, value in options.items() if value is not None}
    dtype = options.get("dtype", torch.float32)
    if isinstance(dtype, type) and dtype in _DTYPES:
        options["dtype"] = _DTYPES[dtype]
    elif not isinstance(dtype, torch.dtype) or not options.keys() <= _OPTIONS:
        return ELSEWHERE, options
    return target if device is None else resolve(device), options


@replaces(Tensor, "to", overridable=True)
def to(original: Callable, self: Tensor, *args, **kwargs) -> Tensor:
    target, options = parse_to(args, kwargs)
    has_numbers = self.device.type in (
        "cpu",
        session.type.name,
    )  # meta has none: torch says so
    if not has_numbers and isinstance(target, GPU):
        return original(self, device="cpu", **options)
    if not has_numbers or target is ELSEWHERE:
        return original(self, *args, **kwargs)
    if target is STAY or target is gpu_of(self):
        return original(self, **options) if options else self
    options.pop("copy", None)
    return copy_to(self, target, options)


@replaces(Tensor, "type_as", overridable=True)
def type_as(original: Callable, self: Tensor, other: Tensor) -> Tensor:
    if not isinstance(other, Tensor) or gpu_of(self) is gpu_of(other):
        return original(self, other)
    return self.to(other)


def move(
    original: Callable, self: Tensor, device: Any = None, *args, **kwargs
) -> Tensor:
    if device is not None and not isinstance(resolve(device), GPU):
        return original(self, device, *args, **kwargs)  # refuses it in torch's words
    return self.to(
        session.type.name if device is None else device, None, *args, **kwargs
    )


@replaces(Tensor, "cpu", overridable=True)
def cpu(original: Callable, self: Tensor, **kwargs) -> Tensor:
    return self.to("cpu", **kwargs)
