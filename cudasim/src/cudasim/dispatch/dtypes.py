"""Types that CUDA's kernels take and the CPU's do not, and the other way: from PyTorch's database
of operators (`python cudasim/facts types` writes `kernels.json`) and its sources."""

import functools
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cudasim.device.gpu import GPU
from cudasim.dispatch import random
from cudasim.dispatch.arguments import given, mapped, mapped_tensors, tensors_in
from cudasim.dispatch.foresight import COUNT
from cudasim.dispatch.operators import written_by
from cudasim.dispatch.tables import TABLES
from cudasim.dispatch.tags import gpu_of
from cudasim.session import session
from cudasim.words import WORDS

SAID = WORDS["kernels"]
TABLE = Path(__file__).with_name("kernels.json")

# Operator -> CUDA's kernel, which looks at its type, or None for cuDNN; what an operator is called
# in the database, if otherwise; and those without a kernel of CUDA, which the dispatcher refuses.
KERNELS, CALLED, ABSENT, _wider, _in_cpp = TABLES["types"].values()
# What a type is computed in where the CPU has no kernel for it; and what C++ calls a type.
WIDER = {
    getattr(torch, dtype): getattr(torch, wider) for dtype, wider in _wider.items()
}
NAMES = {getattr(torch, dtype): name for dtype, name in _in_cpp.items()}

REAL_AND_COMPLEX = (torch.float32, torch.float64, torch.complex64, torch.complex128)
SCALED = (8, 9)  # the least capability of products of 8-bit floats


def short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@functools.cache
def operators() -> dict[str, dict[str, Any]]:
    return json.loads(TABLE.read_text(encoding="utf-8"))["operators"]


def entry_of(name: str) -> str | None:
    """What the database calls an operator; None where all kernels take the same types."""
    called = CALLED.get(name, name), f"nn.functional.{name}"
    return next((each for each in called if each in operators()), None)


@functools.cache
def taken(name: str, capability: tuple[int, int]) -> tuple[frozenset, frozenset]:
    """The types that the CPU takes for an operator, and CUDA on such cards, where they differ."""
    entry = operators().get(entry_of(name), {"cpu": (), "cuda": {}})
    known = (
        dtype
        for dtype, least in entry["cuda"].items()
        if tuple(map(int, least.split("."))) <= capability
    )
    cpu, cuda = (
        {getattr(torch, dtype) for dtype in dtypes} for dtypes in (entry["cpu"], known)
    )
    return frozenset(cpu), frozenset(cuda)


def check(func: Callable, args: tuple, kwargs: dict, gpu: GPU) -> None:
    """Raise CUDA's error if its kernel takes other types. Wrong shapes of few numbers go first."""
    operator = func.overloadpacket.__name__.removesuffix("_")
    tensors = tensors_in((*args, *kwargs.values()))
    first = tensors[0]  # its type chooses the kernel
    name, kernel = NAMES.get(first.dtype), KERNELS[operator]
    if name is None or first.dtype in taken(operator, gpu.card.capability)[1]:
        return
    listed = all(
        tensor.layout is torch.strided for tensor in tensors
    )  # in the database
    if not listed or given(func, args, kwargs).get("reduce") in ("sum", "mean"):
        return
    if sum(tensor.numel() for tensor in tensors) < COUNT:
        with suppress(NotImplementedError):  # of the CPU's kernel for that type
            copies = mapped_tensors(torch.ops.aten.clone.default, (args, kwargs))
            func(*copies[0], **copies[1])
    if kernel is not None:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{name}'")
    if not torch.backends.cudnn.enabled:
        return
    if first.dtype in (
        torch.int64,
        torch.int16,
        torch.bool,
    ):  # cuDNN has no name for them
        raise RuntimeError(f"getCudnnDataTypeFromScalarType() not supported for {name}")
    if (
        not first.is_floating_point() and not first.is_complex()
    ):  # it has, and no kernel
        raise RuntimeError(
            "GET was unable to find an engine to execute this computation"
        )


# These are refused as well, by operators that look at more than one type.
def check_sparse(*operands: Tensor) -> None:
    """Of a product with a sparse matrix (native/sparse/cuda/SparseCUDABlas.cpp)."""
    for each in operands:
        if (
            each.layout is torch.sparse_coo
            and each._nnz()
            and each.dtype not in REAL_AND_COMPLEX
        ):
            name = NAMES[each.dtype]
            raise NotImplementedError(
                f"\"addmm_sparse_cuda\" not implemented for '{name}'"
            )


