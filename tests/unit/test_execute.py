"""A runner executes what it is asked to; whatever goes wrong, recorded outputs stay whole."""

import datetime
import importlib.util
import json
import signal
import time

import psutil
import pytest
import torch
from helpers import (
    ROOT,
    assert_one_line,
    code,
    contents,
    edit,
    read,
    run_tool,
    start_tool,
    write,
)

from tools.errors import BookError
from tools.run.execute import record
from tools.run.recordings import outputs_path
from tools.run.runners import use_runner
from tools.source.chapters import cell_keys, read_chapter


def test_outputs_carry_keys_and_provenance(recorded):
    outputs = read(outputs_path("first", "cpu", recorded))
    assert {c.id: c.metadata.key for c in outputs.cells} == cell_keys(
        read_chapter("first", recorded)
    )
    facts = outputs.metadata.provenance
    assert facts.runner == outputs.metadata.kernelspec.name == "cpu"
    assert datetime.date.fromisoformat(facts.date) <= datetime.datetime.now(datetime.UTC).date()
    assert facts.versions.torch == torch.__version__
    assert facts.hardware and facts.seconds > 0


def test_outputs_are_what_the_cells_printed(recorded):
    setup, make, show = read(outputs_path("first", "cpu", recorded)).cells
    assert (setup.outputs, make.outputs) == ([], [])
    assert [output.output_type for output in show.outputs] == ["stream", "execute_result"]
    assert (show.outputs[0].text, show.outputs[1].data) == ("x is 1\n", {"text/plain": "2"})
    assert [setup.execution_count, make.execution_count, show.execution_count] == [1, 2, 3]


@pytest.mark.parametrize("name", ["first", "second"])
def test_outputs_hold_no_time_of_day(recorded, name):
    outputs = read(outputs_path(name, "cpu", recorded))
    assert all("execution" not in cell.metadata for cell in outputs.cells)


def test_only_the_changed_chapter_is_executed(recorded_book):
    other = recorded_book / "outputs" / "cpu" / "second.ipynb"
    before = contents(other.parent)[other]
    edit(recorded_book, "first", "make", "x = 2")
    run = run_tool(recorded_book, "book")
    assert (run.returncode, run.stdout) == (0, "cpu: executing first\nsite\n"), run.stderr
    assert contents(other.parent)[other] == before
    show = read(outputs_path("first", "cpu", recorded_book)).cells[-1]
    assert show.outputs[0].text == "x is 2\n"


def test_record_executes_the_chapters_that_are_named(small_book):
    assert run_tool(small_book, "record", "cpu", "second").returncode == 0
    assert [path.name for path in (small_book / "outputs" / "cpu").iterdir()] == ["second.ipynb"]


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["cpu", "third"], ["notebooks/third.ipynb: ", "first"]),
        (["toaster"], ["kernels/: ", "'toaster'", "cpu"]),
        ([], ["Makefile: ", "RUNNER=cpu"]),
    ],
)
def test_unknown_names_are_told_in_one_line(small_book, arguments, parts):
    run = run_tool(small_book, "record", *arguments)
    assert run.returncode == 1
    assert_one_line(run.stderr, "error: ", *parts)


def test_failing_cell_is_shown_and_nothing_is_written(recorded_book):
    before = contents(recorded_book / "outputs")
    edit(recorded_book, "first", "show", "y = x\ny / 0")
    run = run_tool(recorded_book, "record", "cpu", "first")
    assert run.returncode == 1
    for part in ("notebooks/first.ipynb", "cpu", "y = x\ny / 0", "ZeroDivisionError", "Traceback"):
        assert part in run.stderr
    assert "tools/run/execute.py" not in run.stderr  # the author's traceback, not ours
    assert contents(recorded_book / "outputs") == before


def test_first_failure_stops_the_other_chapters(small_book):
    edit(small_book, "first", "show", "1 / 0")
    edit(small_book, "second", "sum", "import time\ntime.sleep(60)")
    start = time.monotonic()
    with pytest.raises(BookError, match=r"(?s)notebooks/first\.ipynb: .*ZeroDivisionError"):
        record(["first", "second"], "cpu", small_book)
    assert time.monotonic() - start < 30
    assert (kernels_of(small_book), (small_book / "outputs").exists()) == ([], False)


def kernel_json(root):
    return root / "kernels" / "cpu" / "kernel.json"


