"""Runners are what kernels/ declares, and each is the machine that it says."""

import runpy

import torch
from helpers import ROOT, code, copy_kernel, write

from tools.book.book import Book
from tools.book.runners import read_runners

RUNNERS = read_runners(ROOT)
# Sets are printed in one order, plots carry no date.
REPEATS = dict.fromkeys(("PYTHONHASHSEED", "SOURCE_DATE_EPOCH"), "0")
HIDES = dict.fromkeys(("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"), "-1")
HIDES["ONEAPI_DEVICE_SELECTOR"] = "*:cpu"


def test_every_runner_is_the_machine_that_it_tells_readers_and_simulated_gpus_come_first():
    torchs = {name: runner for name, runner in RUNNERS.items() if not runner.pins}
    assert list(torchs) == ["simulated", "cpu", "gpu", "simulated-mps"]
    for name, runner in torchs.items():
        words = runner.specification["argv"]
        modelled = (
            "--clock" in words and words[words.index("--clock") + 1] == "modelled"
        )
        card = words[words.index("--card") + 1] if modelled else None
        assert runner.times == (f"modelled for a {card}" if modelled else None), name
        assert ("-modelled" in runner.sanitize) == modelled, name
        assert (ROOT / runner.sanitize).is_file()
        needed = REPEATS | (HIDES if runner.is_local else {})
        if runner.simulates:
            needed |= {
                "CUDASIM_QUIET": "1"
            }  # no chapter begins with a line about the simulation
            needed |= {
                "OMP_WAIT_POLICY": "PASSIVE"
            }  # kernels side by side leave cores to others
        assert runner.specification["env"] == needed, name
        assert ("--hide-accelerators" in words) == runner.is_local, name  # Apple's


def test_a_chapter_runs_on_the_runners_that_list_it_and_have_gpus_enough(small_book):
    write(small_book, "first", code("a", "1"), hardware={"gpus": [2]})
    for runner in ("simulated", "gpu"):
        copy_kernel(small_book, runner)
    copy_kernel(
        small_book, "gpu", "extra", metadata={"runner": {"chapters": ["second"]}}
    )
    (small_book / "kernels" / "notes").mkdir()
    book = Book(small_book)
    both, second = ["first", "second"], ["second"]
    assert {
        name: (runner.gpus, [chapter.name for chapter in book.chapters_of(runner)])
        for name, runner in book.runners.items()
    } == {
        "simulated": (2, both),
        "cpu": (0, second),
        "extra": (None, second),
        "gpu": (None, both),
    }


def test_apples_accelerator_is_hidden(monkeypatch):
    start = runpy.run_path(ROOT / "kernels" / "start.py")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.mps, "device_count", lambda: 1)
    mps = torch.device("mps")
    monkeypatch.setattr(
        torch.accelerator, "current_accelerator", lambda check_available=False: mps
    )
    start["hide_accelerators"]()
    assert not torch.backends.mps.is_available() and torch.mps.device_count() == 0
    assert torch.accelerator.current_accelerator() is None
    assert (
        not torch.accelerator.is_available() and torch.accelerator.device_count() == 0
    )
