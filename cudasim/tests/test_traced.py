"""`torch.compile` traces code for simulated GPUs as it does for real ones."""

import shutil
import warnings

import pytest
import torch
from programs import run
from torch import nn
from torch._dynamo.testing import CompileCounter, CompileCounterWithBackend
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

import cudasim

pytestmark = pytest.mark.usefixtures("two_gpus")

GPU0, GPU1 = torch.device("cuda", 0), torch.device("cuda", 1)
CPU = torch.device("cpu")


def make_net():
    torch.manual_seed(0)
    layers = nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2)
    return nn.Sequential(*layers).cuda(1)


def train(net, call):
    """Train `net`, called as `call`, for three steps, and return the losses."""
    x = torch.rand(16, 4, generator=torch.Generator().manual_seed(1)).cuda(1)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    losses = []
    for _ in range(3):
        loss = call(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


@pytest.mark.filterwarnings("ignore:cudasim. inductor")
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_training_has_the_losses_of_eager(backend):
    net = make_net()
    expected = train(net, net)
    net = make_net()
    compiled = torch.compile(net, backend=backend, fullgraph=True)
    assert train(net, compiled) == pytest.approx(expected, rel=1e-6)
    assert next(iter(compiled.state_dict())) == "_orig_mod.0.weight"
    assert net[0].weight.device == GPU1


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        return self.layer(x).relu()


def test_a_backend_of_the_programs_own_gets_the_graph():
    counter = CompileCounter()
    x = torch.ones(3, device="cuda")
    out = torch.compile(lambda x: x.sin() + 1, backend=counter)(x)
    assert out.device == GPU0
    assert (counter.frame_count, counter.op_count) == (1, 2)

    net = Net().cuda()
    counter = CompileCounter()
    net.compile(backend=counter)
    assert net(torch.ones(1, 2, device="cuda")).device == GPU0
    assert counter.frame_count == 1


def test_breaks_in_graphs_are_found():
    def f(x):
        y = x * 2
        print("side effect", end="")
        return y + 1

    x = torch.ones(3, device="cuda")
    explained = torch._dynamo.explain(f)(x)
    assert (explained.graph_count, explained.graph_break_count) == (2, 1)
    with pytest.raises(torch._dynamo.exc.Unsupported, match="print"):
        torch.compile(f, backend="eager", fullgraph=True)(x)


def test_code_for_one_device_does_not_serve_another():
    counter = CompileCounter()
    f = torch.compile(lambda x: x * torch.ones(2, device=x.device), backend=counter)
    places = GPU0, GPU1, CPU
    for place in places:
        assert f(torch.ones(2, device=place)).device == place
    assert counter.frame_count == 3
    for place in places:
        assert f(torch.ones(2, device=place)).device == place
    assert counter.frame_count == 3

    net = nn.Linear(2, 2)
    compiled = torch.compile(net, backend=counter)
    for place in places:
        net.to(place)
        assert compiled(torch.ones(1, 2, device=place)).device == place


def test_a_mixture_of_devices_is_refused_while_tracing():
    f = torch.compile(lambda x, y: x + y, backend="eager", fullgraph=True)
    words = "at least two devices, cuda:0 and c|two different devices cuda:0, c"
    for other in CPU, GPU1:
        with pytest.raises(RuntimeError, match=words):
            f(torch.ones(2, device="cuda"), torch.ones(2, device=other))


MAKERS = {
    "ones": lambda x: torch.ones(2, device=x.device),
    "tensor": lambda x: torch.tensor([1.0, 2.0], device="cuda:1"),
    "a number": lambda x: torch.tensor(3, device="cuda:1"),
    "arange": lambda x: torch.arange(3, device="cuda:1"),
    "rand": lambda x: torch.rand(2, device="cuda:1"),
    "zeros_like": torch.zeros_like,
    "new_ones": lambda x: x.new_ones(3),
    "to": lambda x: x.cpu().to("cuda:1"),
    "cuda": lambda x: x.to("cuda:0").cuda(1),
    "attention": lambda x: nn.functional.scaled_dot_product_attention(x, x, x),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", MAKERS)
def test_what_makes_and_moves_tensors_is_traced(name, backend):
    f = torch.compile(MAKERS[name], backend=backend, fullgraph=True)
    x = torch.ones(1, 1, 2, 8, device="cuda:1")
    assert f(x).device == GPU1


early_ones = torch.ones  # as it is before a simulation


@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_a_default_device_is_traced(device):
    """`DeviceContext.__torch_function__` (torch/utils/_device.py) is part of the frame."""

    def f(x):
        return torch.zeros(2) + early_ones(2), x.sin()

    home = torch.empty(0, device=device).device
    compiled = torch.compile(f, backend="aot_eager", fullgraph=True)
    x = torch.ones(2)
    with torch.device(device):
        made, sine = compiled(x)
    assert made.device == home
    assert made.tolist() == [1, 1]
    assert sine.device == CPU
    assert compiled(x)[0].device == CPU

    torch.set_default_device(device)
    try:
        assert compiled(torch.ones(2))[0].device == home
    finally:
        torch.set_default_device(None)


def test_moves_to_the_host_are_traced():
    def f(x):
        return x.cpu(), x.to("cpu", torch.float16), (x * 2).cpu().sum()

    x = torch.ones(2, device="cuda", requires_grad=True)
    out = torch.compile(f, backend="aot_eager", fullgraph=True)(x)
    assert [tensor.device for tensor in out] == [CPU] * 3
    assert out[1].dtype == torch.float16
    out[2].backward()
    assert x.grad.device == GPU0
    assert x.grad.tolist() == [2, 2]


def test_properties_are_constants_in_graphs():
    """They are of `common_constant_types` in torch/_dynamo/utils.py."""

    def f(x):
        return x * torch.cuda.get_device_properties(x.device).major

    x = torch.ones(2, device="cuda:1")
    major, _ = torch.cuda.get_device_capability(1)
    assert torch.compile(f, backend="eager", fullgraph=True)(x).tolist() == [major] * 2


def test_a_module_trains_in_cuda_graphs_of_the_compiler():
    module = nn.Linear(4, 4).cuda(1)
    x = torch.rand(2, 4, device="cuda:1")
    compiled = torch.compile(module, backend="cudagraphs")
    for _ in range(3):  # a card warms up, captures and replays
        module.zero_grad()
        out = compiled(x)
        out.sum().backward()
        assert out.device == GPU1
        assert torch.equal(out, module(x))
        assert module.bias.grad.tolist() == [2] * 4


def test_streams_are_traced():
    def f(x):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            y = x + 1
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        return y * 2

    out = torch.compile(f, backend="aot_eager")(torch.ones(2, device="cuda"))
    assert out.device == GPU0
    assert out.tolist() == [4, 4]


def sin_and_add(x):
    return x.sin() + 1


NO_COMPILER = "no C++ compiler (g++): inductor can generate no code for the CPU"


@pytest.mark.skipif(shutil.which("g++") is None, reason=NO_COMPILER)
@pytest.mark.filterwarnings("ignore::cudasim.SimulationWarning")
@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_a_device_in_compiled_code_is_current_there(backend):
    """Graphs exchange it (`GenericDeviceVariable` in torch/_dynamo), Inductor names it."""

    def make(x):
        with torch.cuda.device(1):
            return torch.ones(4, device="cuda") * x.sum()

    x = torch.ones(2, device=GPU1, requires_grad=True)
    result = torch.compile(make, backend=backend, fullgraph=True)(x)
    result.sum().backward()
    assert result.device == x.grad.device == GPU1
    assert x.grad.tolist() == [4, 4]
    assert torch.cuda.current_device() == 0


@pytest.mark.skipif(shutil.which("g++") is None, reason=NO_COMPILER)
def test_inductor_generates_code_for_the_cpu():
    counter = CompileCounterWithBackend("inductor")
    x = torch.ones(3)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="cudasim")
        out = torch.compile(sin_and_add, backend=counter)(x)
    torch.testing.assert_close(out, sin_and_add(x))
    assert counter.frame_count == 1


def test_inductor_generates_no_code_for_gpus_and_says_so_once():
    x = torch.ones(3)
    with pytest.warns(UserWarning, match="inductor generates no code") as warned:
        for place in GPU0, GPU1:
            out = torch.compile(sin_and_add)(x.to(place))
            assert out.device == place
    ours = [each for each in warned if "cudasim" in str(each.message)]
    assert len(ours) == 1


def test_what_runs_on_real_gpus_alone_is_refused():
    x = torch.ones(2, 2, device="cuda", requires_grad=True)
    program = torch.export.export(nn.Identity(), (x.detach(),))
    with pytest.raises(NotImplementedError, match="AOTInductor generates no code"):
        torch._inductor.aoti_compile_and_package(program)

    def step(x):
        x.sin().sum().backward()

    with torch._dynamo.config.patch(compiled_autograd=True):
        with pytest.raises(NotImplementedError, match="compiled autograd does not run"):
            torch.compile(step, backend="eager")(x)
    with pytest.raises(NotImplementedError, match="cond and its kin"):
        torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)).sum().backward()


