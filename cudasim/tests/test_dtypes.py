"""Dtypes that few kernels take: what CUDA's refuse, by name, and what they compute.

The names are those of macros in aten/src/ATen/native/cuda, and were published as errors of
real machines: pytorch/pytorch#133605, #158313, ComfyUI#14285 and others.
"""

import functools
import itertools
from contextlib import contextmanager

import pytest
import torch

import cudasim
from cudasim.dispatch import dtypes
from cudasim.dispatch.kernel_names import kernel_name, kernels
from facts.kernel_sources import kernels_in
from facts.survey import load_databases
from fidelity.helpers import raised

pytestmark = pytest.mark.usefixtures("two_gpus")

F = torch.nn.functional
GPU1 = torch.device("cuda:1")
E4M3, E5M2, E8M0 = torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu
UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)


def ones(dtype, *shape):
    return torch.ones(*shape, device=GPU1).to(dtype)


@contextmanager
def default_dtype(dtype):
    earlier = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    yield
    torch.set_default_dtype(earlier)


def first(x):
    return torch.tensor([0], device=x.device)


FLOAT8_KERNELS = {
    "ufunc_add_CUDA": lambda x: x + x,
    "mul_cuda": lambda x: x * 2.0,
    "addmm_cuda": lambda x: F.linear(x, x),
    "baddbmm_cuda": lambda x: x[None] @ x[None],
    "addmv_impl_cuda": lambda x: x @ x[0],
    "abs_cuda": lambda x: x.abs(),
    "pow_cuda": lambda x: x**2,
    "sum_cuda": lambda x: x.sum(),
    "std_cuda": lambda x: x.std(),
    "max_all_cuda": lambda x: x.max(),
    "min_elementwise_cuda": lambda x: torch.minimum(x, x),
    "compare_cuda": lambda x: x < x,
    "host_softmax": lambda x: x.softmax(0),
    "div_floor_cuda": lambda x: x // x,
    "normal_kernel_cuda": lambda x: torch.randn(2, dtype=x.dtype, device=x.device),
    "arange_cuda": lambda x: torch.arange(2, dtype=x.dtype, device=x.device),
}


@pytest.mark.parametrize("kernel", FLOAT8_KERNELS)
def test_8_bit_floats_are_refused_by_the_kernels_of_cuda(kernel):
    answer = raised(lambda: FLOAT8_KERNELS[kernel](ones(E4M3, 4, 4)))
    words = f"NotImplementedError: \"{kernel}\" not implemented for 'Float8_e4m3fn'"
    assert answer == words


UNSIGNED_KERNELS = {
    "index_cuda": lambda x: x[first(x)],
    "ufunc_add_CUDA": lambda x: x + 1,
    "mul_cuda": lambda x: x * x,
    "roll_cuda": lambda x: x.roll(1, 0),
    "sortKeyValueInplace": lambda x: x.sort(),
    "compare_cuda": lambda x: x > 0,
    "cuda_scatter_gather_base_kernel_func": lambda x: x.gather(0, first(x)),
}


@pytest.mark.parametrize("dtype", UNSIGNED)
@pytest.mark.parametrize("kernel", UNSIGNED_KERNELS)
def test_unsigned_numbers_are_refused_by_the_kernels_of_cuda(kernel, dtype):
    answer = raised(lambda: UNSIGNED_KERNELS[kernel](ones(dtype, 4)))
    assert answer.startswith(f'NotImplementedError: "{kernel}" not implemented for ')


# Types of several operands: `iter.common_dtype()` chooses the code of a kernel, and
# `promoteTypes` of c10/core/ScalarType.cpp says which types have none.


SCALED_IMAGES = {
    "x / 65535": lambda x: x / 65535,
    "x / 65535.0": lambda x: x / 65535.0,
    "x * (1 / 65535)": lambda x: x * (1 / 65535),
    "(1 / 65535) * x": lambda x: (1 / 65535) * x,
    "x * tensor": lambda x: x * torch.full((2,), 1 / 65535, device=x.device),
    "tensor * x": lambda x: torch.full((2,), 1 / 65535, device=x.device) * x,
    "out": lambda x: torch.mul(x, 1 / 65535, out=torch.empty(2, device=x.device)),
}


