"""Dtypes that CUDA's kernels take and the CPU's do not, and the other way round.

They come from PyTorch's database of operators and from its sources. `kernels.json` is
written by `python cudasim/facts types`.
"""

import functools
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cudasim.device.gpu import GPU
from cudasim.dispatch import random
from cudasim.dispatch.arguments import (
    arguments_by_name,
    map_leaves,
    map_tensors,
    operands_of,
    tensors_in,
)
from cudasim.dispatch.foresight import LARGE_RESULT
from cudasim.dispatch.kernel_names import (
    CPP_NAMES,
    for_arguments,
    kernel_name,
    kernels,
    refusal,
)
from cudasim.dispatch.operators import written_by
from cudasim.dispatch.promotion import common_dtype, operands_promoted_by
from cudasim.dispatch.tables import TABLES
from cudasim.session import session
from cudasim.torch_private.operators import base_name, to_copy, without_in_place
from cudasim.torch_private.tensors import count_stored
from cudasim.words import WORDS

MESSAGES = WORDS["kernels"]
TABLE = Path(__file__).with_name("kernels.json")

# Operators whose dtypes on CUDA the database tells, where the CPU takes more.
CHECKED: list[str] = TABLES["types"]["checked"]
# Operator -> its name in the database, where that is another.
DATABASE_NAMES: dict[str, str] = TABLES["types"]["called"]
# What the CPU computes in where it has no kernel for a dtype.
WIDER = {
    getattr(torch, dtype): getattr(torch, wider)
    for dtype, wider in TABLES["types"]["wider"].items()
}
# Dtypes for which the CPU has kernels that CUDA lacks -> their operators.
REFUSED: dict[torch.dtype, list[str]] = {
    getattr(torch, dtype): names for dtype, names in TABLES["types"]["refused"].items()
}

# Operators that move numbers and look at none of them.
MOVING = (
    "channel_shuffle",
    "flip",
    "index_select",
    "pixel_shuffle",
    "pixel_unshuffle",
)
# Types in which CUDA's kernels keep sums of products, where not in that of the tensors.
SUMS = {torch.float16: torch.float32, torch.bfloat16: torch.float32}
# Bytes of a number -> whole numbers that have as many.
SAME_SIZE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
COMPLEX = (torch.complex64, torch.complex128)
REAL_AND_COMPLEX = (torch.float32, torch.float64, *COMPLEX)
# Of the dtypes without kernels, those that cuDNN knows (native/cudnn/Types.cpp).
KNOWN_TO_CUDNN = (torch.int8, torch.uint8, torch.int32)

Capability = tuple[int, int]
AMPERE = (8, 0)  # the first cards with products of bfloat16


def widened(tensor: Tensor) -> Tensor:
    """Return `tensor` in the type in which sums of its numbers are kept."""
    return tensor.to(SUMS.get(tensor.dtype, tensor.dtype))


class SupportedDtypes(NamedTuple):
    """The dtypes that an operator takes on the CPU and on CUDA."""

    cpu: frozenset[torch.dtype]
    cuda: frozenset[torch.dtype]


def short_name(dtype: torch.dtype) -> str:
    """Return the name of a dtype without its module: `float32`."""
    return str(dtype).removeprefix("torch.")


def scalar_type(dtype: torch.dtype) -> str:
    """Return C++'s name of a type: `Float`, `UInt4`, `QInt8` (c10/core/ScalarType.h)."""
    if dtype in CPP_NAMES:
        return CPP_NAMES[dtype]
    # The rest are whole numbers of a few bits, and quantized ones.
    prefix, _, size = short_name(dtype).partition("int")
    return f"{prefix.upper()}Int{size}"


@functools.cache
def operators() -> dict[str, dict[str, Any]]:
    """Return the operators whose dtypes differ between the CPU and CUDA.

    Each has its dtypes on the `cpu`, and those on `cuda` with the least capability.
    """
    return json.loads(TABLE.read_text(encoding="utf-8"))["operators"]


def entry_of(name: str) -> str | None:
    """Return the name of an operator in `operators()`; None if it is not there."""
    for candidate in (DATABASE_NAMES.get(name, name), f"nn.functional.{name}"):
        if candidate in operators():
            return candidate
    return None


