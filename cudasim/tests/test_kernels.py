"""Types and cards that CUDA's kernels take and the CPU's do not, and the other way around.

What kernels say and compute is in `fidelity/programs/kernels.py`.
"""

import functools
import json
import re

import pytest
import torch
from programs import PROJECT
from torch.backends.cuda import SDPAParams
from torch.nn.attention import SDPBackend, sdpa_kernel

import cudasim
from cudasim.dispatch import dtypes
from facts.survey import load_databases
from fidelity.helpers import raised

pytestmark = pytest.mark.usefixtures("two_gpus")

F = torch.nn.functional
GPU1 = torch.device("cuda:1")
FLOAT, HALF, BRAIN = torch.float32, torch.half, torch.bfloat16


def of(dtype, *shape):
    return torch.ones(*shape, dtype=dtype, device=GPU1)


def on(card):
    cudasim.disable()
    cudasim.enable(card=card)


TOO_OLD = "Flash attention only supports gpu architectures in the range [sm80, sm121]. "
WRONG_TYPE = "to all be of dtype: {Half, BFloat16}. Got Query dtype:"


@pytest.mark.parametrize(
    ("card", "dtype", "kernel", "why"),
    [
        ("T4", HALF, "flash", TOO_OLD + "Attempting to run on a sm 7.5 gpu."),
        ("A100", HALF, "flash", None),
        ("A100", FLOAT, "flash", WRONG_TYPE),
        ("A100", FLOAT, "efficient", None),
        ("T4", HALF, "efficient", None),
        ("T4", BRAIN, "efficient", "dtype"),
    ],
)
@pytest.mark.filterwarnings("always")
def test_kernels_of_attention_want_cards_and_types(card, dtype, kernel, why, recwarn):
    on(card)
    x = of(dtype, 1, 2, 4, 8)

    def attend():
        return F.scaled_dot_product_attention(x, x, x)

    can_use = getattr(torch.backends.cuda, f"can_use_{kernel}_attention")
    parameters = SDPAParams(x, x, x, None, 0.0, False, False)
    assert can_use(parameters) == (why is None)
    backend = getattr(SDPBackend, f"{kernel.upper()}_ATTENTION")
    with sdpa_kernel(backend):
        error = raised(attend)
    warnings = "\n".join(str(warning.message) for warning in recwarn)
    if why is None:
        assert error == "no error"
        assert warnings == ""
    else:
        assert error == "RuntimeError: No available kernel. Aborting execution."
        assert why in warnings
    assert attend().device == GPU1  # by whichever kernel takes it


@pytest.mark.parametrize("card", ["A100", "RTX 4090", "H100"])
def test_products_of_8_bit_floats_want_ada_and_columns(card):
    on(card)
    x = of(FLOAT, 16, 16).to(torch.float8_e4m3fn)
    scale = torch.ones((), device=GPU1)

    def multiply(y):
        return torch._scaled_mm(x, y, scale, scale, out_dtype=BRAIN)

    columns = raised(lambda: multiply(x.t()))
    rows = raised(lambda: multiply(x))
    if card == "A100":
        words = "RuntimeError: torch._scaled_mm is only supported on CUDA dev"
        assert columns.startswith(words)
    else:
        assert columns == "no error"
        # PyTorch looks itself on Hopper, and leaves it to cuBLAS on Ada.
        on_hopper = "Only multiplication of row-major and column-major matrices"
        assert (on_hopper if card == "H100" else "CUBLAS_STATUS_NOT_SUPPORTED") in rows


@pytest.fixture(scope="module")
def database():
    """PyTorch's database of operators, if the table of types is of its version."""
    version = json.loads(dtypes.TABLE.read_text(encoding="utf-8"))["torch"]
    # Of the book, in whose folder this one may be.
    pins = PROJECT.parent / "requirements.txt"
    if pins.is_file():
        assert f"\ntorch=={version} " in pins.read_text(encoding="utf-8")
    if not torch.__version__.startswith(version):
        reason = f"the table of types is of torch {version}"
        pytest.skip(f"{reason}: python cudasim/facts types")
    with cudasim.simulate(force=True):
        load_databases()
        from torch.testing._internal.common_methods_invocations import op_db
    return op_db


