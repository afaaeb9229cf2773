"""What CUDA's kernels say of arguments before they run, where the CPU's say something else."""

import builtins
import functools
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
    "MultiMarginLoss.cu, weights.const_data_ptr": (
        lambda: F.multi_margin_loss(ones(1, 2).half(), ones(1).long(), weight=ones(2)),
        "RuntimeError: expected scalar type Half but found Float",
    ),
    "NLLLoss2d.cu, target_.const_data_ptr": (
        lambda: F.cross_entropy(ones(2, 3, 4, 4), ones(2, 4, 4).int()),
        "RuntimeError: expected scalar type Long but found Int",
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


IMAGE = functools.partial(ones, 1, 4, 4, 4, dtype=LONG)
LAST = torch.channels_last
# Calls with whole numbers, by the kernels that refuse them; UpSampleNearest2d.cu,
# AdaptiveAveragePooling.cu, and sparse/cuda/SparseBlasImpl.cpp and SparseMatMul.cu.
KERNELS_BY_LAYOUT = {
    "upsample_nearest2d_out_frame": lambda: F.interpolate(IMAGE(), scale_factor=2),
    "upsample_nearest2d_nhwc_out_frame": lambda: F.interpolate(
        IMAGE().to(memory_format=LAST), scale_factor=2
    ),
    "adaptive_avg_pool2d_cuda": lambda: F.adaptive_avg_pool2d(IMAGE(), 2),
    "adaptive_avg_pool2d_nhwc_cuda": lambda: F.adaptive_avg_pool2d(
        IMAGE().to(memory_format=LAST), 2
    ),
    "spmm": lambda: matrix().to_sparse_csr() @ matrix(),
    "spgemm": lambda: matrix().to_sparse_csr() @ matrix().to_sparse_csr(),
    "addmv_out_sparse_csr_cuda_impl": lambda: matrix().to_sparse_csr() @ matrix()[0],
    "block_sparse_mm": lambda: matrix().to_sparse_bsr((2, 2)) @ matrix(),
    "addmm_sparse_cuda": lambda: torch.addmm(matrix(), matrix().to_sparse(), matrix()),
    "sparse_matmul": lambda: matrix().to_sparse() @ matrix().to_sparse(),
}


def matrix():
    return ones(4, 4, dtype=LONG)


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("kernel", KERNELS_BY_LAYOUT)
def test_the_kernel_depends_on_the_layout(kernel):
    words = raised(KERNELS_BY_LAYOUT[kernel], NotImplementedError)
    assert words == f"\"{kernel}\" not implemented for 'Long'"


def test_an_image_of_few_channels_has_another_kernel():
    image = ones(1, 3, 4, 4, dtype=LONG).to(memory_format=LAST)
    words = raised(lambda: F.interpolate(image, scale_factor=2), NotImplementedError)
    assert words.startswith('"upsample_nearest2d_out_frame"')


def test_nothing_is_selected_by_an_index_of_any_dtype():
    """`index_select_out_cuda_impl` in Indexing.cu"""
    assert ones(2, 3).index_select(0, ones(0)).shape == (0, 3)
    with pytest.raises(NotImplementedError, match="index_select_out_cuda_impl"):
        ones(2, 3).index_select(0, ones(1))


def test_clipping_names_the_backend_of_sparse_gradients():
    table = torch.nn.Embedding(10, 3, sparse=True, device="cuda")
    table(ones(2, dtype=LONG)).sum().backward()
    clip = torch.nn.utils.clip_grad_value_
    words = raised(lambda: clip(table.parameters(), 1.0), NotImplementedError)
    assert "from the 'SparseCUDA' backend" in words
