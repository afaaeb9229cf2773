"""The GPUs of a test, and claims about a block of code.

The GPUs are real or simulated, `cuda` or `mps`: everything goes through
`torch.accelerator` and the module of the type of device.
"""

import gc
import warnings
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, NoReturn
from unittest.mock import patch

import torch
from torch import Tensor

from cudasim.modes import LightMode, decompose, is_composite
from cudasim.session import session
from cudasim.torch_private.devices import CUDA
from cudasim.torch_private.operators import read_number, to_copy, tree_leaves

SEED = 0  # of every GPU's generator when a test begins
# PyTorch's own limit, where it is not the whole memory of a GPU.
USUAL_FRACTION = {"mps": 1.7}
NAMED = 5  # how many tensors an error names
HOST = torch.device("cpu")
aten = torch.ops.aten


class Gpu:
    """One of the GPUs. Memory is in bytes."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.device = torch.device(_type(), index)

    def __repr__(self) -> str:
        return f"<{self.device}>"

    @property
    def allocated(self) -> int:
        """What tensors hold now."""
        return torch.accelerator.memory_allocated(self.index)

    @property
    def peak(self) -> int:
        """The most that tensors have held at once since the test began."""
        return torch.accelerator.max_memory_allocated(self.index)

    @property
    def memory(self) -> int:
        """All that the GPU has."""
        _, total = torch.accelerator.get_memory_info(self.index)
        return total


class Gpus(list[Gpu]):
    """The GPUs that this process sees: `gpus[1].peak`, `with gpus.no_sync():`, and so on."""

    def __init__(self) -> None:
        number = torch.accelerator.device_count()
        super().__init__(Gpu(index) for index in range(number))

    def renew(self, memory: int | None = None) -> None:
        """Make them as a process finds them, but for the tensors that are still held.

        `memory` is how many bytes PyTorch may take of each, None for all. GPUs that were
        not used yet stay unused, as a process may fork until then.
        """
        for simulated in session.gpus:
            simulated.recover()
        module = torch.get_device_module(_type())
        seed_all = getattr(module, "manual_seed_all", module.manual_seed)
        seed_all(SEED)
        is_initialized = getattr(module, "is_initialized", lambda: True)
        if memory is None and not is_initialized():
            return

        for gpu in self:  # what the last test left in a stream is done
            torch.accelerator.synchronize(gpu.index)
        torch.accelerator.set_device_index(0)
        torch.accelerator.empty_cache()
        if hasattr(module, "set_sync_debug_mode"):
            _set_sync_debug_mode(module, 0)
        for gpu in self:
            if hasattr(module, "default_stream"):
                module.set_stream(module.default_stream(gpu.index))
            torch.accelerator.reset_peak_memory_stats(gpu.index)
            torch.accelerator.reset_accumulated_memory_stats(gpu.index)
            _limit_memory(module, gpu, memory)
        torch.accelerator.set_device_index(0)  # choosing a stream has chosen its GPU

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Claim that nothing in the block makes the host wait for a GPU.

        An operation that waits unasked (`.item()`, a mask, a pageable copy) raises
        RuntimeError at its line, as PyTorch's `set_sync_debug_mode("error")` has it. A
        call of `synchronize` raises AssertionError. Raises NotImplementedError on devices
        that report no waits: all but `cuda`.
        """
        module = torch.get_device_module(_type())
        if not hasattr(module, "set_sync_debug_mode"):
            problem = f"PyTorch reports no waits on {_type()}"
            raise NotImplementedError(f"gpus.no_sync(): {problem}")
        with ExitStack() as stack:
            for owner in (module, torch.accelerator, module.Stream, module.Event):
                refuse = partial(_refuse_to_wait, f"{owner.__name__}.synchronize")
                stack.enter_context(patch.object(owner, "synchronize", refuse))
            before = module.get_sync_debug_mode()
            stack.callback(_set_sync_debug_mode, module, before)
            _set_sync_debug_mode(module, "error")
            yield

    @contextmanager
    def no_copies(self) -> Iterator[None]:
        """Claim that in the block no tensor's numbers go to another device.

        Not even `.item()` is allowed. What a tensor is made from, such as a list, does
        not count. Raises AssertionError at the line of the copy.
        """
        original = Tensor.tolist

        def tolist(tensor: Tensor) -> Any:  # it is an operation on real GPUs only
            _refuse_to_copy("Tensor.tolist", tensor, HOST)
            return original(tensor)

        with _NoCopies(), patch.object(Tensor, "tolist", tolist):
            yield

    @contextmanager
    def no_leak(self) -> Iterator[None]:
        """Claim that after the block tensors hold no more memory than before it.

        What only a cycle of references holds is collected first. The AssertionError names
        some of the new tensors.
        """
        _free_unused()
        known = _weak_references()
        before = [gpu.allocated for gpu in self]
        yield
        _free_unused()
        for gpu, allocated_before in zip(self, before, strict=True):
            growth = gpu.allocated - allocated_before
            if growth > 0:
                names = _list(_new_tensors(gpu, known))
                more = f"{growth:,} bytes more than before"
                raise AssertionError(f"{gpu.device} holds {more}{names}")