@functools.cache
def supported_dtypes(name: str, capability: Capability) -> SupportedDtypes:
    """Return the dtypes of an operator; empty sets where the CPU and CUDA agree."""
    entry = entry_of(name)
    if entry is None:
        return SupportedDtypes(frozenset(), frozenset())

    row = operators()[entry]
    cuda = set()
    for dtype, least in row["cuda"].items():
        if tuple(map(int, least.split("."))) <= capability:
            cuda.add(getattr(torch, dtype))
    cpu = {getattr(torch, dtype) for dtype in row["cpu"]}
    return SupportedDtypes(frozenset(cpu), frozenset(cuda))


def check(func: Callable, args: tuple, kwargs: dict, gpu: GPU) -> None:
    """Raise CUDA's error if its kernel does not take the dtype of the operands.

    Errors of wrong shapes go first, where there are few numbers to compute with.
    """
    operator = base_name(func)
    if entry_of(operator) is None:
        return
    tensors = operands_of(args, kwargs)
    dtype = _dtype_of_kernel(func, args, kwargs)
    supported = supported_dtypes(operator, gpu.card.capability)
    if dtype not in CPP_NAMES or dtype in supported.cuda:
        return
    if not _is_in_database(func, args, kwargs, tensors):
        return

    _run_on_copies(func, args, kwargs)
    kernel = _kernel_of(operator, dtype)
    if kernel is not None:
        raise refusal(for_arguments(kernel, args), dtype)
    if torch.backends.cudnn.enabled:
        _check_cudnn(dtype)


def _dtype_of_kernel(func: Callable, args: tuple, kwargs: dict) -> torch.dtype | None:
    """Return the dtype by which CUDA chooses the code of a kernel.

    It is None if the operands have no common dtype, which the CPU's kernel refuses too.
    """
    kernel = kernel_name(base_name(func))
    if kernel in kernels()["promoting"]:
        with suppress(RuntimeError):
            return common_dtype(operands_promoted_by(func, args, kwargs))
        return None
    # A norm turns its operand into the dtype that it is asked for.
    return kwargs.get("dtype") or operands_of(args, kwargs)[0].dtype


def _kernel_of(operator: str, dtype: torch.dtype) -> str | None:
    """Return the kernel that looks at the dtype of an operator; None if cuDNN does."""
    if operator == "vdot" and not dtype.is_complex:
        return "dot"  # which computes it (`vdot_cuda` of native/cuda/Blas.cpp)
    return kernel_name(operator)


def check_rare(func: Callable, args: tuple, kwargs: dict) -> None:
    """Raise CUDA's error for a dtype that has a kernel on the CPU alone.

    Elementwise kernels look at the dtype for any number of elements, and after the shapes.
    Others need not run for one element or none.
    """
    operator = base_name(func)
    dtype = _dtype_of_kernel(func, args, kwargs)
    if operator not in REFUSED.get(dtype, ()):
        return
    if torch.Tag.pointwise in func.tags:
        _run_on_copies(func, args, kwargs)
    elif args[0].numel() < 2:
        return
    raise refusal(for_arguments(kernel_name(operator), args), dtype)


def _is_in_database(
    func: Callable, args: tuple, kwargs: dict, tensors: list[Tensor]
) -> bool:
    """Return whether the database tells the dtypes of a call of this kind."""
    if any(tensor.layout is not torch.strided for tensor in tensors):
        return False
    return arguments_by_name(func, args, kwargs).get("reduce") not in ("sum", "mean")


def _run_on_copies(func: Callable, args: tuple, kwargs: dict) -> None:
    """Let the CPU's kernel raise what it has to say, except about dtypes.

    It is not asked about many numbers, with which it would compute for long.
    """
    if sum(tensor.numel() for tensor in operands_of(args, kwargs)) >= LARGE_RESULT:
        return
    with suppress(NotImplementedError):
        args, kwargs = map_tensors(torch.ops.aten.clone.default, (args, kwargs))
        func(*args, **kwargs)


def _check_cudnn(dtype: torch.dtype) -> None:
    if dtype.is_complex:
        return  # a convolution is several of real numbers
    if dtype not in KNOWN_TO_CUDNN:
        raise RuntimeError(
            f"getCudnnDataTypeFromScalarType() not supported for {CPP_NAMES[dtype]}"
        )
    # cuDNN has no kernels for the whole numbers that it knows.
    raise RuntimeError("GET was unable to find an engine to execute this computation")


# Checks of operators that look at more than one dtype.


ROWS_OR_COLUMNS = (torch.sparse_csr, torch.sparse_csc)
COMPRESSED = (*ROWS_OR_COLUMNS, torch.sparse_bsr, torch.sparse_bsc)
PRODUCTS_OF_BLOCKS = (
    (torch.sparse_bsr, torch.strided),
    (torch.strided, torch.sparse_bsc),
)


