"""Runners are what kernels/ declares, and each is the machine that it says."""

import runpy

import pytest
import torch
from helpers import ROOT, code, copy_kernel, write

from tools.book.book import Book
from tools.book.runners import read_runners

RUNNERS = read_runners(ROOT)
IN_TORCH = [name for name, runner in RUNNERS.items() if not runner.requirements]
# Sets are printed in one order, and plots carry no date.
REPEATS = {"PYTHONHASHSEED": "0", "SOURCE_DATE_EPOCH": "0"}
HIDES_GPUS = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "HIP_VISIBLE_DEVICES": "-1",
    "ONEAPI_DEVICE_SELECTOR": "*:cpu",
}
SIMULATES = {
    # No chapter begins with a line about the simulation.
    "CUDASIM_QUIET": "1",
    # Kernels that run at the same time leave the cores to others.
    "OMP_WAIT_POLICY": "PASSIVE",
}


def test_simulated_gpus_come_first():
    assert IN_TORCH[:2] == ["simulated", "cpu"]


@pytest.mark.parametrize("name", IN_TORCH)
def test_all_but_real_gpus_hide_the_gpus(name):
    runner = RUNNERS[name]
    variables = dict(REPEATS)
    if not runner.is_real_gpu:
        variables |= HIDES_GPUS
    if runner.simulates:
        variables |= SIMULATES
    assert runner.specification["env"] == variables
    # Apple's are hidden in another way.
    hides_accelerators = "--hide-accelerators" in runner.specification["argv"]
    assert hides_accelerators != runner.is_real_gpu


@pytest.mark.parametrize("name", IN_TORCH)
def test_readers_are_told_which_times_are_modelled(name):
    runner = RUNNERS[name]
    words = " ".join(runner.specification["argv"])
    if "--clock modelled" in words:
        card = words.partition("--card ")[2].partition(" ")[0]
        assert runner.clock_label == f"modelled for a {card}"
        assert "-modelled" in runner.sanitize
    else:
        assert not runner.has_modelled_clock
        assert "-modelled" not in runner.sanitize


def test_a_chapter_runs_where_it_is_listed_and_gpus_suffice(small_book):
    write(small_book, "first", code("a", "1"), hardware={"gpus": [2]})
    copy_kernel(small_book, "simulated")
    copy_kernel(small_book, "gpu")
    listed = {"runner": {"chapters": ["second"]}}
    copy_kernel(small_book, "gpu", "extra", metadata=listed)
    (small_book / "kernels" / "notes").mkdir()

    book = Book(small_book)
    chapters = {}
    for name, runner in book.runners.items():
        chapters[name] = [chapter.name for chapter in book.chapters_of(runner)]
    assert chapters == {
        "simulated": ["first", "second"],
        "cpu": ["second"],
        "extra": ["second"],
        "gpu": ["first", "second"],
    }
    assert book.runners["simulated"].gpus == 2
    assert book.runners["cpu"].gpus == 0
    assert book.runners["gpu"].gpus is None


def test_apples_accelerator_is_hidden(monkeypatch):
    start = runpy.run_path(ROOT / "kernels" / "start.py")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.mps, "device_count", lambda: 1)
    mps = torch.device("mps")
    monkeypatch.setattr(
        torch.accelerator, "current_accelerator", lambda check_available=False: mps
    )
    start["hide_accelerators"]()
    assert not torch.backends.mps.is_available()
    assert torch.mps.device_count() == 0
    assert torch.accelerator.current_accelerator() is None
    assert not torch.accelerator.is_available()
    assert torch.accelerator.device_count() == 0
