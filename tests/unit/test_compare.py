"""The GPUs at hand against recordings of such cards: simulated GPUs stand in for real ones."""

import subprocess

import pytest
from helpers import assert_one_line, copy_kernel, edit, outputs_path, run_tool
from making import CARD, H100, display, falsify, keep, text

from tools.book.book import Book
from tools.errors import BookError
from tools.record import compare as module
from tools.record.provenance import Cards


@pytest.mark.full
def test_a_false_output_fails_and_the_others_pass(gpu_book):
    path = outputs_path("first", CARD, gpu_book)
    falsify(path, "show", [text("x is 1\n"), text("on cuda:7\n")])
    run = run_tool(gpu_book, "compare")
    assert run.returncode == 1, run.stdout + run.stderr
    assert "1 failed, 3 passed" in run.stdout
    assert "nothing is compared" not in run.stdout
    assert_one_line(run.stderr, f"error: outputs/{CARD}: ", "print something else")


CARDS = Cards(
    folder="h100",
    label="NVIDIA H100",
    names=["NVIDIA H100"],
    free=[2**40],
    cuda="12.4",
    driver="550.1",
    torch="2.13.0+cu124",
)


@pytest.fixture
def compared(monkeypatch):
    """What nbval is asked to compare: it is not run."""
    compared = []

    def pretend(command, cwd):
        compared.append(command[-1])
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(module.subprocess, "run", pretend)
    return compared


@pytest.mark.full
def test_a_cell_that_has_no_recording_must_still_run(
    recorded_book, compared, monkeypatch, capfd
):
    # The kernel `cpu` stands in, which starts sooner, with made-up cards.
    copy_kernel(recorded_book, "cpu", "gpu")
    monkeypatch.setattr(module, "find_cards", lambda runner: CARDS)
    keep(recorded_book, "second", "h100", {"sum": [display("4")]}, **H100)

    module.compare(Book(recorded_book))
    assert compared == ["outputs/h100/second.ipynb"]
    printed = capfd.readouterr().out
    nothing = "nothing recorded on NVIDIA H100 of first as"
    assert_one_line(printed, nothing, "nothing is compared")
    # To compare is not to record.
    assert not outputs_path("first", "h100", recorded_book).exists()

    edit(recorded_book, "second", "sum", "2 / 0")
    failure = r"(?s)^notebooks/second\.ipynb: .*ZeroDivisionError"
    with pytest.raises(BookError, match=failure):
        module.compare(Book(recorded_book))
    assert len(compared) == 1
