"""The errors of the CPU's kernels in the words of CUDA's, and the names of those kernels.

The CPU's kernels have other names (`add_stub`, `exp_vml_cpu`), which no GPU would print.
`kernel_names.json` comes from PyTorch's sources and is written by `python cudasim/facts
types --sources FOLDER`.
"""

import builtins
import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cudasim.dispatch.arguments import arguments_by_name
from cudasim.dispatch.native_functions import backends_of
from cudasim.dispatch.operators import name_of
from cudasim.dispatch.tables import TABLES
from cudasim.session import session
from cudasim.words import WORDS

MESSAGES = WORDS["kernels"]
TABLE = Path(__file__).with_name("kernel_names.json")

# What C++ calls a dtype.
CPP_NAMES = {
    getattr(torch, dtype): name for dtype, name in TABLES["types"]["in_c++"].items()
}
# What the CPU's names end in where CUDA's end in `_cuda`, the longest first.
SUFFIXES = ("_cpu_reduced_float", "_vml_cpu", "_out_cpu", "_cpu_out", "_cpu", "")
# Names of the CPU's kernels -> of CUDA's, where they differ in more than that.
OTHER_NAMES = {
    "clamp_min_scalar_cpu": "clamp_scalar_cuda",
    "div_cpu": "div_true_cuda",
    "div_cpu_reduced_float": "div_true_cuda",
    "maximum_cpu": "max_elementwise_cuda",
}
# Kernels of two parts: that of floating-point numbers has a name of its own
# (native/cuda/MaxMinElementwiseKernel.cu).
FLOATING = {"minimum_cuda": "min_elementwise_cuda"}
# What sorts up to so many numbers (native/cuda/Sort.h, Sort.cu).
SMALL_SORT = "sortKeyValueInplace"
SMALL_SIZE = 4096
# Kernels for images whose channels are last, and of how many channels at least. Others go to a
# kernel of the same name without `nhwc_` (UpSampleNearest2d.cu, AdaptiveAveragePooling.cu).
LEAST_CHANNELS = {
    "adaptive_avg_pool2d_nhwc_cuda": 0,
    "adaptive_avg_pool2d_backward_nhwc_cuda": 0,
    "upsample_nearest2d_nhwc_out_frame": 4,
    "upsample_nearest2d_backward_nhwc_out_frame": 4,
}
# A name that kernels with different dtypes share.
SHARED = "cuda_scatter_gather_base_kernel_func"

REFUSAL = re.compile(
    r"\"(?P<kernel>[^\"]+)\" not implemented for '(?P<dtype>\w+)'"
    # The way of the CPU alone, in native/ReduceOps.cpp.
    r"|std_var_all: Unsupported dtype (?P<unsupported>\w+)"
)
# The dispatcher's words for an operator without a kernel, with the layout of the tensors.
COULD_NOT_RUN = re.compile(
    r"Could not run '(\S+)' with arguments from the '(\w*)CPU' backend"
)
# The CPU's words in native/cpu/SortingKernel.cpp; CUDA's are in native/cuda/Sort.cpp.
COMPLEX_SORT = " Sort does not support complex dtypes on CPU"
TOPK = re.compile(r" ?topk does not support \w+ dtypes on CPU")
# Dtypes that C++ prints as Python does: the old ones (csrc/utils/tensor_types.cpp).
OLD_DTYPES = ("Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short")
# How C++ prints the types of tensors on the CPU.
OLD_TYPE_OF_CPU = re.compile(r"\btorch\.(?=(?:sparse\.)?[A-Z]\w*Tensor\b)")
TYPE_OF_CPU = re.compile(r"CPU(?=[A-Z]\w*Type\b)")


class DescribedTensor(NamedTuple):
    """A tensor among the arguments of a call, as C++ prints it."""

    dtype: str
    sizes: str


class OtherWords(NamedTuple):
    """What CUDA's kernels say where the CPU's say something else of the same fault."""

    pattern: re.Pattern  # of the CPU's words
    text: str  # with the groups of the pattern, and the tensors of the call by name
    error: type[Exception] | None = None  # if it is not the CPU's
    operators: tuple[str, ...] = ()  # all, if none is named

    def put_into(
        self, error: Exception, match: re.Match, tensors: dict[str, DescribedTensor]
    ) -> Exception:
        """Return `error` with CUDA's words where `match` found the CPU's."""
        text = self.text.format(*match.groups(), **tensors)
        said = str(error)
        error_type = self.error or type(error)
        return error_type(said[: match.start()] + text + said[match.end() :])


def _other_words(
    pattern: str, text: str, error: str = "", operators: Iterable[str] = ()
) -> OtherWords:
    error_type = getattr(builtins, error) if error else None
    return OtherWords(re.compile(pattern), text, error_type, tuple(operators))


# The texts of CUDA's come from native/cuda. The first that fits holds.
OTHER_WORDS = [_other_words(**words) for words in MESSAGES["other words"]]


@functools.cache
def kernels() -> dict[str, Any]:
    """Return the kernel of each of the `operators`, and the dtypes of all `kernels`.

    Those that are `promoting` choose their code by the common dtype of their operands.
    """
    return json.loads(TABLE.read_text(encoding="utf-8"))


