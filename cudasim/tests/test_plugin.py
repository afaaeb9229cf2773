"""The plugin of pytest: each test of it is a run of pytest on a small file of tests."""

import copy
import io
import os
import re
import sys

import pytest
import torch
from programs import PROJECT, SCRIPTS, run, write

import cudasim
from cudasim.testing import markers
from cudasim.testing.gpus import Gpus

PLUGIN = ("-m", "pytest", "-p", "cudasim.testing.plugin", "-p", "no:cacheprovider")
TWO = "--simulated-gpus=2"
PATH = {"PYTHONPATH": f"{PROJECT / 'src'}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def pytest_on(folder, text, *options, variables=PATH, **outcomes):
    """Return what pytest prints with the plugin on a file of tests that has these outcomes."""
    write(folder / "test_it.py", text)
    result = run(*PLUGIN, *options, cwd=folder, **variables)
    return printed(result, outcomes)


def printed(result, expected):
    """Return what pytest printed, whose last line counts the expected outcomes."""
    last_line = result.stdout.splitlines()[-1]
    counts = re.findall(r"(\d+) (passed|failed|error|skipped|xfailed)", last_line)
    outcomes = {outcome: int(number) for number, outcome in counts}
    assert outcomes == expected, result.stdout + result.stderr
    return result.stdout


def script(name):
    """Return the text of a file of tests that is kept in `scripts`."""
    return (SCRIPTS / name).read_text(encoding="utf-8")


THREE = """
import torch

assert torch.cuda.device_count() == 3  # when tests are collected, too

def test_a_card(gpus):
    assert len(gpus) == 3
    assert torch.cuda.get_device_properties(2).name == "Simulated GPU (H100)"
    assert gpus[2].device == torch.device("cuda:2")
"""


def test_the_options_simulate_and_the_report_says_so(tmp_path):
    options = "--simulated-gpus=3", "--simulated-card=H100", "--junitxml=report.xml"
    text = pytest_on(tmp_path, THREE, *options, passed=1)
    assert (
        "cudasim: 3 simulated GPUs (H100); real values, computed on the CPU\n" in text
    )
    assert "\ncudasim: 1 test on 3 simulated GPUs (H100)\n" in text
    report = (tmp_path / "report.xml").read_text()
    assert 'name="gpus" value="3 simulated GPUs (H100)"' in report


WITHOUT_TORCH = """
import sys

def test_none():
    ours = sorted(name for name in sys.modules if name.startswith(("torch", "cudasim.")))
    plugin = ["cudasim.testing", "cudasim.testing.markers", "cudasim.testing.plugin"]
    assert ours == plugin
"""


def test_without_options_torch_is_not_imported(tmp_path):
    write(tmp_path / "test_it.py", WITHOUT_TORCH)
    result = run(*PLUGIN, cwd=tmp_path, fresh=True, **PATH)
    lines = printed(result, {"passed": 1}).splitlines()
    # The header says how to begin, where the machine has no GPU of its own.
    idle = f"cudasim: idle; {TWO} simulates GPUs"
    assert [line for line in lines if "cudasim" in line and line != idle] == []


LISTS_DEVICES = """
import pytest, torch

@pytest.fixture(params=[torch.device("cuda", i) for i in range(torch.cuda.device_count())])
def device(request):
    return request.param
"""
ON_EACH = """
import torch

def test_device(device):
    assert torch.ones(1, device=device).device == device
"""


def test_a_conftest_that_lists_devices_sees_the_gpus(tmp_path):
    write(tmp_path / "conftest.py", LISTS_DEVICES)
    pytest_on(tmp_path, ON_EACH, TWO, passed=2)


SETTINGS = """
import torch

def test_time():
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    before.record()
    x = torch.ones(2**12, 2**12, device="cuda")
    x @ x
    after.record()
    torch.cuda.synchronize()
    assert before.elapsed_time(after) > 10

def test_race():
    x = torch.zeros(2**20, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        x + 1
"""


@pytest.mark.parametrize("way", ["option", "variable"])
def test_clock_and_races_are_settings(tmp_path, way):
    options = ["--simulated-clock=modelled", "--simulated-races=raise"]
    variables = PATH
    if way == "variable":
        options = []
        variables = PATH | {"CUDASIM_CLOCK": "modelled", "CUDASIM_RACES": "raise"}
    text = pytest_on(
        tmp_path, SETTINGS, TWO, *options, variables=variables, passed=1, failed=1
    )
    assert "test_it.py::test_race - cudasim" in text


MISTAKES = """
import torch

def add():
    return torch.ones(2, device="cuda:0") + torch.ones(2, device="cuda:1")

def test_devices():
    add()

def test_index():
    torch.ones(2, device="cuda")[torch.tensor([5], device="cuda")]

def test_the_next():
    assert torch.ones(2, device="cuda").sum() == 2
"""


def test_the_last_line_of_a_traceback_is_the_users(tmp_path):
    text = pytest_on(tmp_path, MISTAKES, TWO, "--tb=short", failed=2, passed=1)
    assert "test_it.py:5: in add\n" in text
    assert "/cudasim/" not in text

    full = "--simulated-full-traceback"
    text = pytest_on(tmp_path, MISTAKES, TWO, full, failed=2, passed=1)
    assert "/cudasim/dispatch/" in text


THROUGH_TORCH = """
import torch

def test_layer():
    layer = torch.nn.Sequential(torch.nn.Linear(3, 2)).cuda()
    layer(torch.ones(1, 3))

def test_wait(gpus):
    x = torch.ones(2, device="cuda")
    with gpus.no_sync():
        x.item()

def test_copy(gpus):
    x = torch.ones(2, device="cuda")
    with gpus.no_copies():
        x.cpu()
"""


def test_a_traceback_does_not_go_on_into_pytorch(tmp_path):
    races = "--simulated-races=raise"
    text = pytest_on(tmp_path, THROUGH_TORCH, TWO, races, "--tb=short", failed=3)
    assert re.findall(r"^\S+\.py:\d+", text, re.MULTILINE) == [
        "test_it.py:6",
        "test_it.py:11",
        "test_it.py:16",
    ]


AT_IMPORT = """
import torch

def add():
    \'\'\'
    >>> add()
    \'\'\'
    return torch.ones(2, device="cuda:0") + torch.ones(2, device="cuda:1")
"""


@pytest.mark.parametrize(
    ("end", "option", "outcome"),
    [("", "--doctest-modules", "failed"), ("\nadd()", "-v", "error")],
)
def test_errors_in_doctests_and_imports_are_the_users(tmp_path, end, option, outcome):
    text = pytest_on(tmp_path, AT_IMPORT + end, TWO, option, **{outcome: 1})
    assert "found at least two devices, cuda:0 and cuda:1!" in text
    assert "/cudasim/" not in text


WARNED_OF = """
import pytest, torch

profiler = torch.autograd.profiler

def test_of_the_simulation():
    with pytest.warns(match="traces the CPU only"):
        profiler.profile(use_device="cuda")
    profiler.profile(use_device="cuda")

def test_of_pytorch():
    torch.cuda.set_sync_debug_mode("warn")
"""


@pytest.mark.parametrize("way", ["option", "file"])
def test_our_own_warnings_are_no_errors(tmp_path, way):
    options = ["-W", "error"]
    if way == "file":
        write(tmp_path / "pytest.ini", "[pytest]\nfilterwarnings = error\n")
        options = []
    text = pytest_on(tmp_path, WARNED_OF, TWO, *options, passed=1, failed=1)
    assert "SimulationWarning: cudasim: torch.profiler traces the CPU only" in text
    assert "FAILED test_it.py::test_of_pytorch - UserWarning" in text

    ours = ["-W", "error::cudasim.SimulationWarning"]
    text = pytest_on(tmp_path, WARNED_OF, TWO, *options, *ours, failed=2)
    assert "FAILED test_it.py::test_of_the_simulation - cudasim" in text


NEEDS_TWO = """
import pytest

@pytest.mark.gpus(2)
def test_two(gpus):
    assert len(gpus) >= 2

def test_any(gpus):
    assert len(gpus) >= 1

@pytest.mark.world(2)
def test_ranks(rank):
    assert rank in (0, 1)

def test_of_the_project(request):
    pytest.skip("needs a network")
"""


def test_what_needs_more_gpus_is_skipped_with_the_way_out(tmp_path):
    hidden = PATH | {"CUDA_VISIBLE_DEVICES": "-1"}
    text = pytest_on(tmp_path, NEEDS_TWO, "-rs", variables=hidden, skipped=4)
    assert "needs 2 GPUs, 0 here: --simulated-gpus=2 simulates them" in text
    assert "needs 1 GPU, 0 here: --simulated-gpus=1 simulates them" in text
    assert "cudasim: 3 skipped for want of GPUs" in text


@pytest.mark.parametrize(
    ("shown", "outcomes"), [("1", {"skipped": 3, "passed": 1}), ("-1", {"skipped": 4})]
)
def test_simulated_gpus_may_be_hidden(tmp_path, shown, outcomes):
    hidden = PATH | {"CUDA_VISIBLE_DEVICES": shown}
    text = pytest_on(tmp_path, NEEDS_TWO, TWO, "-rs", variables=hidden, **outcomes)
    assert f" here: CUDA_VISIBLE_DEVICES='{shown}' hides others" in text


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--simulated-gpus=two", "--simulated-gpus='two'"),
        ("--simulated-card=X1", "X1"),
        (
            "--simulated-device-type=tpu",
            "--simulated-device-type='tpu': unknown; choose one of",
        ),
        (
            "--simulated-force",
            "--simulated-force: say with --simulated-gpus how many GPUs",
        ),
        (TWO, "--simulated-gpus: No module named 'torch'"),
    ],
)
def test_bad_options_and_a_lack_of_torch_are_one_line(tmp_path, option, message):
    missing = "raise ModuleNotFoundError(\"No module named 'torch'\")"
    write(tmp_path / "torch.py", missing)
    path = f"{tmp_path}{os.pathsep}{PATH['PYTHONPATH']}"
    variables = PATH | {"PYTHONPATH": path}
    got = run(*PLUGIN, option, cwd=tmp_path, **variables)
    assert got.returncode == 4
    assert got.stdout == ""
    (line,) = got.stderr.strip().splitlines()
    assert line.startswith("ERROR: ")
    assert message in line


