"""Bad input gets one clear error, and leaves nothing patched."""

import functools
import os
import threading
import warnings

import pytest
import torch
from calls import in_thread, raised
from programs import INHERIT, run, write
from torch.utils._python_dispatch import TorchDispatchMode

import cudasim
from cudasim import config, simulation

MANY = "the number of simulated GPUs is from 1 to 64"
CLOCKS = "unknown; choose 'modelled', or none for the machine's own"
CARDS = ", ".join(
    name for name, card in cudasim.CARDS.items() if card.type.name == "cuda"
)
KERNEL = ["-m", "cudasim.kernel"]


def patched_things():
    """Return what a simulation changes: the environment, functions, attributes of torch."""
    environ = dict(os.environ)
    del environ["PYTEST_CURRENT_TEST"]
    functions = torch.ones, torch.tensor, threading.Thread.run
    return environ, functions, dict(vars(torch.cuda)), dict(vars(torch.Tensor))


@pytest.fixture(autouse=True)
def nothing_is_left():
    """Check after each test that nothing of a simulation is in torch or the environment."""
    before = patched_things()
    yield
    assert not cudasim.is_enabled()
    assert patched_things() == before
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gpus": 0}, MANY),
        ({"gpus": 65}, MANY),
        ({"gpus": 2.0}, MANY),
        ({"gpus": "2"}, MANY),
        ({"gpus": True}, MANY),
        ({"card": ""}, f"unknown; choose one of {CARDS}"),
        ({"card": "t4"}, f"unknown; choose one of {CARDS}"),
        ({"card": ["T4"]}, f"unknown; choose one of {CARDS}"),
        ({"card": "M1"}, f"is of type mps, not cuda; choose one of {CARDS}"),
        ({"clock": ""}, CLOCKS),
        ({"clock": True}, CLOCKS),
        ({"races": "stop"}, "unknown; choose 'warn' or 'raise'"),
        ({"device_type": "tpu"}, "unknown; choose one of cuda, mps"),
        ({"gpus": 2, "device_type": "mps"}, "a machine has exactly one mps device"),
        (
            {"card": "T4", "device_type": "mps"},
            "is of type cuda, not mps; choose one of M1",
        ),
    ],
)
def test_arguments_that_make_no_sense(options, message):
    argument, value = next(iter(options.items()))
    words = raised(lambda: cudasim.enable(**options), ValueError)
    assert words == f"{argument}={value!r}: {message}"


def test_a_clock_for_a_card_without_a_data_sheet():
    enable = functools.partial(cudasim.enable, device_type="mps", clock="modelled")
    words = raised(enable, ValueError)
    assert words.startswith("card='M1': no data sheet; there are A100, ")
    with cudasim.simulate(device_type="mps"):  # without one it works
        assert cudasim.is_enabled()


def test_enabling_twice():
    with cudasim.simulate(gpus=2):
        for options in ({"gpus": 2}, {"gpus": 3}, {"card": "H100"}):
            words = raised(functools.partial(cudasim.enable, **options))
            assert "simulated already; call" in words
        assert "already" in raised(cudasim.simulate().__enter__)
        assert torch.ones(1, device="cuda:1").get_device() == 1  # the first goes on


def test_what_the_environment_asked_for_may_be_repeated():
    """The main module of a program runs again in each process that it spawns."""
    simulation.begin(config.parse(2, "T4"), inherited=True)
    try:
        cudasim.enable(gpus=2)
        with cudasim.simulate(gpus=2):
            assert torch.cuda.device_count() == 2
        assert cudasim.is_enabled()  # it did not begin there
        for options in ({"gpus": 3}, {"gpus": 2, "clock": "modelled"}):
            assert "already" in raised(functools.partial(cudasim.enable, **options))
    finally:
        cudasim.disable()


def test_tensors_of_a_simulation_that_has_ended():
    with cudasim.simulate():
        x = torch.ones(2, device="cuda:1")
        net = torch.nn.Linear(2, 2).cuda()
        kept = x.cpu()
    assert (x + 1).tolist() == [2, 2]  # without a simulation it is a plain tensor
    words = r"of a simulation that has ended.* move it to"
    with cudasim.simulate():
        for use in (
            lambda: x + 1,
            lambda: 1 + x,
            lambda: x.device,
            x.cuda,
            x.cpu,
            x.__repr__,
            lambda: x + torch.ones(2, device="cuda:1"),
            lambda: torch.ones(2, device="cuda:1") + x,
            lambda: torch.stack([torch.ones(2), x]),
            lambda: net(torch.ones(1, 2, device="cuda")),
        ):
            with pytest.raises(RuntimeError, match=words):
                use()
        assert (kept.cuda() + 1).tolist() == [2, 2]


