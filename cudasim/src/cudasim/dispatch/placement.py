"""How an operation runs, and where its results live. Operands must agree on their device, as CUDA
demands; the CPU's kernel computes; results live where the operands do."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import has_torch_function_unary

from cudasim.device.generator import find
from cudasim.device.gpu import GPU, Allocation
from cudasim.dispatch import calls, random, traces
from cudasim.dispatch.arguments import tensors_in
from cudasim.dispatch.calls import Scratch
from cudasim.dispatch.checks import disagreement, name_kernel, refuses
from cudasim.dispatch.devices import fakes
from cudasim.dispatch.dtypes import widened
from cudasim.dispatch.foresight import COUNT, reserve, reserve_growth
from cudasim.dispatch.operators import OWN, operator_of
from cudasim.dispatch.tags import CPU, TAG, gpu_of, put, recount, storage_of
from cudasim.session import session

NUMBERS = (bool, int, float, complex)
Reserved = (
    list[Allocation] | None
)  # memory that was taken for results before they are there

_register_hook = Tensor.register_hook  # PyTorch's own


def general(func: Callable, args: tuple, kwargs: dict) -> Any:
    return run(func, args, kwargs, tensors_in((*args, *kwargs.values())))


OWN[None] = general


def run(func: Callable, args: tuple, kwargs: dict, operands: Iterable[Tensor]) -> Any:
    """Run `func`, whose devices are decided by `operands` alone. Raises RuntimeError, with CUDA's
    text, if the operands live on several devices."""
    gpu, hosts, scratch, sparse = None, [], [], False
    for tensor in operands:
        try:
            plain = not has_torch_function_unary(tensor)
            storage = tensor.untyped_storage() if plain else storage_of(tensor)
        except (NotImplementedError, RuntimeError):  # sparse, or it wraps others
            storage, sparse = storage_of(tensor), True  # whose views may be new tensors
        tag = getattr(storage, TAG, None)
        if tag is None:
            hosts.append(tensor)
        elif tag.gpu is None:
            (scratch if tag.runs() else hosts).append(tensor)
        elif gpu is None:
            gpu = tag.gpu
        elif tag.gpu is not gpu:
            raise disagreement(func, args, kwargs)
    if gpu is None:
        return _run_without_gpu(func, args, kwargs, hosts, scratch)
    operator = operator_of(func)
    if not gpu.alive:
        gpu.check()
        for tensor in operands:
            gpu_of(tensor)  # raises
    if hosts and refuses(operator, args, kwargs, hosts):
        raise disagreement(func, args, kwargs)
    for tensor in scratch:
        put(tensor, gpu)
    for tensor in hosts:
        if tensor.requires_grad and torch.is_grad_enabled():
            _expect_gradient(tensor)
    session.thread.doing.last_gpu = gpu
    reserved = _reserve(gpu, func, args, kwargs, operands) if operator.makes else None
    if (
        not operator.makes
        and operator.outs
        and operator.bound(args, tensors_in(args)) >= COUNT
    ):
        reserve_growth(func, args, kwargs, operator.outs)
    try:
        if operator.plain:
            out = operator.call(*args, **kwargs)
        else:
            out = random.draw(func, args, kwargs, gpu)
    except RuntimeError as error:
        out = widened(func, args, kwargs, gpu)
        if out is NotImplemented:
            name_kernel(error)
            raise
    finally:
        for tensor in tensors_in([kwargs[name] for name in operator.outs]):
            recount(storage_of(tensor))
    if operator.makes or sparse:
        return settle(out, gpu, reserved)
    return out


def _reserve(
    gpu: GPU, func: Callable, args: tuple, kwargs: dict, operands: Any
) -> Reserved:
    large = operator_of(func).bound(args, operands) >= COUNT
    return reserve(gpu, func, args, kwargs) if large else None


def _expect_gradient(number: Tensor) -> None:
    """Move the gradient of a number on the CPU, which comes from a GPU, back to the CPU. C++'s
    engine does the same with gradients that have no dimensions."""
    if not any(hook is _send_home for hook in (number._backward_hooks or {}).values()):
        _register_hook(number, _send_home)


def _send_home(gradient: Tensor) -> Tensor:
    return gradient.cpu()


_send_home.__torch_unserializable__ = True  # else torch.save warns that it is left out


def _run_without_gpu(
    func: Callable, args: tuple, kwargs: dict, hosts: list, scratch: list
) -> Any:
    doing, making = session.thread.doing, session.thread.doing.making
    if making is not None and not scratch:
        doing.last_gpu = making
        reserved = _reserve(making, func, args, kwargs, hosts)
        out = func(*args, **kwargs)
        for tensor in tensors_in((out,)) if making.type.missing else ():
            making.type.check_dtype(tensor)
        return settle(out, making, reserved)
    if (given := kwargs.get("generator")) is not None and find(given) is not None:
        raise RuntimeError(random.WRONG.format("cpu", session.type.name))
    if hosts:
        doing.last_gpu = None
        for tensor in scratch:
            put(tensor, None)
        return operator_of(func).call(*args, **kwargs)
    if args and isinstance(args[0], NUMBERS):
        args = as_tensors(func, args)
    out = func(*args, **kwargs)
    if scratch:
        return settle(out, None)
    if "pin_memory" not in kwargs and not calls.is_asked_for(func):
        # Python's bindings always name pin_memory. So this call comes from C++, within
        # an operation whose device it takes from tensors that it believes to be on the CPU.
        return settle(out, doing.last_gpu if calls.is_engine() else None)
    return out


def as_tensors(func: Callable, args: tuple) -> tuple:
    """The arguments with tensors where `func` takes tensors. One that stands for a number of Python
    is shown to a mode as that number. TorchScript calls with nothing else when it compares and
    prints the constants of a graph."""
    return tuple(
        torch.tensor(value)
        if isinstance(value, NUMBERS) and isinstance(argument.type, torch._C.TensorType)
        else value
        for value, argument in zip(args, func._schema.arguments, strict=False)
    )


def make_on(gpu: GPU, func: Callable, args: tuple, kwargs: dict) -> Any:
    """Run a factory that was asked for a tensor on `gpu`, or a copy to it. Functions of torch that
    a program took before the simulation began come here, and factories inside custom operators; the
    others lose their device in Python."""
    if fakes():
        return func(*args, **kwargs)
    kwargs = {**kwargs, "device": CPU}
    kwargs.pop("pin_memory", None)
    session.thread.doing.last_gpu = gpu
    reserved = _reserve(gpu, func, args, kwargs, tensors_in(args))
    out = random.draw(func, args, kwargs, gpu)
    return put(out, gpu, reserved[0] if reserved else None)


def settle(out: Any, gpu: GPU | None, reserved: Reserved = None) -> Any:
    """Tag what an operation returned: new storages live on `gpu`, or are scratch if it is None."""
    if isinstance(out, Tensor):
        if out.is_meta:
            return out
        try:
            plain = not has_torch_function_unary(out)
            storage = out.untyped_storage() if plain else storage_of(out)
        except (NotImplementedError, RuntimeError):  # sparse, or it wraps others
            plain, storage = False, storage_of(out)
        if storage is None:
            return out
        tag = getattr(storage, TAG, None)
        if gpu is None and tag is None:
            setattr(storage, TAG, Scratch())
        elif gpu is not None and (tag is None or tag.gpu is None):
            if not plain and out.layout is not torch.strided:
                return put(out, gpu)
            size = storage.nbytes()
            if reserved and reserved[0].requested != size:
                reserved.clear()  # CUDA would not hold both
            setattr(
                storage, TAG, reserved.pop(0) if reserved else Allocation(gpu, size)
            )
            traces.follow(storage)
    elif isinstance(out, list | tuple):
        for item in out:
            settle(item, gpu, reserved)
    return out