@pytest.mark.parametrize("dtype", UNSIGNED)
@pytest.mark.parametrize("formula", SCALED_IMAGES)
def test_unsigned_numbers_are_scaled_as_floats(formula, dtype):
    """BinaryMulKernel.cu and BinaryDivTrueKernel.cu: the common dtype is Float."""
    image = torch.tensor([0, 65535], device=GPU1).to(dtype)
    scaled = SCALED_IMAGES[formula](image)
    assert scaled.dtype is torch.float32
    assert torch.allclose(scaled.cpu(), torch.tensor([0.0, 1.0]))


NO_COMMON_DTYPE = [
    (E4M3, torch.float32, "Float8 Types", "Float8_e4m3fn and Float"),
    (E4M3, E5M2, "Float8 Types", "Float8_e4m3fn and Float8_e5m2"),
    (
        torch.uint32,
        torch.complex64,
        "uint16, uint32, uint64 types",
        "UInt32 and ComplexFloat",
    ),
]


@pytest.mark.parametrize(("first", "second", "kind", "names"), NO_COMMON_DTYPE)
def test_types_without_a_common_one_are_refused_before_any_kernel(
    first, second, kind, names
):
    x, y = ones(first, 2), ones(second, 2)
    words = f"Promotion for {kind} is not supported, attempted to promote {names}"
    for operator in (torch.mul, torch.add, torch.div, torch.Tensor.mul_):
        assert raised(lambda operator=operator: operator(x, y)) == (
            f"RuntimeError: {words}"
        )


COMPUTED_IN_A_COMMON_DTYPE = {
    # 1 - 1 / e
    "igamma(long, double)": (
        lambda: torch.igamma(ones(torch.long, 2), ones(torch.double, 2)),
        0.632,
    ),
    "igammac(half, float)": (
        lambda: torch.igammac(ones(torch.half, 2), ones(torch.float, 2)),
        0.368,
    ),
    "addcmul(complex32, complex64)": (
        lambda: torch.addcmul(
            ones(torch.complex32, 2),
            ones(torch.complex64, 2),
            ones(torch.complex64, 2),
        ),
        2,
    ),
    "norm(complex32, dtype=complex64)": (
        lambda: torch.linalg.vector_norm(
            ones(torch.complex32, 4), dtype=torch.complex64
        ),
        2,
    ),
    "half / complex number": (lambda: ones(torch.half, 2) / 2j, -0.5j),
}


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("call", COMPUTED_IN_A_COMMON_DTYPE)
def test_a_kernel_takes_the_common_dtype(call):
    """IGammaKernel.cu, PointwiseOpsKernel.cu, BinaryDivTrueKernel.cu and ReduceOps.cpp."""
    compute, expected = COMPUTED_IN_A_COMMON_DTYPE[call]
    result = compute()
    assert result.cpu().flatten()[0].item() == pytest.approx(expected, abs=1e-3)
    assert result.device == GPU1


def test_sources_say_which_kernels_take_the_common_dtype():
    text = """
        auto dtype = iter.common_dtype();
        AT_DISPATCH_ALL_TYPES(dtype, "of_a_variable", [&]() {});
        AT_DISPATCH_V2(iter.common_dtype(), "at_once", AT_WRAP([&]() {}), kHalf);
        dtype = self.scalar_type();
        AT_DISPATCH_ALL_TYPES(dtype, "of_the_first", [&]() {});
    """
    promotes = {kernel.name: kernel.promotes for kernel in kernels_in(text)}
    assert promotes == {"of_a_variable": True, "at_once": True, "of_the_first": False}