LOOPS = {
    "cond": lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)),
    "scan": lambda x: scan(lambda a, b: (a + b, a * b), x[0], x)[1],
    "while": lambda x: while_loop(
        lambda x: x.sum() < 100, lambda x: (x.clone() * 2,), (x,)
    )[0],
}


if torch.version.cuda:  # builds in which it makes a tensor on the CPU as it is traced
    del LOOPS["scan"]


@pytest.mark.parametrize("name", LOOPS)
def test_control_flow_is_traced(name):
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], device="cuda:1")
    expected = LOOPS[name](x.cpu())
    for function in LOOPS[name], torch.compile(LOOPS[name], backend="aot_eager"):
        out = function(x)
        assert out.device == GPU1
        torch.testing.assert_close(out.cpu(), expected)


def test_an_optimizer_is_compiled():
    weights = [nn.Parameter(torch.ones(3, device="cuda:1")) for _ in range(2)]
    optimizers = [torch.optim.Adam([weight], lr=0.1) for weight in weights]
    steps = [torch.compile(optimizers[0].step, backend="aot_eager"), optimizers[1].step]
    for _ in range(3):
        for weight, step in zip(weights, steps, strict=True):
            weight.grad = torch.arange(3.0, device="cuda:1")
            step()
    torch.testing.assert_close(*weights)
    assert weights[0].device == GPU1


