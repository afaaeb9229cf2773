"""Cards: what the GPUs of a machine are asked, and what is said where they do not suffice."""

import contextlib
import io
import json
import sys
import warnings
from types import SimpleNamespace

import pytest
from helpers import assert_one_line, code, copy_kernel, notebook, refused, run_tool, text

from tools.book.book import Book
from tools.book.chapters import Chapter
from tools.errors import NoGpu
from tools.record import cards
from tools.record.cards import QUESTION, answer, card_folder, card_label, card_runs, question

H100 = "NVIDIA H100 80GB HBM3"
FACTS = {"names": [H100], "free": [70 * 2**30], "warnings": []}
FACTS |= {"driver": "550.1", "cuda": "12.4", "torch": "2.13.0+cu124"}


def executed(printed):
    """The question as a kernel executed it that printed this."""
    executed = question().notebook
    executed.cells[0].outputs = [text(printed)]
    return executed


def test_the_answer_is_what_the_kernel_printed_and_what_the_cards_are_called():
    named = {"folder": "h100", "label": "NVIDIA H100"}
    assert answer(executed(json.dumps(FACTS) + "\n")) == FACTS | named


OLD_DRIVER = "CUDA initialization: The NVIDIA driver on your system is too old\n(found 11040)."


@pytest.mark.parametrize(
    ("facts", "parts"),
    [
        ({"cuda": None, "torch": "2.13.0+cpu"}, ["torch 2.13.0+cpu", "without CUDA", "PYTHON="]),
        ({"warnings": [OLD_DRIVER]}, ["torch says: CUDA", "too old (found 11040)"]),
        ({}, ["nvidia-smi"]),
    ],
    ids=["torch without CUDA", "driver too old", "no GPU"],
)
def test_without_a_gpu_one_line_says_why(facts, parts):
    with pytest.raises(NoGpu) as error:
        answer(executed(json.dumps(FACTS | {"names": [], "free": []} | facts)))
    assert_one_line(str(error.value), "kernels/gpu/kernel.json: no GPU", *parts)


def ask(monkeypatch, device_count):
    """What the question prints where torch is such a one."""
    cuda = SimpleNamespace(
        is_available=lambda: True,
        device_count=device_count,
        get_device_name=lambda i: H100,
        mem_get_info=lambda i: (70 * 2**30, 80 * 2**30),
    )
    version = SimpleNamespace(cuda="12.4", hip=None)
    torch = SimpleNamespace(cuda=cuda, version=version, __version__="2.13.0+cu124")
    monkeypatch.setitem(sys.modules, "torch", torch)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(QUESTION, {})
    return executed(out.getvalue())


@pytest.fixture
def smi(tmp_path, monkeypatch):
    """A driver 550.1 with two cards, as `nvidia-smi` would tell of it."""
    program = tmp_path / "nvidia-smi"
    program.write_text('#!/bin/sh\necho "550.1"\necho "550.1"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


def test_the_question_asks_torch_and_the_driver(monkeypatch, smi):
    facts = answer(ask(monkeypatch, lambda: 2))
    named = {"folder": "2xh100", "label": "2 x NVIDIA H100"}
    assert facts == FACTS | {"names": [H100, H100], "free": [70 * 2**30] * 2} | named


def test_a_warning_of_torch_is_the_reason(monkeypatch, smi):
    def too_old():
        warnings.warn(OLD_DRIVER, stacklevel=1)
        return 0

    with pytest.raises(NoGpu, match="too old"):
        answer(ask(monkeypatch, too_old))


@pytest.mark.parametrize(
    ("names", "folder", "label"),
    [
        ([H100], "h100", "NVIDIA H100"),
        (["NVIDIA H100 PCIe"], "h100", "NVIDIA H100"),
        (["NVIDIA A100-SXM4-40GB"], "a100", "NVIDIA A100"),
        (["Tesla T4"], "t4", "Tesla T4"),
        (["Tesla V100-SXM2-16GB"] * 2, "2xv100", "2 x Tesla V100"),
        (["NVIDIA GeForce RTX 4090"], "rtx-4090", "NVIDIA GeForce RTX 4090"),
        (["NVIDIA L40S"] * 8, "8xl40s", "8 x NVIDIA L40S"),
        (["NVIDIA H200", "NVIDIA H200"], "2xh200", "2 x NVIDIA H200"),
        (["AMD Instinct MI300X OAM"], "mi300x", "AMD Instinct MI300X"),
    ],
)
def test_cards_give_a_folder_and_a_label(names, folder, label):
    assert (card_folder(names), card_label(names)) == (folder, label)


def test_cards_of_several_models_are_refused_in_one_line():
    with refused("kernels/gpu/", "H100, T4", "CUDA_VISIBLE_DEVICES"):
        card_folder([H100, "Tesla T4"])
    assert card_folder(["NVIDIA H100 PCIe", H100]) == "2xh100"  # one model


def runs(card, **hardware):
    """What a chapter that needs such hardware is executed on, where the card at hand is this."""
    chapter = Chapter("first", notebook(code("a", "1"), hardware={"gpus": [1]} | hardware))
    return [run.card for run in card_runs([chapter], None, card)]


def test_a_card_with_too_little_free_memory_is_one_line():
    card = {"free": [20 * 2**30, int(7.5 * 2**30)]}
    with refused("notebooks/first.ipynb: needs 8 GiB", "7.5 GiB of cuda:1 are free"):
        runs(card, gpu_memory=8)
    assert runs(card, gpu_memory=7.5) == [card]
    assert runs({"free": [0]})  # a chapter that says nothing of memory


def test_a_chapter_that_needs_more_cards_is_left_out_with_a_word(capsys):
    assert runs({"free": [2**30]}, gpus=[2]) == []
    assert "notebooks/first.ipynb: left out, it needs 2 GPUs" in capsys.readouterr().out
    two = {"free": [2**30, 2**30]}
    assert runs(two, gpus=[2]) == runs(two, gpus=[0, 1, 2]) == [two]
    assert runs({"free": [2**30] * 4}, gpus=[2])


def test_a_package_that_the_chapters_need_is_missed_in_one_line(small_book, monkeypatch):
    copy_kernel(small_book, "cpu", "gpu")
    monkeypatch.setattr(cards, "VERSIONS", (*cards.VERSIONS, "no-such-package"))
    with refused(sys.executable, "lacks no-such-package", "requirements.txt"):
        cards.find_cards(Book(small_book).runner("gpu"))


def test_a_package_that_the_tools_need_is_missed_in_one_line(small_book):
    copy_kernel(small_book, "cpu", "gpu")
    # Found before the one that is installed, it cannot be found itself.
    (small_book / "filelock.py").write_text("raise ModuleNotFoundError(name='filelock')\n")
    run = run_tool(small_book, "record", "gpu")
    assert run.returncode == 1
    assert_one_line(run.stderr, sys.executable, "filelock", "requirements.txt")