REFUSED_IN_A_COMMON_DTYPE = {
    "\"igamma_cuda\" not implemented for 'Half'": lambda: torch.igamma(
        ones(torch.float, 1)[0], ones(torch.half, 2)
    ),
    "\"addcmul_cuda\" not implemented for 'ComplexHalf'": lambda: torch.addcmul(
        ones(torch.half, 2), ones(torch.half, 2), ones(torch.complex64, 1)[0]
    ),
    "\"mul_cuda\" not implemented for 'Float8_e4m3fn'": lambda: (
        torch.tensor(2.0) * ones(E4M3, 2)
    ),
    "\"mul_cuda\" not implemented for 'UInt16'": lambda: ones(torch.uint16, 1) * 2,
    "\"div_true_cuda\" not implemented for 'Float8_e4m3fn'": lambda: ones(E4M3, 2) / 2,
}


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("words", REFUSED_IN_A_COMMON_DTYPE)
def test_a_kernel_refuses_the_common_dtype(words):
    answer = raised(REFUSED_IN_A_COMMON_DTYPE[words])
    assert answer == f"NotImplementedError: {words}"


def test_shapes_are_compared_before_a_kernel_looks_at_types():
    answer = raised(lambda: ones(E4M3, 2) * ones(E4M3, 3))
    assert answer.startswith("RuntimeError: The size of tensor a (2) must match")


def test_whole_numbers_are_divided_in_the_default_dtype():
    with default_dtype(torch.float64):
        third = ones(torch.int64, 1) / 3
    assert third.item() == pytest.approx(1 / 3, rel=1e-15)


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize(
    ("first", "second", "expected", "actual"),
    [
        (torch.complex32, torch.complex64, "c10::Half", "float"),
        (torch.complex64, torch.complex32, "float", "c10::Half"),
    ],
)
def test_a_wider_type_does_not_pass_a_check_of_types(first, second, expected, actual):
    """`TORCH_META_FUNC(lerp_Scalar)` in native/Lerp.cpp, where CUDA has a kernel for both."""
    answer = raised(lambda: torch.lerp(ones(first, 2), ones(second, 2), 0.5))
    assert answer == (
        f"RuntimeError: expected dtype c10::complex<{expected}> for `end` "
        f"but got dtype c10::complex<{actual}>"
    )


def test_8_bit_floats_are_moved_and_compared():
    x = torch.tensor([1.0, 448.0], device=GPU1).to(E4M3)
    assert x.tolist() == [1, 448]
    assert torch.cat([x, x.flip(0)]).float().tolist() == [1, 448, 448, 1]
    assert (x == x).all()
    assert x[first(x)].device == GPU1


def test_what_is_too_large_for_8_bits():
    """It saturates from 2.13; before, c10/util/Float8_e4m3fn.h made it NaN."""
    x = torch.tensor(500.0, device=GPU1).to(E4M3)
    if torch.__version__ >= (2, 13):
        assert x.item() == 448
    else:
        assert x.float().isnan()


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_divisions_by_zero_refuse_unsigned_numbers(dtype):
    """AT_DISPATCH_INTEGRAL_TYPES in aten/src/ATen/native/cuda/BinaryRemainderKernel.cu.

    Up to 2.12 the CPU has no `where` for these types, with which zeros are replaced.
    """
    x = torch.tensor([3, 0], device=GPU1).to(dtype)
    answer = raised(lambda: 3 % x)
    assert answer.startswith('NotImplementedError: "remainder_cuda" not implemented')


# The calls of lists, and the kernel of CUDA; native/cuda/Foreach*.cu and ForeachUtils.h.
LISTS = {
    "foreach_binary_op_scalar_cuda": lambda x: torch._foreach_mul(x, 2),
    "foreach_binary_op_scalar_cuda_": lambda x: torch._foreach_add_(x, 2),
    "foreach_binary_op_list_cuda": lambda x: torch._foreach_sub(x, x),
    "foreach_binary_op_scalarlist_cuda": lambda x: torch._foreach_add(x, [2]),
    "foreach_binary_op_scalarlist_cuda_": lambda x: torch._foreach_sub(x, [2]),
    "foreach_unary_op_cuda": lambda x: torch._foreach_neg(x),
    "foreach_unary_op_cuda_": lambda x: torch._foreach_neg_(x),
    "foreach_zero_cuda_": lambda x: torch._foreach_zero_(x),
    "foreach_tensor_max_cuda_scalar_type": lambda x: torch._foreach_max(x),
}


