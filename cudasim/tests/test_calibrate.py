"""Calibration: its harness against the modelled clock, and what it says where it cannot measure."""

import json

import pytest
import torch
from programs import run

import cudasim
from calibration import CannotCalibrate, machine, measuring, modelling, validating
from calibration.uncomputed import Uncomputed
from cudasim.timing.formulas import Work, kernel_seconds
from cudasim.timing.sheets import find_sheet, host_sheet

no_gpu = pytest.mark.skipif(
    torch.cuda.is_available(),
    reason="a GPU is here: what is said without one cannot be seen",
)


COMMANDS = (["calibrate"], ["validate", "--card", "T4"])


@pytest.fixture
def refused(facts, capsys):
    """A function: whether a command is refused with one line, of which some words are part."""

    def is_refused(command, *words):
        with pytest.raises(SystemExit) as ended:
            facts(*command)
        said = ended.value.code  # a text: exit code 1
        assert isinstance(said, str) and len(said.splitlines()) == 1
        assert capsys.readouterr() == ("", "")
        assert [word for word in words if word not in said] == []

    return is_refused


@no_gpu
def test_without_a_gpu_one_line_says_so(tmp_path, refused, monkeypatch):
    for command in COMMANDS:
        refused([*command, "--to", tmp_path / "a.json"], "no GPU to measure: torch")
    assert list(tmp_path.iterdir()) == []
    for built, said in (
        (None, "without CUDA; run it with a Python"),
        ("13.0", "finds none"),
    ):
        monkeypatch.setattr(torch.version, "cuda", built)
        with pytest.raises(CannotCalibrate, match=said):
            machine.find_gpu()


def test_a_simulated_gpu_is_refused(two_gpus, monkeypatch):
    with pytest.raises(CannotCalibrate, match="cudasim is enabled"):
        machine.find_gpu()
    monkeypatch.delenv("CUDASIM_GPUS")
    with pytest.raises(CannotCalibrate, match="this GPU is simulated: only a real one"):
        machine.find_gpu()


def test_a_card_file_that_cannot_be_read_is_refused(tmp_path, refused):
    path = tmp_path / "card.json"
    refused(["validate", "--card", path], str(path), "no such file")
    for text, problem in (("{", "not JSON"), ("{}", "name is missing")):
        path.write_text(text)
        refused(["validate", "--card", path], str(path), problem)
    refused(["validate", "--card", "T5"], "card='T5': no data sheet; there are", "T4")
    with pytest.raises(
        CannotCalibrate, match="the model stopped: ValueError: card='T5'"
    ):
        list(modelling.modelled("T5", [], quick=True))


@pytest.fixture
def earlier(tmp_path, two_gpus, monkeypatch):
    """A file that is there, beside a GPU that may be measured."""
    monkeypatch.setattr(machine.torch.cuda, "get_device_name", lambda *_: "Tesla T4")
    monkeypatch.delenv("CUDASIM_GPUS")
    path = tmp_path / "t4.json"
    path.write_text("earlier")
    yield path
    assert path.read_text() == "earlier" and [*tmp_path.iterdir()] == [path]


def test_what_is_refused_or_interrupted_leaves_the_earlier_file(
    earlier, facts, refused, monkeypatch
):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(measuring, "measure", stop)
    monkeypatch.setattr(validating, "workload_seconds", stop)
    for command in COMMANDS:
        refused(
            [*command, "--to", earlier],
            f"{earlier} is there already: --force replaces it",
        )
    for command in COMMANDS:
        with pytest.raises(SystemExit, match="130"):
            facts(*command, "--to", earlier, "--force")


HARDWARE = {
    "Tesla T4": ("T4", "t4"),
    "NVIDIA A100-SXM4-40GB": ("A100", "a100"),
    "NVIDIA H100 80GB HBM3": ("H100", "h100"),
    "NVIDIA TITAN RTX": ("TITAN RTX", "titan-rtx"),
    "NVIDIA GeForce RTX 3090": (None, "rtx-3090"),
    "Tesla T40 24GB": (None, "t40-24gb"),
}


@no_gpu
@pytest.mark.parametrize("hardware", HARDWARE)
def test_a_card_is_found_by_what_torch_calls_it(hardware):
    found, stem = (
        machine.data_sheet(hardware),
        machine.file_stem(machine.card_name(hardware)),
    )
    assert (found and found.name, stem) == HARDWARE[hardware]


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory):
    """The file that calibrating the simulated T4 gives."""
    path = tmp_path_factory.mktemp("cards") / "t4.json"
    with Uncomputed(), cudasim.simulate(1, "T4", force=True, clock="modelled"):
        assert measuring.calibrate(path, quick=True, stand_in=True) == path
    return path


def near(found, given, names=None, within=0.1):
    """Whether every figure of a table, or those of `names`, is near that of the other."""
    if names:
        found, given = (
            {name: getattr(each, name) for name in names} for each in (found, given)
        )
    assert found.keys() <= given.keys()
    assert {name: rate / given[name] for name, rate in found.items()} == pytest.approx(
        dict.fromkeys(found, 1), abs=within
    )