def test_each_test_gets_fresh_gpus_and_what_its_marker_says(tmp_path):
    tests = script("plugin_fresh.py")
    text = pytest_on(tmp_path, tests, TWO, "-rs", passed=6, skipped=1, error=4)
    for line in (
        "needs 1,099,511,627,776 bytes on each GPU, and there are fewer",
        "memory='much': write a number of bytes, or a text such as '512MiB'",
        "@pytest.mark.gpus: gpus() got an unexpected keyword argument 'mem'\n",
        "@pytest.mark.world: write @pytest.mark.world(2), for two ranks\n",
        "the fixture 'rank' needs @pytest.mark.world(n)",
    ):
        assert line in text, text


def test_what_the_markers_say():
    assert markers.gpus() == (1, None)
    assert markers.gpus(1, memory=512) == (1, 512)
    assert markers.gpus(2, memory="1.5KiB") == (2, 1536)
    ranks, gpus, seconds = 2, 2, 300
    assert markers.world(2) == (ranks, gpus, seconds)


@pytest.mark.parametrize("memory", [0, True, "1GB", "0.5B"])
def test_an_amount_of_memory_that_makes_no_sense(memory):
    with pytest.raises(ValueError, match="512MiB"):
        markers.gpus(1, memory=memory)


@pytest.mark.parametrize("number", [0, 2.5, "2", True])
def test_a_number_of_gpus_that_makes_no_sense(number):
    with pytest.raises(ValueError, match=r"n=.*whole number from 1"):
        markers.gpus(number)


