"""Types and cards that CUDA's kernels take and the CPU's do not, and the other way."""

import json
import re
import warnings

import pytest
import torch
from calls import raised
from torch.nn.attention import SDPBackend, sdpa_kernel

import cudasim
from cudasim.dispatch import dtypes
from facts.survey import load_databases

pytestmark = pytest.mark.usefixtures("two_gpus")

GPU1 = torch.device("cuda", 1)


def of(dtype, *shape):
    return torch.ones(*shape, dtype=dtype, device="cuda:1")


F = torch.nn.functional
L = torch.int64
REFUSED = {
    "mm": (lambda: of(L, 2, 2) @ of(L, 2, 2), "addmm_cuda", "Long"),
    "addmm": (
        lambda: torch.addmm(of(torch.int32, 2), of(torch.int32, 2, 2), of(torch.int32, 2, 2)),
        "addmm_cuda",
        "Int",
    ),
    "bmm": (lambda: of(L, 1, 2, 2) @ of(L, 1, 2, 2), "baddbmm_cuda", "Long"),
    "mv": (lambda: of(L, 2, 2) @ of(L, 2), "addmv_impl_cuda", "Long"),
    "dot": (lambda: of(L, 2) @ of(L, 2), "dot", "Long"),
    "pooling": (
        lambda: F.max_pool2d(of(L, 1, 1, 4, 4), 2),
        "max_pool2d_with_indices_out_cuda_frame",
        "Long",
    ),
    "igamma": (lambda: torch.igamma(of(torch.half, 2), of(torch.half, 2)), "igamma_cuda", "Half"),
    "histc": (lambda: torch.histc(of(torch.half, 2)), "histc", "Half"),
    "upsampling": (
        lambda: F.interpolate(of(torch.uint8, 1, 1, 4, 4), scale_factor=2, mode="bilinear"),
        "upsample_bilinear2d_out_frame",
        "Byte",
    ),
}


@pytest.mark.parametrize(("call", "kernel", "name"), REFUSED.values(), ids=REFUSED)
def test_a_type_that_cuda_lacks_is_refused_in_its_words(call, kernel, name):
    assert raised(call, NotImplementedError) == f"\"{kernel}\" not implemented for '{name}'"


def test_convolutions_of_integers_are_refused_by_cudnn():
    words = raised(lambda: F.conv2d(of(L, 1, 1, 3, 3), of(L, 1, 1, 2, 2)))
    assert words == "getCudnnDataTypeFromScalarType() not supported for Long"


def test_the_cpu_takes_what_it_takes():
    x = torch.ones(2, 2, dtype=torch.int64)
    assert (x @ x).tolist() == [[2, 2], [2, 2]]


def test_shapes_are_refused_before_types():
    words = raised(lambda: of(L, 2, 3) @ of(L, 2, 3))
    assert words == "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)"


def test_in_place_nothing_has_changed():
    x = of(L, 2, 2)
    raised(lambda: x.addmm_(x, x), NotImplementedError)
    assert x.tolist() == [[1, 1], [1, 1]]


def test_what_has_no_kernel_is_refused_by_the_dispatcher():
    for call, name in (
        (lambda: torch.histogram(of(torch.float32, 3), 2), "histogram.bin_ct"),
        (lambda: torch.histogramdd(of(torch.float32, 3, 2), [2, 2]), "_histogramdd_bin_edges"),
        (lambda: of(torch.float32, 3).to_mkldnn(), "to_mkldnn"),
    ):
        words = raised(call, NotImplementedError)
        assert words.startswith(f"Could not run 'aten::{name}' with arguments from the 'CUDA'")


WIDENED = {
    "abs": (lambda x: x.abs(), torch.bool),
    "exp": (lambda x: x.exp(), torch.complex32),
    "angle": (lambda x: x.angle(), torch.complex32),
    "sqrt_": (lambda x: x.clone().sqrt_(), torch.complex32),
    "nansum": (lambda x: x.nansum(), torch.complex64),
    "histc": (lambda x: torch.histc(x, 3, 0, 3), torch.int32),
    "trace": (lambda x: x.trace(), torch.bool),
    "avg_pool3d": (lambda x: F.avg_pool3d(x[None, None], 2), torch.half),
    "fft": (lambda x: torch.fft.fft(x), torch.half),
    "rfft": (lambda x: torch.fft.rfft(x), torch.half),
    "irfft": (lambda x: torch.fft.irfft(x, 2), torch.half),
    "polygamma": (lambda x: torch.polygamma(1, x), torch.half),
}