def check_norm(image: Tensor, shape: Any, *parameters: Tensor | None) -> None:
    for each in parameters:
        if isinstance(each, Tensor) and each.dtype is not image.dtype:
            expected, found = NAMES[image.dtype], NAMES[each.dtype]
            raise RuntimeError(f"expected scalar type {expected} but found {found}")


def check_int(first: Tensor, second: Tensor) -> None:
    """Of a product of 8-bit integers (native/cuda/Blas.cpp)."""
    if not first.dim() == second.dim() == 2:
        return  # of which the CPU's kernel says the same
    if first.shape[0] <= 16:
        raise RuntimeError(
            f"self.size(0) needs to be greater than 16, but got {len(first)}"
        )
    for name, size in (("self", first.shape[1]), ("mat2", second.shape[1])):
        if not size or size % 8:
            raise RuntimeError(SAID["columns"].format(name, size))


def check_scaled(first: Tensor, second: Tensor, *scales: Tensor) -> None:
    gpu = gpu_of(first)
    if gpu is None:
        return
    if gpu.card.capability < SCALED:
        raise RuntimeError(SAID["scaled"])
    if first.dtype is second.dtype is torch.float8_e5m2:
        raise RuntimeError(
            "Multiplication of two Float8_e5m2 matrices is not supported"
        )
    if any(each.stride(0) != 1 and each.shape[1] > 1 for each in (first.t(), second)):
        raise RuntimeError(SAID["heuristic"])


def check_signal(sizes: list[int]) -> None:
    if any(size & (size - 1) for size in sizes):
        raise RuntimeError(SAID["signal"].format(sizes))


def widened(func: Callable, args: tuple, kwargs: dict, gpu: GPU) -> Any:
    """What CUDA has and the CPU lacks, in a wider type, rounded once; NotImplemented for others."""
    if not session.type.lists_kernels:
        return NotImplemented
    name = func.overloadpacket.__name__
    plain = name.removesuffix("_").removesuffix("_backward").removesuffix("_forward")
    cpu, cuda = taken(plain, gpu.card.capability)
    tensors = tensors_in((*args, *kwargs.values()))
    types = {kwargs.get("dtype"), *(tensor.dtype for tensor in tensors)}
    narrow = types & (cuda - cpu)
    if not narrow:
        return NotImplemented
    if name == "nansum":
        return _nansum(*args, **kwargs)
    if name.startswith("_fft"):
        sizes = [args[0].shape[dim] for dim in args[1]]
        check_signal([*sizes[:-1], args[3]] if name == "_fft_c2r" else sizes)
    wide = {dtype: WIDER[dtype] for dtype in narrow}
    found = random.draw(func, _cast(args, wide), _cast(kwargs, wide), gpu)
    written = tensors_in(written_by(func, args, kwargs))
    if not written:
        back = {wider: dtype for dtype, wider in wide.items() if wider not in types}
        if torch.complex32 in narrow and torch.float32 not in types:
            back[torch.float32] = torch.float16  # a magnitude, an angle
        return _cast(found, back)
    for target, value in zip(written, tensors_in((found,)), strict=True):
        target.copy_(value)
    return written[0] if len(written) == 1 else tuple(written)


def _nansum(
    numbers: Tensor,
    dim: Any = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """The sum of complex numbers without those that are none, which the CPU refuses."""
    wide = torch.complex64 if numbers.dtype is torch.complex32 else numbers.dtype
    known = torch.where(numbers.isnan(), 0, numbers.to(wide))
    found = torch.ops.aten.sum.dim_IntList(known, dim, keepdim, dtype=dtype)
    return found.to(numbers.dtype) if dtype is None else found


def _cast(value: Any, types: dict[torch.dtype, torch.dtype]) -> Any:
    def partner(item: Any) -> Any:
        if isinstance(item, torch.dtype):
            return types.get(item, item)
        wanted = types.get(item.dtype) if isinstance(item, Tensor) else None
        return (
            item
            if wanted is None
            else torch.ops.aten._to_copy.default(item, dtype=wanted)
        )

    return mapped(partner, value)