def test_a_world_with_less_than_no_gpu():
    with pytest.raises(ValueError, match="gpus=-1: write a whole number from 0"):
        markers.world(2, gpus=-1)


@pytest.mark.parametrize("timeout", [0, "5", float("nan")])
def test_a_timeout_that_makes_no_sense(timeout):
    with pytest.raises(ValueError, match="of seconds"):
        markers.world(2, timeout=timeout)


@pytest.fixture
def gpus(two_gpus):
    return Gpus()


def test_no_sync(gpus):
    x = torch.ones(3, device="cuda:1")
    with gpus.no_sync():
        y = x + 1
    with pytest.raises(RuntimeError, match="called a synchronizing CUDA operation"):
        with gpus.no_sync():
            y.sum().item()
    assert y.sum().item() == 6
    assert torch.cuda.get_sync_debug_mode() == 0


def test_no_sync_forbids_to_synchronize(gpus):
    stream, event = torch.cuda.Stream(), torch.cuda.Event()
    for owner in (torch.cuda, torch.accelerator, stream, event):
        before = owner.synchronize
        with pytest.raises(AssertionError, match="synchronize makes the host wait"):
            with gpus.no_sync():
                owner.synchronize()
        assert owner.synchronize == before


def test_no_copies(gpus):
    x = torch.ones(3, device="cuda:1", requires_grad=True)
    host = torch.ones(3)
    with gpus.no_copies():
        # A number on the host goes to the kernel from either side.
        y = (torch.tensor(2.0) * x.double() + torch.tensor(1.0)).sum()
        y.backward()
        x.clone()
        x.to("cuda:1")
        x.detach()[1:].zero_()
        copy.deepcopy(x)

    def assert_copies(call, words):
        call()
        with pytest.raises(AssertionError, match=f"copies .*{words}"):
            with gpus.no_copies():
                call()

    vector = x.detach()
    index_on_host = torch.tensor([0, 2])
    assert_copies(lambda: x.cpu(), "from cuda:1 to cpu")
    assert_copies(lambda: x.tolist(), "from cuda:1 to cpu")
    assert_copies(lambda: x.sum().item(), "4 bytes from cuda:1 to cpu")
    assert_copies(lambda: float(vector.sum()), "from cuda:1 to cpu")
    assert_copies(lambda: torch.save(x, io.BytesIO()), "from cuda:1 to cpu")
    assert_copies(lambda: host.copy_(vector), "from cuda:1 to cpu")
    assert_copies(lambda: host.cuda(), "12 bytes from cpu to cuda:0")
    assert_copies(lambda: x.to("cuda:0"), "from cuda:1 to cuda:0")
    assert_copies(lambda: x[index_on_host], "from cpu to cuda:1")