@pytest.mark.parametrize("kernel", LISTS)
def test_lists_of_unsigned_numbers_are_refused_by_the_kernels_of_cuda(kernel):
    message = raised(lambda: LISTS[kernel]([ones(torch.uint16, 2)]))
    assert message.endswith(f"Error: \"{kernel}\" not implemented for 'UInt16'")


def test_lists_that_become_floats_are_computed_one_by_one():
    numbers = [ones(torch.uint16, 2)]
    for results in (torch._foreach_mul(numbers, 0.5), torch._foreach_div(numbers, 2)):
        assert results[0].dtype == torch.float32
        assert results[0].tolist() == [0.5, 0.5]


@pytest.mark.parametrize("numbers", [(1,), ([],), (torch.ones(()),)])
def test_a_list_has_a_tensor(numbers):
    """`check_foreach_api_restrictions` in aten/src/ATen/native/ForeachUtils.h"""
    message = raised(lambda: torch._foreach_add([], *numbers))
    assert message == "RuntimeError: Tensor list must have at least one tensor."


def test_unsigned_numbers_are_moved_as_the_bits_they_are():
    x = torch.tensor([[1, 65535]], dtype=torch.int32, device=GPU1).to(torch.uint16)
    columns = torch.tensor([1, 0], device=GPU1)
    assert x.index_select(1, columns).tolist() == [[65535, 1]]
    assert x.flip(1).dtype is torch.uint16


def test_the_cpu_keeps_the_names_of_its_kernels():
    x = torch.ones(2).to(E4M3)
    assert '"add_stub"' in raised(lambda: x + x)
    assert (x * x).tolist() == [1, 1]


def test_what_is_refused_is_not_among_the_types_of_its_kernel():
    for dtype, operators in dtypes.REFUSED.items():
        for operator in operators:
            taken = kernels()["kernels"][kernel_name(operator)]
            assert dtypes.short_name(dtype) not in taken, operator


def with_dtype(value, dtype):
    """Return a sample's argument with its tensors of float32 in another dtype."""
    if isinstance(value, torch.Tensor) and value.dtype is torch.float32:
        return value.detach().abs().to(dtype)
    if isinstance(value, list | tuple):
        return type(value)([with_dtype(item, dtype) for item in value])
    return value


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [E4M3, E8M0, torch.uint16])
def test_no_operator_names_a_kernel_of_the_cpu(dtype):
    load_databases()
    from torch.testing._internal.common_methods_invocations import op_db

    named = {}
    for op in op_db:
        samples = op.sample_inputs(GPU1, torch.float32)
        for sample in itertools.islice(samples, 2):
            arguments = with_dtype((sample.input, *sample.args), dtype)
            answer = raised(functools.partial(op, *arguments, **sample.kwargs))
            if "_cpu" in answer.partition("not implemented for")[0]:
                named[op.name] = answer
    assert set(named) <= {
        # They multiply within a kernel that runs the CPU's.
        "torch.ops.aten._efficient_attention_forward",
        "torch.ops.aten._flash_attention_forward",
    }


# Products with scales.


def on(card):
    cudasim.disable()
    cudasim.enable(card=card)


def scale_of(*rows):
    return torch.tensor(rows, device=GPU1)


def test_rows_and_columns_have_scales():
    """Each sum of 16 ones is multiplied by the scales of its row and its column."""
    on("H100")
    x = ones(E4M3, 16, 16)
    rows = torch.full((16, 1), 2.0, device=GPU1)
    columns = torch.arange(16.0, device=GPU1)[None]
    product = torch._scaled_mm(x, x.t(), rows, columns, out_dtype=torch.bfloat16)
    assert product.device == GPU1
    assert product[0].tolist() == [32.0 * column for column in range(16)]


def test_blocks_of_128_numbers_have_scales():
    on("H100")
    first, second = ones(E4M3, 16, 256), ones(E5M2, 16, 256)
    by_row = torch.tensor([[1.0], [10.0]], device=GPU1).expand(2, 16).contiguous().t()
    by_block = scale_of([1.0, 2.0])
    product = torch._scaled_mm(
        first, second.t(), by_row, by_block.t(), out_dtype=torch.float32
    )
    assert product[0, 0] == 128 * 1 + 128 * 20


