"""A runner executes what it is asked to; whatever goes wrong, recorded outputs stay whole."""

import signal
import time

import helpers
import pytest
from filelock import FileLock, Timeout
from helpers import (
    assert_one_line,
    code,
    copy_kernel,
    edit,
    refused,
    run_tool,
    wait_until,
    write,
)
from jupyter_client.channels import HBChannel
from making import contents, kernels_of, specification

from tools.book.book import Book
from tools.errors import BookError
from tools.record.execute import one_at_a_time
from tools.record.record import record


def test_a_failing_cell_is_shown_stops_the_other_chapters_and_nothing_is_written(
    recorded_book, monkeypatch
):
    # In jupyter_client 8.10, stop() of a heartbeat whose thread has not run yet waits for ever.
    monkeypatch.setattr(
        HBChannel, "start", lambda heartbeat: pytest.fail("a heartbeat starts")
    )
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
    assert "tools/record/execute.py" not in shown  # the author's traceback, not ours
    assert kernels_of(recorded_book) == []
    assert contents(recorded_book / "outputs") == before


DIES = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"


@pytest.mark.parametrize(
    ("argv", "source", "parts"),
    [
        (
            ["python", "-c", "raise SystemExit(3)"],
            "1",
            ["kernels/cpu/kernel.json: ", ".venv"],
        ),
        (
            specification("cpu")["argv"],
            DIES,
            ["notebooks/second.ipynb: ", "died", "memory"],
        ),
    ],
)
def test_kernel_that_does_not_start_or_dies_is_one_line(
    recorded_book, argv, source, parts
):
    before = contents(recorded_book / "outputs")
    copy_kernel(recorded_book, "cpu", argv=argv)
    edit(recorded_book, "second", "sum", source)
    with refused(*parts):
        record(["cpu"], ["second"], Book(recorded_book))
    assert contents(recorded_book / "outputs") == before


def test_where_nothing_can_be_written_nothing_is_executed(small_book):
    (small_book / "outputs").touch()  # not a folder: nobody can write in it
    run = run_tool(small_book, "book")
    assert run.returncode == 1
    assert_one_line(
        run.stderr, "error: outputs/cpu: cannot be written (Not a directory); make ro"
    )
    assert not (small_book / "_build" / "html").exists()


def is_held(root):
    try:
        with FileLock(root / "_build" / "lock", timeout=0):
            return False
    except Timeout:
        return True


def test_of_two_commands_at_once_each_waits_for_the_other_and_both_succeed(
    recorded_book,
):
    logs = [recorded_book / "one", recorded_book / "two"]
    with one_at_a_time(recorded_book):
        assert is_held(recorded_book)
        tools = []
        for log in logs:
            with log.open("w") as stream:
                tools.append(
                    helpers.start_tool(
                        recorded_book, "book", stdout=stream, stderr=stream
                    )
                )
        for log in logs:
            wait_until(
                lambda log=log: log.read_text().startswith("waiting: another command ")
            )
    assert [tool.wait(timeout=60) for tool in tools] == [0, 0], [
        log.read_text() for log in logs
    ]
    site = recorded_book / "_build" / "html" / "index.html"
    assert all(log.read_text().splitlines()[1:] == [f"site: {site}"] for log in logs)
    built = sorted(path.name for path in (recorded_book / "_build").iterdir())
    assert site.is_file() and built == ["html", "inputs.json", "lock"]


@pytest.mark.parametrize("moment", ["while the kernel starts", "in a cell"])
def test_ctrl_c_leaves_nothing_half_done(recorded_book, moment):
    root = recorded_book
    before, started = contents(root / "outputs"), root / "started"
    slow = f"open({str(started)!r}, 'w').close()\nimport time\ntime.sleep(60)"
    write(root, "first", code("quick", "1 + 1"), code("slow", slow))
    log = root / "stderr"  # not a pipe: a kernel left behind would hold it open
    with log.open("w") as stderr:
        tool = helpers.start_tool(
            root, "record", "cpu", "--chapters", "first", stderr=stderr
        )
    try:
        wait_until(
            started.exists if moment == "in a cell" else lambda: kernels_of(root)
        )
        assert is_held(root)
        tool.send_signal(signal.SIGINT)
        tool.wait(timeout=50)  # the cell takes 60 s; a busy machine needs some time
        left = kernels_of(root)
    finally:
        for process in [tool, *kernels_of(root)]:
            process.kill()
    assert (tool.returncode, left, is_held(root)) == (130, [], False)
    lines = log.read_text().splitlines()
    said = [
        line for line in lines if not line.rstrip().endswith(("cell/s]", "s/cell]"))
    ]
    assert_one_line("\n".join(said), "interrupted: ", "nothing is half-written")
    assert contents(root / "outputs") == before
