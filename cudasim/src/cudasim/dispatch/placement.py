"""How an operation runs, and where its results live.

Operands must agree on their device, as CUDA demands; the CPU's kernel computes; results live
where the operands do.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from cudasim.device.gpu import GPU, Allocation
from cudasim.dispatch import random
from cudasim.dispatch.checks import disagreement, name_kernel, refuses
from cudasim.dispatch.devices import fakes
from cudasim.dispatch.tags import CPU, SCRATCH, TAG, gpu_of, put, storage_of
from cudasim.session import session


def run(func: Callable, args: tuple, kwargs: dict, operands: Iterable[Tensor]) -> Any:
    """Run `func`, whose devices are decided by `operands` alone.

    Raises RuntimeError, with CUDA's text, if the operands live on several devices.
    """
    gpu, hosts, scratch = None, [], []
    for tensor in operands:
        tag = getattr(storage_of(tensor), TAG, None)
        if tag is None:
            hosts.append(tensor)
        elif tag is SCRATCH:
            scratch.append(tensor)
        elif gpu is None:
            gpu = tag.gpu
        elif tag.gpu is not gpu:
            raise disagreement(func, args, kwargs)
    if gpu is None:
        return _run_without_gpu(func, args, kwargs, hosts, scratch)
    if not gpu.alive:
        gpu.check()
        for tensor in operands:
            gpu_of(tensor)  # raises
    if hosts and refuses(func, args, kwargs, hosts):
        raise disagreement(func, args, kwargs)
    for tensor in scratch:
        put(tensor, gpu)
    for tensor in hosts:
        if tensor.requires_grad and torch.is_grad_enabled():
            _expect_gradient(tensor)
    session.thread.last_gpu = gpu
    try:
        return settle(random.draw(func, args, kwargs, gpu), gpu)
    except NotImplementedError as error:
        name_kernel(error)
        raise


def _expect_gradient(number: Tensor) -> None:
    """Move the gradient of a number on the CPU, which comes from a GPU, back to the CPU.

    C++'s engine does the same with gradients that have no dimensions.
    """
    if not any(hook is _send_home for hook in (number._backward_hooks or {}).values()):
        number.register_hook(_send_home)


def _send_home(gradient: Tensor) -> Tensor:
    return gradient.cpu()


_send_home.__torch_unserializable__ = True  # else torch.save warns that it is left out


def _run_without_gpu(
    func: Callable, args: tuple, kwargs: dict, hosts: list[Tensor], scratch: list[Tensor]
) -> Any:
    if "generator" in kwargs:
        random.check_host(kwargs["generator"])
    if hosts:
        session.thread.last_gpu = None
        for tensor in scratch:
            put(tensor, None)
        return func(*args, **kwargs)
    out = func(*args, **kwargs)
    if scratch:
        return settle(out, None)
    if "pin_memory" not in kwargs:
        # Python's bindings always name pin_memory. So this call comes from C++, within
        # an operation whose device it takes from tensors that it believes to be on the CPU.
        in_backward = torch._C._current_graph_task_id() != -1
        return settle(out, session.thread.last_gpu if in_backward else None)
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
    session.thread.last_gpu = gpu
    return put(random.draw(func, args, kwargs, gpu), gpu)


def settle(out: Any, gpu: GPU | None) -> Any:
    """Tag what an operation returned: new storages live on `gpu`, or are scratch if it is None."""
    if isinstance(out, Tensor):
        storage = None if out.is_meta else storage_of(out)
        if storage is not None:
            tag = getattr(storage, TAG, None)
            if tag is None and gpu is None:
                setattr(storage, TAG, SCRATCH)
            elif gpu is not None and (tag is None or tag is SCRATCH):
                if out.layout is torch.strided:
                    setattr(storage, TAG, Allocation(gpu, storage.nbytes()))  # as `put` does
                else:
                    put(out, gpu)
    elif isinstance(out, list | tuple):
        for item in out:
            settle(item, gpu)
    return out