def test_a_bias_is_added_before_the_sum_is_rounded():
    """In bfloat16 256 + 1 is 256, and 256 + 1 + 1 is 258."""
    on("H100")
    x = ones(E4M3, 16, 16)
    one = torch.ones((), device=GPU1)
    product = torch._scaled_mm(
        x,
        x.t(),
        one,
        one * 257 / 16,
        bias=ones(torch.bfloat16, 16),
        out_dtype=torch.bfloat16,
    )
    assert product[0, 0] == 258


def test_groups_of_rows_are_multiplied_by_matrices_of_their_own():
    on("H100")
    rows = ones(E4M3, 32, 16)
    matrices = torch.stack([ones(E4M3, 16, 16), ones(E4M3, 16, 16)]).transpose(1, 2)
    ends = torch.tensor([8, 32], dtype=torch.int32, device=GPU1)
    scales = torch.tensor([[1.0], [3.0]], device=GPU1).expand(2, 16).contiguous()
    product = torch._scaled_grouped_mm(
        rows, matrices, torch.ones(32, device=GPU1), scales, offs=ends
    )
    assert product.dtype is torch.bfloat16
    assert product[:, 0].tolist() == [16.0] * 8 + [48.0] * 24


def product_of(first, second, **options):
    one = torch.ones((), device=GPU1)
    options = {"out_dtype": torch.bfloat16} | options
    return torch._scaled_mm(first, second, one, one, **options)


def test_a_product_written_to_out_takes_memory():
    """1024 x 1024 numbers of two bytes are 2 MiB."""
    on("H100")
    x = ones(E4M3, 1024, 16)
    out = torch.empty(0, dtype=torch.bfloat16, device=GPU1)
    before = torch.cuda.memory_allocated(GPU1)
    product_of(x, x.t(), out=out)
    assert torch.cuda.memory_allocated(GPU1) - before == 2 * 1024**2


@pytest.mark.parametrize("out", [False, True])
def test_a_product_without_room_is_refused_before_it_is_computed(out):
    """2^18 x 2^18 numbers of two bytes are 128 GiB."""
    on("H100")
    x = ones(E4M3, 2**18, 16)
    options = {}
    if out:
        options["out"] = torch.empty(0, dtype=torch.bfloat16, device=GPU1)
    with pytest.raises(torch.OutOfMemoryError, match="allocate 128"):
        product_of(x, x.t(), **options)


# From native/cuda/ScaledBlas.cpp.
BAD_PRODUCTS = {
    "Expected trailing dimension of mat1 to be divisible by 16 but got mat1 shape: (16x8).":
        lambda: product_of(ones(E4M3, 16, 8), ones(E4M3, 16, 8).t()),
    "mat2 shape (16x8) must be divisible by 16":
        lambda: product_of(ones(E4M3, 16, 16), ones(E4M3, 8, 16).t()),
    "Multiplication of two Float8_e5m2 matrices is not supported":
        lambda: product_of(ones(E5M2, 16, 16), ones(E5M2, 16, 16).t()),
    "Bias is not supported when out_dtype is set to Float32":
        lambda: product_of(
            ones(E4M3, 16, 16),
            ones(E4M3, 16, 16).t(),
            bias=ones(torch.half, 16),
            out_dtype=torch.float32,
        ),
    "Bias must be BFloat16 to compute BFloat16 output, but got Half":
        lambda: product_of(
            ones(E4M3, 16, 16), ones(E4M3, 16, 16).t(), bias=ones(torch.half, 16)
        ),
}  # fmt: skip


@pytest.mark.parametrize("words", BAD_PRODUCTS)
def test_products_are_refused_in_the_words_of_cuda(words):
    on("H100")
    assert raised(BAD_PRODUCTS[words]) == f"RuntimeError: {words}"


# Weights of 4 bits (native/cuda/int4mm.cu).