def test_no_leak(gpus):
    kept = [torch.ones(4, device="cuda:1")]
    cudasim.disable()
    cudasim.enable(gpus=2)  # the tensor of another simulation is no leak of this one
    with gpus.no_leak():
        x = torch.ones(4, 4, device="cuda:1")
        cycle = [x]
        cycle.append(cycle)  # collected, so no leak
        del x, cycle
    words = r"cuda:1 holds 512 bytes more .*\(4, 4\) float32$"
    with pytest.raises(AssertionError, match=words):
        with gpus.no_leak():
            kept.append(torch.ones(4, 4, device="cuda:1"))

    weight = torch.ones(2**10, device="cuda:0", requires_grad=True)
    words = r"cuda:0 holds .* bytes more than before; still held"
    with pytest.raises(AssertionError, match=words):
        with gpus.no_leak():
            kept.append((weight * 2).exp().sum())
    with gpus.no_leak():
        kept.append((weight * 2).exp().sum().item())


def test_a_tensor_that_a_block_replaces_is_no_leak(gpus):
    x = torch.ones(1000, device="cuda:0")
    with gpus.no_leak():
        x = torch.zeros(1000, device="cuda:0")
    assert x.sum() == 0


def test_mps_as_the_device():
    with cudasim.simulate(device_type="mps"):
        gpus = Gpus()
        gpus.renew(2**30)
        assert str(gpus[0].device) == "mps:0"
        assert gpus[0].peak == 0
        with gpus.no_leak(), gpus.no_copies():
            torch.ones(2, device="mps") + 1
        assert gpus[0].peak > 0
        words = "PyTorch reports no waits on mps"
        with pytest.raises(NotImplementedError, match=words), gpus.no_sync():
            pass