def kernel_name(operator: str, cpu_name: str = "") -> str | None:
    """Return the name of the kernel that CUDA runs for an operator, None if unknown.

    `cpu_name` is that of the CPU's kernel, which tells apart the kernels of an operator.
    """
    known = kernels()["kernels"]
    candidates = [kernels()["operators"].get(operator), OTHER_NAMES.get(cpu_name)]
    if candidates[0] is not None:
        return candidates[0]
    candidates += [cpu_name, cpu_name.replace("_cpu", "_cuda")]
    for suffix in SUFFIXES:
        if cpu_name.endswith(suffix):
            candidates.append(f"{cpu_name.removesuffix(suffix)}_cuda")
    return next((name for name in candidates if name in known), None)


def refusal(kernel: str, dtype: torch.dtype) -> NotImplementedError:
    """Return the error of a kernel that does not take a dtype."""
    kernel = FLOATING.get(kernel, kernel) if dtype.is_floating_point else kernel
    message = MESSAGES["not implemented"].format(kernel, CPP_NAMES[dtype])
    return NotImplementedError(message)


def for_arguments(kernel: str, args: tuple) -> str:
    """Return the name of the kernel for these arguments, where it depends on them."""
    if kernel == "sort" and max(args[0].shape, default=0) <= SMALL_SIZE:
        return SMALL_SORT
    if kernel in LEAST_CHANNELS and not _has_channels_last(kernel, args):
        return kernel.replace("nhwc_", "")
    return kernel


def _has_channels_last(kernel: str, args: tuple) -> bool:
    """Return whether a kernel for images whose channels are last takes this one."""
    image = [value for value in args if isinstance(value, Tensor)][-1]
    if image.dim() != 4 or image.is_contiguous():
        return False
    is_last = image.is_contiguous(memory_format=torch.channels_last)
    return is_last and image.shape[1] >= LEAST_CHANNELS[kernel]


def type_on_gpu(dtype: torch.dtype) -> str:
    """Return how C++ prints the type of a dense tensor on a GPU."""
    name = CPP_NAMES[dtype]
    if name in OLD_DTYPES:
        return session.type.tensor_type(f"torch.{session.type.name}.{name}Tensor")
    return f"{session.type.key}{name}Type"


def _with_types_on_gpu(error: Exception) -> Exception:
    """Return `error` with the types of tensors as C++ prints them for those on a GPU."""
    text = OLD_TYPE_OF_CPU.sub("torch.cuda.", str(error))
    text = TYPE_OF_CPU.sub("CUDA", text)
    return error if text == str(error) else type(error)(text)


def as_on_cuda(func: Callable, args: tuple, error: Exception) -> Exception:
    """Return the error that CUDA raises instead of the CPU's, which may be the same."""
    if not session.type.is_cuda:
        return error
    error = _with_types_on_gpu(error)
    if str(error) == COMPLEX_SORT:
        if args[0].dtype is torch.complex32:  # which CUDA's check leaves out
            return refusal(SMALL_SORT, args[0].dtype)
        return RuntimeError(MESSAGES["sort"])
    if TOPK.fullmatch(str(error)):
        return refusal("topk_out_cuda", args[0].dtype)
    operator = name_of(func)
    for words in OTHER_WORDS:
        match = words.pattern.search(str(error))
        if match is not None and (not words.operators or operator in words.operators):
            return words.put_into(error, match, _described_tensors(func, args))
    match = REFUSAL.fullmatch(str(error))
    if match is None:
        return error

    cpp_name = match["dtype"] or match["unsupported"]
    dtype = _dtypes().get(cpp_name)
    kernel = kernel_name(operator, match["kernel"] or "")
    if dtype is None or kernel is None:
        message = MESSAGES["no name"].format(operator, cpp_name)
        return NotImplementedError(message)
    kernel = for_arguments(kernel, args)
    taken = kernels()["kernels"].get(kernel, ())
    if kernel != SHARED and str(dtype).removeprefix("torch.") in taken:
        return NotImplementedError(MESSAGES["not here"].format(operator, cpp_name))
    return refusal(kernel, dtype)


def _described_tensors(func: Callable, args: tuple) -> dict[str, DescribedTensor]:
    described = {}
    for name, value in arguments_by_name(func, args, {}).items():
        if isinstance(value, Tensor) and value.dtype in CPP_NAMES:
            sizes = str(list(value.shape))
            described[name] = DescribedTensor(CPP_NAMES[value.dtype], sizes)
    return described


def name_backend(error: Exception) -> None:
    """Put CUDA into the error for an operator without a kernel for the CPU.

    If CUDA has the kernel, the error says that it is missing here.
    """
    match = COULD_NOT_RUN.match(str(error))
    if match is None or not session.type.is_cuda:
        return
    name, layout = match.groups()
    key = f"{layout}CUDA"
    if key in backends_of(name):
        error.args = (MESSAGES["CUDA alone"].format(name, key),)
        return
    text = str(error).replace(f"'{layout}CPU' backend", f"'{key}' backend", 1)
    error.args = (text,)


@contextmanager
def named_as_on_cuda(func: Callable, args: tuple) -> Iterator[None]:
    """Raise the error of CUDA for that of the CPU's kernel, which runs within."""
    try:
        yield
    except (RuntimeError, IndexError) as error:
        error_on_cuda = as_on_cuda(func, args, error)
        if error_on_cuda is error:
            raise
        raise error_on_cuda from None


@functools.cache
def _dtypes() -> dict[str, torch.dtype]:
    return {name: dtype for dtype, name in CPP_NAMES.items()}
