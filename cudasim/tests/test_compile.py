"""What transforms or watches code: `torch.export`, `torch.func`, counters, the profiler."""

import io
import json
import subprocess
import sys

import pytest
import torch
from calls import raised
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.flop_counter import FlopCounterMode

import cudasim
from cudasim.patches import guards

pytestmark = pytest.mark.usefixtures("two_gpus")

GPU0, GPU1 = torch.device("cuda", 0), torch.device("cuda", 1)


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


# --- torch.export ---


class Block(nn.Module):
    """A convolution, a running mean, and a number made on the device of its input."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU())

    def forward(self, x):
        with torch.enable_grad():
            means = self.layers(x).mean((2, 3))
        return means + torch.arange(2, device=x.device)


@pytest.mark.parametrize("strict", [False, True])
def test_an_exported_module_computes_on_its_gpu(tmp_path, strict):
    module = Block().cuda(1)
    x = torch.rand(2, 1, 8, 8, device="cuda:1")
    program = torch.export.export(module, (x,), strict=strict)
    assert module.layers[0].weight.requires_grad
    arange = torch.ops.aten.arange.default
    (node,) = [node for node in program.graph.nodes if node.target is arange]
    assert node.kwargs["device"] == GPU1

    torch.export.save(program, tmp_path / "net.pt2")
    for exported in (program, torch.export.load(tmp_path / "net.pt2")):
        out = exported.module()(x)
        assert out.device == GPU1
        assert torch.equal(out, module(x))


class Moving(nn.Module):
    def forward(self, x):
        home = x.cpu(), x.to(device="cpu", dtype=torch.float64), x.type_as(x.cpu())
        return *home, x.to("cuda:1"), x.cuda()


def test_an_exported_module_moves_its_tensors():
    x = torch.rand(2, device="cuda")
    exported = torch.export.export(Moving(), (x,)).module()
    for graph in (exported, make_fx(Moving(), tracing_mode="fake")(x)):
        *home, there, here = graph(x)
        assert [tensor.device.type for tensor in home] == ["cpu"] * 3
        assert home[1].dtype == torch.float64
        assert there.device == GPU1
        assert here.device == GPU0


class Mixing(nn.Module):
    def forward(self, x):
        return x + torch.ones(2)


def test_what_cannot_be_exported_is_refused(monkeypatch):
    words = "at least two devices, cuda:1 and cpu!"
    if torch.__version__ < (2, 13):
        words = "two different devices cuda:1, cpu"
    with pytest.raises(RuntimeError, match=words):
        torch.export.export(Mixing(), (torch.ones(2, device="cuda:1"),))

    module = net().cuda()
    inputs = (torch.ones(1, 4, device="cuda"),)
    monkeypatch.setattr(guards, "REGISTRY", "nowhere")  # what C++ knows of devices
    with pytest.raises(NotImplementedError, match="on this platform; export before"):
        torch.export.export(module, inputs)


CPU_ACTIVITY = torch.profiler.ProfilerActivity.CPU
CUDA_ACTIVITY = torch.profiler.ProfilerActivity.CUDA


# --- torch.jit ---


def zeros(number: int):
    return torch.zeros(number)


@pytest.mark.filterwarnings("ignore:.torch.jit")
def test_torchscript_is_loaded_where_map_location_says():
    file = io.BytesIO()
    traced = torch.jit.trace(nn.Linear(3, 2), torch.ones(1, 3))
    torch.jit.save(traced, file)
    for place in ("cuda:1", torch.device("cuda"), "cpu"):
        file.seek(0)
        loaded = torch.jit.load(file, map_location=place)
        x = torch.ones(1, 3, device=place)
        assert loaded(x).device == x.device


@pytest.mark.filterwarnings("ignore:.torch.jit")
def test_a_function_is_scripted_with_and_without_gpus():
    assert torch.jit.script(zeros)(2).tolist() == [0, 0]
    cudasim.disable()
    assert torch.jit.script(zeros)(2).tolist() == [0, 0]


# --- watching ---


NAMES = (
    "aten::addmm",
    "aten::mm",
    "aten::relu",
    "aten::item",
    "aten::_local_scalar_dense",
)


def counts_on(device, path):
    """Return how often the profiler counts each name, and how often its trace has it."""
    module = net().to(device)
    x = torch.ones(3, 4, device=device)
    with FlopCounterMode(display=False) as counter:  # and what is made only once
        module(x).sum().backward()
    assert counter.get_total_flops() == 2 * 192 + 3 * 96  # forward and backward

    with torch.profiler.profile(activities=[CPU_ACTIVITY]) as profile:
        module(x).sum().backward()
        module(x).sum().item()
    averages = {event.key: event.count for event in profile.key_averages()}
    counted = {name: averages[name] for name in NAMES}

    profile.export_chrome_trace(str(path))
    events = json.loads(path.read_text())["traceEvents"]
    operations = [event["name"] for event in events if event.get("cat") == "cpu_op"]
    assert "PythonDispatchMode" not in operations
    assert "aten::clamp_min" not in operations
    traced = {name: operations.count(name) for name in NAMES}
    return counted, traced


# --- torch.func ---


def test_the_profiler_shows_no_function_of_the_simulator(two_gpus, tmp_path):
    x = torch.ones(3, device="cuda", requires_grad=True)
    activities = [CPU_ACTIVITY]
    with torch.profiler.profile(activities=activities, with_stack=True) as profile:
        x.sum().backward()  # the gradient is made and moved by functions of Python
    names = [event.name for event in profile.events()]
    profile.export_chrome_trace(str(tmp_path / "trace.json"))
    trace = json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))
    traced = [event.get("name", "") for event in trace["traceEvents"]]
    for listed in (names, traced):
        assert any("_tensor.py" in name and "backward" in name for name in listed)
        ours = [name for name in listed if "cudasim/" in name and "/tests/" not in name]
        assert ours == []


def test_a_linearized_function_computes_on_its_gpu():
    """d sin(Wx + b) = cos(Wx + b) W dx, with a W that is constant in the graph."""
    layer = nn.Linear(3, 3).cuda(1)
    x = torch.rand(3, device="cuda:1")
    value, derivative = torch.func.linearize(lambda x: layer(x).sin(), x)
    direction = torch.rand(3, device="cuda:1")
    torch.testing.assert_close(value, layer(x).sin())
    expected = layer(x).cos() * (layer.weight @ direction)
    torch.testing.assert_close(derivative(direction), expected)


def test_a_linearized_function_may_make_tensors_on_its_gpu():
    x = torch.rand(3, device="cuda:1")

    def shifted(x):
        return x.square() * torch.full((3,), 2.0, device=x.device) + x.new_ones(3)

    _, derivative = torch.func.linearize(shifted, x)
    torch.testing.assert_close(derivative(torch.ones_like(x)), 4 * x)


def test_recurrent_layers_have_no_forward_derivative():
    """`_cudnn_rnn` has none in tools/autograd/derivatives.yaml, nor have the fused cells."""
    x = torch.rand(4, 1, 3, device="cuda")
    layers = nn.LSTM(3, 2).cuda()
    words = raised(
        lambda: torch.func.jvp(lambda x: layers(x)[0], (x,), (x,)), NotImplementedError
    )
    assert "forward AD with _cudnn_rnn " in words
    cell = nn.GRUCell(3, 2).cuda()
    words = raised(lambda: torch.func.jvp(cell, (x[0],), (x[0],)), NotImplementedError)
    assert "forward AD with _thnn_fused_gru_cell " in words


def test_the_profiler_counts_what_the_program_calls(tmp_path):
    """Not what the simulation calls to answer it: the counts are those of the CPU."""
    counted, traced = counts_on("cuda:1", tmp_path / "trace.json")
    assert counted == traced
    assert counted["aten::addmm"] == 4
    assert counted["aten::item"] == 1
    assert counts_on("cpu", tmp_path / "trace.json") == (counted, traced)


def test_the_profiler_of_cuda_traces_the_cpu_and_says_so(capfd):
    """Each operation would else print what libtorch says of a CUDA that is not there."""
    x = torch.ones(3, 3, device="cuda:1")
    words = "^cudasim: torch.profiler traces the CPU only"
    for profile, options in (
        (torch.profiler.profile, {"activities": [CPU_ACTIVITY, CUDA_ACTIVITY]}),
        (torch.autograd.profiler.profile, {"use_device": "cuda"}),
    ):
        with pytest.warns(UserWarning, match=words), profile(**options) as profiled:
            x @ x
        assert "aten::mm" in {event.key for event in profiled.key_averages()}
    assert "Failed to record CUDA event" not in capfd.readouterr().err


def test_marks_for_nvtx_change_nothing():
    """https://docs.pytorch.org/docs/stable/generated/torch.autograd.profiler.emit_nvtx.html"""
    x = torch.ones(2, device=GPU0, requires_grad=True)
    marking = torch.autograd.profiler.emit_nvtx(record_shapes=True)
    with torch.cuda.profiler.profile(), marking:
        (2 * x).sum().backward()
    assert x.grad.tolist() == [2, 2]
    words = raised(marking.__enter__, RuntimeError)
    assert words == "NVTX annotation context manager is not reentrant"


@pytest.mark.parametrize(
    "first",
    ["torch.use_deterministic_algorithms(True)", "import torch._inductor.config"],
)
def test_a_program_may_come_to_the_compiler_by_any_way(first):
    """Modules of the compiler import each other in a circle, which is entered anywhere."""
    program = f"import cudasim; cudasim.enable(gpus=2); import torch; {first}"
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