def test_calibrating_the_model_gives_the_sheet_back(calibrated):
    found, given = find_sheet(str(calibrated)), find_sheet("T4")
    assert found.name == "T4 calibrated"
    for name in (
        "peak",
        "vector",
        "bandwidth",
        "processors",
        "peer",
    ):  # one card was there
        assert getattr(found, name) == getattr(given, name)
    near(found, given, ("launch", "floor", "wait"))
    shares = dict(found.efficiency)
    near({"memory": shares.pop("memory")}, given.efficiency, within=0.03)
    for kind, reached in shares.items():
        known = given.efficiency[kind]
        near(reached, {"float64": known["float32"], **known}, within=0.03)
    near(found.link, given.link, within=0.03)
    beside, host = host_sheet(found), host_sheet(given)
    costs = "operation python view operand module backward node step parameter clock bandwidth"
    near(beside, host, costs.split())
    measured = {
        name: beside.setup[name] for name in ("matmul", "convolution", "reduction")
    }
    near(measured, host.setup)
    near({name: beside.peak[name] for name in ("float32", "float64")}, host.peak)


def test_a_card_without_a_data_sheet_gets_what_was_reached(tmp_path, monkeypatch):
    monkeypatch.setattr(measuring, "data_sheet", lambda name: None)
    path = tmp_path / "unknown.json"
    with Uncomputed(), cudasim.simulate(2, "T4", force=True, clock="modelled"):
        measuring.calibrate(path, quick=True, stand_in=True)
    found, given = find_sheet(str(path)), find_sheet("T4")
    reached = {
        name: each * given.efficiency["matmul"][name]
        for name, each in given.peak.items()
    }
    near(found.peak, reached, within=0.03)
    assert set(found.efficiency["matmul"].values()) == {1}
    assert found.bandwidth == pytest.approx(given.bandwidth * 0.75, rel=0.03)
    near({"bandwidth": found.peer["bandwidth"]}, given.peer)  # there were two
    for size in (1024, 4096):
        work = Work("matmul", 2 * size**3, 12 * size**2, shape=(1, size, size, size))
        assert kernel_seconds(work, found) == pytest.approx(
            kernel_seconds(work, given), rel=0.02
        )


def test_the_file_says_where_it_is_from(calibrated):
    about = find_sheet(str(calibrated)).provenance
    assert about["hardware"] == "Simulated GPU (T4, modelled time)"
    assert about["command"] == "python cudasim/facts calibrate --quick"
    assert about["torch"] == torch.__version__ and about["date"] and about["driver"]
    assert about["measured"]["matmul"]["float32"]["seconds"] > 0


@pytest.mark.full
def test_the_model_agrees_with_itself(tmp_path):
    path = tmp_path / "t4.json"
    with Uncomputed(), cudasim.simulate(1, "T4", force=True, clock="modelled"):
        said = validating.validate("T4", path, quick=True, stand_in=True)
    about = json.loads(path.read_text())
    assert about["card"] == "T4" and about["figures"]["workloads"] >= 40
    assert about["figures"]["near"] == 1 and about["figures"]["median_error"] < 0.01
    assert about["figures"]["pairs"] > 10
    assert about["provenance"]["hardware"] == "Simulated GPU (T4, modelled time)"
    assert "pairs in the right order" in said.splitlines()[-2]


def test_what_a_card_cannot_do_is_left_out_and_named(capsys):
    def refuse():
        raise RuntimeError("no kernel for this\nand more")

    assert not machine.works("product in bfloat16", refuse)
    assert (
        capsys.readouterr().out == "left out: product in bfloat16: no kernel for this\n"
    )


SIMULATED = """
import sys, subprocess, torch, cudasim
cudasim.enable(gpus=1, card=sys.argv[1], clock="modelled")
gib = torch.cuda.get_device_properties(0).total_memory / 2**30
print(torch.cuda.get_device_name(), gib, torch.cuda.can_device_access_peer(0, 0), flush=True)
child = "import torch; print(torch.cuda.get_device_name())"
subprocess.run([sys.executable, "-c", child], cwd="/")
cudasim.disable()
cudasim.enable(card="nowhere.json")
"""


def test_a_calibrated_card_is_simulated_by_the_path_of_its_file(calibrated, tmp_path):
    done = run("-c", SIMULATED, calibrated.name, cwd=calibrated.parent)
    said = "Simulated GPU (T4 calibrated, modelled time)"
    lines = [line for line in done.stdout.splitlines() if line.startswith(said)]
    assert lines == [f"{said} 14.5625 False", said]
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ValueError: ") and "nowhere.json: no such file" in last
    about = json.loads(calibrated.read_text())
    del about["provenance"]["memory"]
    (tmp_path / "card.json").write_text(json.dumps(about))
    done = run(
        "-m", "cudasim", "--card", tmp_path / "card.json", "program.py", cwd=tmp_path
    )
    assert done.returncode == 1
    assert "card='T4 calibrated': its file does not say what it is" in done.stderr