@pytest.mark.parametrize(("call", "dtype"), WIDENED.values(), ids=WIDENED)
def test_a_type_that_the_cpu_lacks_is_computed(call, dtype):
    shape = (2, 2, 2) if dtype is torch.half else (2, 2)
    values = (torch.rand(shape) * 4).to(dtype)
    wide = {torch.half: torch.float32, torch.complex32: torch.complex64}.get(dtype, dtype)
    out = call(values.cuda(1))
    assert out.device == GPU1
    if wide is not dtype:
        expected = call(values.to(wide))
        narrow = torch.complex32 if expected.is_complex() else torch.half
        assert out.dtype == narrow
        torch.testing.assert_close(out.cpu().to(expected.dtype), expected, rtol=1e-2, atol=1e-2)


def test_half_a_gradient_comes_back_through_an_fft():
    x = torch.rand(4, device="cuda:1", dtype=torch.half, requires_grad=True)
    torch.fft.rfft(x).abs().sum().backward()
    assert x.grad.dtype == torch.half and x.grad.device == GPU1


def test_an_fft_in_half_precision_wants_powers_of_two():
    for call in (torch.fft.fft, torch.fft.rfft):
        with pytest.raises(RuntimeError, match="cuFFT only supports dimensions whose sizes are po"):
            call(of(torch.half, 6))


# --- cards ---


def on(card):
    cudasim.disable()
    cudasim.enable(card=card)


def attend(query, key, value):
    return F.scaled_dot_product_attention(query, key, value)  # looked up while GPUs are simulated


def heads(dtype=torch.half, size=8):
    return torch.ones(1, 2, 4, size, dtype=dtype, device="cuda:1")


def test_flash_attention_wants_ampere():
    for card, refused in (("T4", True), ("A100", False)):
        on(card)
        x = heads()
        with warnings.catch_warnings(record=True) as said, sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            warnings.simplefilter("always")
            if refused:
                assert raised(lambda: attend(x, x, x)) == "No available kernel. Aborting execution."  # noqa: B023
                assert [str(each.message) for each in said][2:4] == [
                    "Flash attention kernel not used because:",
                    "Flash attention only supports gpu architectures in the range [sm80, sm121]. "
                    "Attempting to run on a sm 7.5 gpu.",
                ]
            else:
                assert attend(x, x, x).device == GPU1 and not said


def test_kernels_of_attention_have_types():
    on("A100")
    x = heads(torch.float32)
    with pytest.warns(UserWarning, match="to all be of dtype: {Half, BFloat16}. Got Query dtype:"):
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            raised(lambda: attend(x, x, x))
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
        assert attend(x, x, x).device == GPU1
    on("T4")
    x = heads(torch.bfloat16)
    with warnings.catch_warnings(), sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
        warnings.simplefilter("ignore")
        raised(lambda: attend(x, x, x))
    assert attend(x, x, x).device == GPU1  # by the kernel that is made of products


def test_asking_for_a_kernel_of_attention():
    from torch.backends.cuda import SDPAParams, can_use_efficient_attention, can_use_flash_attention

    on("T4")
    x = heads()
    asked = SDPAParams(x, x, x, None, 0.0, False, False)
    assert not can_use_flash_attention(asked) and can_use_efficient_attention(asked)
    on("H100")
    x = heads()
    assert can_use_flash_attention(SDPAParams(x, x, x, None, 0.0, False, False))


def test_products_of_8_bit_floats_want_ada():
    for card, refused in (("T4", True), ("A100", True), ("RTX 4090", False), ("H100", False)):
        on(card)
        x = torch.ones(16, 16, device="cuda:1").to(torch.float8_e4m3fn)
        one = torch.ones((), device="cuda:1")

        def multiply(x=x, one=one):
            return torch._scaled_mm(x, x.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)

        if refused:
            assert raised(multiply).startswith("torch._scaled_mm is only supported on CUDA devices")
        else:
            assert multiply().device == GPU1


# --- the table ---


