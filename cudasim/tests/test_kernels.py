"""Types and cards that CUDA's kernels take and the CPU's do not, and the other way."""

import json
import re

import pytest
import torch
from calls import raised
from torch.backends.cuda import SDPAParams
from torch.nn.attention import SDPBackend, sdpa_kernel

import cudasim
from cudasim.dispatch import dtypes
from facts.survey import load_databases
from fidelity.asking import raised as answered

pytestmark = pytest.mark.usefixtures("two_gpus")

F, GPU1 = torch.nn.functional, torch.device("cuda", 1)
FLOAT, HALF, BRAIN, COMPLEX_HALF = torch.float32, torch.half, torch.bfloat16, torch.complex32
INT8, INT, LONG = torch.int8, torch.int32, torch.int64


def of(dtype, *shape):
    return torch.ones(*shape, dtype=dtype, device=GPU1)


def unbuilt(kernel, name):
    return f"NotImplementedError: \"{kernel}\" not implemented for '{name}'"


def quantized():
    net = torch.nn.Sequential(torch.nn.Linear(4, 4)).to(GPU1)
    return torch.ao.quantization.quantize_dynamic(net)


REFUSED = [
    (lambda: torch.addmm(of(INT, 2), of(INT, 2, 2), of(INT, 2, 2)), unbuilt("addmm_cuda", "Int")),
    (lambda: of(LONG, 2, 2) @ of(LONG, 2), unbuilt("addmv_impl_cuda", "Long")),
    (lambda: torch.igamma(of(HALF, 2), of(HALF, 2)), unbuilt("igamma_cuda", "Half")),
    (lambda: torch.sparse.mm(of(LONG, 2, 2).to_sparse(), of(LONG, 2, 2)), '"addmm_sparse_cuda"'),
    (lambda: F.conv2d(of(LONG, 1, 1, 3, 3), of(LONG, 1, 1, 2, 2)), "not supported for Long"),
    (lambda: of(LONG, 2, 3) @ of(LONG, 2, 3), "cannot be multiplied (2x3 and 2x3)"),  # first
    (
        lambda: torch.histogramdd(of(FLOAT, 3, 2), [2, 2]),
        "Error: Could not run 'aten::_histogramdd_bin_edges' with arguments from the 'CUDA'",
    ),
    (lambda: torch.fft.fft(of(HALF, 6)), "cuFFT only supports dimensions whose sizes are powers"),
    (lambda: torch.fft.rfft(of(HALF, 6)), "cuFFT only supports dimensions whose sizes are powers"),
    (lambda: F.layer_norm(of(HALF, 2, 4), (4,), of(FLOAT, 4)), "type Half but found Float"),
    (lambda: torch._int_mm(of(INT8, 4, 16), of(INT8, 16, 8)), "greater than 16, but got 4"),
    (lambda: torch._int_mm(of(INT8, 32, 8), of(INT8, 8, 9)), "a multiple of 8, but got 9"),
    (
        lambda: torch._foreach_mul([of(FLOAT, 2)], torch.tensor(2.0, device="cuda:0")),
        "scalar tensor expected to be on cuda:1 but is on cuda:0",
    ),
    (quantized, "quantized::linear_prepack"),
    (lambda: of(LONG, 2).apply_(abs), "TypeError: apply_ is only implemented on CPU tensors"),
    (lambda: of(LONG, 2).map_(of(LONG, 2), max), "map_ is only implemented on CPU tensors"),
    (lambda: torch.FloatTensor(of(FLOAT, 2)), "device=cuda:1"),
    (lambda: torch.LongTensor(of(FLOAT, 2)), "dtype=float, device=cuda:1"),
    (lambda: torch.linalg.svd(of(FLOAT, 2, 2), driver="x"), "unknown svd driver"),
]


@pytest.mark.parametrize(("call", "words"), REFUSED)
@pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated")
def test_what_the_cpu_computes_and_cuda_refuses(call, words):
    assert words in answered(call)


def test_what_is_refused_in_place_is_unchanged_and_the_cpu_computes_it():
    x = of(LONG, 2, 2)
    raised(lambda: x.addmm_(x, x), NotImplementedError)
    assert x.tolist() == [[1, 1], [1, 1]] and x.cpu().addmm_(x.cpu(), x.cpu()).sum() == 12


