"""Bad input gets one clear error, and leaves nothing patched."""

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
KERNEL = ["-m", "cudasim.kernel"]
CARDS = ", ".join(
    name for name, card in cudasim.CARDS.items() if card.type.name == "cuda"
)


@pytest.fixture(autouse=True)
def nothing_is_left():
    """After each test no simulation runs, and nothing of one is in torch or the environment."""

    def own():
        environ = {
            name: os.environ[name]
            for name in os.environ
            if name != "PYTEST_CURRENT_TEST"
        }
        functions = torch.ones, torch.tensor, threading.Thread.run
        return environ, functions, [dict(vars(it)) for it in (torch.cuda, torch.Tensor)]

    before = own()
    yield
    assert not cudasim.is_enabled() and own() == before
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        *(({"gpus": number}, MANY) for number in (0, 65, 2.0, "2", True)),
        *(
            ({"card": card}, f"unknown; choose one of {CARDS}")
            for card in ("", "t4", ["T4"])
        ),
        *(({"clock": clock}, CLOCKS) for clock in ("", True)),
        ({"races": "stop"}, "unknown; choose 'warn' or 'raise'"),
        ({"device_type": "tpu"}, "unknown; choose one of cuda, mps"),
        ({"gpus": 2, "device_type": "mps"}, "a machine has exactly one mps device"),
        (
            {"card": "T4", "device_type": "mps"},
            "is of type cuda, not mps; choose one of M1",
        ),
        ({"card": "M1"}, f"is of type mps, not cuda; choose one of {CARDS}"),
    ],
)
def test_arguments_that_make_no_sense(given, said):
    argument, value = next(iter(given.items()))
    words = raised(lambda: cudasim.enable(**given), ValueError)
    assert words == f"{argument}={value!r}: {said}"


def test_a_clock_for_a_card_without_a_data_sheet():
    said = raised(
        lambda: cudasim.enable(device_type="mps", clock="modelled"), ValueError
    )
    assert said.startswith("card='M1': no data sheet; there are A100, ")
    with cudasim.simulate(device_type="mps"):  # without one it works
        assert cudasim.is_enabled()


def test_enabling_twice():
    with cudasim.simulate(gpus=2):
        for again in ({"gpus": 2}, {"gpus": 3}, {"card": "H100"}):
            assert "simulated already; call" in raised(
                lambda again=again: cudasim.enable(**again)
            )
        assert "already" in raised(cudasim.simulate().__enter__)
        assert torch.ones(1, device="cuda:1").get_device() == 1  # the first goes on


def test_what_the_environment_asked_for_may_be_asked_for_again():
    """The main module of a program runs again in each process that it spawns."""
    simulation.begin(config.parse(2, "T4"), inherited=True)
    try:
        cudasim.enable(gpus=2)
        with cudasim.simulate(gpus=2):
            assert torch.cuda.device_count() == 2
        assert cudasim.is_enabled()  # it did not begin there
        for other in ({"gpus": 3}, {"gpus": 2, "clock": "modelled"}):
            assert "already" in raised(lambda other=other: cudasim.enable(**other))
    finally:
        cudasim.disable()


def test_tensors_of_a_simulation_that_has_ended():
    with cudasim.simulate():
        x = torch.ones(2, device="cuda:1")
        net = torch.nn.Linear(2, 2).cuda()
        kept = x.cpu()
    assert (x + 1).tolist() == [2, 2]  # without a simulation it is a plain tensor
    with cudasim.simulate():
        for use in (
            *(
                lambda: x + 1,
                lambda: 1 + x,
                lambda: x.device,
                x.cuda,
                x.cpu,
                lambda: str(x),
            ),
            lambda: x + torch.ones(2, device="cuda:1"),
            lambda: torch.ones(2, device="cuda:1") + x,
            lambda: torch.stack([torch.ones(2), x]),
            lambda: net(torch.ones(1, 2, device="cuda")),
        ):
            with pytest.raises(
                RuntimeError, match=r"of a simulation that has ended.* move it to"
            ):
                use()
        assert (kept.cuda() + 1).tolist() == [2, 2]


