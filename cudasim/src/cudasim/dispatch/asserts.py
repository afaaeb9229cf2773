"""Assertions in kernels: errors that the CPU raises at once and CUDA finds in a kernel.

The context of the GPU is lost with such an error. Whatever needs that GPU afterwards fails
with the same error. It is raised at once, as with CUDA_LAUNCH_BLOCKING=1, and the CPU's error,
which names the index, is its cause.
"""

import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cudasim.device.gpu import GPU
from cudasim.dispatch.arguments import all_arguments, operands_of
from cudasim.dispatch.operators import Rule, layer, name_of
from cudasim.dispatch.tables import TABLES
from cudasim.dispatch.tags import gpu_of, put
from cudasim.patching import Patches
from cudasim.session import session
from cudasim.torch_private.devices import read_device_index
from cudasim.words import WORDS

# The CPU's errors in whose place CUDA's kernel stops.
_ASSERTED = re.compile("|".join(WORDS["asserted"]["patterns"]))
# Operators for which Apple's MPSGraph gathers rows, and those whose kernels look at indices.
_GATHERING = ("embedding", "index_select")
_REPORTING = ("index", "index_put", "_index_put_impl")


@layer(*TABLES["asserting"], idle=lambda args: True)
def lose_gpu_on_assertion(
    inner: Rule, func: Callable, args: tuple, kwargs: dict
) -> Any:
    """Lose the GPU where the CPU raises what the operator's kernel for CUDA asserts."""
    try:
        return inner(func, args, kwargs)
    except (IndexError, RuntimeError) as error:
        if not _is_assertion(func, args, kwargs, error):
            raise
        assertion = session.type.assertion()
        if assertion is None:
            return _answer_without_assertions(inner, func, args, kwargs, error)
        gpu = _first_gpu(args, kwargs)
        if gpu is None:
            raise
        lose(gpu)
        raise assertion from error


@layer("_embedding_bag", "_embedding_bag_forward_only")
def check_bags(inner: Rule, func: Callable, args: tuple, kwargs: dict) -> Any:
    """Lose the GPU where a bag ends before it begins, of which the CPU may say nothing.

    See the kernels in native/cuda/EmbeddingBag.cu.
    """
    out = inner(func, args, kwargs)
    gpu = _first_gpu(args, kwargs)
    assertion = session.type.assertion()
    if gpu is None or assertion is None or not out[0].numel():
        return out
    named = all_arguments(func, args, kwargs)
    begins = named["offsets"].tolist()
    if named["include_last_offset"]:
        begins.pop()
    begins[:1] = [0]  # whatever the first offset is
    ends = [*begins[1:], named["indices"].numel()]
    for bag, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        if end < begin:
            lose(gpu)
            reason = f"cudasim: bag {bag} begins at {begin} and ends at {end}"
            raise assertion from RuntimeError(reason)
    return out


def _answer_without_assertions(
    inner: Rule, func: Callable, args: tuple, kwargs: dict, error: Exception
) -> Any:
    """Return or raise what Apple's kernels do about an index that is out of range.

    Those of `index` and `index_put` report the CPU's message (mps/kernels/Indexing.metal),
    which is raised when the host next waits; here it is raised at once.
    """
    name = name_of(func)
    if _first_gpu(args, kwargs) is None:
        raise error
    if name in _GATHERING and args[0].numel():
        return gather_zeros(inner, func, args, kwargs)
    if name in _REPORTING:
        raise torch.AcceleratorError(str(error)) from error
    raise error


def gather_zeros(inner: Rule, func: Callable, args: tuple, kwargs: dict) -> Any:
    """Return zeros for rows that do not exist, as the gather of Apple's MPSGraph does.

    See pytorch/pytorch#144824. PyTorch 2.14 has a kernel of its own in its place.
    """
    is_embedding = name_of(func) == "embedding"
    table = args[0]
    dim = 0 if is_embedding else args[1] % table.dim()
    position = 1 if is_embedding else 2
    indices = args[position]
    is_missing = (indices < 0) | (indices >= table.shape[dim])
    existing = put(indices.masked_fill(is_missing, 0), gpu_of(indices))
    out = inner(func, (*args[:position], existing, *args[position + 1 :]), kwargs)

    shape = [1] * out.dim()
    if is_embedding:
        shape[:-1] = indices.shape
    else:
        shape[dim] = indices.numel()
    return out.masked_fill_(is_missing.view(shape), 0)


def _first_gpu(args: tuple, kwargs: dict) -> GPU | None:
    for tensor in operands_of(args, kwargs):
        gpu = gpu_of(tensor)
        if gpu is not None:
            return gpu
    return None


def _is_assertion(func: Callable, args: tuple, kwargs: dict, error: Exception) -> bool:
    """Return whether CUDA finds in its kernel what the CPU has raised as `error`."""
    name = name_of(func)
    if name == "_assert_async":  # whatever its message, but of one value only
        return args[0].numel() == 1
    if name == "repeat_interleave":  # the host checks if it has to add up the sizes
        return kwargs.get("output_size") is not None
    return _ASSERTED.search(str(error)) is not None


def lose(gpu: GPU) -> None:
    """Refuse whatever needs `gpu` from now on, even waiting for it."""
    if not session.lost_one:
        session.lost_one = True
        _watch_calls(session.patches)
    gpu.lose(session.type.assertion)


def _watch_calls(patches: Patches) -> None:
    """Let the calls of CUDA that are no operations raise the error of a lost context.

    They do so once a context is lost, and cost nothing before.
    """
    for module in (torch.cuda, torch.accelerator):
        patches.wrap(module, "synchronize", _check_device)
        patches.wrap(module, "empty_cache", _check_all)
    patches.wrap(torch.cuda, "mem_get_info", _check_device)
    patches.wrap(Tensor, "pin_memory", _check_current)
    for owner in (torch.cuda.Stream, torch.cuda.Event):
        patches.wrap(owner, "synchronize", _check_own)
        patches.wrap(owner, "query", _check_own)
    patches.wrap(torch.cuda.Event, "record", _check_stream)
    patches.wrap(torch.cuda.Event, "wait", _check_stream)
    patches.wrap(torch.cuda.Event, "elapsed_time", _check_own)


def _check_device(original: Callable, of: Any = None, **kwargs) -> Any:
    """Check the GPU of a call that names one, or the current one."""
    of = kwargs.get("device", of)
    session.gpu(read_device_index(of, optional=True)).check()
    return original(of)


def _check_current(original: Callable, *args, **kwargs) -> Any:
    session.current().check()
    return original(*args, **kwargs)


def _check_all(original: Callable) -> None:
    """Check all GPUs, whose unused memory is freed one after the other."""
    for gpu in session.gpus:
        gpu.check()
    original()


def _check_own(original: Callable, self: Any, *args) -> Any:
    """Check the GPU of a stream or an event, which has none until it is recorded."""
    if self.device is not None:
        session.gpu(self.device.index).check()
    return original(self, *args)


def _check_stream(original: Callable, self: Any, stream: Any = None) -> Any:
    """Check the GPU of the stream with which an event is recorded or awaited."""
    gpu = session.current() if stream is None else session.gpu(stream.device.index)
    gpu.check()
    return original(self) if stream is None else original(self, stream)
