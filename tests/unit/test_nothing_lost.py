"""What a person made is not lost, nothing is left half-done, and every advice works."""

import re
import signal
import socket
import subprocess
import sys
import urllib.request
from copy import deepcopy
from pathlib import Path

import pytest
from helpers import (
    assert_one_line,
    code,
    edit,
    notebook,
    outputs_path,
    refused,
    run_tool,
    start_tool,
)
from making import changed, contents

import tools.cli  # noqa: F401  registers the commands
from tools import commands
from tools.book.book import Book
from tools.book.figures import embed_figures
from tools.book.links import write_links
from tools.book.notebooks import write_notebook
from tools.record import execute as executing
from tools.record.record import record


def advice(line):
    return re.search(r"'((?:git|make) [^']*)'", line)[1].split()


def test_an_edited_recording_is_kept_when_recorded_again(recorded_book):
    path = outputs_path("first", "cpu", recorded_book)
    other = outputs_path("second", "cpu", recorded_book)
    with changed(path) as recording:
        recording.cells[-1].outputs[0].text = "mine\n"
    edited = path.read_bytes()
    # The advice works whatever else is wrong.
    other.write_text("{")

    run = run_tool(recorded_book, "book")
    reason = "outputs/cpu/first.ipynb: edited since it was recorded"
    assert_one_line(run.stderr, reason)
    command = ["make", "record", "RUNNER=cpu", "CHAPTER=first"]
    assert advice(run.stderr) == command

    run = run_tool(recorded_book, "record", RUNNER="cpu", CHAPTER="first")
    assert run.returncode == 0, run.stderr
    message = "first.ipynb: recorded; what was edited there is first.ipynb.edited"
    assert_one_line(run.stdout, message)
    assert path.with_name("first.ipynb.edited").read_bytes() == edited
    # CHAPTER= names the only one that is executed.
    assert other.read_text() == "{"
    other.unlink()
    recording = Book(recorded_book).recording("cpu", "first")
    assert recording.current_cells.keys() == {"setup", "make", "show"}


def test_what_was_edited_twice_is_kept_twice(recorded_book):
    path = outputs_path("first", "cpu", recorded_book)
    recording = Book(recorded_book).recording("cpu", "first")
    for words in ("one", "two"):
        path.write_text(words)
        assert recording.write(recorded_book).read_text() == words
    # What these tools wrote themselves is not kept.
    assert recording.write(recorded_book) is None
    kept = sorted(path.parent.glob("first.ipynb.edited*"))
    assert [copy.read_text() for copy in kept] == ["one", "two"]


SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><path d="M1 1h6v6z"/></svg>'
FIGURE = "![One box, with nothing in it](../img/box.svg)"


@pytest.fixture
def drawing(small_book):
    """A drawing that git tracks, and that the first chapter shows."""
    drawing = small_book / "img" / "box.svg"
    drawing.parent.mkdir()
    drawing.write_text(SVG)
    edit(small_book, "first", "title", f"# First\n\n{FIGURE}")
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "img"], ["commit", "-qm", "A box"]):
        subprocess.run([*git, *words], cwd=small_book, check=True)
    return drawing


def complaints(root, command):
    lines = run_tool(root, command).stderr.splitlines()
    return [line for line in lines if "img/box.svg" in line]


def test_a_lost_figure_comes_back_by_the_advice(small_book, drawing):
    [line] = complaints(small_book, "rules")
    place = "notebooks/first.ipynb: cell 0 ('title')"
    assert_one_line(line, place, "python -m tools figures")
    assert embed_figures(Book(small_book).chapters.values(), small_book)
    assert complaints(small_book, "rules") == []

    drawing.unlink()
    for command in ("rules", "figures"):
        [line] = complaints(small_book, command)
        alternative = "take the figure out of the chapter"
        assert_one_line(line, "notebooks/first.ipynb: ", alternative)
    subprocess.run(advice(line), cwd=small_book, check=True)
    assert complaints(small_book, "rules") == []
    assert drawing.read_text() == SVG


NO_SPACE = (28, "No space left on device")
FULL = "cannot be written (No space left on device)"