@pytest.fixture(scope="module")
def database():
    with cudasim.simulate(force=True):
        load_databases()
        from torch.testing._internal.common_methods_invocations import op_db
    return op_db


# Refused for a reason of their own, or not by their type alone.
APART = ("torch._scaled_mm", "torch._scaled_mm_v2", "histogram", "histogramdd")
REFUSAL = re.compile(
    r"\"\w+\" not implemented for '\w+'|getCudnnDataTypeFromScalarType\(\) not supported for Long"
)


@pytest.mark.full
def test_each_type_that_cuda_lacks_is_refused(database):
    """Some of the samples may be empty, or scalars that no kernel sees; not all of them."""
    passed = []
    for op in database:
        if op.name in APART:
            continue
        for dtype in sorted(op.dtypes - op.dtypesIfCUDA, key=str):
            ran = refused = 0
            for sample in op.sample_inputs("cuda:1", dtype):
                ran += 1
                try:
                    op(sample.input, *sample.args, **sample.kwargs)
                except RuntimeError as error:
                    assert REFUSAL.fullmatch(str(error)), f"{op.name} {dtype}: {error}"
                    refused += 1
            if not refused:
                passed.append(f"{op.name} {op.variant_test_name} {dtype}: {ran} samples")
    assert passed == []


ELSEWHERE = (
    "torch.ops.aten._flash_attention_forward",
    "torch.ops.aten._efficient_attention_forward",
)


@pytest.mark.full
def test_each_type_that_the_cpu_lacks_is_computed(database):
    failed = []
    for op in database:
        if op.name in ELSEWHERE:
            continue
        for dtype in sorted(op.dtypesIfCUDA - op.dtypes, key=str):
            for sample in op.sample_inputs("cuda:1", dtype):
                try:
                    op(sample.input, *sample.args, **sample.kwargs)
                except Exception as error:
                    failed.append(f"{op.name} {op.variant_test_name} {dtype}: {error}"[:160])
                    break
    assert not failed, "\n".join(failed)


@pytest.mark.full
def test_the_table_is_that_of_the_database(database):
    """For one card; `python cudasim/facts types` compares all."""
    table = json.loads(dtypes.TABLE.read_text(encoding="utf-8"))
    assert table["torch"] == torch.__version__.partition("+")[0]
    for op in database:
        name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
        entry = table["operators"].get(name)
        if entry is None:
            assert op.dtypes == op.dtypesIfCUDA, name
            continue
        taken = {kind for kind, least in entry["cuda"].items() if float(least) <= 7.5}
        assert taken == set(map(dtypes.short, op.dtypesIfCUDA)), name
        assert set(entry["cpu"]) == set(map(dtypes.short, op.dtypes)), name


def test_names_of_kernels_are_in_the_table():
    assert all(map(dtypes.entry_of, dtypes.KERNELS))


def rows_of_8_bits(card):
    cudasim.disable()
    with cudasim.simulate(card=card):
        a, one = of(torch.float32, 16, 16).to(torch.float8_e4m3fn), torch.ones((), device=GPU1)
        assert torch._scaled_mm(a, a.t(), one, one).shape == (16, 16)
        return torch._scaled_mm(a, a, one, one)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: F.layer_norm(of(torch.half, 2, 4), (4,), of(torch.float32, 4)), "Half but found"),
        (lambda: torch.sparse.mm(of(L, 2, 2).to_sparse(), of(L, 2, 2)), "addmm_sparse_cuda"),
        (lambda: torch._int_mm(of(torch.int8, 4, 16), of(torch.int8, 16, 8)), "than 16, but got 4"),
        (lambda: torch._int_mm(of(torch.int8, 32, 8), of(torch.int8, 8, 9)), "multiple of 8, but"),
        (lambda: rows_of_8_bits("H100"), "CUBLAS_STATUS_NOT_SUPPORTED"),
        (lambda: F.conv1d(of(torch.int32, 1, 1, 3), of(torch.int32, 1, 1, 2)), "unable to find"),
        (
            lambda: torch._foreach_mul([of(torch.float32, 2)], torch.tensor(2.0, device="cuda:0")),
            "scalar tensor expected to be on cuda:1 but is on cuda:0",
        ),
        (
            lambda: torch.ao.quantization.quantize_dynamic(
                torch.nn.Sequential(torch.nn.Linear(4, 4)).to(GPU1)
            ),
            "quantized::linear_prepack",
        ),
        (lambda: of(L, 2).apply_(abs), "apply_ is only implemented on CPU tensors"),
        (lambda: of(L, 2).map_(of(L, 2), max), "map_ is only implemented on CPU tensors"),
        (lambda: torch.FloatTensor(of(torch.float32, 2)), "got TensorOptions.*device=cuda:1"),
        (lambda: torch.LongTensor(of(torch.float32, 2)), "got .*dtype=float, device=cuda:1"),
    ],
)
@pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated")
def test_what_the_cpu_computes_and_cuda_refuses(call, words):
    with pytest.raises((RuntimeError, TypeError), match=words):
        call()


