"""How an operation runs, and where its results live.

The operands have to agree on their device, as CUDA demands. The CPU's kernel computes, and
the results live where the operands do.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import has_torch_function_unary

from cudasim.device.generator import find
from cudasim.device.gpu import GPU, Allocation
from cudasim.dispatch import random, scratch, traces
from cudasim.dispatch.arguments import operands_of, tensors_in
from cudasim.dispatch.checks import disagreement, refuses
from cudasim.dispatch.devices import in_fake_mode, resolve
from cudasim.dispatch.dtypes import compute_wider
from cudasim.dispatch.foresight import LARGE_RESULT, reserve, reserve_growth
from cudasim.dispatch.kernel_names import as_on_cuda, name_backend, named_as_on_cuda
from cudasim.dispatch.operators import Operator, operator_of
from cudasim.dispatch.scratch import Scratch
from cudasim.dispatch.tags import CPU, TAG, gpu_of, put, recount, storage_of
from cudasim.patching import changed
from cudasim.session import session
from cudasim.torch_private.operators import TensorType, schema_of
from cudasim.torch_private.tensors import hooks_of

NUMBERS = (bool, int, float, complex)
# Memory that was taken for results before they exist.
Reserved = list[Allocation] | None

# PyTorch's own, which a program or this package may replace.
_register_hook = Tensor.register_hook


def general(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Run an operation that has no rule of its own."""
    device = kwargs.get("device") if kwargs else None
    if device is not None and device.type == session.type.name:
        return make_on(resolve(device), func, args, kwargs)
    if (
        device is not None
        and "pin_memory" in kwargs
        and session.thread.operation.factory_gpu is None
    ):
        # Python named the device, as C++ never names pin_memory.
        return run(func, args, kwargs, ())
    return run(func, args, kwargs, operands_of(args, kwargs))


def run(func: Callable, args: tuple, kwargs: dict, operands: Iterable[Tensor]) -> Any:
    """Run `func` on the device of `operands`, which alone decide about it.

    Raises RuntimeError, with CUDA's text, if they are on several devices.
    """
    # This loop sees every operand of every operation, so it is written out here.
    gpu = None
    on_host = []
    unplaced = []  # scratch of C++
    may_be_copied = False
    for tensor in operands:
        try:
            plain = not has_torch_function_unary(tensor)
            storage = tensor.untyped_storage() if plain else storage_of(tensor)
        except (NotImplementedError, RuntimeError):  # sparse, or it wraps others
            storage = storage_of(tensor)
            may_be_copied = True  # even views of it may be new tensors
        tag = getattr(storage, TAG, None)
        if tag is None:
            on_host.append(tensor)
        elif tag.gpu is None:
            if tag.is_running():
                unplaced.append(tensor)
            else:
                on_host.append(tensor)
        elif gpu is None:
            gpu = tag.gpu
        elif tag.gpu is not gpu:
            raise disagreement(func, args, kwargs)

    if gpu is None:
        return _run_without_gpu(func, args, kwargs, on_host, unplaced)
    operator = operator_of(func)
    if not gpu.alive:
        _check_alive(gpu, operands)
    if on_host and refuses(operator, args, kwargs, on_host):
        raise disagreement(func, args, kwargs)
    for check in operator.checks:
        check.function(func, args, kwargs)
    for tensor in unplaced:
        put(tensor, gpu)
    for tensor in on_host:
        if tensor.requires_grad and torch.is_grad_enabled():
            _return_gradient_to_host(tensor)

    session.thread.operation.last_gpu = gpu
    reserved = _reserve(operator, gpu, args, kwargs, operands)
    out = _compute(operator, gpu, args, kwargs)
    if operator.makes_tensors or may_be_copied:
        return tag_results(out, gpu, reserved)
    return out


def _check_alive(gpu: GPU, operands: Iterable[Tensor]) -> None:
    """Raise the error for a GPU whose context is lost or whose simulation has ended."""
    gpu.check()
    for tensor in operands:
        gpu_of(tensor)


def _reserve(
    operator: Operator, gpu: GPU, args: tuple, kwargs: dict, operands: Iterable[Tensor]
) -> Reserved:
    """Take memory for results that may be large."""
    if operator.makes_tensors:
        if operator.max_elements(args, operands) >= LARGE_RESULT:
            return reserve(gpu, operator.func, args, kwargs)
    elif operator.out_names:
        if operator.max_elements(args, tensors_in(args)) >= LARGE_RESULT:
            reserve_growth(operator.func, args, kwargs, operator.out_names)
    return None


def _compute(operator: Operator, gpu: GPU, args: tuple, kwargs: dict) -> Any:
    """Run the CPU's kernel, in a wider dtype where it lacks one that CUDA has.

    Where the CPU has none at all, a function of ours may compute instead.
    """
    func = operator.func
    try:
        compute = operator.call
        substitute = operator.substitute
        if substitute is not None and session.type.is_cuda:
            if not substitute.is_idle(args):
                compute = substitute.function
        if operator.draws_random:
            return random.draw(func, args, kwargs, gpu, compute)
        return compute(*args, **kwargs)
    except (RuntimeError, IndexError) as error:
        with named_as_on_cuda(func, args):
            out = compute_wider(func, args, kwargs, gpu, error)
        if out is not NotImplemented:
            return out
        name_backend(error)
        error_on_cuda = as_on_cuda(func, args, error)
        if error_on_cuda is error:
            raise
        raise error_on_cuda from None
    finally:
        if operator.out_names:
            for tensor in tensors_in([kwargs[name] for name in operator.out_names]):
                recount(storage_of(tensor))