def test_weights_of_4_bits_are_packed_in_the_order_of_lanes():
    """The first lane keeps columns 0, 1, 8, 9, 16, 17, 24 and 25 of the first row.

    Those at even places come first, each pair from the two halves of a byte.
    """
    weights = torch.zeros(8, 32, dtype=torch.uint8, device=GPU1)
    weights[0, [0, 1, 8, 9, 16, 17, 24, 25]] = torch.arange(8, dtype=torch.uint8).to(
        GPU1
    )
    bytes_ = (weights[:, ::2] << 4) | weights[:, 1::2]
    packed = torch._convert_weight_to_int4pack(bytes_, 2)
    assert packed.shape == (1, 1, 32, 1)
    assert packed[0, 0, 0, 0] == 0x75316420


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("transposed", ["", "_transpose"])
def test_a_convolution_compares_the_types_that_it_is_given(dimensions, transposed):
    """`check_input_same_type_as_parameters` of Convolution.cpp; the shape goes first."""
    convolve = getattr(F, f"conv{transposed}{dimensions}d")
    weight = ones(torch.float32, *[3] * (2 + dimensions))
    wrong_shape = ones(torch.float64, 1, 4, *[8] * dimensions)
    assert "channels" in raised(lambda: convolve(wrong_shape, weight))
    names = {
        torch.float64: "torch.cuda.DoubleTensor",
        torch.bfloat16: "CUDABFloat16Type",
    }
    for dtype, name in names.items():
        image = ones(dtype, 1, 3, *[8] * dimensions)
        assert raised(lambda image=image: convolve(image, weight)) == (
            f"RuntimeError: Input type ({name}) and weight type (torch.cuda.FloatTensor) "
            "should be the same"
        )


@pytest.mark.parametrize("training", [True, False])
def test_a_batch_norm_compares_the_types_that_it_is_given(training):
    """`cudnn_batch_norm` of native/cudnn/BatchNorm.cpp."""
    norm = torch.nn.BatchNorm2d(3, device=GPU1).train(training)
    image = ones(torch.float64, 2, 3, 4, 4)
    assert raised(lambda: norm(image)) == (
        "RuntimeError: Expected tensor for argument #1 'input' to have the same type as tensor for "
        "argument #2 'weight'; but type torch.cuda.DoubleTensor does not equal "
        "torch.cuda.FloatTensor (while checking arguments for cudnn_batch_norm)"
    )
    norm.running_mean = norm.running_mean.double()
    words = raised(lambda: norm(image.half()))
    assert "#2 'weight' to have the same type as tensor for argument #4" in words


def test_messages_name_the_types_of_tensors_on_a_gpu():
    """native/Embedding.cpp, native/cuda/EmbeddingBag.cu and TensorShape.cpp."""
    table = ones(torch.float32, 2, 2)
    words = raised(lambda: F.embedding(table, table))
    assert "got torch.cuda.FloatTensor instead (while checking" in words
    words = raised(lambda: F.embedding(table.bool(), table))
    assert "got CUDABoolType instead (while checking" in words
    words = raised(lambda: F.embedding_bag(table, table))
    assert "torch.cuda.FloatTensor instead" in words
    assert "arguments for embedding_bag_cuda)" in words
    words = raised(lambda: table.expand(2))
    assert "expand(torch.cuda.FloatTensor{[2, 2]}, size=[2])" in words


@pytest.mark.filterwarnings("ignore:ComplexHalf support")
def test_a_transform_of_halves_has_complex_halves():
    """`toComplexType` in `_fft_r2c_cufft` of native/cuda/SpectralOps.cpp, which `stft` calls."""
    signal = ones(torch.half, 8)
    frames = torch.stft(signal, 4, center=False, return_complex=True)
    assert frames.dtype is torch.complex32
    assert frames.to(torch.complex64).abs().tolist() == [[4] * 5, [0] * 5, [0] * 5]
    for onesided in (True, False):
        assert torch._fft_r2c(signal, [0], 0, onesided).dtype is torch.complex32
    assert torch._fft_r2c(signal.float(), [0], 0, True).dtype is torch.complex64