WIDENED = {
    "abs": (lambda x: x.abs(), torch.bool),
    "exp": (lambda x: x.exp(), COMPLEX_HALF),
    "angle": (lambda x: x.angle(), COMPLEX_HALF),
    "sqrt_": (lambda x: x.clone().sqrt_(), COMPLEX_HALF),
    "nansum": (lambda x: x.nansum(), torch.complex64),
    "histc": (lambda x: torch.histc(x, 3, 0, 3), INT),
    "trace": (lambda x: x.trace(), torch.bool),
    "avg_pool3d": (lambda x: F.avg_pool3d(x[None, None], 2), HALF),
    "fft": (lambda x: torch.fft.fft(x), HALF),
    "rfft": (lambda x: torch.fft.rfft(x), HALF),
    "irfft": (lambda x: torch.fft.irfft(x, 2), HALF),
    "polygamma": (lambda x: torch.polygamma(1, x), HALF),
}


@pytest.mark.parametrize(("call", "dtype"), WIDENED.values(), ids=WIDENED)
def test_a_type_that_the_cpu_lacks_is_computed(call, dtype):
    values = (torch.rand((2, 2, 2) if dtype is HALF else (2, 2)) * 4).to(dtype)
    out = call(values.cuda(1))
    assert out.device == GPU1
    if dtype in (HALF, COMPLEX_HALF):
        expected = call(values.to(FLOAT if dtype is HALF else torch.complex64))
        assert out.dtype == (COMPLEX_HALF if expected.is_complex() else HALF)
        torch.testing.assert_close(out.cpu().to(expected.dtype), expected, rtol=1e-2, atol=1e-2)


def test_half_a_gradient_comes_back_through_an_fft():
    x = torch.rand(4, device=GPU1, dtype=HALF, requires_grad=True)
    torch.fft.rfft(x).abs().sum().backward()
    assert x.grad.dtype == HALF and x.grad.device == GPU1


def on(card):
    cudasim.disable()
    cudasim.enable(card=card)


TOO_OLD = "Flash attention only supports gpu architectures in the range [sm80, sm121]. "


@pytest.mark.parametrize(
    ("card", "dtype", "kernel", "why"),
    [
        ("T4", HALF, "flash", TOO_OLD + "Attempting to run on a sm 7.5 gpu."),
        ("A100", HALF, "flash", None),
        ("A100", FLOAT, "flash", "to all be of dtype: {Half, BFloat16}. Got Query dtype:"),
        ("A100", FLOAT, "efficient", None),
        ("T4", HALF, "efficient", None),
        ("T4", BRAIN, "efficient", "dtype"),
    ],
)
@pytest.mark.filterwarnings("always")
def test_kernels_of_attention_want_cards_and_types(card, dtype, kernel, why, recwarn):
    on(card)
    x = of(dtype, 1, 2, 4, 8)
    can_use = getattr(torch.backends.cuda, f"can_use_{kernel}_attention")
    assert can_use(SDPAParams(x, x, x, None, 0.0, False, False)) == (why is None)
    with sdpa_kernel(getattr(SDPBackend, f"{kernel.upper()}_ATTENTION")):
        said = answered(lambda: F.scaled_dot_product_attention(x, x, x))
    told = [str(each.message) for each in recwarn]
    if why is None:
        assert said == "no error" and told == []
    else:
        assert said == "RuntimeError: No available kernel. Aborting execution."
        assert any(why in each for each in told)
    assert F.scaled_dot_product_attention(x, x, x).device == GPU1  # by whichever kernel takes it


@pytest.mark.parametrize("card", ["A100", "RTX 4090", "H100"])
def test_products_of_8_bit_floats_want_ada_and_columns(card):
    on(card)
    x, one = of(FLOAT, 16, 16).to(torch.float8_e4m3fn), torch.ones((), device=GPU1)
    columns, rows = (
        answered(lambda y=y: torch._scaled_mm(x, y, one, one, out_dtype=BRAIN)) for y in (x.t(), x)
    )
    if card == "A100":
        assert columns.startswith("RuntimeError: torch._scaled_mm is only supported on CUDA dev")
    else:
        assert columns == "no error" and "CUBLAS_STATUS_NOT_SUPPORTED" in rows


@pytest.fixture(scope="module")
def database():
    with cudasim.simulate(force=True):
        load_databases()
        from torch.testing._internal.common_methods_invocations import op_db
    return op_db


def answers(database, types, apart):
    """What is answered to the samples of each operator with each of `types(operator)`."""
    return {
        f"{op.name} {op.variant_test_name} {dtype}": [
            answered(lambda op=op, each=each: op(each.input, *each.args, **each.kwargs))
            for each in op.sample_inputs("cuda:1", dtype)
        ]
        for op in database
        if op.name not in apart
        for dtype in sorted(types(op), key=str)
    }