def answers_of(op, dtype):
    """Return what is answered to each sample of an operator's arguments."""
    answers = []
    for sample in op.sample_inputs("cuda:1", dtype):
        call = functools.partial(op, sample.input, *sample.args, **sample.kwargs)
        answers.append(raised(call))
    return answers


def label(op, dtype):
    return f"{op.name} {op.variant_test_name} {dtype}"


# Refused for a reason of their own, or not by their type alone.
APART = ("torch._scaled_mm", "torch._scaled_mm_v2", "histogram", "histogramdd")
REFUSAL = re.compile(
    r"\w+: (\"\w+\" not implemented for '\w+'|"
    r"getCudnnDataTypeFromScalarType\(\) not supported for Long)|no error"
)


@pytest.mark.full
def test_each_type_that_cuda_lacks_is_refused(database):
    """Some of the samples may be empty, or scalars that no kernel sees; not all of them."""
    computed, other_words = [], []
    for op in database:
        if op.name in APART:
            continue
        for dtype in op.dtypes - op.dtypesIfCUDA:
            answers = answers_of(op, dtype)
            if set(answers) <= {"no error"}:
                computed.append(label(op, dtype))
            for answer in answers:
                if not REFUSAL.fullmatch(answer):
                    other_words.append((label(op, dtype), answer))
    assert computed == []
    assert other_words == []


@pytest.mark.full
def test_each_type_that_the_cpu_lacks_is_computed(database):
    apart = (
        "torch.ops.aten._flash_attention_forward",
        "torch.ops.aten._efficient_attention_forward",
    )
    refused = {}
    for op in database:
        if op.name in apart:
            continue
        for dtype in op.dtypesIfCUDA - op.dtypes:
            answers = answers_of(op, dtype)
            if set(answers) != {"no error"}:
                refused[label(op, dtype)] = answers
    assert refused == {}


def short_names(types):
    return {dtypes.short_name(dtype) for dtype in types}


@pytest.mark.full
def test_the_table_is_that_of_the_database(database):
    """For one card; `python cudasim/facts types` compares all."""
    table = dtypes.operators()
    for op in database:
        name = f"{op.name}.{op.variant_test_name}".removesuffix(".")
        cpu = short_names(op.dtypes)
        cuda = short_names(op.dtypesIfCUDA)
        if name not in table:
            assert cpu == cuda, name
            continue
        entry = table[name]
        assert set(entry["cpu"]) == cpu, name
        types_of_the_card = set()
        for dtype, least in entry["cuda"].items():
            if float(least) <= 7.5:
                types_of_the_card.add(dtype)
        assert types_of_the_card == cuda, name


def test_names_of_kernels_are_in_the_table():
    for operator in dtypes.CHECKED:
        assert dtypes.entry_of(operator), operator


@pytest.mark.parametrize(
    ("dtype", "kernel"), [(torch.int32, "dot"), (torch.complex32, "vdot")]
)
def test_vdot_of_real_numbers_is_dot(dtype, kernel):
    x = torch.ones(2, dtype=torch.float32, device="cuda:1").to(dtype)
    error = raised(lambda: torch.vdot(x, x))
    assert f'"{kernel}" not implemented for' in error


def test_devices_are_compared_before_dtypes():
    """CUDA's generated wrappers compare devices, and their kernels look at dtypes."""
    x = torch.ones(4, 4, dtype=torch.float16, device=GPU1)
    weight = torch.ones(4)
    error = raised(lambda: torch.nn.functional.layer_norm(x, (4,), weight, weight))
    assert "got weight is on cpu, different from other tensors on cuda:1" in error
    whole = x.int()
    error = raised(lambda: torch.mm(whole, whole.cpu()))
    assert "got mat2 is on cpu, different from other tensors on cuda:1" in error
    assert '"addmm_cuda" not implemented' in raised(lambda: torch.mm(whole, whole))
