"""Copies between several GPUs at once, of which `torch.cuda.comm` and DataParallel consist.

The errors are those of `torch/csrc/cuda/comm.cpp` and `nccl.cpp`.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from cudasim.device.gpu import GPU
from cudasim.dispatch.tags import gpu_of
from cudasim.patching import Patches, releasing
from cudasim.session import session
from cudasim.torch_private import devices as private
from cudasim.words import WORDS

Tensors = Sequence[Tensor]
Indices = Sequence[int]

MESSAGES = WORDS["copies"]
HOST = -1  # the index by which these functions name the CPU
# By ncclRedOp_t.
REDUCTIONS = (torch.add, torch.mul, torch.maximum, torch.minimum)
MEAN = 4


def patch_comm(patches: Patches) -> None:
    functions = {
        "broadcast": broadcast,
        "broadcast_out": broadcast_out,
        "broadcast_coalesced": broadcast_coalesced,
        "scatter": scatter,
        "scatter_out": scatter_out,
        "gather": gather,
        "gather_out": gather_out,
        "nccl_all_reduce": nccl_all_reduce,
        "nccl_reduce": nccl_reduce,
        "nccl_reduce_scatter": nccl_reduce_scatter,
        "nccl_broadcast": nccl_broadcast,
        "nccl_all_gather": nccl_all_gather,
    }
    releasing_functions = {
        name: releasing(function) for name, function in functions.items()
    }
    patches.bind(private.COPIES, releasing_functions)
    patches.replace(private.Broadcast, "backward", staticmethod(broadcast_backward))


def _moved(tensor: Tensor, gpu: GPU | None) -> Tensor:
    return tensor.to(gpu.device if gpu else "cpu")


def _gpu(index: int) -> GPU:
    if index < 0:
        raise RuntimeError(f"Expected non-negative device index, but got {index}")
    return session.gpu(index)


def _check_on_gpus(tensors: Tensors, role: str, name: str) -> None:
    for position, tensor in enumerate(tensors):
        if gpu_of(tensor) is None:
            message = MESSAGES["not on a GPU"]
            raise RuntimeError(message.format(role, name, position, tensor.device))


def broadcast(tensor: Tensor, devices: Indices) -> list[Tensor]:
    gpus = [_gpu(index) for index in devices]
    return [_moved(tensor, gpu) for gpu in gpus]


def broadcast_out(tensor: Tensor, out: Tensors) -> list[Tensor]:
    _check_on_gpus(out, "output", "output tensor")
    shape = list(tensor.shape)
    for position, target in enumerate(out):
        target_shape = list(target.shape)
        if target_shape != shape:
            message = MESSAGES["broadcast"]
            raise RuntimeError(message.format(shape, position, target_shape))
    return [target.copy_(tensor) for target in out]


def broadcast_coalesced(
    tensors: Tensors, devices: Indices, size: int
) -> list[list[Tensor]]:
    """Copy all `tensors` to each of `devices`; on the first are the tensors themselves."""
    first, *others = map(_gpu, devices)
    if any(gpu_of(tensor) is not first for tensor in tensors):
        raise RuntimeError(f"All tensors must be on devices[0]: {first.index}")
    copies = [list(tensors)]
    for gpu in others:
        copies.append([_moved(tensor.detach(), gpu) for tensor in tensors])
    return copies


def scatter(
    tensor: Tensor, devices: Indices, sizes: Indices | None, dim: int, streams: Any
) -> list[Tensor]:
    if not devices:
        raise RuntimeError("Expected at least one device to scatter to")
    if sizes is None:
        chunks = tensor.chunk(len(devices), dim)
    elif len(sizes) == len(devices):
        chunks = tensor.split(list(sizes), dim)
    else:
        raise RuntimeError(MESSAGES["lengths"].format(len(devices), len(sizes)))
    pairs = zip(chunks, devices, strict=False)
    return [_moved(chunk, _gpu(index)) for chunk, index in pairs]


def scatter_out(tensor: Tensor, out: Tensors, dim: int, streams: Any) -> list[Tensor]:
    if not out:
        raise RuntimeError("Expected at least one output tensor to scatter to")
    _check_on_gpus(out, "output", "output tensor")
    dim %= tensor.dim()
    shape = list(tensor.shape)
    for position, target in enumerate(out):
        target_shape = list(target.shape)
        expected = [*shape[:dim], *target_shape[dim : dim + 1], *shape[dim + 1 :]]
        if target_shape != expected:
            message = MESSAGES["scatter"]
            raise RuntimeError(message.format(position, target_shape, dim, shape))

    sizes = [target.size(dim) for target in out]
    if sum(sizes) != shape[dim]:
        message = MESSAGES["total"]
        raise RuntimeError(message.format(shape[dim], sum(sizes), dim=dim))
    chunks = tensor.split_with_sizes(sizes, dim)
    return [target.copy_(chunk) for chunk, target in zip(chunks, out, strict=True)]


def gather(tensors: Tensors, dim: int, destination: int | None) -> Tensor:
    gpu = None if destination == HOST else session.gpu(destination)
    return _joined(tensors, gpu, dim)


def gather_out(tensors: Tensors, out: Tensor, dim: int) -> Tensor:
    return out.copy_(_joined(tensors, gpu_of(out), dim))


def _joined(tensors: Tensors, gpu: GPU | None, dim: int) -> Tensor:
    if not tensors:
        raise RuntimeError("Expected at least one tensor to gather from")
    _check_on_gpus(tensors, "input", "tensor")
    expected = list(tensors[0].shape)
    for position, tensor in enumerate(tensors):
        if tensor.dim() != len(expected):
            message = MESSAGES["dimensions"]
            raise RuntimeError(message.format(position, tensor.dim(), len(expected)))
        expected[dim] = tensor.size(dim)
        shape = list(tensor.shape)
        if shape != expected:
            raise RuntimeError(MESSAGES["shape"].format(position, shape, expected))
    return torch.cat([_moved(tensor, gpu) for tensor in tensors], dim)


def broadcast_backward(ctx: Any, *gradients: Tensor) -> tuple:
    """Add up each input's gradients; zeros of an output that was not used may be elsewhere."""
    gpus = []  # of each gradient
    for index in ctx.target_gpus:
        gpus += [_gpu(index)] * ctx.num_inputs
    moved = map(_moved, gradients, gpus)
    reduce = private.ReduceAddCoalesced.apply
    return (None, *reduce(ctx.input_device, ctx.num_inputs, *moved))


