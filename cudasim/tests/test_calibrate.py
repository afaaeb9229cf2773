"""Calibration: its harness against the modelled clock, and what it says where it cannot measure."""

import json
import subprocess
import sys

import pytest
import torch
from programs import PROJECT, run

from cudasim.calibration import machine
from cudasim.calibration.card_file import write
from cudasim.timing.sheets import find_sheet

no_gpu = pytest.mark.skipif(
    torch.cuda.is_available(), reason="a GPU is here: what is said without one cannot be seen"
)


def command(name, *arguments, **variables):
    """Run `python -m cudasim.<name>`."""
    return run("-m", f"cudasim.{name}", *arguments, cwd=PROJECT, **variables)


def refused(done, *words):
    """Whether a command ended with exit code 1 and one line that has these words."""
    assert done.returncode == 1 and done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert [word for word in words if word not in done.stderr] == []


@no_gpu
def test_without_a_gpu_one_line_says_so(tmp_path):
    refused(
        command("calibrate", "--to", tmp_path / "a.json"), "calibrate: no GPU to measure: torch"
    )
    refused(command("validate", "--card", "T4", "--to", tmp_path / "b.json"), "validate: no GPU to")
    assert list(tmp_path.iterdir()) == []


@no_gpu
def test_a_build_without_cuda_and_a_machine_without_a_gpu_are_told_apart(monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(machine.CannotCalibrate, match="build without CUDA; name a Python whose"):
        machine.find_gpu()
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    with pytest.raises(machine.CannotCalibrate, match=r"torch .* finds none"):
        machine.find_gpu()


def test_a_simulated_gpu_is_refused(two_gpus, monkeypatch):
    with pytest.raises(machine.CannotCalibrate, match="cudasim is enabled"):
        machine.find_gpu()
    monkeypatch.delenv("CUDASIM_GPUS")
    with pytest.raises(machine.CannotCalibrate, match="this GPU is simulated: only a real one"):
        machine.find_gpu()


def test_an_unknown_card_is_refused():
    done = command("validate", "--card", "T5")
    refused(done, "validate: card='T5': no data sheet; there are", "T4")


@pytest.mark.parametrize(
    ("text", "said"), [("{", "not JSON"), ("{}", "name is missing"), (None, "no such file")]
)
def test_a_card_file_that_cannot_be_read_is_refused(text, said, tmp_path):
    path = tmp_path / "card.json"
    if text is not None:
        path.write_text(text)
    refused(command("validate", "--card", path), str(path), said)


def test_without_torch_one_line_says_so(tmp_path):
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(name='torch')")
    path = {"PYTHONPATH": f"{tmp_path}:{PROJECT / 'src'}"}
    refused(command("calibrate", **path), "calibrate: no module 'torch' here: install torch")
    refused(command("validate", "--card", "T4", **path), "validate: no module 'torch' here")


@no_gpu
def test_make_calibrate_says_so_too():
    make = ["make", "--no-print-directory", "calibrate", f"PYTHON={sys.executable}"]
    done = subprocess.run(make, cwd=PROJECT.parent, capture_output=True, text=True)
    assert done.returncode != 0
    assert done.stderr.splitlines()[0].startswith("calibrate: no GPU to measure: torch ")


@pytest.mark.parametrize(
    ("hardware", "sheet", "stem"),
    [
        ("Tesla T4", "T4", "t4"),
        ("Tesla V100-SXM2-16GB", "V100", "v100"),
        ("NVIDIA A100-SXM4-40GB", "A100", "a100"),
        ("NVIDIA H100 80GB HBM3", "H100", "h100"),
        ("NVIDIA H200", "H200", "h200"),
        ("NVIDIA TITAN RTX", "TITAN RTX", "titan-rtx"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090", "rtx-4090"),
        ("NVIDIA GeForce RTX 3090", None, "rtx-3090"),
        ("Tesla T40 24GB", None, "t40-24gb"),
    ],
)
def test_a_card_is_found_by_what_torch_calls_it(hardware, sheet, stem):
    found = machine.data_sheet(hardware)
    assert (found and found.name) == sheet
    assert machine.file_stem(machine.card_name(hardware)) == stem


def test_a_file_is_written_at_one_stroke(tmp_path, monkeypatch):
    path = tmp_path / "card.json"
    write(path, {"a": 1})
    with pytest.raises(TypeError):
        write(path, {"a": object()})
    assert json.loads(path.read_text()) == {"a": 1}
    assert [each.name for each in tmp_path.iterdir()] == ["card.json"]


START = """
import sys, torch, cudasim
from pathlib import Path
from cudasim.calibration import measuring, rates, stopwatch
from cudasim.calibration.uncomputed import Uncomputed
path = Path(sys.argv[1])
"""


def script(text, *arguments, **variables):
    """Run a program in which the modelled clock of a T4 stands in for a GPU."""
    inside = f"""
with Uncomputed(), cudasim.simulate(1, "T4", force=True, clock="modelled"):
    {text}
"""
    return run("-c", START + inside, *arguments, cwd=PROJECT, **variables)


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory):
    """The file that calibrating the simulated T4 gives."""
    path = tmp_path_factory.mktemp("cards") / "t4.json"
    done = script("measuring.calibrate(path, quick=True, stand_in=True)", path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"{path} written"
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
    assert (found.peak, found.vector, found.bandwidth) == (
        given.peak,
        given.vector,
        given.bandwidth,
    )
    assert found.processors == given.processors
    for name in ("launch", "floor", "wait"):
        near({name: getattr(found, name)}, {name: getattr(given, name)}, 0.1)
    near({"memory": found.efficiency["memory"]}, {"memory": given.efficiency["memory"]})
    for kind in ("matmul", "convolution", "attention"):
        shares = given.efficiency[kind]
        near(found.efficiency[kind], {"float64": shares["float32"], **shares})
    near(found.link, given.link, 0.1)
    assert found.peer == given.peer  # one card was there


def test_the_file_says_where_it_is_from(calibrated):
    about = find_sheet(str(calibrated)).provenance
    assert about["hardware"] == "Simulated GPU (T4, modelled time)"
    assert about["command"] == "python -m cudasim.calibrate --quick"
    assert about["torch"] == torch.__version__ and about["date"] and about["driver"]
    assert about["measured"]["matmul"]["float32"]["seconds"] > 0


def test_a_file_that_is_there_is_not_replaced(calibrated):
    before = calibrated.read_text()
    done = script("measuring.calibrate(path, quick=True, stand_in=True)", calibrated)
    assert "CannotCalibrate" in done.stderr.splitlines()[-1]
    assert f"{calibrated} is there already: --force replaces it" in done.stderr
    assert calibrated.read_text() == before


def test_an_interrupted_calibration_leaves_the_earlier_file(calibrated, tmp_path):
    path = tmp_path / "t4.json"
    path.write_text("earlier")
    text = """
    from cudasim import calibrate
    def stop(*given): raise KeyboardInterrupt
    rates.products = stop
    measuring.find_gpu.__defaults__ = (True,)
    real = measuring.calibrate
    measuring.calibrate = lambda to, force, quick: real(to, force, quick, stand_in=True)
    code = calibrate.main(["--to", str(path), "--force", "--quick"])
    sys.exit(code)
    """
    done = script(text.strip(), path)
    assert done.returncode == 130
    assert done.stderr.splitlines() == [
        "calibrate: interrupted; what was not complete was not written"
    ]
    assert path.read_text() == "earlier" and [*tmp_path.iterdir()] == [path]


def test_the_model_agrees_with_itself(tmp_path):
    text = """
    from cudasim.calibration import validating
    print(validating.validate("T4", path, quick=True, stand_in=True))
    """
    done = script(text.strip(), tmp_path / "t4.json")
    assert done.returncode == 0, done.stderr
    about = json.loads((tmp_path / "t4.json").read_text())
    assert about["card"] == "T4" and about["figures"]["workloads"] >= 40
    assert about["figures"]["near"] == 1 and about["figures"]["median_error"] < 0.01
    assert about["figures"]["pairs_right"] == about["figures"]["pairs"] > 10
    assert "pairs in the right order" in done.stdout.splitlines()[-2]


def test_a_calibrated_card_is_simulated_by_the_path_of_its_file(calibrated, tmp_path):
    text = """
import sys, subprocess, torch, cudasim
cudasim.enable(gpus=1, card=sys.argv[1], clock="modelled")
print(torch.cuda.get_device_name(), torch.cuda.get_device_properties(0).total_memory / 2**30)
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
    assert lines == [f"{said} 16.0", said]
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ValueError: ") and last.endswith("nowhere.json: no such file or directory")


def test_a_file_that_does_not_say_what_card_it_is_of_is_refused(calibrated, tmp_path):
    about = json.loads(calibrated.read_text())
    del about["provenance"]["memory"]
    (tmp_path / "card.json").write_text(json.dumps(about))
    done = run("-m", "cudasim", "--card", tmp_path / "card.json", "-c", "pass", cwd=tmp_path)
    assert done.returncode == 2
    assert "card='T4 calibrated': its file does not say what it is" in done.stderr
