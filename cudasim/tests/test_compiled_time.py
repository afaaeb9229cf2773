"""Under modelled time a compiled graph is booked as the kernels that Inductor makes of it."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import cudasim
from cudasim.clock.estimate import Estimate
from cudasim.timing.sheets import find_sheet

pytestmark = pytest.mark.filterwarnings("ignore:cudasim. inductor")


@pytest.fixture(autouse=True)
def modelled_gpus():
    with cudasim.simulate(gpus=2, card="A100", clock="modelled"):
        yield


def kernels(function, *args):
    """Return the names of the kernels that a second call of `function` launches."""
    function(*args)
    with cudasim.timeline() as lanes:
        function(*args)
        torch.cuda.synchronize()
    return [span.name for span in lanes.spans if span.kind == "kernel"]


def host_spans(function, *args):
    function(*args)
    with cudasim.timeline() as lanes:
        function(*args)
    return [span.name for span in lanes.spans if span.lane == "Python"]


class GeGLU(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(16, 32, bias=False)
        self.up = nn.Linear(16, 32, bias=False)
        self.down = nn.Linear(32, 16, bias=False)

    def forward(self, x):
        gate = F.gelu(self.gate(x), approximate="tanh")
        return self.down(gate * self.up(x))


@torch.no_grad()
def test_kernels_have_the_names_of_inductors():
    """As a trace of an A100 has them: https://huggingface.co/blog/torch-mlp-fusion."""
    net = GeGLU().cuda()
    x = torch.rand(4, 8, 16, device="cuda")
    fused = "triton_poi_fused__unsafe_view_gelu_mul_0"
    assert kernels(torch.compile(net), x) == ["mm", "mm", fused, "mm"]
    assert kernels(net, x) == ["mm", "gelu", "mm", "mul", "mm"]
    torch.testing.assert_close(torch.compile(net)(x), net(x))


FUSED = {
    # What sums is one kernel with what it sums, and with what follows its rows.
    "sum": (lambda x: (x * 2).sum(1).relu(), ["triton_per_fused_mul_relu_sum_0"]),
    "norm": (
        lambda x: F.layer_norm(x + 1, (8,)).sigmoid(),
        ["triton_per_fused_add_native_layer_norm_sigmoid_0"],
    ),
    "long": (
        lambda x: x.repeat(1, 200).sum(1),
        ["triton_red_fused_repeat_sum_0"],
    ),
    # Rows and columns are summed in turn: two kernels.
    "twice": (
        lambda x: x.sum(1).sum(0),
        ["triton_per_fused_sum_0", "triton_per_fused_sum_1"],
    ),
    # A small operand is computed on the way.
    "small": (lambda x: x + x[0].sin(), ["triton_poi_fused_add_select_sin_0"]),
    "product": (
        lambda x: (x.exp() @ x.T).relu(),
        ["triton_poi_fused_exp_0", "mm", "triton_poi_fused_relu_1"],
    ),
    # A sort needs its input in memory, and the second sine may not wait for the sort.
    "sort": (
        lambda x: x.cos() + x.cos().sort().values,
        ["triton_poi_fused_cos_0", "sort", "triton_poi_fused_add_1"],
    ),
}


@pytest.mark.parametrize("name", FUSED)
def test_operations_are_fused(name):
    function, expected = FUSED[name]
    x = torch.rand(4, 8, device="cuda")
    assert kernels(torch.compile(function), x) == expected


def test_gradients_are_fused_too():
    x = torch.rand(4, 8, device="cuda", requires_grad=True)

    def step(x):
        compiled(x).sum().backward()

    compiled = torch.compile(lambda x: (x.sin() * 2).cos())
    names = kernels(step, x)
    assert names[0] == "triton_poi_fused_cos_mul_sin_0"
    assert "triton_poi_fused_cos_mul_neg_sin_0" in names[1:]


def test_a_kernel_reads_and_writes_once():
    """89.4 us on an A100 SXM of 80 GB: https://huggingface.co/blog/torch-mlp-fusion."""
    mode = Estimate(find_sheet("A100"))
    gate, up = torch.empty(2, 8192, 3072, dtype=torch.bfloat16, device="meta")
    compiled = mode.compile(lambda: F.gelu(gate) * up, "default")
    compiled()
    mode.restart()
    with mode:
        compiled()
    (work,) = mode.works
    assert work.bytes == 3 * 2 * 8192 * 3072


def test_what_is_used_again_is_written():
    mode = Estimate(find_sheet("A100"))
    x = torch.empty(1000, device="meta")
    compiled = mode.compile(lambda: (x.sin(), x.sin() + x.cos()), "default")
    compiled()
    mode.restart()
    with mode:
        compiled()
    (work,) = mode.works
    assert work.bytes == 3 * 4 * 1000  # x, and the two results


def test_reduced_overhead_is_one_launch():
    x = torch.rand(4, 8, device="cuda")

    def function(x):
        return (x.exp() @ x.T).relu()

    compiled = torch.compile(function, mode="reduce-overhead")
    assert host_spans(compiled, x) == ["graph"]
    assert kernels(compiled, x) == FUSED["product"][1]
    assert host_spans(torch.compile(function), x) == FUSED["product"][1]


def test_the_backend_of_graphs_is_one_launch_of_kernels_that_are_not_fused():
    x = torch.rand(4, 8, device="cuda")
    compiled = torch.compile(lambda x: x.sin() + 1, backend="cudagraphs")
    assert kernels(compiled, x) == ["sin", "add"]
    assert host_spans(compiled, x) == ["graph"]


def test_other_backends_are_booked_op_by_op():
    x = torch.rand(4, 8, device="cuda")
    compiled = torch.compile(lambda x: x.sin() + 1, backend="aot_eager")
    assert kernels(compiled, x) == ["sin", "add"]


def test_guards_cost_by_their_tensors():
    """10 us for a call, and 1.4 for each tensor, on the host of a DGX A100."""
    tensors = [torch.rand(4, device="cuda") for _ in range(11)]

    def duration(count):
        compiled = torch.compile(lambda *xs: sum(xs))
        compiled(*tensors[:count])
        with cudasim.timeline() as lanes:
            compiled(*tensors[:count])
        (span,) = [span for span in lanes.spans if span.lane == "Python"]
        return span.length

    assert duration(11) - duration(2) == 9 * 1400


def test_shapes_of_later_calls_count():
    compiled = torch.compile(lambda x: x.sin() + 1, dynamic=True)

    def busy(elements):
        x = torch.rand(elements, device="cuda")
        compiled(x)
        with cudasim.timeline() as lanes:
            compiled(x)
        (span,) = [span for span in lanes.spans if span.kind == "kernel"]
        return span.length

    assert busy(20_000_000) > 1.9 * busy(10_000_000)
