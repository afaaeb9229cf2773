"""The rule: what happens at each operation while GPUs are simulated.

Operands must agree on their device, as CUDA demands; the CPU's kernel computes; results
live where the operands do.
"""

import threading
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from cudasim.device import gpus, metal
from cudasim.device.gpus import GPU, Allocation
from cudasim.device.types import Kind
from cudasim.dispatch import random
from cudasim.dispatch.checks import CPU, checks_arguments, device_of, disagreement, name_kernel
from cudasim.dispatch.places import fakes, place
from cudasim.dispatch.tags import TAG, WILD, gpu_of, is_wild, put, storage_of

aten = torch.ops.aten


class _Thread(threading.local):
    """What one thread of the program is at."""

    last_gpu: GPU | None = None  # of the last operation; None after one on the CPU
    to_host = False  # while Python moves a tensor to the CPU in sight of other modes


thread = _Thread()


class Rule(TorchDispatchMode):
    """The dispatch mode that sees every operation. Modes are per thread."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else the first operation imports torch._dynamo, which takes a second

    def __torch_dispatch__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        """Run `func` on the CPU, with the devices that CUDA would see."""
        kwargs = kwargs or {}
        if types:
            if any(issubclass(kind, FakeTensor) for kind in types):
                return func(*args, **kwargs)  # it keeps a device of its own, and no numbers
            if any(_is_wrapper(tensor) for tensor in tensors_in(args, kwargs)):
                return NotImplemented  # the subclass takes it apart; what it calls comes here
        special = _special.get(func)
        if special is not None:
            return special(func, args, kwargs)
        device = kwargs.get("device") if kwargs else None
        if device is not None and device.type == gpus.kind.type:
            return make_on(place(device), func, args, kwargs)
        return run(func, args, kwargs, tensors_in(args, kwargs))


class MetalRule(Rule):
    """The same for Apple's GPUs, which have no numbers of some types."""

    def __torch_dispatch__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        """Run `func`, and refuse a result that Metal could not hold."""
        out = super().__torch_dispatch__(func, types, args, kwargs)
        for tensor in tensors_in((out,), {}):
            if gpu_of(tensor) is not None:
                metal.check_type(tensor)
        return out


def rule_for(kind: Kind) -> type[Rule]:
    """The rule by which devices of that `kind` go."""
    return MetalRule if kind.type == "mps" else Rule


def tensors_in(args: tuple, kwargs: dict) -> list[Tensor]:
    """The tensors among the arguments of an operation, those in lists included."""
    found = []
    for value in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += [item for item in value if isinstance(item, Tensor)]
    return found


def _is_wrapper(tensor: Tensor) -> bool:
    """True for a tensor whose numbers are in others that it wraps, or that has none."""
    if type(tensor).__torch_dispatch__ is Tensor.__torch_dispatch__:
        return False
    try:
        return storage_of(tensor).data_ptr() == 0
    except RuntimeError:  # the storage of a wrapper refuses to say
        return True


def run(func: Callable, args: tuple, kwargs: dict, operands: Iterable[Tensor]) -> Any:
    """Run `func`, whose devices are decided by `operands` alone.

    Raises RuntimeError, with CUDA's text, if the operands live on several devices.
    """
    gpu, hosts, wilds = None, [], []
    for tensor in operands:
        tag = getattr(storage_of(tensor), TAG, None)
        if tag is None:
            hosts.append(tensor)
        elif tag is WILD:
            wilds.append(tensor)
        elif gpu is None:
            gpu = tag.gpu
        elif tag.gpu is not gpu:
            raise disagreement(func, args, kwargs)
    if gpu is None:
        return _run_without_gpu(func, args, kwargs, hosts, wilds)
    if not gpu.alive:
        for tensor in operands:
            gpu_of(tensor)  # raises
    if hosts and _refuses(func, args, kwargs, hosts):
        raise disagreement(func, args, kwargs)
    for tensor in wilds:
        put(tensor, gpu)
    for tensor in hosts:
        if tensor.requires_grad and torch.is_grad_enabled():
            _expect_gradient(tensor)
    thread.last_gpu = gpu
    try:
        return settle(random.draw(func, args, kwargs, gpu), gpu)
    except NotImplementedError as error:
        name_kernel(error)
        raise


def _expect_gradient(number: Tensor) -> None:
    """Let the gradient of a number of the CPU, which comes from a GPU, end on the CPU.

    So does C++'s engine with gradients that have no dimensions.
    """
    if not any(hook is _send_home for hook in (number._backward_hooks or {}).values()):
        number.register_hook(_send_home)