def _type() -> str:
    return getattr(torch.accelerator.current_accelerator(), "type", "cpu")


def _limit_memory(module: Any, gpu: Gpu, memory: int | None) -> None:
    if memory is None:
        fraction = USUAL_FRACTION.get(_type(), 1.0)
    else:
        fraction = memory / gpu.memory
    if module is torch.mps:
        module.set_per_process_memory_fraction(fraction)
    else:
        module.set_per_process_memory_fraction(fraction, device=gpu.index)


def _set_sync_debug_mode(module: Any, mode: int | str) -> None:
    # PyTorch warns that it does not see every wait.
    with warnings.catch_warnings(action="ignore"):
        module.set_sync_debug_mode(mode)


def _refuse_to_wait(name: str, *args: Any, **kwargs: Any) -> NoReturn:
    raise AssertionError(f"{name} makes the host wait for a GPU")


def _refuse_to_copy(name: Any, source: Tensor, target: torch.device) -> None:
    if source.device != target:
        size = source.numel() * source.element_size()
        way = f"from {source.device} to {target}"
        raise AssertionError(f"{name} copies {size:,} bytes {way}")


def _free_unused() -> None:
    gc.collect()
    if torch.cuda.is_available():
        # A real GPU's first product of matrices takes a workspace.
        clear_workspaces = CUDA.attribute("clearCublasWorkspaces").read()
        clear_workspaces()


def _tensors_on_gpus() -> dict[int, Tensor]:
    """Return the tensors on GPUs that Python knows, by address."""
    tensors = {}
    for value in gc.get_objects():
        if not issubclass(type(value), Tensor):
            continue
        with suppress(RuntimeError):  # a tensor that has outlived its simulation
            if value.device.type == _type():
                tensors[_address(value)] = value
    return tensors


def _weak_references() -> dict[int, weakref.ref]:
    """Return references to the tensors on GPUs, by address.

    Strong ones, and even a local variable of `no_leak`, would keep a tensor that the
    block replaces.
    """
    references = {}
    for address, tensor in _tensors_on_gpus().items():
        references[address] = weakref.ref(tensor)
    return references


def _new_tensors(gpu: Gpu, known: dict[int, weakref.ref]) -> list[Tensor]:
    """Return the tensors on a GPU that are not among those `known` before."""
    tensors = []
    for address, tensor in _tensors_on_gpus().items():
        is_known = address in known and known[address]() is not None
        if tensor.device == gpu.device and not is_known:
            tensors.append(tensor)
    return tensors


def _address(tensor: Tensor) -> int:
    try:
        return tensor.untyped_storage().data_ptr()
    except RuntimeError:  # sparse, or a wrapper: it has no storage
        return id(tensor)


def _list(tensors: list[Tensor]) -> str:
    if not tensors:
        return "; no Python object is a tensor of them, so a graph or C++ holds them"
    names = []
    for tensor in tensors[:NAMED]:
        dtype = str(tensor.dtype).removeprefix("torch.")
        names.append(f"{tuple(tensor.shape)} {dtype}")
    more = f" and {len(tensors) - NAMED} more" if len(tensors) > NAMED else ""
    return f"; still held: {', '.join(names)}{more}"


class _NoCopies(LightMode):
    """Refuse every operation whose operands lie on different devices."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if is_composite(func):
            return decompose(self, func, args, kwargs)
        out = func(*args, **kwargs)
        leaves = tree_leaves((args, kwargs))
        operands = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        if func is read_number:
            _refuse_to_copy(func, operands[0], HOST)
        elif func is to_copy:
            _refuse_to_copy(func, operands[0], out.device)
        elif func is aten.copy_.default:
            _refuse_to_copy(func, operands[1], operands[0].device)
        else:  # such as an index on the CPU; a single number needs no copy
            operands = [operand for operand in operands if operand.dim()]
            for operand in operands:
                _refuse_to_copy(func, operand, operands[0].device)
        return out
