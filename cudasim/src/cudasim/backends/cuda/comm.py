"""Copies between several GPUs at once, of which `torch.cuda.comm` and DataParallel are made. The
errors are those of `torch/csrc/cuda/comm.cpp` and `nccl.cpp`."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.parallel._functions import Broadcast, ReduceAddCoalesced

from cudasim.device.gpu import GPU
from cudasim.dispatch.tags import gpu_of
from cudasim.patching import Patches
from cudasim.session import session
from cudasim.words import WORDS

Tensors, Indices = Sequence[Tensor], Sequence[int]

SAID = WORDS["copies"]
HOST = -1  # the index by which these functions name the CPU
REDUCE = torch.add, torch.mul, torch.maximum, torch.minimum  # by ncclRedOp_t
MEAN = 4


def patch_comm(patches: Patches) -> None:
    copying = _broadcast, _broadcast_out, _broadcast_coalesced
    reducing = _nccl_all_reduce, _nccl_reduce, _nccl_reduce_scatter
    collectives = *reducing, _nccl_broadcast, _nccl_all_gather
    for function in (
        *copying,
        _scatter,
        _scatter_out,
        _gather,
        _gather_out,
        *collectives,
    ):
        patches.replace(torch._C, function.__name__, function)
    patches.replace(Broadcast, "backward", staticmethod(_broadcast_backward))


def _moved(tensor: Tensor, gpu: GPU | None) -> Tensor:
    return tensor.to(gpu.device if gpu else "cpu")


def _gpu(index: int) -> GPU:
    if index < 0:
        raise RuntimeError(f"Expected non-negative device index, but got {index}")
    return session.gpu(index)


def _check_on_gpus(tensors: Tensors, role: str, each: str) -> None:
    for position, tensor in enumerate(tensors):
        if gpu_of(tensor) is None:
            found = role, each, position, tensor.device
            raise RuntimeError(SAID["not on a GPU"].format(*found))


def _broadcast(tensor: Tensor, devices: Indices) -> list[Tensor]:
    return [_moved(tensor, _gpu(index)) for index in devices]


def _broadcast_out(tensor: Tensor, out: Tensors) -> list[Tensor]:
    _check_on_gpus(out, "output", "output tensor")
    shape = list(tensor.shape)
    for position, target in enumerate(out):
        if list(target.shape) != shape:
            found = shape, position, list(target.shape)
            raise RuntimeError(SAID["broadcast"].format(*found))
    return [target.copy_(tensor) for target in out]


def _broadcast_coalesced(
    tensors: Tensors, devices: Indices, size: int
) -> list[list[Tensor]]:
    """Copies of all `tensors` on each of `devices`; on the first, the tensors themselves."""
    first, *others = map(_gpu, devices)
    if any(gpu_of(tensor) is not first for tensor in tensors):
        raise RuntimeError(f"All tensors must be on devices[0]: {first.index}")
    copies = [[_moved(tensor.detach(), gpu) for tensor in tensors] for gpu in others]
    return [list(tensors), *copies]


def _scatter(
    tensor: Tensor, devices: Indices, sizes: Indices | None, dim: int, streams: Any
) -> list[Tensor]:
    if not devices:
        raise RuntimeError("Expected at least one device to scatter to")
    if sizes is not None and len(sizes) != len(devices):
        raise RuntimeError(SAID["lengths"].format(len(devices), len(sizes)))
    chunks = (
        tensor.chunk(len(devices), dim)
        if sizes is None
        else tensor.split(list(sizes), dim)
    )
    return [
        _moved(chunk, _gpu(index))
        for chunk, index in zip(chunks, devices, strict=False)
    ]


def _scatter_out(tensor: Tensor, out: Tensors, dim: int, streams: Any) -> list[Tensor]:
    if not out:
        raise RuntimeError("Expected at least one output tensor to scatter to")
    _check_on_gpus(out, "output", "output tensor")
    dim, shape = dim % tensor.dim(), list(tensor.shape)
    for position, target in enumerate(out):
        if list(target.shape) != [
            *shape[:dim],
            *target.shape[dim : dim + 1],
            *shape[dim + 1 :],
        ]:
            found = position, list(target.shape), dim, shape
            raise RuntimeError(SAID["scatter"].format(*found))
    sizes = [target.size(dim) for target in out]
    if sum(sizes) != shape[dim]:
        raise RuntimeError(SAID["total"].format(shape[dim], sum(sizes), dim=dim))
    chunks = tensor.split_with_sizes(sizes, dim)
    return [target.copy_(chunk) for chunk, target in zip(chunks, out, strict=True)]


def _gather(tensors: Tensors, dim: int, destination: int | None) -> Tensor:
    return _joined(
        tensors, None if destination == HOST else session.gpu(destination), dim
    )


def _gather_out(tensors: Tensors, out: Tensor, dim: int) -> Tensor:
    return out.copy_(_joined(tensors, gpu_of(out), dim))


def _joined(tensors: Tensors, gpu: GPU | None, dim: int) -> Tensor:
    if not tensors:
        raise RuntimeError("Expected at least one tensor to gather from")
    _check_on_gpus(tensors, "input", "tensor")
    like = list(tensors[0].shape)
    for position, tensor in enumerate(tensors):
        if tensor.dim() != len(like):
            raise RuntimeError(
                SAID["dimensions"].format(position, tensor.dim(), len(like))
            )
        like[dim] = tensor.size(dim)
        if list(tensor.shape) != like:
            raise RuntimeError(SAID["shape"].format(position, list(tensor.shape), like))
    return torch.cat([_moved(tensor, gpu) for tensor in tensors], dim)


def _broadcast_backward(ctx: Any, *gradients: Tensor) -> tuple:
    """The sum of each input's gradients there; zeros of an unused output may be elsewhere."""
    gpus = [_gpu(index) for index in ctx.target_gpus for _ in range(ctx.num_inputs)]
    there = map(_moved, gradients, gpus)
    return (None, *ReduceAddCoalesced.apply(ctx.input_device, ctx.num_inputs, *there))