def _send_home(gradient: Tensor) -> Tensor:
    return gradient.cpu()


_send_home.__torch_unserializable__ = True  # torch.save shall not warn that it is left behind


def _refuses(func: Callable, args: tuple, kwargs: dict, hosts: list[Tensor]) -> bool:
    """Whether CUDA refuses the CPU tensors `hosts` beside operands on a GPU.

    Those without dimensions may ride along, except where they are written to and in kernels
    that check each argument.
    """
    for tensor in hosts:
        if tensor.dim():
            return True
    strict = _strictness.get(func)
    if strict is None:
        written = [
            (position, argument.name)
            for position, argument in enumerate(func._schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]
        pointwise = torch.Tag.pointwise in func.tags
        strict = _strictness[func] = (not pointwise and checks_arguments(func), written)
    checking, written = strict
    if checking:
        return True
    for position, name in written:
        target = args[position] if position < len(args) else kwargs.get(name)
        if any(target is tensor for tensor in hosts):
            return True
    return False


# Operation -> (whether CUDA's kernel checks each argument, the arguments that it writes to).
_strictness: dict[Callable, tuple[bool, list[tuple[int, str]]]] = {}


def _run_without_gpu(
    func: Callable, args: tuple, kwargs: dict, hosts: list[Tensor], wilds: list[Tensor]
) -> Any:
    if "generator" in kwargs:
        random.check_host(kwargs["generator"])
    if hosts:
        thread.last_gpu = None
        for tensor in wilds:
            put(tensor, None)
        return func(*args, **kwargs)
    out = func(*args, **kwargs)
    if wilds:
        return settle(out, None)
    if "pin_memory" not in kwargs:
        # Python's bindings always name pin_memory. So this was asked by C++, in the middle
        # of something whose device it takes from tensors that it believes to be the CPU's.
        in_backward = torch._C._current_graph_task_id() != -1
        return settle(out, thread.last_gpu if in_backward else None)
    return out


def make_on(gpu: GPU, func: Callable, args: tuple, kwargs: dict) -> Any:
    """Run a factory that was asked for a tensor on `gpu`, or a copy to it.

    Functions of torch that a program took before the simulation began come here, and
    factories inside custom operators; the others lose their device in Python.
    """
    if fakes():
        return func(*args, **kwargs)
    kwargs = {**kwargs, "device": CPU}
    kwargs.pop("pin_memory", None)
    thread.last_gpu = gpu
    return put(random.draw(func, args, kwargs, gpu), gpu)


def settle(out: Any, gpu: GPU | None) -> Any:
    """Tag what an operation returned: new storages live on `gpu`, or are wild if it is None."""
    if isinstance(out, Tensor):
        storage = None if out.is_meta else storage_of(out)
        if storage is not None:
            tag = getattr(storage, TAG, None)
            if tag is None and gpu is None:
                setattr(storage, TAG, WILD)
            elif gpu is not None and (tag is None or tag is WILD):
                if out.layout is torch.strided:
                    setattr(storage, TAG, Allocation(gpu, storage.nbytes()))  # as `put` does
                else:
                    put(out, gpu)
    elif isinstance(out, list | tuple):
        for item in out:
            settle(item, gpu)
    return out


# Operations with a rule of their own: function(func, args, kwargs) -> result.
_special: dict[Callable, Callable] = {}


def special(*funcs: Callable) -> Callable:
    """Give `funcs` the decorated rule instead of the general one."""

    def register(rule: Callable) -> Callable:
        for func in funcs:
            _special[func] = rule
        return rule

    return register


@special(aten._efficientzerotensor.default)
def zeros(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Autograd's zeros without memory become zeros with it: C++ crashes on them in a mode."""
    return run(aten.zeros.default, args, kwargs, ())


@special(aten._to_copy.default)
def to_copy(func: Callable, args: tuple, kwargs: dict) -> Any:
    """A copy on another device. C++ too says `cpu`, of which it believes every tensor to be."""
    device = kwargs.get("device")
    if device is not None and device.type == gpus.kind.type:
        return make_on(place(device), func, args, kwargs)
    if thread.to_host:
        return put(func(*args, **kwargs), None)
    return run(func, args, kwargs, tensors_in(args, kwargs))  # in vmap, a number


@special(aten.to_mkldnn.default)
def to_mkldnn(func: Callable, args: tuple, kwargs: dict) -> Any:
    """MKL-DNN is the CPU's: refused on a GPU as the dispatcher refuses it."""
    if gpu_of(args[0]):
        raise NotImplementedError(
            f"Could not run 'aten::to_mkldnn' with arguments from the '{gpus.kind.key}' backend."
        )
    return func(*args, **kwargs)


@special(aten.copy_.default)
def copy_between(func: Callable, args: tuple, kwargs: dict) -> Any:
    """`copy_` crosses devices: the target keeps its own, unless it is wild."""
    target, source = args[0], args[1]
    gpu = gpu_of(target)
    if gpu is None and is_wild(target):
        gpu = gpu_of(source)
        put(target, gpu)
    thread.last_gpu = gpu
    return func(*args, **kwargs)


@special(
    aten.index.Tensor,
    aten.index_put.default,
    aten.index_put_.default,
    aten._index_put_impl_.default,
    aten._unsafe_index.Tensor,
    aten._unsafe_index_put.default,
)
def index(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Indices may be on the CPU; on a GPU they must be on that of the indexed tensor."""
    home = gpu_of(args[0])
    strangers = [
        item for item in args[1] if isinstance(item, Tensor) and gpu_of(item) not in (None, home)
    ]
    if strangers and not is_wild(args[0]):
        raise RuntimeError(
            "indices should be either on cpu or on the same device as the indexed tensor "
            f"({device_of(args[0])})"
        )
    operands = [item for item in args if isinstance(item, Tensor)]
    if len(operands) == 2 and not operands[1].dim() and not is_wild(operands[0]):
        operands.pop()  # a single number to put there may be on any device
    return run(func, args, kwargs, [*operands, *strangers])


@special(aten.fill.Tensor, aten.fill_.Tensor, aten.masked_fill.Tensor, aten.masked_fill_.Tensor)
def fill(func: Callable, args: tuple, kwargs: dict) -> Any:
    """The number to fill with may be on any device; with a mask, only if the tensor is on a GPU."""
    target, *others = args
    masked = len(others) == 2
    if is_wild(target) or (masked and gpu_of(target) is None):
        return run(func, args, kwargs, args)
    return run(func, args, kwargs, args[:-1])


@special(aten._pack_padded_sequence.default)
def pack(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Lengths come from the CPU, and the batch sizes stay there; the data may be on a GPU."""
    lengths = args[1]
    if gpu_of(lengths):
        kind = lengths.type().rpartition(".")[2].removesuffix("Tensor")
        raise RuntimeError(
            "'lengths' argument should be a 1D CPU int64 tensor, but got "
            f"{lengths.dim()}D {device_of(lengths)} {kind} tensor"
        )
    out = run(func, args, kwargs, args[:1])
    put(out[1], None)
    return out


@special(aten.resize_.default, aten.resize_as_.default)
def resize(func: Callable, args: tuple, kwargs: dict) -> Any:
    """A storage that grows or shrinks is counted anew."""
    out = run(func, args, kwargs, args[:1])
    tag = getattr(storage_of(out), TAG, None)
    if tag is not None and tag is not WILD:
        tag.resize(storage_of(out).nbytes())
    return out


def _foreach(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Lists of tensors: each position is an operation of its own, on a device of its own."""
    lists = [value for value in (*args, *kwargs.values()) if isinstance(value, list | tuple)]
    lists = [values for values in lists if values and isinstance(values[0], Tensor)]
    alone = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
    homes = []
    for position in zip(*lists, strict=False):
        places = {gpu_of(tensor) for tensor in (*position, *alone) if tensor.dim()}
        places |= {gpu_of(tensor) for tensor in position if gpu_of(tensor)}
        if len(places) > 1:
            raise disagreement(func, args, kwargs)
        homes.append(places.pop() if places else None)
    out = func(*args, **kwargs)
    for results in out if isinstance(out, tuple) else (out,):
        for result, home in zip(results or (), homes, strict=False):
            if home is not None:
                settle(result, home)
    return out


def _plain(func: Callable, args: tuple, kwargs: dict) -> Any:
    return func(*args, **kwargs)


for _name in dir(torch):  # torch.ops.aten lists only what has been used
    if _name.startswith("_foreach_"):
        for _overload in getattr(aten, _name).overloads():
            _special[getattr(getattr(aten, _name), _overload)] = _foreach
_special[aten._foreach_copy_.default] = _plain  # crosses devices, as `copy_` does
