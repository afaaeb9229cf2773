"""Types that CUDA's kernels take and the CPU's do not, and the other way.

`kernels.json` has the types, from PyTorch's database of operators: `python cudasim/facts types`.
Which kernel refuses, and in which words, is from PyTorch's sources: AT_DISPATCH names a kernel.
"""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cudasim.device.gpu import GPU
from cudasim.dispatch import random
from cudasim.dispatch.arguments import mapped, named_tensors, tensors_in
from cudasim.dispatch.tags import gpu_of
from cudasim.session import session

TABLE = Path(__file__).with_name("kernels.json")

# Operator -> (its name in the database, CUDA's kernel, or None for cuDNN).
KERNELS = {
    "mm": ("mm", "addmm_cuda"),
    "addmm": ("addmm", "addmm_cuda"),
    "_addmm_activation": ("addmm", "addmm_cuda"),
    "addbmm": ("addbmm", "addmm_cuda"),
    "bmm": ("bmm", "baddbmm_cuda"),
    "baddbmm": ("baddbmm", "baddbmm_cuda"),
    "_trilinear": ("nn.functional.bilinear", "baddbmm_cuda"),
    "mv": ("mv", "addmv_impl_cuda"),
    "addmv": ("addmv", "addmv_impl_cuda"),
    "dot": ("dot", "dot"),
    "vdot": ("vdot", "dot"),
    "convolution": ("nn.functional.conv2d", None),
    "avg_pool2d": ("nn.functional.avg_pool2d", "avg_pool2d_out_cuda_frame"),
    "avg_pool3d": ("nn.functional.avg_pool3d", "avg_pool3d_out_cuda"),
    "max_pool2d_with_indices": (
        "nn.functional.max_pool2d",
        "max_pool2d_with_indices_out_cuda_frame",
    ),
    "max_pool3d_with_indices": ("nn.functional.max_pool3d", "max_pool3d_with_indices_out_frame"),
    "upsample_bilinear2d": (
        "nn.functional.interpolate.bilinear",
        "upsample_bilinear2d_out_frame",
    ),
    "upsample_bicubic2d": ("nn.functional.interpolate.bicubic", "upsample_bicubic2d_out_frame"),
    "_upsample_bilinear2d_aa": ("_upsample_bilinear2d_aa", "upsample_bilinear2d_out_frame"),
    "_upsample_bicubic2d_aa": ("_upsample_bilinear2d_aa", "upsample_bilinear2d_out_frame"),
    "igamma": ("igamma", "igamma_cuda"),
    "igammac": ("igammac", "igammac_cuda"),
    "angle": ("angle", "angle_cuda"),
    "histc": ("histc", "histc"),
    "linalg_vector_norm": ("norm", "norm_cuda"),
    "norm": ("norm", "norm_cuda"),
    "native_dropout_backward": ("native_dropout_backward", "masked_scale"),
    "scatter_reduce": ("scatter_reduce.prod", "cuda_scatter_gather_base_kernel_func"),
}
# Operators without a kernel of CUDA, which the dispatcher refuses.
ABSENT = (
    "_add_relu _histogramdd_bin_edges _histogramdd_from_bin_cts _histogramdd_from_bin_tensors "
    "_spdiags _upsample_lanczos2d_aa histogram"
).split()

REAL_AND_COMPLEX = (torch.float32, torch.float64, torch.complex64, torch.complex128)
SCALED = (8, 9)  # the least capability of products of 8-bit floats

# What a type is computed in where the CPU has no kernel for it.
WIDER = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.complex32: torch.complex64,
    torch.bool: torch.uint8,
    **dict.fromkeys(
        (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64), torch.float64
    ),
}
# Operators that are called otherwise in the database.
CALLED = {
    "_fft_c2c": "fft.fft",
    "_fft_c2r": "fft.irfft",
    "_fft_r2c": "fft.rfft",
    "convolution": "nn.functional.conv2d",
    "diagonal_copy": "diag",
    "div": "true_divide",
    "linalg_vector_norm": "norm",
    "round": "round.decimals_3",
    "rrelu_with_noise": "nn.functional.rrelu",
    "polygamma": "polygamma.polygamma_n_1",
}

# What C++ calls the types.
_CALLED = "Half BFloat16 ComplexHalf Bool Char Byte Short Int Long Float Double ComplexFloat "
_CALLED += "ComplexDouble"
NAMES = dict(zip((*WIDER, *REAL_AND_COMPLEX), _CALLED.split(), strict=True))


def short(dtype: torch.dtype) -> str:
    """The name of a type in the table: `float32`."""
    return str(dtype).removeprefix("torch.")


