"""The GPUs of a machine: what they are asked, and what is said where they do not suffice."""

import json
import sys

import pytest
from helpers import assert_one_line, code, copy_kernel, notebook, refused, run_tool
from making import text

from tools.book.chapters import Chapter
from tools.errors import NoGpu
from tools.record import cards
from tools.record.cards import card_folder, card_label, card_runs
from tools.record.provenance import Cards

H100 = "NVIDIA H100 80GB HBM3"
OLD_DRIVER = (
    "CUDA initialization: The NVIDIA driver on your system is too old\n(found 11040)."
)
NO_CARD = {
    "names": [],
    "free": [],
    "warnings": [],
    "driver": "550.1",
    "cuda": "12.4",
    "torch": "2.13.0+cu124",
}
WITHOUT_CUDA = {"cuda": None, "torch": "2.13.0+cpu"}
WHY_NO_GPU = {
    "torch without CUDA": (
        WITHOUT_CUDA,
        ["torch 2.13.0+cpu", "without CUDA", "PYTHON="],
    ),
    "driver too old": (
        {"warnings": [OLD_DRIVER]},
        ["torch says: CUDA", "too old (found 11040)"],
    ),
    "no GPU": ({}, ["nvidia-smi"]),
}


@pytest.mark.parametrize(("facts", "parts"), WHY_NO_GPU.values(), ids=WHY_NO_GPU.keys())
def test_without_a_gpu_one_line_says_why(monkeypatch, facts, parts):
    printed = text(json.dumps(NO_CARD | facts))
    executed = notebook(code("question", "", outputs=[printed]))
    monkeypatch.setattr(cards, "execute_one", lambda chapter, runner: executed)
    with pytest.raises(NoGpu) as error:
        cards.find_cards(None)
    assert_one_line(str(error.value), "kernels/gpu/kernel.json: no GPU", *parts)


@pytest.mark.parametrize(
    ("names", "folder", "label"),
    [
        ([H100, "NVIDIA H100 PCIe"], "2xh100", "2 x NVIDIA H100"),
        (["NVIDIA A100-SXM4-40GB"], "a100", "NVIDIA A100"),
        (["Tesla T4"], "t4", "Tesla T4"),
        (["NVIDIA GeForce RTX 4090"], "rtx-4090", "NVIDIA GeForce RTX 4090"),
        (["AMD Instinct MI300X OAM"], "mi300x", "AMD Instinct MI300X"),
    ],
)
def test_cards_give_a_folder_and_a_label(names, folder, label):
    assert card_folder(names) == folder
    assert card_label(names) == label


def test_cards_of_several_models_are_refused():
    with refused("kernels/gpu/", "H100, T4", "CUDA_VISIBLE_DEVICES"):
        card_folder([H100, "Tesla T4"])


def cards_with(*free):
    names = [H100] * len(free)
    return Cards("h100", "H100", names, list(free), "550.1", "12.4", "2.13.0")


def runs(cards, **hardware):
    """Return the cards on which a chapter that needs such hardware is run."""
    needs = {"gpus": [1]} | hardware
    chapter = Chapter("first", notebook(code("a", "1"), hardware=needs))
    return [run.cards for run in card_runs([chapter], None, cards)]


TWO_CARDS = cards_with(20 * 2**30, int(7.5 * 2**30))


def test_a_chapter_that_needs_more_memory_is_refused():
    with refused("notebooks/first.ipynb: needs 8 GiB", "7.5 GiB of cuda:1 are free"):
        runs(TWO_CARDS, gpu_memory=8)
    assert runs(TWO_CARDS, gpu_memory=7.5) == [TWO_CARDS]


def test_a_chapter_that_needs_more_cards_is_left_out(capsys):
    assert runs(TWO_CARDS, gpus=[2]) == [TWO_CARDS]
    assert runs(cards_with(2**30), gpus=[2]) == []
    assert "notebooks/first.ipynb: left out, it needs 2 GPUs" in capsys.readouterr().out


def test_a_package_that_is_missing_there_is_one_line(small_book):
    copy_kernel(small_book, "cpu", "gpu")
    # It is found before the one that is installed, and raises what a missing one would.
    missing = "raise ModuleNotFoundError(name='filelock')\n"
    (small_book / "filelock.py").write_text(missing)
    run = run_tool(small_book, "record", "gpu")
    assert run.returncode == 1
    assert_one_line(run.stderr, sys.executable, "filelock", "requirements.txt")