def warnings_of_a_simulation():
    with warnings.catch_warnings(record=True, action="always") as caught:
        with cudasim.simulate():
            pass
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize("version", ["2.10.1", "2.15.0", "3.0.0a0+git1"])
def test_an_untested_torch_is_named_once(monkeypatch, version):
    simulation._warn_if_untested.cache_clear()
    monkeypatch.setattr(torch, "__version__", version)
    words = (
        f"cudasim is tested with torch 2.11 to 2.14, this is {version}; "
        "'python cudasim/facts survey', in its sources, tells what holds here"
    )
    assert warnings_of_a_simulation() == [words]
    assert warnings_of_a_simulation() == []


@pytest.mark.parametrize("version", ["2.11.0", "2.14.1+cu130"])
def test_a_tested_torch_is_not_warned_of(monkeypatch, version):
    simulation._warn_if_untested.cache_clear()
    monkeypatch.setattr(torch, "__version__", version)
    assert warnings_of_a_simulation() == []


@pytest.mark.parametrize(
    "step", ["patch_tensor", "patch_accelerator", "patch_readings"]
)
def test_what_fails_half_way_leaves_nothing(monkeypatch, step):
    def fail(*_):
        raise OSError("no")

    names = [patch.__name__ for patch in simulation.PATCHES]
    patches = [*simulation.PATCHES]
    patches[names.index(step)] = fail
    monkeypatch.setattr(simulation, "PATCHES", patches)
    with pytest.raises(OSError, match="no"):
        cudasim.enable()
    monkeypatch.undo()
    with cudasim.simulate():  # and the next one can begin
        assert torch.ones(1, device="cuda:1").get_device() == 1


def test_disabling_in_another_thread_or_within_another_mode():
    with cudasim.simulate():
        words = in_thread(lambda: raised(cudasim.disable))
        with TorchDispatchMode():
            assert "leave the dispatch modes" in raised(cudasim.disable)
        assert cudasim.is_enabled()
    assert words == "call cudasim.disable() in the thread that called cudasim.enable()"


BAD_VARIABLES = [
    ({"CUDASIM_GPUS": "two"}, f"CUDASIM_GPUS='two': {MANY}"),
    (
        {"CUDASIM_GPUS": "2", "CUDASIM_DEVICE_TYPE": "mps"},
        "CUDASIM_GPUS=2: a machine has exactly one mps dev",
    ),
    (
        {"CUDASIM_GPUS": "1", "CUDASIM_DEVICE_TYPE": "tpu"},
        "CUDASIM_DEVICE_TYPE='tpu': unknown; choose one of",
    ),
]


@pytest.mark.parametrize(("variables", "message"), BAD_VARIABLES)
def test_malformed_variables_end_what_imports_torch(tmp_path, variables, message):
    environ = {"PYTHONPATH": INHERIT, **variables}
    got = run("-c", "import torch; print('went on')", cwd=tmp_path, **environ)
    assert (got.returncode, got.stdout) == (1, "")
    assert got.stderr.startswith(f"cudasim: {message}")
    assert got.stderr.count("\n") == 1

    # Other programs are left alone.
    got = run("-c", "print('no torch')", cwd=tmp_path, **environ)
    assert (got.returncode, got.stdout, got.stderr) == (0, "no torch\n", "")


SIMULATE = ["-m", "cudasim"]


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ([*SIMULATE], 2, "error: name a script, or a module with -m"),
        ([*SIMULATE, "--gpus", "0", "x.py"], 2, f"error: --gpus=0: {MANY}"),
        ([*SIMULATE, "--gpus", "many", "x.py"], 2, f"error: --gpus='many': {MANY}"),
        ([*SIMULATE, "--card", "X", "x.py"], 1, "cudasim: card='X': unknown; choose"),
        ([*SIMULATE, "--clock", "real", "x.py"], 2, f"error: clock='real': {CLOCKS}"),
        ([*SIMULATE, "--crad", "T4", "x.py"], 2, "error:"),
        ([*SIMULATE, "x.py"], 2, "x.py': No such file or directory"),
        ([*SIMULATE, "-m", "no.such"], 1, "No module named"),
        ([*SIMULATE, "install-startup", "--help"], 2, "'install-startup' takes no arg"),
        ([*KERNEL, "--gpus", "0"], 2, f"--gpus=0: {MANY}"),
        ([*KERNEL, "--card", "X"], 2, "card='X': unknown"),
        (
            [*KERNEL, "--device-type", "mps", "--clock", "modelled"],
            2,
            "card='M1': no data sheet",
        ),
        ([*KERNEL, "--prefix", "file"], 2, "Not a directory"),
    ],
)
def test_bad_command_lines(tmp_path, command, code, message):
    write(tmp_path / "file", "")
    got = run(*command, cwd=tmp_path, HOME=tmp_path)
    assert got.returncode == code
    assert message in got.stderr.splitlines()[-1]
    assert "Traceback" not in got.stderr
    assert not list(tmp_path.rglob("kernel.json"))
