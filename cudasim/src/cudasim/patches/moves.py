"""Moves between devices: `to`, `cuda`, `cpu`, and what they cost and return."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cudasim.device.gpu import GPU, Allocation
from cudasim.dispatch.booking import book_copy
from cudasim.dispatch.copies import Copy, keep_pinned
from cudasim.dispatch.devices import ELSEWHERE, resolve
from cudasim.dispatch.tags import CPU, gpu_of, gpu_read, pin_as_copied, put
from cudasim.dispatch.waiting import watch_copy
from cudasim.patching import changed, replaces
from cudasim.session import session
from cudasim.torch_private import dispatch as private
from cudasim.torch_private import tensors
from cudasim.torch_private.operators import to_copy
from cudasim.torch_private.tensors import backward_class

STAY = object()  # no device was named
# Types of tensors whose device C++ knows: all ours are on the CPU for it.
PLAIN = (Tensor, torch.nn.Parameter)
NAMES = (str, torch.device)  # what names a device
OPTIONS = {"dtype", "non_blocking", "copy", "memory_format"}
WITHOUT_EFFECT = {"non_blocking"}  # on what the CPU copies
# Types of Python's that torch takes as types of numbers.
DTYPES = {
    bool: torch.bool,
    int: torch.int64,
    float: torch.float64,
    complex: torch.complex128,
}

# PyTorch's own, which a program or this package may replace.
_clone = Tensor.clone
_is_cpu = Tensor.is_cpu.__get__
_to = Tensor.to


def seen_on(self: Tensor) -> GPU | None:
    """Return the GPU that a tensor names; that of a DTensor is its local part's.

    A fake one, with which PyTorch traces, has no memory, and knows its device itself.
    """
    gpu = gpu_of(self)
    if gpu is not None or type(self) in PLAIN:
        return gpu
    if isinstance(self, private.FakeTensor):
        named = resolve(self.device)
        return named if isinstance(named, GPU) else None
    part = tensors.local_tensor(self)
    return None if part is None else gpu_of(part)


def duplicate(source: Tensor, gpu: GPU | None, options: dict) -> Tensor:
    """Copy the numbers of `source` to `gpu`, or to the CPU; nothing is recorded.

    `options` are those of the operator `_to_copy`.
    """
    is_subclass = type(source).__torch_dispatch__ is not Tensor.__torch_dispatch__
    if is_subclass or private.count_dispatch_modes() > 1:
        # A class or a mode of the program's has to see the operation.
        device = gpu.device if gpu else CPU
        with changed(session.thread, to_host=gpu is None):
            return to_copy(source, device=device, **options)

    here = gpu_read(source)
    non_blocking = options.get("non_blocking", False)
    if session.watching:
        watch_copy(here, gpu, non_blocking, None if gpu is None else source)

    is_strided = source.layout is torch.strided
    allocation = None
    if gpu is not None and is_strided:
        allocation = Allocation(gpu, _size_of_copy(source, options))
    with private.DisableTorchDispatch():
        if is_strided and options.keys() <= WITHOUT_EFFECT:
            copy = _clone(source)  # the same in half the time
        else:
            copy = to_copy(source.detach(), **options)
    put(copy, gpu, allocation)
    if gpu is None and non_blocking:
        pin_as_copied(copy, non_blocking)
    if non_blocking:
        keep_pinned(Copy(source, copy, non_blocking), here, gpu)
    if session.clock is not None:
        book_copy(Copy(source, copy, non_blocking), here, gpu)
    return copy


def _size_of_copy(source: Tensor, options: dict) -> int:
    if "dtype" in options:
        return source.numel() * options["dtype"].itemsize
    return source.nbytes


class ToCopy(torch.autograd.Function):
    """A copy of `source` on `gpu`, or on the CPU, whose gradient is copied home."""

    @staticmethod
    def forward(ctx: Any, source: Tensor, gpu: GPU | None, options: dict) -> Tensor:
        ctx.home = seen_on(source)
        ctx.dtype = source.dtype
        ctx.gpu = gpu
        ctx.options = options
        return duplicate(source, gpu, options)

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *unused: Any) -> Tensor:
        return copy_to(tangent, ctx.gpu, ctx.options)

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
        ctx.home = seen_on(source)
        ctx.dtype = source.dtype


for function in (ToCopy, ToCopyInTransform):
    node = backward_class(function)
    # So it prints as the node that C++ makes, which is of no module.
    node.__name__ = node.__qualname__ = "ToCopyBackward0"
    node.__module__ = "builtins"


def run_functionalized(
    original: Callable, interpreter: Any, function: type, *operands: Any
) -> Any:
    """Run a `Function` within `torch.func.functionalize`: PyTorch cannot, we can a copy."""
    if function is not ToCopyInTransform:
        return original(interpreter, function, False, *operands)
    level = private.FunctionalizeAPI(interpreter)
    with level.redispatch_to_next():
        unwrapped = level.unwrap_tensors(operands)
        copy = private.custom_function_call(function, *unwrapped)
    return level.wrap_tensors(copy)


def copy_to(source: Tensor, gpu: GPU | None, options: dict) -> Tensor:
    """Copy `source` to `gpu`, or to the CPU, as autograd and transforms require it."""
    if private.in_transform():
        return ToCopyInTransform.apply(source, gpu, options)
    is_recorded = source.requires_grad and torch.is_grad_enabled()
    if is_recorded or tensors.has_tangent(source):
        return ToCopy.apply(source, gpu, options)
    return duplicate(source, gpu, options)


def parse_to(args: tuple, kwargs: dict) -> tuple[Any, dict]:
    """Read the arguments of `Tensor.to`.

    Returns the target, a GPU, None for the CPU, or STAY, and the options of the copy. For
    what torch would refuse, or does not read as a device, the target is ELSEWHERE.
    """
    if len(args) == 1 and not kwargs:  # the usual cases, kept short
        if isinstance(args[0], NAMES):
            return resolve(args[0]), {}
        if isinstance(args[0], torch.dtype):
            return STAY, {"dtype": args[0]}

    options = dict(kwargs)
    names = ("dtype", "non_blocking", "copy")
    target = STAY
    first = args[0] if args else options.pop("tensor", None)
    if isinstance(first, Tensor):
        target = seen_on(first) if _has_numbers(first) else ELSEWHERE
        args = (first.dtype, *args[1:])
    elif not isinstance(first, torch.dtype):
        names = ("device", *names)
    options.update(zip(names, args, strict=False))

    device = options.pop("device", None)
    options = {name: value for name, value in options.items() if value is not None}
    dtype = options.get("dtype", torch.float32)
    if isinstance(dtype, type) and dtype in DTYPES:
        options["dtype"] = DTYPES[dtype]
    elif not isinstance(dtype, torch.dtype) or not options.keys() <= OPTIONS:
        return ELSEWHERE, options
    return target if device is None else resolve(device), options


def _has_numbers(tensor: Tensor) -> bool:
    """Tell whether a tensor is on the CPU or a simulated GPU; those on `meta` are empty."""
    if type(tensor) in PLAIN:
        return _is_cpu(tensor)
    return tensor.device.type in ("cpu", session.type.name)


@replaces(Tensor, "to", overridable=True)
def to(original: Callable, self: Tensor, *args, **kwargs) -> Tensor:
    target, options = parse_to(args, kwargs)
    if not _has_numbers(self):
        if isinstance(target, GPU):
            return original(self, device="cpu", **options)  # says that there are none
        return original(self, *args, **kwargs)
    if target is ELSEWHERE:
        return original(self, *args, **kwargs)
    if target is STAY or target is seen_on(self):
        return original(self, **options) if options else self

    options.pop("copy", None)
    return copy_to(self, target, options)


@replaces(Tensor, "type_as", overridable=True)
def type_as(original: Callable, self: Tensor, other: Tensor) -> Tensor:
    if not isinstance(other, Tensor) or seen_on(self) is seen_on(other):
        return original(self, other)
    return self.to(other)


def move(
    original: Callable, self: Tensor, device: Any = None, *args, **kwargs
) -> Tensor:
    """Stand for `Tensor.cuda`, or the method of another type of GPU."""
    if device is None:
        device = session.type.name
    elif not isinstance(resolve(device), GPU):
        return original(self, device, *args, **kwargs)  # refuses it in torch's words
    if args or kwargs:
        return to(_to, self, device, None, *args, **kwargs)
    return to(_to, self, device)


@replaces(Tensor, "cpu", overridable=True)
def cpu(original: Callable, self: Tensor, **kwargs) -> Tensor:
    return to(_to, self, "cpu", **kwargs)
