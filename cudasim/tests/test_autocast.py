"""`torch.autocast`: its lists and regions; `fidelity/programs/autocast.py` asks for types."""

import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from calls import in_thread
from torch import nn

import cudasim
from cudasim.dispatch import autocast
from cudasim.session import session

pytestmark = [pytest.mark.usefixtures("two_gpus"), pytest.mark.filterwarnings("error")]


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.rand(4, 4, device="cuda:1") + 0.1


def test_regions_of_the_cpu_and_the_gpu_spare_each_others_tensors():
    """On the CPU's key C++ would cast those on a GPU, as it believes them to be there."""
    here, there = torch.ones(2, 2), torch.ones(2, 2, device="cuda")
    with torch.autocast("cuda"):
        assert here.half().sum().dtype is here.half().norm().dtype is torch.float16
        assert F.binary_cross_entropy(here, here).dtype is torch.float32
    with torch.autocast("cpu"):
        assert (there @ there).dtype == F.linear(there, there).dtype == torch.float32
        assert F.mse_loss(there.half(), there.half()).dtype == torch.float16
        assert (here @ here).dtype == F.linear(here, here).dtype == torch.bfloat16
        with torch.autocast("cuda"):
            assert (there @ there).dtype == torch.float16
    cudasim.disable()
    with torch.autocast("cpu"):  # PyTorch's own kernels again
        assert (here @ here).dtype == torch.bfloat16


def of_names(overload):
    """Whether it names dimensions, as some did until 2.13."""
    return (
        torch.__version__ < (2, 13)
        and re.search("[Dd]imname|names_", overload) is not None
    )


@pytest.mark.parametrize(
    "macro, mine",
    [
        ("LOWER_PRECISION_FP", autocast.HALF),
        ("FP32", autocast.FLOAT),
        ("FP32_SET_OPT_DTYPE", autocast.FLOAT_BY_DTYPE),
        ("PROMOTE", autocast.WIDEST),
    ],
)
def test_the_lists_are_those_of_torchs_header(macro, mine):
    header = Path(torch.__file__).with_name("include") / "ATen/autocast_mode.h"
    text = header.read_text(encoding="utf-8").replace("\\\n", " ")
    (line,) = re.findall(rf"#define AT_FORALL_{macro}\(_\)(.*)", text)
    theirs = re.findall(r"_\((\w+)(?:, (\w+))?\)", line)
    theirs = {
        ".".join(filter(None, names)) for names in theirs if not of_names(names[1])
    }
    # Some of mine are of older or newer versions than this one.
    assert theirs == set(filter(autocast.casts, mine))


@pytest.mark.parametrize("kind", ["cuda", "mps"])
def test_whatever_this_torch_casts_is_cast(kind):
    cudasim.disable()
    with cudasim.simulate(device_type=kind, force=True):
        key = autocast.autocast_key().name
        listed = [name for _, names in autocast.policies() for name in names]
        known = {autocast.overload(name).name() for name in listed}
        theirs = {
            name
            for name in torch._C._dispatch_get_all_op_names()
            if name.startswith("aten::")
            and not of_names(name)
            and torch._C._dispatch_has_kernel_for_dispatch_key(name, key)
        }
        vendors = ("cudnn", "_cudnn", "_mps")  # called by those that are listed
        rest = {name for name in theirs - known if not name[6:].startswith(vendors)}
        assert known and rest == set()


def test_a_region_holds_in_its_thread_only(x):
    with torch.autocast("cuda"):
        assert in_thread(lambda: (x @ x).dtype) is torch.float32


def test_outside_a_region_and_a_simulation_nothing_stands_in(x):
    x @ x
    assert session.autocast is None
    cudasim.disable()
    before = torch._C._dispatch_dump("aten::mm")
    with cudasim.simulate():
        with torch.autocast("cuda"):
            torch.ones(2, 2, device="cuda") @ torch.ones(2, 2, device="cuda")
            assert (
                session.autocast is not None
                and torch._C._dispatch_dump("aten::mm") != before
            )
        key = torch._C.DispatchKey.AutocastCUDA
        assert not torch._C._dispatch_tls_local_include_set().has(key)
    assert torch._C._dispatch_dump("aten::mm") == before


def test_a_region_goes_on_with_the_weights_that_it_began_with(x):
    def train(**options):
        model = nn.Linear(4, 2).to(x.device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with torch.autocast("cuda", **options):
            with torch.no_grad():
                model(x)  # what is cast here serves training, too
            losses = []
            for _ in range(2):
                losses.append(model(x).float().pow(2).mean())
                optimizer.zero_grad()
                losses[-1].backward()
                optimizer.step()
        with torch.autocast("cuda", **options):
            return [each.item() for each in (*losses, model(x).float().pow(2).mean())]

    first, second, after = train()
    assert first == second != after
    first, second, after = train(cache_enabled=False)
    assert first > second > after