def write_half(path, data):
    """Do what `Path.write_bytes` does on a disk that fills up."""
    with path.open("wb") as file:
        file.write(data[: len(data) // 2])
    raise OSError(*NO_SPACE)


def refuse(path, target):
    raise PermissionError(13, "Permission denied")


@pytest.mark.parametrize(
    ("step", "failure", "reason"),
    [
        ("write_bytes", write_half, "No space left on device"),
        ("replace", refuse, "Permission denied"),
    ],
)
def test_a_write_that_fails_leaves_the_old_file(
    small_book, monkeypatch, step, failure, reason
):
    path = small_book / "notebooks" / "first.ipynb"
    before = contents(small_book)
    monkeypatch.setattr(Path, step, failure)
    with refused(f"notebooks/first.ipynb: cannot be written ({reason}); make room"):
        write_notebook(notebook(code("a", "2")), path, small_book)
    assert contents(small_book) == before


@pytest.fixture
def full_disk(monkeypatch):
    """Let no file be written whose path holds certain words: `full_disk(words)`."""
    write_bytes = Path.write_bytes

    def fill(words):
        def write_elsewhere(path, data):
            if words in path.as_posix():
                raise OSError(*NO_SPACE)
            return write_bytes(path, data)

        monkeypatch.setattr(Path, "write_bytes", write_elsewhere)

    return fill


def test_links_are_written_everywhere_or_nowhere(linked_book, full_disk):
    config = linked_book / "_config.yml"
    config.write_text(config.read_text().replace("someone/tiny", "other/book"))
    before = contents(linked_book)
    # It is the last of all.
    full_disk("outputs/cpu/second")
    with refused(f"outputs/cpu/second.ipynb: {FULL}"):
        write_links(Book(linked_book))
    assert contents(linked_book) == before


def test_finished_recordings_stay_when_a_disk_is_full(
    small_book, full_disk, monkeypatch
):
    async def pretend(chapter, runner, bar, at_once):
        done = deepcopy(chapter.notebook)
        for count, cell in enumerate(done.cells):
            cell.execution_count = count
        return done

    monkeypatch.setattr(executing, "_execute", pretend)
    monkeypatch.setattr(executing.os, "cpu_count", lambda: 1)
    full_disk("second")
    with refused(f"outputs/cpu/second.ipynb: {FULL}; "):
        record(["cpu"], [], Book(small_book))
    assert [path.name for path in small_book.glob("outputs/*/*")] == ["first.ipynb"]
    book = Book(small_book)
    assert book.recording("cpu", "first").stale_because(book.pins) is None


def test_a_full_disk_is_one_line_wherever_it_is_met(monkeypatch, capsys):
    def full(root):
        raise OSError(*NO_SPACE, "/tmp/x")

    monkeypatch.setattr(sys, "argv", ["tools", "clear"])
    monkeypatch.setattr("tools.book.chapters.clear_outputs", full)
    assert commands.main() == 1
    assert_one_line(capsys.readouterr().err, f"error: /tmp/x: {FULL}")


@pytest.fixture
def site(small_book):
    site = small_book / "_build" / "html"
    site.mkdir(parents=True)
    (site / "index.html").write_text("the site")


def test_a_port_that_cannot_be_taken_is_one_line(small_book, site):
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = str(server.getsockname()[1])
        for port in (taken, "eight", "99999"):
            run = run_tool(small_book, "serve", PORT=port)
            assert run.returncode == 1
            choose = "choose another: 'make serve PORT=8001'"
            assert_one_line(run.stderr, f"port {port}: ", choose)


def test_the_site_is_served_until_ctrl_c(small_book, site):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    tool = start_tool(small_book, "serve", variables={"PORT": "0"}, **pipes)
    address = tool.stdout.readline().split()[0]
    assert urllib.request.urlopen(address).read() == b"the site"
    tool.send_signal(signal.SIGINT)
    printed, errors = tool.communicate(timeout=60)
    assert tool.returncode == 0
    assert printed.strip() == ""
    assert "Traceback" not in errors