# Refused for a reason of their own, or not by their type alone.
APART = ("torch._scaled_mm", "torch._scaled_mm_v2", "histogram", "histogramdd")
REFUSAL = re.compile(
    r"\w+: (\"\w+\" not implemented for '\w+'|"
    r"getCudnnDataTypeFromScalarType\(\) not supported for Long)|no error"
)


@pytest.mark.full
def test_each_type_that_cuda_lacks_is_refused(database):
    """Some of the samples may be empty, or scalars that no kernel sees; not all of them."""
    found = answers(database, lambda op: op.dtypes - op.dtypesIfCUDA, APART)
    assert [name for name, said in found.items() if not set(said) - {"no error"}] == []
    assert [each for said in found.values() for each in said if not REFUSAL.fullmatch(each)] == []


@pytest.mark.full
def test_each_type_that_the_cpu_lacks_is_computed(database):
    apart = {f"torch.ops.aten._{name}_attention_forward" for name in ("flash", "efficient")}
    found = answers(database, lambda op: op.dtypesIfCUDA - op.dtypes, apart)
    assert {name: said for name, said in found.items() if set(said) != {"no error"}} == {}


@pytest.mark.full
def test_the_table_is_that_of_the_database(database):
    """For one card; `python cudasim/facts types` compares all."""
    table = json.loads(dtypes.TABLE.read_text(encoding="utf-8"))
    assert table["torch"] == torch.__version__.partition("+")[0]
    for op in database:
        name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
        cpu, cuda = ({*map(dtypes.short, kinds)} for kinds in (op.dtypes, op.dtypesIfCUDA))
        entry = table["operators"].get(name, {"cpu": cpu, "cuda": dict.fromkeys(cpu, 0)})
        taken = {kind for kind, least in entry["cuda"].items() if float(least) <= 7.5}
        assert (set(entry["cpu"]), taken) == (cpu, cuda), name


def test_names_of_kernels_are_in_the_table():
    assert {entry for entry, _ in dtypes.KERNELS.values()} <= dtypes.operators().keys()


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


@pytest.mark.parametrize("dtype", [LONG, INT, torch.uint8])
def test_a_division_by_zero_is_no_error_on_a_card(dtype):
    ones = 255 if dtype is torch.uint8 else -1
    x, y = (torch.tensor(values, dtype=dtype, device=GPU1) for values in ([7, 8], [0, 3]))
    assert (x // y).tolist() == torch.div(x, y, rounding_mode="trunc").tolist() == [ones, 2]
    assert (x % y).tolist() == torch.fmod(x, y).tolist() == [7, 2]
    assert (x // 0).tolist() == [ones] * 2 and (x % 0).device == GPU1
    assert x.floor_divide_(y) is x and x.tolist() == [ones, 2]
    assert (7 // y).tolist() == [ones, 2]
    assert raised(lambda: x.cpu() // 0) == "ZeroDivisionError"
    assert "at least two devices, cuda:1 and cpu" in raised(lambda: x // y.cpu())


def test_a_convolution_by_cudnns_name_and_settings_of_libraries():
    image, weight = of(FLOAT, 1, 1, 3, 3), of(FLOAT, 1, 1, 2, 2).requires_grad_()
    found = torch.cudnn_convolution(image, weight, (0, 0), (1, 1), (1, 1), 1, False, False, False)
    found.sum().backward()
    assert found.flatten().tolist() == [4] * 4 and weight.grad.flatten().tolist() == [4] * 4
    cuda = torch.backends.cuda
    assert cuda.preferred_linalg_library("cusolver") == cuda.preferred_linalg_library()
    assert cuda.preferred_blas_library("cublaslt") == cuda.preferred_blas_library()
    cuda.cufft_plan_cache[1].max_size = 3
    assert (cuda.cufft_plan_cache[1].max_size, cuda.cufft_plan_cache.max_size) == (3, 4096)
    cuda.cufft_plan_cache.clear()


@pytest.mark.parametrize("kind", [FLOAT, torch.float64, INT])
def test_a_division_by_a_number_is_a_product_with_its_reciprocal(kind):
    x, wide = torch.arange(1, 2000, dtype=kind), torch.promote_types(kind, FLOAT)
    found, in_place = (x.cuda() / 3).cpu(), x.to(wide).cuda()
    in_place /= torch.tensor(3.0)
    assert torch.equal(found, x.to(wide) * (1 / torch.tensor(3, dtype=wide)))
    assert torch.equal(in_place.cpu(), found) and not torch.equal(found, x / 3)
