"""A runner executes what it is asked to; whatever goes wrong, recorded outputs stay whole."""

import functools
import signal
import time

import pytest
from filelock import FileLock, Timeout
from helpers import (
    assert_one_line,
    code,
    copy_kernel,
    edit,
    refused,
    run_tool,
    start_tool,
    wait_until,
    write,
)
from jupyter_client.channels import HBChannel
from making import contents, kernels_of, specification

from tools.book.book import Book
from tools.errors import BookError
from tools.record.execute import one_at_a_time
from tools.record.record import record


def no_heartbeat(heartbeat):
    """In jupyter_client 8.10, stopping one whose thread has not run yet waits for ever."""
    pytest.fail("a heartbeat starts")


def test_a_failing_cell_stops_all_and_nothing_is_written(recorded_book, monkeypatch):
    monkeypatch.setattr(HBChannel, "start", no_heartbeat)
    before = contents(recorded_book / "outputs")
    edit(recorded_book, "first", "show", "y = x\ny / 0")
    edit(recorded_book, "second", "sum", "import time\ntime.sleep(60)")
    start = time.monotonic()
    with pytest.raises(BookError) as error:
        record(["cpu"], [], Book(recorded_book))
    assert time.monotonic() - start < 50
    shown = str(error.value)
    for part in ("notebooks/first.ipynb", "cpu", "y = x\ny / 0", "ZeroDivisionError"):
        assert part in shown
    # What is shown is the author's traceback, not that of these tools.
    assert "tools/record/execute.py" not in shown
    assert kernels_of(recorded_book) == []
    assert contents(recorded_book / "outputs") == before


DIES = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
NO_START = ["python", "-c", "raise SystemExit(3)"]
SOUND = specification("cpu")["argv"]


@pytest.mark.parametrize(
    ("argv", "source", "parts"),
    [
        (NO_START, "1", ["kernels/cpu/kernel.json: ", ".venv"]),
        (SOUND, DIES, ["notebooks/second.ipynb: ", "died", "memory"]),
    ],
    ids=["does not start", "dies"],
)
def test_a_kernel_that_fails_is_one_line(recorded_book, argv, source, parts):
    before = contents(recorded_book / "outputs")
    copy_kernel(recorded_book, "cpu", argv=argv)
    edit(recorded_book, "second", "sum", source)
    with refused(*parts):
        record(["cpu"], ["second"], Book(recorded_book))
    assert contents(recorded_book / "outputs") == before


def test_where_nothing_can_be_written_nothing_runs(small_book):
    # A file instead of a folder: nothing can be written into it.
    (small_book / "outputs").touch()
    run = run_tool(small_book, "book")
    assert run.returncode == 1
    reason = "error: outputs/cpu: cannot be written (Not a directory); make ro"
    assert_one_line(run.stderr, reason)
    assert not (small_book / "_build" / "html").exists()


def is_held(root):
    try:
        with FileLock(root / "_build" / "lock", timeout=0):
            return False
    except Timeout:
        return True


def start_logged(root, log, *arguments):
    with log.open("w") as stream:
        return start_tool(root, *arguments, stdout=stream, stderr=stream)


def is_waiting(log):
    return log.read_text().startswith("waiting: another command ")


def test_of_two_commands_at_once_one_waits_for_the_other(recorded_book):
    build = recorded_book / "_build"
    site = build / "html" / "index.html"
    logs = [recorded_book / "one", recorded_book / "two"]
    with one_at_a_time(recorded_book):
        assert is_held(recorded_book)
        tools = [start_logged(recorded_book, log, "book") for log in logs]
        for log in logs:
            wait_until(functools.partial(is_waiting, log))
    for tool, log in zip(tools, logs, strict=True):
        assert tool.wait(timeout=60) == 0, log.read_text()
        assert log.read_text().splitlines()[1:] == [f"site: {site}"]
    assert site.is_file()
    built = sorted(path.name for path in build.iterdir())
    assert built == ["html", "inputs.json", "lock"]


def without_progress(text):
    """Return what a command printed, without the lines of its progress bar."""
    lines = []
    for line in text.splitlines():
        if not line.rstrip().endswith(("cell/s]", "s/cell]")):
            lines.append(line)
    return "\n".join(lines)


@pytest.mark.parametrize("moment", ["while the kernel starts", "in a cell"])
def test_ctrl_c_leaves_nothing_half_done(recorded_book, moment):
    root = recorded_book
    before = contents(root / "outputs")
    started = root / "started"
    slow = f"open({str(started)!r}, 'w').close()\nimport time\ntime.sleep(60)"
    write(root, "first", code("quick", "1 + 1"), code("slow", slow))
    # Not a pipe: a kernel that is left behind would hold it open.
    log = root / "stderr"
    tool = start_logged(root, log, "record", "cpu", "--chapters", "first")
    try:
        if moment == "in a cell":
            wait_until(started.exists)
        else:
            wait_until(lambda: kernels_of(root))
        assert is_held(root)
        tool.send_signal(signal.SIGINT)
        # The cell takes 60 s; a busy machine needs some time.
        tool.wait(timeout=50)
        left_behind = kernels_of(root)
    finally:
        for process in [tool, *kernels_of(root)]:
            process.kill()

    assert tool.returncode == 130
    assert left_behind == []
    assert not is_held(root)
    message = without_progress(log.read_text())
    assert_one_line(message, "interrupted: ", "nothing is half-written")
    assert contents(root / "outputs") == before
