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
CUDA_CARDS = [name for name, card in cudasim.CARDS.items() if card.type.name == "cuda"]
CARDS = ", ".join(CUDA_CARDS)


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


def refusal(**options):
    """Return the message with which `enable` refuses its arguments."""
    return raised(lambda: cudasim.enable(**options), ValueError)


@pytest.mark.parametrize("gpus", [0, 65, 2.0, "2", True])
def test_a_number_of_gpus_that_makes_no_sense(gpus):
    assert refusal(gpus=gpus) == f"gpus={gpus!r}: {MANY}"


@pytest.mark.parametrize("card", ["", "t4", ["T4"]])
def test_a_card_that_is_not_known(card):
    assert refusal(card=card) == f"card={card!r}: unknown; choose one of {CARDS}"


def test_a_card_of_another_type():
    message = refusal(card="M1")
    assert message == f"card='M1': is of type mps, not cuda; choose one of {CARDS}"
    message = refusal(card="T4", device_type="mps")
    assert message == "card='T4': is of type cuda, not mps; choose one of M1"


@pytest.mark.parametrize("clock", ["", True])
def test_a_clock_that_is_not_known(clock):
    assert refusal(clock=clock) == f"clock={clock!r}: {CLOCKS}"


def test_other_arguments_that_make_no_sense():
    message = refusal(races="stop")
    assert message == "races='stop': unknown; choose 'warn' or 'raise'"
    message = refusal(device_type="tpu")
    assert message == "device_type='tpu': unknown; choose one of cuda, mps"
    message = refusal(gpus=2, device_type="mps")
    assert message == "gpus=2: a machine has exactly one mps device"


def test_a_clock_for_a_card_without_a_data_sheet():
    message = refusal(device_type="mps", clock="modelled")
    assert message.startswith("card='M1': no data sheet; there are A100, ")
    with cudasim.simulate(device_type="mps"):  # without one it works
        assert cudasim.is_enabled()


def test_enabling_twice():
    with cudasim.simulate(gpus=2):
        for options in ({"gpus": 2}, {"gpus": 3}, {"card": "H100"}):
            enable = functools.partial(cudasim.enable, **options)
            assert "simulated already; call" in raised(enable)
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
            enable = functools.partial(cudasim.enable, **options)
            assert "already" in raised(enable)
    finally:
        cudasim.disable()


def test_tensors_of_a_simulation_that_has_ended():
    with cudasim.simulate():
        x = torch.ones(2, device="cuda:1")
        net = torch.nn.Linear(2, 2).cuda()
        kept = x.cpu()
    assert (x + 1).tolist() == [2, 2]  # without a simulation it is a plain tensor

    with cudasim.simulate():
        like_x = torch.ones(2, device="cuda:1")
        batch = torch.ones(1, 2, device="cuda")
        for use in (
            lambda: x + 1,
            lambda: 1 + x,
            lambda: x.device,
            x.cuda,
            x.cpu,
            x.__repr__,
            lambda: x + like_x,
            lambda: like_x + x,
            lambda: torch.stack([kept, x]),
            lambda: net(batch),
        ):
            words = r"of a simulation that has ended.* move it to"
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


@pytest.mark.parametrize(
    ("gpus", "device_type", "message"),
    [
        ("two", None, f"CUDASIM_GPUS='two': {MANY}"),
        ("2", "mps", "CUDASIM_GPUS=2: a machine has exactly one mps dev"),
        ("1", "tpu", "CUDASIM_DEVICE_TYPE='tpu': unknown; choose one of"),
    ],
)
def test_malformed_variables_end_what_imports_torch(
    tmp_path, gpus, device_type, message
):
    environ = {
        "PYTHONPATH": INHERIT,
        "CUDASIM_GPUS": gpus,
        "CUDASIM_DEVICE_TYPE": device_type,
    }
    got = run("-c", "import torch; print('went on')", cwd=tmp_path, **environ)
    assert (got.returncode, got.stdout) == (1, "")
    assert got.stderr.startswith(f"cudasim: {message}")
    assert got.stderr.count("\n") == 1

    # Other programs are left alone.
    got = run("-c", "print('no torch')", cwd=tmp_path, **environ)
    assert (got.returncode, got.stdout, got.stderr) == (0, "no torch\n", "")


SIMULATE = ["-m", "cudasim"]
KERNEL = ["-m", "cudasim.kernel"]


@pytest.fixture
def last_line(tmp_path):
    """Return a function that runs a bad command and returns the last line of its error."""

    def run_bad_command(*command, code):
        got = run(*command, cwd=tmp_path, HOME=tmp_path)
        assert got.returncode == code
        assert "Traceback" not in got.stderr
        return got.stderr.splitlines()[-1]

    return run_bad_command


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "error: name a script, or a module with -m"),
        (["--gpus", "0", "x.py"], f"error: --gpus=0: {MANY}"),
        (["--gpus", "many", "x.py"], f"error: --gpus='many': {MANY}"),
        (["--clock", "real", "x.py"], f"error: clock='real': {CLOCKS}"),
        (["--crad", "T4", "x.py"], "error:"),
        (["x.py"], "x.py': No such file or directory"),
        (["install-startup", "--help"], "'install-startup' takes no arg"),
    ],
)
def test_bad_command_lines(last_line, arguments, message):
    assert message in last_line(*SIMULATE, *arguments, code=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--card", "X", "x.py"], "cudasim: card='X': unknown; choose"),
        (["-m", "no.such"], "No module named"),
    ],
)
def test_command_lines_that_fail_as_the_program_begins(last_line, arguments, message):
    assert message in last_line(*SIMULATE, *arguments, code=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--gpus", "0"], f"--gpus=0: {MANY}"),
        (["--card", "X"], "card='X': unknown"),
        (["--device-type", "mps", "--clock", "modelled"], "card='M1': no data sheet"),
        (["--prefix", "file"], "Not a directory"),
    ],
)
def test_a_kernel_that_cannot_be_installed(last_line, tmp_path, arguments, message):
    write(tmp_path / "file", "")
    assert message in last_line(*KERNEL, *arguments, code=2)
    assert not list(tmp_path.rglob("kernel.json"))