def _return_gradient_to_host(number: Tensor) -> None:
    """Move the gradient of a number on the CPU, which comes from a GPU, back to the CPU.

    C++'s engine does the same with gradients that have no dimensions.
    """
    hooks = hooks_of(number)
    if not any(hook is _to_host for hook in hooks.values()):
        _register_hook(number, _to_host)


def _to_host(gradient: Tensor) -> Tensor:
    return gradient.cpu()


# Without this, torch.save would warn that it leaves the hook out.
_to_host.__torch_unserializable__ = True


def _run_without_gpu(
    func: Callable, args: tuple, kwargs: dict, on_host: list, unplaced: list
) -> Any:
    """Run an operation none of whose operands is on a GPU."""
    state = session.thread.operation
    if state.factory_gpu is not None and not unplaced:
        return _run_in_factory(func, args, kwargs, on_host, state.factory_gpu)

    generator = random.given_generator(func, args, kwargs)
    if generator is not None and find(generator) is not None:
        raise random.wrong_generator("cpu", session.type.name)
    if on_host:
        state.last_gpu = None
        for tensor in unplaced:
            put(tensor, None)
        return operator_of(func).call(*args, **kwargs)

    if args and isinstance(args[0], NUMBERS):
        args = as_tensors(func, args)
    out = func(*args, **kwargs)
    if unplaced:
        if any(map(scratch.lasts, unplaced)):
            return _tag_as_lasting_scratch(out)
        return tag_results(out, None)
    # Python's bindings always name pin_memory. So a call without it comes from C++, within
    # an operation whose device it takes from tensors that it believes to be on the CPU.
    if "pin_memory" not in kwargs and not scratch.is_called_by_program(func):
        gpu = state.last_gpu if scratch.is_called_by_engine() else None
        return tag_results(out, gpu)
    if "pin_memory" not in kwargs and scratch.is_called_by_graph():
        # C++ made it while the graph was traced.
        return _tag_as_lasting_scratch(out)
    return out


def _tag_as_lasting_scratch(out: Any) -> Any:
    """Tag the results of an operation as scratch that outlasts the current call."""
    with changed(session.thread, makes_lasting=True):
        return tag_results(out, None)


def _run_in_factory(
    func: Callable, args: tuple, kwargs: dict, operands: list, gpu: GPU
) -> Any:
    """Run a part of a factory of Python that makes a tensor on `gpu`."""
    session.thread.operation.last_gpu = gpu
    operator = operator_of(func)
    reserved = None
    if operator.max_elements(args, operands) >= LARGE_RESULT:
        reserved = reserve(gpu, func, args, kwargs)
    with named_as_on_cuda(func, args):
        out = func(*args, **kwargs)
    if gpu.type.missing:
        for tensor in tensors_in((out,)):
            gpu.type.check_dtype(tensor)
    return tag_results(out, gpu, reserved)


def as_tensors(func: Callable, args: tuple) -> tuple:
    """Return `args` with tensors where `func` takes tensors.

    A mode is shown a plain number in the place of a tensor that stands for one. Only
    TorchScript makes such calls, when it compares and prints the constants of a graph.
    """
    converted = []
    for value, argument in zip(args, schema_of(func).arguments, strict=False):
        if isinstance(value, NUMBERS) and isinstance(argument.type, TensorType):
            value = torch.tensor(value)
        converted.append(value)
    return tuple(converted)


def make_on(gpu: GPU, func: Callable, args: tuple, kwargs: dict) -> Any:
    """Run a factory that was asked for a tensor on `gpu`, or a copy to it.

    Most factories lose their device in Python. Those that come here are functions of torch
    that a program took before the simulation began, and those inside custom operators.
    """
    if in_fake_mode():
        return func(*args, **kwargs)
    kwargs = {**kwargs, "device": CPU}
    kwargs.pop("pin_memory", None)
    session.thread.operation.last_gpu = gpu

    reserved = None
    if operator_of(func).max_elements(args, tensors_in(args)) >= LARGE_RESULT:
        reserved = reserve(gpu, func, args, kwargs)
    try:
        with named_as_on_cuda(func, args):
            out = random.draw(func, args, kwargs, gpu)
    except NotImplementedError as error:
        name_backend(error)
        raise
    return put(out, gpu, reserved[0] if reserved else None)


def tag_results(out: Any, gpu: GPU | None, reserved: Reserved = None) -> Any:
    """Tag the new storages among the results of an operation; return the results.

    They live on `gpu`, or are scratch if it is None.
    """
    if isinstance(out, list | tuple):
        for result in out:
            tag_results(result, gpu, reserved)
        return out
    if not isinstance(out, Tensor) or out.is_meta:
        return out

    try:
        plain = not has_torch_function_unary(out)
        storage = out.untyped_storage() if plain else storage_of(out)
    except (NotImplementedError, RuntimeError):  # sparse, or it wraps others
        plain = False
        storage = storage_of(out)
    if storage is None:
        return out

    tag = getattr(storage, TAG, None)
    if gpu is None:
        if tag is None:
            setattr(storage, TAG, Scratch())
    elif tag is None or tag.gpu is None:
        if not plain and out.layout is not torch.strided:
            return put(out, gpu)
        setattr(storage, TAG, _allocate(gpu, storage.nbytes(), reserved))
        traces.follow(storage)
    return out


def _allocate(gpu: GPU, size: int, reserved: Reserved) -> Allocation:
    """Return the next of the reserved allocations, or a new one."""
    if reserved and reserved[0].requested != size:
        reserved.clear()  # the estimate was wrong, and CUDA would not hold both
    return reserved.pop(0) if reserved else Allocation(gpu, size)