@pytest.mark.full
def test_what_fails_in_a_world_is_one_report_of_all_ranks(tmp_path):
    outcomes = {"failed": 3, "skipped": 1, "xfailed": 1, "passed": 1}
    text = pytest_on(tmp_path, script("plugin_world.py"), TWO, "-rs", **outcomes)
    for words in (
        "===== rank 0: passed =====",
        "===== rank 1: failed =====",
        "rank one says why",
        "this is rank 1",
        "===== rank 1: ended with exit code 7 =====",
        "not here",
        "===== rank 1: ended after its 120 seconds =====",
    ):
        assert words in text, words + text
    assert re.search(r'test_it.py", line \d+ in test_hangs', text), text


@pytest.mark.full
def test_a_world_is_that_of_the_project(tmp_path):
    folder = tmp_path / "sub"
    write(tmp_path / "pytest.ini", "[pytest]\n")
    write(tmp_path / "conftest.py", script("plugin_project_conftest.py"))
    write(folder / "here.txt", "here")
    write(folder / "below" / "test_it.py", script("plugin_project.py"))
    options = ["--data=some data", "-o", "greeting=hello", "-W", "error", TWO, "below"]

    def run_tests(*more_options, **outcomes):
        result = run(*PLUGIN, *options, *more_options, cwd=folder, **PATH)
        return printed(result, outcomes)

    run_tests("--slow", passed=5)
    run_tests(skipped=5)  # what is false here is false in a rank
    text = run_tests("--slow", "--odd=1", "-k", "size", failed=1)
    assert "ERROR: the option 'odd' has a value that no rank can have" in text


IN_WORKERS = """
import pytest
import torch

@pytest.mark.parametrize("number", range(4))
def test_it(number, gpus):
    assert len(gpus) == 2
    assert torch.ones(1, device="cuda:1").device.index == 1

@pytest.mark.world("2")
def test_no_world():
    pass
"""


@pytest.mark.full
def test_with_xdist_each_worker_simulates(tmp_path):
    options = TWO, "-p", "xdist", "-n", "2"
    text = pytest_on(tmp_path, IN_WORKERS, *options, passed=4, error=1)
    assert "cudasim: each worker has 2 GPUs; T4, simulated, where none are" in text
    assert "cudasim: 4 tests on 2 simulated GPUs (T4)" in text


@pytest.mark.parametrize(
    ("form", "options", "expected"),
    [
        ("before", [TWO], {"failed": 6}),
        pytest.param("after", [TWO], {"passed": 6}, marks=pytest.mark.full),
        pytest.param("after", [], {"skipped": 6}, marks=pytest.mark.full),
    ],
)
def test_the_example_finds_six_bugs_without_a_gpu(form, options, expected):
    result = run(*PLUGIN, *options, cwd=PROJECT / "example", TRAINKIT=form, **PATH)
    text = printed(result, expected)
    for words in (
        "found at least two devices, cuda:0 and cpu!",
        "can't convert cuda:0 device type tensor to numpy",
        "bytes more than before",
        "called a synchronizing CUDA operation",
        "assert gpu.peak == 0",
    ):
        assert (words in text) == (form == "before"), words


ONE_FAILS = """
import torch

def test_one():
    torch.ones(3, device="cuda")[torch.tensor(7, device="cuda")]

def test_another():
    torch.ones(3, device="cuda")
"""


def test_pytest_within_the_command_gives_fresh_gpus(tmp_path):
    write(tmp_path / "test_it.py", ONE_FAILS)
    command = ("-m", "cudasim", "--gpus=2", *PLUGIN)
    text = printed(run(*command, cwd=tmp_path, **PATH), {"failed": 1, "passed": 1})
    assert "cudasim: 2 tests on 2 simulated GPUs (T4)" in text


def test_a_plain_run_says_how_gpus_are_simulated(tmp_path):
    without_cards = {**PATH, "PATH": os.path.dirname(sys.executable)}
    text = pytest_on(tmp_path, "def test(): ...", variables=without_cards, passed=1)
    assert "cudasim: idle; --simulated-gpus=2 simulates GPUs\n" in text