@functools.cache
def operators() -> dict[str, dict[str, Any]]:
    """Name in PyTorch's database -> the types of the CPU's kernels and of CUDA's."""
    return json.loads(TABLE.read_text(encoding="utf-8"))["operators"]


@functools.cache
def _taken(name: str, capability: tuple[int, int]) -> frozenset[torch.dtype]:
    """The types that CUDA takes for the operator of that name, on cards of that capability."""
    return frozenset(
        getattr(torch, dtype)
        for dtype, least in operators()[name]["cuda"].items()
        if tuple(map(int, least.split("."))) <= capability
    )


# Refused: the CPU takes them, CUDA does not


def check(func: Callable, args: tuple, kwargs: dict, gpu: GPU) -> None:
    """Raise CUDA's error if its kernel for `func` does not take the type of these arguments.

    What is wrong with their shapes comes first, as there: kernels are chosen by type last.
    """
    entry, kernel = KERNELS[func.overloadpacket.__name__.removesuffix("_")]
    named = dict(named_tensors(func, args, kwargs))
    first = next(iter(named.values()))  # its type chooses the kernel
    name = NAMES.get(first.dtype)
    if name is None or first.dtype in _taken(entry, gpu.card.capability):
        return
    if any(tensor.layout is not torch.strided for tensor in named.values()):
        return  # other kernels, which the database does not list
    if "reduce" in func._schema.name and _reduction(args, kwargs) in ("sum", "mean"):
        return
    _check_shapes(func, args, kwargs)
    if kernel is not None:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{name}'")
    if not torch.backends.cudnn.enabled:
        return
    if first.dtype in (torch.int64, torch.int16, torch.bool):  # cuDNN has no name for them
        raise RuntimeError(f"getCudnnDataTypeFromScalarType() not supported for {name}")
    if not first.is_floating_point() and not first.is_complex():  # it has, and no kernel
        raise RuntimeError("GET was unable to find an engine to execute this computation")


def check_sparse(added: Tensor, matrix: Tensor, *dense: Tensor) -> None:
    """Raise CUDA's error for a product with a sparse matrix of a type that it does not compute.

    As in aten/src/ATen/native/sparse/cuda/SparseCUDABlas.cpp.
    """
    if matrix.layout is torch.sparse_coo and matrix._nnz() and matrix.dtype not in REAL_AND_COMPLEX:
        name = NAMES[matrix.dtype]
        raise NotImplementedError(f"\"addmm_sparse_cuda\" not implemented for '{name}'")


def check_norm(image: Tensor, shape: Any, *parameters: Tensor | None) -> None:
    """Raise CUDA's error where a layer norm has parameters of another type than its input."""
    for each in parameters:
        if isinstance(each, Tensor) and each.dtype is not image.dtype:
            expected, found = NAMES[image.dtype], NAMES[each.dtype]
            raise RuntimeError(f"expected scalar type {expected} but found {found}")


def check_int(first: Tensor, second: Tensor) -> None:
    """Raise CUDA's error for sizes that its product of 8-bit integers does not take.

    As in aten/src/ATen/native/cuda/Blas.cpp.
    """
    if not first.dim() == second.dim() == 2:
        return  # of which the CPU's kernel says the same
    (rows, inner), columns = first.shape, second.shape[1]
    if rows <= 16:
        raise RuntimeError(f"self.size(0) needs to be greater than 16, but got {rows}")
    for name, size in (("self", inner), ("mat2", columns)):
        if not size or size % 8:
            raise RuntimeError(
                f"{name}.size(1) needs to be greater than 0 and a multiple of 8, but got {size}"
            )


def check_scaled(first: Tensor, second: Tensor, *scales: Tensor) -> None:
    """Raise CUDA's error for products of 8-bit floats that the card or its library lacks."""
    gpu = gpu_of(first)
    if gpu is None:
        return
    if gpu.card.capability < SCALED:
        raise RuntimeError(
            "torch._scaled_mm is only supported on CUDA devices with compute capability "
            ">= 9.0 or 8.9, or ROCm MI300+"
        )
    if first.dtype is second.dtype is torch.float8_e5m2:
        raise RuntimeError("Multiplication of two Float8_e5m2 matrices is not supported")
    if second.stride(0) != 1 and second.shape[1] > 1:
        raise RuntimeError(
            "CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling "
            "`cublasLtMatmulAlgoGetHeuristic( ltHandle, computeDesc.descriptor(), "
            "Adesc.descriptor(), Bdesc.descriptor(), Cdesc.descriptor(), Ddesc.descriptor(), "
            "preference.descriptor(), 1, &heuristicResult, &returnedResult)`"
        )