def _check_ranks(tensors: Tensors) -> None:
    if not tensors:
        raise RuntimeError("input sequence can't be empty")
    _check_on_gpus(tensors, "input", "tensor")
    if len(set(map(gpu_of, tensors))) < len(tensors):
        raise RuntimeError("inputs must be on unique devices")


def _reduced(inputs: Tensors, op: int, gpu: GPU | None) -> Tensor:
    _check_ranks(inputs)
    reduction = torch.add if op == MEAN else REDUCTIONS[op]
    total = _moved(inputs[0], gpu)
    for tensor in inputs[1:]:
        total = reduction(total, _moved(tensor, gpu))
    return total / len(inputs) if op == MEAN else total


def nccl_all_reduce(inputs: Tensors, outputs: Tensors, op: int, *unused: Any) -> None:
    # An output may be one of the inputs, so nothing is written before all is read.
    totals = [_reduced(inputs, op, gpu_of(output)) for output in outputs]
    for output, total in zip(outputs, totals, strict=True):
        output.copy_(total)


def nccl_reduce(
    inputs: Tensors, output: Tensor, root: int, op: int, *unused: Any
) -> None:
    output.copy_(_reduced(inputs, op, gpu_of(inputs[root])))


def nccl_reduce_scatter(
    inputs: Tensors, outputs: Tensors, op: int, *unused: Any
) -> None:
    for rank, output in enumerate(outputs):
        total = _reduced(inputs, op, gpu_of(output)).flatten()
        output.copy_(total.chunk(len(outputs))[rank].view_as(output))


def nccl_broadcast(inputs: Tensors, root: int, *unused: Any) -> None:
    _check_ranks(inputs)
    for tensor in inputs:
        tensor.copy_(inputs[root])


def nccl_all_gather(inputs: Tensors, outputs: Tensors, *unused: Any) -> None:
    _check_ranks(inputs)
    for output in outputs:
        whole = [_moved(tensor, gpu_of(output)).flatten() for tensor in inputs]
        output.copy_(torch.cat(whole).view_as(output))