def _check_ranks(tensors: Tensors) -> None:
    if not tensors:
        raise RuntimeError("input sequence can't be empty")
    _check_on_gpus(tensors, "input", "tensor")
    if len({gpu_of(tensor) for tensor in tensors}) < len(tensors):
        raise RuntimeError("inputs must be on unique devices")


def _reduced(inputs: Tensors, op: int, gpu: GPU | None) -> Tensor:
    _check_ranks(inputs)
    total = _moved(inputs[0], gpu)
    for tensor in inputs[1:]:
        total = REDUCE[op % MEAN](total, _moved(tensor, gpu))
    return total / len(inputs) if op == MEAN else total


def _nccl_all_reduce(inputs: Tensors, outputs: Tensors, op: int, *beside: Any) -> None:
    for output, total in [
        (each, _reduced(inputs, op, gpu_of(each))) for each in outputs
    ]:
        output.copy_(total)


def _nccl_reduce(
    inputs: Tensors, output: Tensor, root: int, op: int, *beside: Any
) -> None:
    output.copy_(_reduced(inputs, op, gpu_of(inputs[root])))


def _nccl_reduce_scatter(
    inputs: Tensors, outputs: Tensors, op: int, *beside: Any
) -> None:
    for place, output in enumerate(outputs):
        total = _reduced(inputs, op, gpu_of(output)).flatten()
        output.copy_(total.chunk(len(outputs))[place].view_as(output))


def _nccl_broadcast(inputs: Tensors, root: int, *beside: Any) -> None:
    _check_ranks(inputs)
    for tensor in inputs:
        tensor.copy_(inputs[root])


def _nccl_all_gather(inputs: Tensors, outputs: Tensors, *beside: Any) -> None:
    _check_ranks(inputs)
    for output in outputs:
        whole = [_moved(tensor, gpu_of(output)).flatten() for tensor in inputs]
        output.copy_(torch.cat(whole).view_as(output))