def check_sparse(gpu: GPU, *factors: Tensor) -> None:
    """Check a product with a sparse matrix."""
    kernel = _kernel_of_product(*factors)
    if kernel is None:
        return
    for factor in factors:
        if factor.layout is not torch.strided and not count_stored(factor):
            return
    dtype = factors[0].dtype
    # cuSPARSE takes halves, if the card has units for them.
    takes_halves = kernel in ("spmm", "spgemm", "sparse_matmul")
    is_half = dtype in (torch.float16, torch.bfloat16)
    if dtype not in REAL_AND_COMPLEX and not (is_half and takes_halves):
        raise refusal(kernel, dtype)
    capability = gpu.card.capability
    if kernel == "sparse_matmul" and dtype is torch.bfloat16 and capability < AMPERE:
        raise RuntimeError(MESSAGES["sparse bfloat16"].format(*capability))


def _kernel_of_product(first: Tensor, second: Tensor) -> str | None:
    """Return the kernel that multiplies by a sparse matrix; None if neither is one.

    See native/sparse/cuda: SparseBlasImpl.cpp, SparseMatMul.cu and SparseCUDATensorMath.cu.
    """
    layouts = {first.layout, second.layout}
    is_vector = second.dim() == 1
    if torch.sparse_coo in layouts:
        if first.dim() == 3:
            return "bmm_sparse_cuda"
        return "sparse_matmul" if len(layouts) == 1 else "addmm_sparse_cuda"
    if (first.layout, second.layout) in PRODUCTS_OF_BLOCKS:
        return "block_sparse_mv" if is_vector else "block_sparse_mm"
    if layouts.isdisjoint(ROWS_OR_COLUMNS):
        return None
    if is_vector:
        return "addmv_out_sparse_csr_cuda_impl"
    return "spmm" if torch.strided in layouts else "spgemm"


def check_norm(image: Tensor, *others: Any) -> None:
    """Check that a normalization has parameters of the dtype of its input."""
    for other in others:
        if isinstance(other, Tensor) and other.dtype is not image.dtype:
            expected = CPP_NAMES[image.dtype]
            actual = CPP_NAMES[other.dtype]
            raise RuntimeError(f"expected scalar type {expected} but found {actual}")


def check_dropout(numbers: Tensor) -> None:
    """Check that the numbers that are dropped are real ones (native/cuda/Dropout.cu)."""
    if not numbers.is_floating_point():
        raise refusal("fused_dropout", numbers.dtype)


def check_margin_weight(image: Tensor, target: Tensor, *weights: Tensor) -> None:
    """Check that weights have the dtype of the scores (native/cuda/MultiMarginLoss.cu)."""
    check_norm(image, *weights)


def check_image_targets(image: Tensor, target: Tensor, *weights: Tensor) -> None:
    """Check that the targets of pixels are int64, as which the kernel reads them.

    It first compares sizes, as the CPU's does (native/cuda/NLLLoss2d.cu).
    """
    sizes = (image.shape[0], *image.shape[2:])
    if target.shape != sizes or target.dtype is torch.long or not target.numel():
        return
    raise RuntimeError(f"expected scalar type Long but found {CPP_NAMES[target.dtype]}")


def check_int_product(first: Tensor, second: Tensor) -> None:
    """Check the shapes of a product of 8-bit integers (native/cuda/Blas.cpp)."""
    if not first.dim() == second.dim() == 2:
        return  # the CPU's kernel says the same of it
    if first.shape[0] <= 16:
        raise RuntimeError(
            f"self.size(0) needs to be greater than 16, but got {len(first)}"
        )
    for name, size in (("self", first.shape[1]), ("mat2", second.shape[1])):
        if not size or size % 8:
            raise RuntimeError(MESSAGES["columns"].format(name, size))


def check_signal(sizes: list[int]) -> None:
    """Check the sizes of a Fourier transform in half precision."""
    if any(size & (size - 1) for size in sizes):
        raise RuntimeError(MESSAGES["signal"].format(sizes))