def test_a_card_decomposes_without_pivoting_and_has_drivers():
    matrices = torch.rand(2, 3, 4, generator=torch.Generator().manual_seed(0)) + torch.eye(3, 4)
    for each in (matrices, matrices.mT.contiguous()):
        permutation, lower, upper = torch.linalg.lu(each.to(GPU1), pivot=False)
        assert permutation.numel() == 0 and lower.device == upper.device == GPU1
        torch.testing.assert_close((lower @ upper).cpu(), each)
        packed, pivots, info = torch.linalg.lu_factor_ex(each.to(GPU1), pivot=False)
        assert torch.equal(packed.triu()[..., :3, :], upper.triu()) and not info.any()
        assert pivots.tolist() == [[1, 2, 3]] * 2
    values = torch.linalg.svdvals(matrices.to(GPU1), driver="gesvdj")
    torch.testing.assert_close(values.cpu(), torch.linalg.svdvals(matrices))
    assert "unknown svd driver" in raised(
        lambda: torch.linalg.svd(of(torch.float32, 2, 2), driver="x")
    )


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_a_division_by_zero_is_no_error_on_a_card(dtype):
    ones = torch.iinfo(dtype).max if dtype is torch.uint8 else -1
    x, y = torch.tensor([7, 8], dtype=dtype, device=GPU1), torch.tensor([0, 3], device=GPU1)
    y = y.to(dtype)
    assert (x // y).tolist() == torch.div(x, y, rounding_mode="trunc").tolist() == [ones, 2]
    assert (x % y).tolist() == torch.fmod(x, y).tolist() == [7, 2]
    assert (x // 0).tolist() == [ones] * 2 and (x % 0).device == GPU1
    assert x.floor_divide_(y) is x and x.tolist() == [ones, 2]
    assert (7 // y).tolist() == [ones, 2]
    assert raised(lambda: x.cpu() // 0) == "ZeroDivisionError"
    assert "at least two devices, cuda:1 and cpu" in raised(lambda: x // y.cpu())


def test_a_convolution_by_cudnns_name_and_settings_of_libraries():
    image, weight = of(torch.float32, 1, 1, 3, 3), of(torch.float32, 1, 1, 2, 2).requires_grad_()
    found = torch.cudnn_convolution(image, weight, (0, 0), (1, 1), (1, 1), 1, False, False, False)
    found.sum().backward()
    assert found.flatten().tolist() == [4] * 4 and weight.grad.flatten().tolist() == [4] * 4
    cuda = torch.backends.cuda
    assert cuda.preferred_linalg_library("cusolver") == cuda.preferred_linalg_library()
    assert cuda.preferred_blas_library("cublaslt") == cuda.preferred_blas_library()
    cuda.cufft_plan_cache[1].max_size = 3
    assert (cuda.cufft_plan_cache[1].max_size, cuda.cufft_plan_cache.max_size) == (3, 4096)
    cuda.cufft_plan_cache.clear()


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.int32])
def test_a_division_by_a_number_is_a_product_with_its_reciprocal(kind, two_gpus):
    x, exact = torch.arange(1, 2000, dtype=kind), torch.float64
    found, in_place = (x.cuda() / 3).cpu(), x.to(torch.promote_types(kind, torch.float32)).cuda()
    in_place /= torch.tensor(3.0)
    wide = exact if kind is exact else torch.float32
    assert torch.equal(found, (x * (1 / torch.tensor(3, dtype=wide))).to(found.dtype))
    assert torch.equal(in_place.cpu(), found) and not torch.equal(found, x / 3)
