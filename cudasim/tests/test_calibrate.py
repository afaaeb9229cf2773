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
    torch.cuda.is_available(), reason="a GPU is here: what is said without one cannot be seen"
)


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
    for command in (["calibrate"], ["validate", "--card", "T4"]):
        refused([*command, "--to", tmp_path / "a.json"], "no GPU to measure: torch")
    assert list(tmp_path.iterdir()) == []
    for built, said in ((None, "without CUDA; run it with a Python"), ("13.0", "finds none")):
        monkeypatch.setattr(torch.version, "cuda", built)
        with pytest.raises(CannotCalibrate, match=said):
            machine.find_gpu()


def test_a_simulated_gpu_is_refused(two_gpus, monkeypatch):
    with pytest.raises(CannotCalibrate, match="cudasim is enabled"):
        machine.find_gpu()
    monkeypatch.delenv("CUDASIM_GPUS")
    with pytest.raises(CannotCalibrate, match="this GPU is simulated: only a real one"):
        machine.find_gpu()


@pytest.mark.parametrize(
    ("text", "problem"), [("{", "not JSON"), ("{}", "name is missing"), (None, "no such file")]
)
def test_a_card_file_that_cannot_be_read_is_refused(text, problem, tmp_path, refused):
    path = tmp_path / "card.json"
    if text is not None:
        path.write_text(text)
    refused(["validate", "--card", path], str(path), problem)
    refused(["validate", "--card", "T5"], "card='T5': no data sheet; there are", "T4")
    with pytest.raises(CannotCalibrate, match="the model stopped: ValueError: card='T5'"):
        list(modelling.modelled("T5", [], quick=True))


COMMANDS = (["calibrate"], ["validate", "--card", "T4"])


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
        refused([*command, "--to", earlier], f"{earlier} is there already: --force replaces it")
    for command in COMMANDS:
        with pytest.raises(SystemExit, match="130"):
            facts(*command, "--to", earlier, "--force")


@no_gpu
@pytest.mark.parametrize(
    ("hardware", "sheet", "stem"),
    [
        ("Tesla T4", "T4", "t4"),
        ("NVIDIA A100-SXM4-40GB", "A100", "a100"),
        ("NVIDIA H100 80GB HBM3", "H100", "h100"),
        ("NVIDIA TITAN RTX", "TITAN RTX", "titan-rtx"),
        ("NVIDIA GeForce RTX 3090", None, "rtx-3090"),
        ("Tesla T40 24GB", None, "t40-24gb"),
    ],
)
def test_a_card_is_found_by_what_torch_calls_it(hardware, sheet, stem):
    found = machine.data_sheet(hardware)
    assert (found and found.name) == sheet
    assert machine.file_stem(machine.card_name(hardware)) == stem


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory):
    """The file that calibrating the simulated T4 gives."""
    path = tmp_path_factory.mktemp("cards") / "t4.json"
    with Uncomputed(), cudasim.simulate(1, "T4", force=True, clock="modelled"):
        assert measuring.calibrate(path, quick=True, stand_in=True) == path
    return path


def near(found, given, within=0.03):
    """Whether every figure of a table is near that of the other."""
    assert found.keys() <= given.keys()
    assert {name: rate / given[name] for name, rate in found.items()} == pytest.approx(
        dict.fromkeys(found, 1), abs=within
    )


def test_calibrating_the_model_gives_the_sheet_back(calibrated):
    found, given = find_sheet(str(calibrated)), find_sheet("T4")
    assert found.name == "T4 calibrated"
    for name in ("peak", "vector", "bandwidth", "processors", "peer"):  # one card was there
        assert getattr(found, name) == getattr(given, name)
    for name in ("launch", "floor", "wait"):
        near({name: getattr(found, name)}, {name: getattr(given, name)}, 0.1)
    near({"memory": found.efficiency["memory"]}, {"memory": given.efficiency["memory"]})
    for kind in ("matmul", "convolution", "attention"):
        shares = given.efficiency[kind]
        near(found.efficiency[kind], {"float64": shares["float32"], **shares})
    near(found.link, given.link)
    beside, host = host_sheet(found), host_sheet(given)
    costs = "operation python view operand module backward node step parameter clock bandwidth"
    near(*({name: getattr(each, name) for name in costs.split()} for each in (beside, host)), 0.1)
    measured = {name: beside.setup[name] for name in ("matmul", "convolution", "reduction")}
    near(measured, host.setup, 0.1)
    near({name: beside.peak[name] for name in ("float32", "float64")}, host.peak, 0.1)


def test_a_card_without_a_data_sheet_gets_what_was_reached(tmp_path, monkeypatch):
    monkeypatch.setattr(measuring, "data_sheet", lambda name: None)
    path = tmp_path / "unknown.json"
    with Uncomputed(), cudasim.simulate(2, "T4", force=True, clock="modelled"):
        measuring.calibrate(path, quick=True, stand_in=True)
    found, given = find_sheet(str(path)), find_sheet("T4")
    reached = {name: each * given.efficiency["matmul"][name] for name, each in given.peak.items()}
    near(found.peak, reached)
    assert set(found.efficiency["matmul"].values()) == {1}
    near({"bandwidth": found.bandwidth}, {"bandwidth": given.bandwidth * 0.75})
    near({"bandwidth": found.peer["bandwidth"]}, given.peer, 0.1)  # there were two
    for size in (1024, 4096):
        work = Work("matmul", 2 * size**3, 12 * size**2, shape=(1, size, size, size))
        assert kernel_seconds(work, found) == pytest.approx(kernel_seconds(work, given), rel=0.02)


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
    assert capsys.readouterr().out == "left out: product in bfloat16: no kernel for this\n"


def test_a_calibrated_card_is_simulated_by_the_path_of_its_file(calibrated, tmp_path):
    text = """
import sys, subprocess, torch, cudasim
cudasim.enable(gpus=1, card=sys.argv[1], clock="modelled")
gib = torch.cuda.get_device_properties(0).total_memory / 2**30
print(torch.cuda.get_device_name(), gib, flush=True)
cudasim.disable()
child = "import torch; print(torch.cuda.get_device_name())"
cudasim.enable(gpus=1, card=sys.argv[1], clock="modelled")
subprocess.run([sys.executable, "-c", child], cwd="/")
cudasim.disable()
cudasim.enable(card="nowhere.json")
"""
    done = run("-c", text, calibrated.name, cwd=calibrated.parent)
    said = "Simulated GPU (T4 calibrated, modelled time)"
    lines = [line for line in done.stdout.splitlines() if line.startswith(said)]
    assert lines == [f"{said} 14.5625", said]
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ValueError: ") and "nowhere.json: no such file" in last
    about = json.loads(calibrated.read_text())
    del about["provenance"]["memory"]
    (tmp_path / "card.json").write_text(json.dumps(about))
    done = run("-m", "cudasim", "--card", tmp_path / "card.json", "program.py", cwd=tmp_path)
    assert done.returncode == 1
    assert "card='T4 calibrated': its file does not say what it is" in done.stderr