def compute_wider(
    func: Callable, args: tuple, kwargs: dict, gpu: GPU, error: Exception
) -> Any:
    """Compute in a wider dtype what CUDA has a kernel for and the CPU has not.

    `error` is what the CPU says. The result is rounded once. Returns NotImplemented for any
    other operation, and if the error is not about a missing kernel: a check that comes
    before it, of shapes or of several dtypes, is CUDA's too.
    """
    if not session.type.is_cuda or not _is_about_kernels(error):
        return NotImplemented
    name = func.overloadpacket.__name__
    if name in MOVING and "out" not in kwargs and args[0].dtype in CPP_NAMES:
        return _move(func, args, kwargs)
    dtypes = {tensor.dtype for tensor in operands_of(args, kwargs)}
    dtypes.add(kwargs.get("dtype"))
    common = None
    if torch.Tag.pointwise in func.tags:
        common = common_dtype(operands_promoted_by(func, args, kwargs))
        dtypes.add(common)
    narrow = dtypes & _only_on_cuda(name, gpu.card.capability)
    if not narrow:
        return NotImplemented

    if name == "nansum":
        return _nansum(*args, **kwargs)
    if name.startswith("_fft"):
        _check_fft(name, args)
    wide = {dtype: WIDER[dtype] for dtype in narrow}
    if common is torch.complex32:  # to which halves and a complex number are promoted
        wide[torch.float16] = WIDER[torch.float16]
    result = random.draw(func, _cast(args, wide), _cast(kwargs, wide), gpu)

    written = tensors_in(written_by(func, args, kwargs))
    if not written:
        # An elementwise result has the common dtype, whatever the others are.
        kept = dtypes if common is None else set()
        return _cast(result, _narrowing(wide, kept))
    for target, value in zip(written, tensors_in((result,)), strict=True):
        target.copy_(value)
    return written[0] if len(written) == 1 else tuple(written)


def _is_about_kernels(error: Exception) -> bool:
    """Return whether an error of the CPU says that there is no kernel for a dtype."""
    if isinstance(error, NotImplementedError):
        return True
    return any(words in str(error) for words in MESSAGES["no kernel"])


def _move(func: Callable, args: tuple, kwargs: dict) -> Tensor:
    """Move numbers of a dtype that the CPU lacks as whole numbers with the same bits."""
    view = torch.ops.aten.view.dtype
    source = args[0]
    bits = view(source, SAME_SIZE[source.element_size()])
    return view(func(bits, *args[1:], **kwargs), source.dtype)


def _only_on_cuda(name: str, capability: Capability) -> frozenset[torch.dtype]:
    """Return the dtypes that an operator, or its forward or backward, has on CUDA only."""
    plain = without_in_place(name).removesuffix("_backward").removesuffix("_forward")
    supported = supported_dtypes(plain, capability)
    return supported.cuda - supported.cpu


def _check_fft(name: str, args: tuple) -> None:
    sizes = [args[0].shape[dim] for dim in args[1]]
    if name == "_fft_c2r":
        sizes = [*sizes[:-1], args[3]]
    check_signal(sizes)


def _narrowing(
    wide: dict[torch.dtype, torch.dtype], kept: set[torch.dtype | None]
) -> dict[torch.dtype, torch.dtype]:
    """Return what results are cast to, which were computed with operands cast to `wide`.

    Results of a dtype among those `kept` may have it on CUDA, too.
    """
    narrowing = {}
    for narrow, wider in wide.items():
        if wider not in kept:
            narrowing[wider] = narrow
    if torch.complex32 in wide and torch.float32 not in kept:
        narrowing[torch.float32] = torch.float16  # a magnitude, or an angle
    if torch.float16 in wide and torch.complex64 not in kept:
        narrowing[torch.complex64] = torch.complex32  # a Fourier transform
    return narrowing


def _nansum(
    numbers: Tensor,
    dim: Any = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Sum complex numbers without NaNs, which the CPU refuses."""
    is_half = numbers.dtype is torch.complex32
    wide = numbers.to(torch.complex64) if is_half else numbers
    known = torch.where(numbers.isnan(), 0, wide)
    total = torch.ops.aten.sum.dim_IntList(known, dim, keepdim, dtype=dtype)
    return total.to(numbers.dtype) if dtype is None else total


def _cast(value: Any, dtypes: dict[torch.dtype, torch.dtype]) -> Any:
    """Replace dtypes, and the dtypes of tensors, anywhere in `value`."""

    def cast_leaf(leaf: Any) -> Any:
        if isinstance(leaf, torch.dtype):
            return dtypes.get(leaf, leaf)
        if isinstance(leaf, Tensor) and leaf.dtype in dtypes:
            return to_copy(leaf, dtype=dtypes[leaf.dtype])
        return leaf

    return map_leaves(cast_leaf, value)