@pytest.mark.parametrize(
    ("version", "tested"),
    [
        *(("2.10.1", False), ("2.11.0", True), ("2.14.1+cu130", True)),
        *(("2.15.0", False), ("3.0.0a0+git1", False)),
    ],
)
def test_an_untested_torch_is_named_once(monkeypatch, version, tested):
    simulation._warn_if_untested.cache_clear()
    monkeypatch.setattr(torch, "__version__", version)
    with (
        warnings.catch_warnings(record=True, action="always") as said,
        cudasim.simulate(),
    ):
        pass
    words = (
        f"cudasim is tested with torch 2.11 to 2.14, this is {version}; "
        "'python cudasim/facts survey', in its sources, tells what holds here"
    )
    assert [str(warning.message) for warning in said] == ([] if tested else [words])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with cudasim.simulate():
            pass


@pytest.mark.parametrize(
    "step", ["patch_tensor", "patch_accelerator", "patch_readings"]
)
def test_what_fails_half_way_leaves_nothing(monkeypatch, step):
    def fail(*_):
        raise OSError("no")

    patches = [
        fail if patch.__name__ == step else patch for patch in simulation.PATCHES
    ]
    assert fail in patches
    monkeypatch.setattr(simulation, "PATCHES", patches)
    with pytest.raises(OSError, match="no"):
        cudasim.enable()
    monkeypatch.undo()
    with cudasim.simulate():  # and the next one can begin
        assert torch.ones(1, device="cuda:1").get_device() == 1


def test_disabling_in_another_thread_or_within_another_mode():
    with cudasim.simulate():
        said = in_thread(lambda: raised(cudasim.disable))
        with TorchDispatchMode():
            assert "leave the dispatch modes" in raised(cudasim.disable)
        assert cudasim.is_enabled()
    assert said == "call cudasim.disable() in the thread that called cudasim.enable()"


def test_malformed_variables_end_what_imports_torch_with_one_line(tmp_path):
    for variables, said in (
        ({"GPUS": "two"}, f"CUDASIM_GPUS='two': {MANY}"),
        (
            {"GPUS": "2", "DEVICE_TYPE": "mps"},
            "CUDASIM_GPUS=2: a machine has exactly one mps dev",
        ),
        (
            {"GPUS": "1", "DEVICE_TYPE": "tpu"},
            "CUDASIM_DEVICE_TYPE='tpu': unknown; choose one of",
        ),
    ):
        given = {f"CUDASIM_{name}": value for name, value in variables.items()}
        given["PYTHONPATH"] = INHERIT
        got = run("-c", "import torch; print('went on')", cwd=tmp_path, **given)
        assert (got.returncode, got.stdout) == (1, "") and got.stderr.startswith(
            f"cudasim: {said}"
        )
        assert got.stderr.count("\n") == 1
        got = run(
            "-c", "print('no torch')", cwd=tmp_path, **given
        )  # others are left alone
        assert (got.returncode, got.stdout, got.stderr) == (0, "no torch\n", "")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "error: name a script, or a module with -m"),
        (["--gpus", "0", "x.py"], 2, f"error: --gpus=0: {MANY}"),
        (["--gpus", "many", "x.py"], 2, f"error: --gpus='many': {MANY}"),
        (["--card", "X", "x.py"], 1, "cudasim: card='X': unknown; choose one of T4"),
        (["--clock", "real", "x.py"], 2, f"error: clock='real': {CLOCKS}"),
        (["--crad", "T4", "x.py"], 2, "error:"),
        (["x.py"], 2, "x.py': No such file or directory"),
        (["-m", "no.such"], 1, "No module named"),
        (
            ["install-startup", "--help"],
            2,
            "cudasim: 'install-startup' takes no arguments",
        ),
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
def test_bad_command_lines(tmp_path, arguments, code, said):
    write(tmp_path / "file", "")
    begin = [] if arguments[:2] == KERNEL else ["-m", "cudasim"]
    got = run(*begin, *arguments, cwd=tmp_path, HOME=tmp_path)
    assert got.returncode == code and said in got.stderr.splitlines()[-1]
    assert "Traceback" not in got.stderr and not list(tmp_path.rglob("kernel.json"))
