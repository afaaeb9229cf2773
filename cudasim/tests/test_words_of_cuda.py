"""What CUDA's kernels say of arguments before they run, where the CPU's say something else."""

import builtins
import math

import pytest
import torch
from calls import raised
from torch.nn import functional as F

pytestmark = pytest.mark.usefixtures("two_gpus")


def ones(*sizes, dtype=torch.float32):
    return torch.ones(sizes, dtype=dtype, device="cuda")


LONG = torch.int64
# What CUDA's kernels say of arguments before they run, and the files that say it
# (aten/src/ATen/native/cuda).
REFUSALS_ON_HOST = {
    "IndexKernel.cpp, masked_scatter__cuda": (
        lambda: ones(2).masked_scatter(ones(2) > 0, ones(2).half()),
        "RuntimeError: masked_scatter_: expected self and source to have same dtypes "
        "but got Float and Half",
    ),
    "Indexing.cu, masked_fill__cuda": (
        lambda: ones(2).masked_fill(ones(2).byte(), 0),
        "RuntimeError: masked_fill only supports boolean masks, but got dtype Byte",
    ),
    "NLLLoss2d.cu, check_inputs_nll_loss2d": (
        lambda: F.cross_entropy(ones(2, 3, 4, 4), ones(2, 5, 5, dtype=LONG)),
        "RuntimeError: input and target batch or spatial sizes don't match: target "
        "[2, 5, 5], input [2, 3, 4, 4]",
    ),
    "NLLLoss2d.cu, dimensions": (
        lambda: F.cross_entropy(ones(2, 3, 4, 4), ones(2, 4, 4, 1, dtype=LONG)),
        "RuntimeError: only batches of spatial targets supported (3D tensors) but got "
        "targets of size: : [2, 4, 4, 1]",
    ),
    "SummaryOps.cu, an infinite range": (
        lambda: torch.histc(ones(1) * math.inf),
        "RuntimeError: range of [inf, inf] is not finite",
    ),
    "SummaryOps.cu, not a range": (
        lambda: torch.histc(torch.tensor([1, math.nan], device="cuda")),
        "RuntimeError: range of [nan, nan] is not finite",
    ),
    "SummaryOps.cu, whole numbers": (
        lambda: torch.histc(ones(3, dtype=LONG), 4, 3, 1),
        "RuntimeError: max must be larger than min",
    ),
    "SummaryOps.cu, bins": (
        lambda: torch.histc(ones(3), 0),
        "RuntimeError: bins must be > 0",
    ),
    "LossCTC.cu, ctc_loss_gpu_template": (
        lambda: F.ctc_loss(ones(4, 1, 3), ones(1, 1, dtype=LONG), [5], [1]),
        "RuntimeError: Expected input_lengths to have value at most 4, but got value 5 "
        "(while checking arguments for ctc_loss_gpu)",
    ),
    "Indexing.cu, index_select_out_cuda_impl": (
        lambda: ones(2).index_select(0, ones(1, 1, dtype=LONG)),
        "RuntimeError: Index is supposed to be an empty tensor or a vector",
    ),
    "Indexing.cu, the dtype of an index": (
        lambda: ones(2).index_select(0, ones(1)),
        "NotImplementedError: \"index_select_out_cuda_impl\" not implemented for 'Float'",
    ),
    "TriangularOps.cu, trace_cuda": (
        lambda: ones(3).trace(),
        "RuntimeError: expected a matrix",
    ),
    "ReflectionPad.cu, two dimensions": (
        lambda: F.pad(ones(1, 1, 4, 4), (9, 9, 0, 0), mode="reflect"),
        "RuntimeError: Padding size should be less than the corresponding input "
        "dimension, but got: padding (9, 9) at dimension 3 of input [1, 1, 4, 4]",
    ),
    # One dimension is checked in native/ReflectionPad.cpp, for the CPU and CUDA.
    "ReflectionPad.cpp": (
        lambda: F.pad(ones(1, 1, 4), (9, 9), mode="reflect"),
        "RuntimeError: Argument #4: Padding size should be less than the corresponding "
        "input dimension, but got: padding (9, 9) at dimension 2 of input [1, 1, 4]",
    ),
    "MaxUnpooling.cu, dimensions": (
        lambda: F.max_unpool2d(ones(4, 4), ones(4, 4, dtype=LONG), 2),
        "RuntimeError: Input to max_unpooling2d should be a 3d or 4d Tensor, but got "
        "tensor with dimension: 2",
    ),
    "MaxUnpooling.cu, shapes": (
        lambda: F.max_unpool2d(ones(1, 2, 2), ones(1, 2, 1, dtype=LONG), 2),
        "RuntimeError: Expected shape of indices to be: [1, 2, 2] but got: [1, 2, 1]",
    ),
}


@pytest.mark.parametrize("case", REFUSALS_ON_HOST)
def test_kernels_of_cuda_check_arguments_in_their_own_words(case):
    call, expected = REFUSALS_ON_HOST[case]
    kind, message = expected.split(": ", 1)
    assert raised(call, getattr(builtins, kind)) == message