def _reduction(args: tuple, kwargs: dict) -> str:
    """What `scatter_reduce` was asked for, the fifth of its arguments."""
    return args[4] if len(args) > 4 else kwargs["reduce"]


def _check_shapes(func: Callable, args: tuple, kwargs: dict) -> None:
    """Raise what PyTorch says of the shapes of these arguments, if they do not fit."""
    try:
        func(*mapped(_copied, args), **mapped(_copied, kwargs))
    except NotImplementedError:
        return  # of the CPU's kernel for that type


def _copied(value: Any) -> Any:
    """A copy of a tensor, which may be written to; what is no tensor is itself."""
    return torch.ops.aten.clone.default(value) if isinstance(value, Tensor) else value


# Computed in a wider type: CUDA takes them, the CPU does not


def widened(func: Callable, args: tuple, kwargs: dict, gpu: GPU) -> Any:
    """What `func` gives where the CPU has no kernel for a type that CUDA takes, on `gpu`.

    It is computed in a wider type and rounded once. NotImplemented if CUDA does not take it.
    """
    if not session.type.lists_kernels:
        return NotImplemented
    types = {tensor.dtype for tensor in tensors_in((*args, *kwargs.values()))}
    types.add(kwargs.get("dtype"))
    name = func.overloadpacket.__name__
    narrow = types & _only_on_cuda(name, gpu.card.capability)
    if not narrow:
        return NotImplemented
    if name == "nansum":
        return _nansum(args, kwargs)
    if name.startswith("_fft"):
        sizes = [args[0].shape[dim] for dim in args[1]]
        check_signal([*sizes[:-1], args[3]] if name == "_fft_c2r" else sizes)
    wide = {dtype: WIDER[dtype] for dtype in narrow}
    written = [
        tensor
        for argument, (name, tensor) in _with_arguments(func, args, kwargs)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    found = random.draw(func, _cast(args, wide), _cast(kwargs, wide), gpu)
    back = {wider: dtype for dtype, wider in wide.items() if wider not in types}
    if torch.complex32 in narrow and torch.float32 not in types:
        back[torch.float32] = torch.float16  # a magnitude, an angle
    if not written:
        return _cast(found, back)
    for target, value in zip(written, tensors_in((found,)), strict=True):
        target.copy_(value)
    return written[0] if len(written) == 1 else tuple(written)


def _nansum(args: tuple, kwargs: dict) -> Tensor:
    """The sum of complex numbers without those that are none, which the CPU refuses."""
    given = args[0]
    wide = torch.complex64 if given.dtype is torch.complex32 else given.dtype
    known = torch.where(given.isnan(), 0, given.to(wide))
    dims = args[1:] if len(args) > 1 or "dim" in kwargs else (None,)
    found = torch.ops.aten.sum.dim_IntList(known, *dims, **kwargs)
    return found if "dtype" in kwargs else found.to(given.dtype)


def check_signal(sizes: list[int]) -> None:
    """Raise cuFFT's error for signals in half precision of sizes that are no powers of two."""
    if any(size & (size - 1) for size in sizes):
        raise RuntimeError(
            "cuFFT only supports dimensions whose sizes are powers of two when computing in half "
            f"precision, but got a signal size of{sizes}"
        )


def _with_arguments(func: Callable, args: tuple, kwargs: dict) -> list:
    """(what the schema says of it, (its name, tensor)) for every tensor among the arguments."""
    arguments = {argument.name: argument for argument in func._schema.arguments}
    return [(arguments[found[0]], found) for found in named_tensors(func, args, kwargs)]


@functools.cache
def _only_on_cuda(name: str, capability: tuple[int, int]) -> frozenset[torch.dtype]:
    """The types that CUDA's kernels for an operator, or its gradient, take and the CPU's do not."""
    base = name.removesuffix("_").removesuffix("_backward").removesuffix("_forward")
    for called in (CALLED.get(base, base), f"nn.functional.{base}"):
        entry = operators().get(called)
        if entry is not None:
            mine = {getattr(torch, dtype) for dtype in entry["cpu"]}
            return frozenset(_taken(called, capability) - mine)
    return frozenset()


def _cast(value: Any, types: dict[torch.dtype, torch.dtype]) -> Any:
    """`value` with the tensors and types in it that are of one of `types` made its partner."""

    def partner(item: Any) -> Any:
        if isinstance(item, torch.dtype):
            return types.get(item, item)
        wanted = types.get(item.dtype) if isinstance(item, Tensor) else None
        return item if wanted is None else torch.ops.aten._to_copy.default(item, dtype=wanted)

    return mapped(partner, value)
