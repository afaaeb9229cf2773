"""`torch.autocast`: its lists and regions; `fidelity/programs/autocast.py` asks for types."""

import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from calls import in_thread, raised
from torch import nn

import cudasim
from cudasim.dispatch import autocast
from cudasim.session import session

pytestmark = [pytest.mark.usefixtures("two_gpus"), pytest.mark.filterwarnings("error")]


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.rand(4, 4, device="cuda:1") + 0.1


def test_regions_of_cpu_and_gpu_cast_their_own_tensors():
    """On the CPU's key C++ would cast those on a GPU, as it believes them to be there."""
    host, on_gpu = torch.ones(2, 2), torch.ones(2, 2, device="cuda")
    with torch.autocast("cuda"):
        assert host.half().sum().dtype is torch.float16
        assert host.half().norm().dtype is torch.float16
        assert F.binary_cross_entropy(host, host).dtype is torch.float32
    with torch.autocast("cpu"):
        assert (on_gpu @ on_gpu).dtype is torch.float32
        assert F.linear(on_gpu, on_gpu).dtype is torch.float32
        assert F.mse_loss(on_gpu.half(), on_gpu.half()).dtype is torch.float16
        assert (host @ host).dtype is torch.bfloat16
        assert F.linear(host, host).dtype is torch.bfloat16
        with torch.autocast("cuda"):
            assert (on_gpu @ on_gpu).dtype is torch.float16
    cudasim.disable()
    with torch.autocast("cpu"):  # PyTorch's own kernels again
        assert (host @ host).dtype is torch.bfloat16


def names_dimensions(overload):
    """Whether an overload takes names of dimensions, as some did until 2.13."""
    if torch.__version__ >= (2, 13):
        return False
    return re.search("[Dd]imname|names_", overload) is not None


@pytest.mark.parametrize(
    ("macro", "ours"),
    [
        ("LOWER_PRECISION_FP", autocast.HALF),
        ("FP32", autocast.FLOAT),
        ("FP32_SET_OPT_DTYPE", autocast.FLOAT_BY_DTYPE),
        ("PROMOTE", autocast.WIDEST),
    ],
)
def test_the_lists_are_those_of_torchs_header(macro, ours):
    header = Path(torch.__file__).with_name("include") / "ATen/autocast_mode.h"
    text = header.read_text(encoding="utf-8").replace("\\\n", " ")
    (line,) = re.findall(rf"#define AT_FORALL_{macro}\(_\)(.*)", text)
    theirs = set()
    for name, overload in re.findall(r"_\((\w+)(?:, (\w+))?\)", line):
        if not names_dimensions(overload):
            theirs.add(f"{name}.{overload}" if overload else name)
    # Some of ours are of older or newer versions than this one.
    assert theirs == set(filter(autocast.casts, ours))


@pytest.mark.parametrize("kind", ["cuda", "mps"])
def test_whatever_this_torch_casts_is_cast(kind):
    cudasim.disable()
    with cudasim.simulate(device_type=kind, force=True):
        key = autocast.autocast_key().name
        known = set()
        for _, names in autocast.policies():
            known |= {autocast.overload(name).name() for name in names}

    # Names that begin so are called by those that are listed.
    others = ("aten::cudnn", "aten::_cudnn", "aten::_mps")
    missing = []
    for name in torch._C._dispatch_get_all_op_names():
        if not name.startswith("aten::") or name.startswith(others):
            continue
        if name in known or names_dimensions(name):
            continue
        if torch._C._dispatch_has_kernel_for_dispatch_key(name, key):
            missing.append(name)
    assert known
    assert missing == []


def test_a_region_holds_in_its_thread_only(x):
    with torch.autocast("cuda"):
        assert in_thread(lambda: (x @ x).dtype) is torch.float32


def kernels_of_mm():
    return torch._C._dispatch_dump("aten::mm")


def test_outside_a_region_and_a_simulation_nothing_stands_in(x):
    x @ x
    assert session.autocast is None
    cudasim.disable()
    before = kernels_of_mm()
    with cudasim.simulate():
        y = torch.ones(2, 2, device="cuda")
        with torch.autocast("cuda"):
            y @ y
            assert session.autocast is not None
            assert kernels_of_mm() != before
        key = torch._C.DispatchKey.AutocastCUDA
        assert not torch._C._dispatch_tls_local_include_set().has(key)
    assert kernels_of_mm() == before


def train(x, **options):
    """Return the losses of two steps in one region, and of a pass in the next region."""
    model = nn.Linear(4, 2).to(x.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def loss_of():
        return model(x).float().pow(2).mean()

    losses = []
    with torch.autocast("cuda", **options):
        with torch.no_grad():
            model(x)  # what is cast here serves training, too
        for _ in range(2):
            loss = loss_of()
            losses.append(loss.item())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.autocast("cuda", **options):
        losses.append(loss_of().item())
    return losses


def test_a_region_keeps_the_weights_that_it_cast(x):
    first, second, after = train(x)
    assert first == second != after
    first, second, after = train(x, cache_enabled=False)
    assert first > second > after


def test_a_region_holds_within_the_kernels_that_all_devices_share(x):
    """They call what autocast lists: `addmm` in SparseTensorMath.cpp, `bmm` in
    AffineGridGenerator.cpp, `matmul` in LinearAlgebra.cpp and Distance.cpp, `sum` in UnaryOps.cpp.
    """
    theta = torch.eye(2, 3, device="cuda:1")[None].requires_grad_()
    rows = x.to_sparse()
    with torch.autocast("cuda"):
        grid = F.affine_grid(theta, (1, 1, 2, 2), align_corners=True)
        assert grid.dtype is torch.float16
        assert grid.tolist() == [[[[-1, -1], [1, -1]], [[-1, 1], [1, 1]]]]
        assert torch.linalg.pinv(x).dtype is torch.float16
        assert x.half().add(2).mvlgamma(2).dtype is torch.float32
        # `cdist` is listed itself, and calls the same kernel without autocast.
        assert torch.cdist(x, torch.ones(30, 4, device="cuda:1")).dtype is torch.float32
        words = "\"addmm_sparse_cuda\" not implemented for 'Half'"
        for product in (
            lambda: torch.sparse.mm(rows, x),
            lambda: torch.sparse.addmm(x, rows, x),
        ):
            assert raised(product, NotImplementedError) == words
        with torch.autocast("cuda", enabled=False):
            assert torch.sparse.mm(rows, x).dtype is torch.float32
            assert F.affine_grid(theta, (1, 1, 2, 2), True).dtype is torch.float32
    grid.float().sum().backward()
    assert theta.grad.dtype is torch.float32
    assert theta.grad.tolist() == [[[0, 0, 4], [0, 0, 4]]]
