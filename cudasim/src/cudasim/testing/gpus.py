"""The GPUs of a test, real or simulated, `cuda` or `mps`, and what a test claims of a block of
code: all is asked of `torch.accelerator` and of the module of the type of device."""

import gc
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, NoReturn
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from cudasim.modes import LightMode, decompose, is_composite

SEED = 0  # of every GPU's generator when a test begins
ALL = {"mps": 1.7}  # PyTorch's own limit, where it is not the whole memory of a GPU
NAMED = 5  # so many tensors an error names
HOST = torch.device("cpu")
aten = torch.ops.aten


class Gpu:
    """One of them. Its memory, all of it or what tensors hold, is in bytes."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.device = torch.device(_type(), index)

    def __repr__(self) -> str:
        return f"<{self.device}>"

    @property
    def allocated(self) -> int:
        return torch.accelerator.memory_allocated(self.index)

    @property
    def peak(self) -> int:
        """The most that tensors have held at once since the test began."""
        return torch.accelerator.max_memory_allocated(self.index)

    @property
    def memory(self) -> int:
        return torch.accelerator.get_memory_info(self.index)[1]


class Gpus(list[Gpu]):
    """The GPUs that this process sees: `gpus[1].peak`, `with gpus.no_sync():`, and so on."""

    def __init__(self) -> None:
        super().__init__(
            Gpu(index) for index in range(torch.accelerator.device_count())
        )

    def renew(self, memory: int | None = None) -> None:
        """Make them as a process finds them, but for the tensors that are still held. `memory` is
        how many bytes PyTorch may take of each, None for all. GPUs that were not used yet stay so:
        a process may fork until then."""
        module = torch.get_device_module(_type())
        getattr(module, "manual_seed_all", module.manual_seed)(SEED)
        if memory is None and not getattr(module, "is_initialized", lambda: True)():
            return
        torch.accelerator.set_device_index(0)
        torch.accelerator.empty_cache()
        if hasattr(module, "set_sync_debug_mode"):
            _tell_of_waits(module, 0)
        for gpu in self:
            if hasattr(module, "default_stream"):
                module.set_stream(module.default_stream(gpu.index))
            torch.accelerator.reset_peak_memory_stats(gpu.index)
            torch.accelerator.reset_accumulated_memory_stats(gpu.index)
            part = ALL.get(_type(), 1.0) if memory is None else memory / gpu.memory
            where = {} if module is torch.mps else {"device": gpu.index}
            module.set_per_process_memory_fraction(part, **where)
        torch.accelerator.set_device_index(0)  # choosing a stream has chosen its GPU

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """In the block nothing makes the host wait for a GPU. What waits unasked (`.item()`, a
        mask, a pageable copy) raises RuntimeError at its line, as PyTorch's
        `set_sync_debug_mode("error")` has it; what is called `synchronize` raises AssertionError.
        Raises NotImplementedError on devices that do not tell of waits: all but `cuda`."""
        module = torch.get_device_module(_type())
        if not hasattr(module, "set_sync_debug_mode"):
            raise NotImplementedError(
                f"gpus.no_sync(): PyTorch tells of no waits on {_type()}"
            )
        with ExitStack() as stack:
            for owner in (module, torch.accelerator, module.Stream, module.Event):
                refuse = partial(_refuse_to_wait, f"{owner.__name__}.synchronize")
                stack.enter_context(patch.object(owner, "synchronize", refuse))
            stack.callback(_tell_of_waits, module, module.get_sync_debug_mode())
            _tell_of_waits(module, "error")
            yield

    @contextmanager
    def no_copies(self) -> Iterator[None]:
        """In the block no tensor's numbers travel to another device, not even by `.item()`. What a
        tensor is made of, such as a list of Python, is not looked at. Raises AssertionError at the
        line of the copy."""
        original = Tensor.tolist

        def tolist(tensor: Tensor) -> Any:  # an operation tells of it on real GPUs only
            _compare("Tensor.tolist", tensor, HOST)
            return original(tensor)

        with _NoCopies(), patch.object(Tensor, "tolist", tolist):
            yield

    @contextmanager
    def no_leak(self) -> Iterator[None]:
        """After the block, tensors hold no more memory of any GPU than before it. What only a cycle
        of references holds is collected first. The AssertionError names some that are new."""
        known, before = _settled()
        yield
        tensors, after = _settled()
        for gpu, held, kept in zip(self, before, after, strict=True):
            if kept > held:
                new = [tensors[key] for key in tensors.keys() - known.keys()]
                names = _named([each for each in new if each.device == gpu.device])
                more = f"{kept - held:,} bytes more than before"
                raise AssertionError(f"{gpu.device} holds {more}{names}")


def _type() -> str:
    return getattr(torch.accelerator.current_accelerator(), "type", "cpu")


def _tell_of_waits(module: Any, mode: int | str) -> None:
    with warnings.catch_warnings(
        action="ignore"
    ):  # that PyTorch does not see every wait
        module.set_sync_debug_mode(mode)


def _refuse_to_wait(name: str, *args: Any, **kwargs: Any) -> NoReturn:
    raise AssertionError(f"{name} makes the host wait for a GPU")


def _compare(name: Any, source: Tensor, target: torch.device) -> None:
    if source.device != target:
        size = source.numel() * source.element_size()
        raise AssertionError(
            f"{name} copies {size:,} bytes from {source.device} to {target}"
        )


def _settled() -> tuple[dict[int, Tensor], list[int]]:
    """The tensors on GPUs that Python knows, by address; and the bytes held on each GPU."""
    gc.collect()
    if torch.cuda.is_available():
        torch._C._cuda_clearCublasWorkspaces()  # a real GPU's first product of matrices takes one
    tensors, here = {}, _type()
    for each in (each for each in gc.get_objects() if issubclass(type(each), Tensor)):
        with suppress(RuntimeError):  # it has outlived its simulation, and is nowhere
            if each.device.type == here:
                tensors[_address(each)] = each
    return tensors, [gpu.allocated for gpu in Gpus()]


def _address(tensor: Tensor) -> int:
    try:
        return tensor.untyped_storage().data_ptr()
    except RuntimeError:  # sparse, or a wrapper: it has no storage
        return id(tensor)


def _named(tensors: list[Tensor]) -> str:
    if not tensors:
        return "; no Python object is a tensor of them, so a graph or C++ holds them"
    names = [
        f"{tuple(each.shape)} {str(each.dtype).removeprefix('torch.')}"
        for each in tensors
    ]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"; still held: {', '.join(names[:NAMED])}{more}"


class _NoCopies(LightMode):
    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if is_composite(func):
            return decompose(self, func, args, kwargs)
        out = func(*args, **kwargs)
        operands = [
            each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)
        ]
        if func is aten._local_scalar_dense.default:
            _compare(func, operands[0], HOST)
        elif func is aten._to_copy.default:
            _compare(func, operands[0], out.device)
        elif func is aten.copy_.default:
            _compare(func, operands[1], operands[0].device)
        else:  # an index of the CPU's, for instance; a single number needs no copy
            for each in filter(Tensor.dim, operands):
                _compare(func, each, operands[0].device)
        return out