def test_after_leaving_code_is_compiled_again():
    counter = CompileCounter()
    f = torch.compile(lambda x: x * 2, backend=counter)
    f(torch.ones(2))
    f(torch.ones(2, device="cuda"))
    cudasim.disable()
    assert f(torch.ones(2)).tolist() == [2, 2]
    assert counter.frame_count == 3
    with cudasim.simulate():
        assert f(torch.ones(2, device="cuda")).device == GPU0


WITHOUT_COMPILER = """
import sys, torch, cudasim
cudasim.enable()
net = torch.nn.Linear(2, 2).cuda(1)
dropped = torch.nn.functional.dropout(net(torch.ones(1, 2, device=1)))
dropped.sum().backward()
print('torch' in sys.modules, 'torch._dynamo' in sys.modules)
"""


def test_the_compiler_is_not_imported_unless_it_is_used(tmp_path):
    done = run("-c", WITHOUT_COMPILER, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "True False", done.stderr


# For each of these C++ makes a tensor, on the device that it reads: the CPU.
MADE_IN_CPP = {
    "zeros for an index": lambda x: x[[0, 1]],
    "zeros for a row": lambda x: x.select_scatter(x[0], 0, 1),
    "zeros without numbers": lambda x: x.sgn(),
    "a number": lambda x: x.quantile(0.5),
    "a range": lambda x: torch.mvlgamma(x + 2, 3),
    "an effect": lambda x: torch.linalg.inv(x + torch.eye(2, device="cuda:1")),
}


@pytest.mark.parametrize("name", MADE_IN_CPP)
def test_what_cpp_makes_is_on_the_gpu_of_a_graph(name):
    x = torch.tensor([[1.0, 2.0], [3.0, 5.0]], device="cuda:1", requires_grad=True)
    expected = MADE_IN_CPP[name](x)
    (gradient,) = torch.autograd.grad(expected.sum(), x)
    out = torch.compile(MADE_IN_CPP[name], backend="aot_eager")(x)
    out.sum().backward()
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(x.grad, gradient)


def test_what_cpp_makes_for_the_cpu_stays_there():
    torch.compile(MADE_IN_CPP["a number"], backend="aot_eager")(
        torch.ones(2, 2, device="cuda", requires_grad=True)
    )
    x = torch.ones(2, 2, requires_grad=True)
    for function in MADE_IN_CPP["zeros for an index"], MADE_IN_CPP["a number"]:
        out = torch.compile(function, backend="aot_eager")(x)
        out.sum().backward()
        assert out.device == x.grad.device == CPU


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.filterwarnings("ignore:cudasim. inductor")
def test_gradients_under_autocast_stay_on_their_gpu(backend):
    """Where C++ converts a gradient back it names the device that it reads: the CPU."""
    weight = torch.ones(4, 3, device="cuda:1", requires_grad=True)
    x = torch.ones(2, 4, device="cuda:1")
    target = torch.tensor([0, 1], device="cuda:1")

    def loss(x):
        return nn.functional.cross_entropy(x @ weight, target)

    with torch.autocast("cuda", torch.bfloat16):
        torch.compile(loss, backend=backend)(x).backward()
    assert weight.grad.device == GPU1
    expected = torch.tensor([-1 / 6, -1 / 6, 1 / 3])  # softmax - target, by two rows
    torch.testing.assert_close(weight.grad[0].cpu(), expected, rtol=0.02, atol=0.01)