@pytest.mark.parametrize("text", [None, "{", "[]", '{"language": "python"}', '{"argv": "python"}'])
def test_broken_kernel_json_is_told_in_one_line(small_book, text):
    kernel_json(small_book).unlink()
    if text is not None:
        kernel_json(small_book).write_text(text)
    with pytest.raises(BookError) as error:
        use_runner("cpu", small_book)
    assert_one_line(str(error.value), "kernels/cpu/kernel.json: ", "git checkout")


def start_with(root, *argv):
    specification = json.loads(kernel_json(root).read_text())
    kernel_json(root).write_text(json.dumps(specification | {"argv": list(argv)}))


@pytest.mark.parametrize("argv", [("python", "-c", "raise SystemExit(3)"), ("no-such-program",)])
def test_kernel_that_does_not_start_is_told_in_one_line(recorded_book, argv):
    before = contents(recorded_book / "outputs")
    start_with(recorded_book, *argv)
    with pytest.raises(BookError) as error:
        record(["second"], "cpu", recorded_book)
    assert_one_line(str(error.value), "kernels/cpu/kernel.json: ", "make environment")
    assert contents(recorded_book / "outputs") == before


def test_kernel_that_dies_in_a_cell_is_told_in_one_line(recorded_book):
    before = contents(recorded_book / "outputs")
    edit(recorded_book, "second", "sum", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(BookError) as error:
        record(["second"], "cpu", recorded_book)
    assert_one_line(str(error.value), "notebooks/second.ipynb: ", "died", "memory")
    assert contents(recorded_book / "outputs") == before


def kernels_of(root):
    """The processes whose command names a kernel of the book in `root`."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        line = " ".join(process.info["cmdline"] or [])
        if str(root / "kernels") in line and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


def wait_until(happened):
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("moment", ["while the kernel starts", "in a cell"])
def test_ctrl_c_leaves_nothing_half_done(recorded_book, moment):
    before = contents(recorded_book / "outputs")
    started = recorded_book / "started"
    slow = f"open({str(started)!r}, 'w').close()\nimport time\ntime.sleep(60)"
    write(recorded_book, "first", code("quick", "1 + 1"), code("slow", slow))
    log = recorded_book / "stderr"  # no pipe: a kernel left behind would hold it open
    with log.open("w") as stderr:
        tool = start_tool(recorded_book, "record", "cpu", "first", stderr=stderr)
    try:
        wait_until(started.exists if moment == "in a cell" else lambda: kernels_of(recorded_book))
        tool.send_signal(signal.SIGINT)
        tool.wait(timeout=40)  # the cell takes 60 s; a busy machine needs some time
        left = kernels_of(recorded_book)
    finally:
        for process in [tool, *kernels_of(recorded_book)]:
            process.kill()
    assert (tool.returncode, left) == (130, [])
    told = [
        line
        for line in log.read_text().splitlines()
        if not line.rstrip().endswith(("cell/s]", "s/cell]"))
    ]
    assert_one_line("\n".join(told), "interrupted: ", "nothing is half-written")
    assert contents(recorded_book / "outputs") == before


def test_cpu_runner_sees_no_accelerator(small_book):
    hidden = """\
import torch
assert torch.cuda.device_count() == 0 and not torch.cuda.is_available()
assert not torch.accelerator.is_available() and torch.accelerator.device_count() == 0"""
    write(small_book, "second", code("hidden", hidden))
    record(["second"], "cpu", small_book)


@pytest.fixture
def start():
    """kernels/start.py as a module: it is a script, in no package."""
    spec = importlib.util.spec_from_file_location("start", ROOT / "kernels" / "start.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_apples_accelerator_is_hidden(start, monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.mps, "device_count", lambda: 1)
    mps = torch.device("mps")
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available=False: mps)
    assert torch.accelerator.current_accelerator().type == "mps"
    start.hide_accelerators()
    assert not torch.backends.mps.is_available() and torch.mps.device_count() == 0
    assert torch.accelerator.current_accelerator() is None
    assert not torch.accelerator.is_available() and torch.accelerator.device_count() == 0


def test_d2l_loads_on_the_cpu_runner(small_book):
    write(small_book, "second", code("d2l", "from d2l import torch as d2l\nd2l.Trainer"))
    record(["second"], "cpu", small_book)


@pytest.mark.parametrize("pin", ["torch==2.13.0", "torchvision==0.28.0", "d2l==1.0.3"])
def test_mend_of_torchvision_was_tried_with_these_pins(pin):
    # After a bump: does d2l still load without `mend_torchvision`? Then take it out.
    files = ("requirements.txt", "requirements-no-deps.txt")
    lines = [line for name in files for line in (ROOT / name).read_text().splitlines()]
    assert pin in [line.partition("#")[0].strip() for line in lines]
