"""Types and cards that CUDA's kernels take and the CPU's do not, and the other way. What they say
and compute is asked by `fidelity/programs/kernels.py`."""

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

F, GPU1 = torch.nn.functional, torch.device("cuda", 1)
FLOAT, HALF, BRAIN = torch.float32, torch.half, torch.bfloat16


def of(dtype, *shape):
    return torch.ones(*shape, dtype=dtype, device=GPU1)


def on(card):
    cudasim.disable()
    cudasim.enable(card=card)


TOO_OLD = "Flash attention only supports gpu architectures in the range [sm80, sm121]. "


@pytest.mark.parametrize(
    ("card", "dtype", "kernel", "why"),
    [
        ("T4", HALF, "flash", TOO_OLD + "Attempting to run on a sm 7.5 gpu."),
        ("A100", HALF, "flash", None),
        (
            "A100",
            FLOAT,
            "flash",
            "to all be of dtype: {Half, BFloat16}. Got Query dtype:",
        ),
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
        said = raised(lambda: F.scaled_dot_product_attention(x, x, x))
    told = [str(each.message) for each in recwarn]
    if why is None:
        assert said == "no error" and told == []
    else:
        assert said == "RuntimeError: No available kernel. Aborting execution."
        assert any(why in each for each in told)
    assert (
        F.scaled_dot_product_attention(x, x, x).device == GPU1
    )  # by whichever kernel takes it


@pytest.mark.parametrize("card", ["A100", "RTX 4090", "H100"])
def test_products_of_8_bit_floats_want_ada_and_columns(card):
    on(card)
    x, one = of(FLOAT, 16, 16).to(torch.float8_e4m3fn), torch.ones((), device=GPU1)
    columns, rows = (
        raised(lambda y=y: torch._scaled_mm(x, y, one, one, out_dtype=BRAIN))
        for y in (x.t(), x)
    )
    if card == "A100":
        assert columns.startswith(
            "RuntimeError: torch._scaled_mm is only supported on CUDA dev"
        )
    else:
        assert columns == "no error" and "CUBLAS_STATUS_NOT_SUPPORTED" in rows


@pytest.fixture(scope="module")
def database():
    made = json.loads(dtypes.TABLE.read_text(encoding="utf-8"))["torch"]
    pins = (
        PROJECT.parent / "requirements.txt"
    )  # of the book, in whose folder this one may be
    assert not pins.is_file() or f"\ntorch=={made} " in pins.read_text(encoding="utf-8")
    if not torch.__version__.startswith(made):
        pytest.skip(
            f"the table of types is of torch {made}: python cudasim/facts types"
        )
    with cudasim.simulate(force=True):
        load_databases()
        from torch.testing._internal.common_methods_invocations import op_db
    return op_db


def answers(database, types, apart):
    """What is answered to the samples of each operator with each of `types(operator)`."""
    return {
        f"{op.name} {op.variant_test_name} {dtype}": [
            raised(lambda op=op, each=each: op(each.input, *each.args, **each.kwargs))
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
    assert [
        each for said in found.values() for each in said if not REFUSAL.fullmatch(each)
    ] == []


@pytest.mark.full
def test_each_type_that_the_cpu_lacks_is_computed(database):
    apart = {
        f"torch.ops.aten._{name}_attention_forward" for name in ("flash", "efficient")
    }
    found = answers(database, lambda op: op.dtypesIfCUDA - op.dtypes, apart)
    assert {
        name: said for name, said in found.items() if set(said) != {"no error"}
    } == {}


@pytest.mark.full
def test_the_table_is_that_of_the_database(database):
    """For one card; `python cudasim/facts types` compares all."""
    for op in database:
        name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
        cpu, cuda = (
            {*map(dtypes.short_name, kinds)} for kinds in (op.dtypes, op.dtypesIfCUDA)
        )
        entry = dtypes.operators().get(
            name, {"cpu": cpu, "cuda": dict.fromkeys(cpu, 0)}
        )
        taken = {kind for kind, least in entry["cuda"].items() if float(least) <= 7.5}
        assert (set(entry["cpu"]), taken) == (cpu, cuda), name


def test_names_of_kernels_are_in_the_table():
    assert all(map(dtypes.entry_of, dtypes.KERNELS))
