"""Runners are what kernels/ declares, and each is the machine that it says."""

import json
import os
import runpy
import subprocess
import sys

import pytest
import torch
from helpers import ROOT, code, copy_kernel, notebook, plan, refused, write

from tools.book.book import Book
from tools.book.chapters import Chapter
from tools.book.runners import read_runners
from tools.record.execute import execute_one

RUNNERS = read_runners(ROOT)

# What a kernel.json says.


def test_this_books_runners_and_that_two_simulated_gpus_are_shown_first():
    assert list(RUNNERS) == ["simulated", "cpu", "gpu", "simulated-mps"]
    assert [each.name for each in Book(ROOT).local_runners] == ["simulated", "cpu", "simulated-mps"]


@pytest.mark.parametrize("runner", RUNNERS.values(), ids=RUNNERS)
def test_every_runner_tells_readers_what_it_is(runner):
    assert runner.label != runner.name and len(runner.legend) > 20


def test_what_is_in_kernels_beside_the_runners_is_none(small_book):
    (small_book / "kernels" / "notes").mkdir()
    assert list(read_runners(small_book)) == ["cpu"]


def test_a_runner_without_metadata_goes_by_its_name_and_has_all_chapters(small_book):
    copy_kernel(small_book, "cpu", "plain", metadata={})
    copy_kernel(small_book, "cpu", "extra", metadata={"runner": {"chapters": ["second"]}})
    book = Book(small_book)
    plain = book.runner("plain")
    assert (plain.label, plain.legend) == ("plain", "")
    assert [chapter.name for chapter in book.chapters_of(plain)] == ["first", "second"]
    assert [chapter.name for chapter in book.chapters_of(book.runner("extra"))] == ["second"]


def test_a_chapter_runs_where_there_are_gpus_enough(small_book):
    write(small_book, "first", code("a", "1"), hardware={"gpus": [2]})
    for runner in ("simulated", "gpu"):
        copy_kernel(small_book, runner)
    book = Book(small_book)
    assert {name: runner.gpus for name, runner in book.runners.items()} == {
        "simulated": 2,
        "cpu": 0,
        "gpu": None,
    }
    on = {
        name: [each.name for each in book.chapters_of(book.runner(name))] for name in book.runners
    }
    both = ["first", "second"]
    assert on == {"simulated": both, "cpu": ["second"], "gpu": both}


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"language": "python"}',
        '{"argv": "python"}',
        '{"argv": [], "metadata": []}',
        '{"argv": [], "metadata": {"runner": "cpu"}}',
        '{"argv": [], "metadata": {"runner": {"times": "modelled for a T4"}}}',
        '{"argv": ["--clock", "modelled"]}',
    ],
)
def test_broken_kernel_json_is_one_line(small_book, text):
    (small_book / "kernels" / "cpu" / "kernel.json").write_text(text)
    with refused("kernels/cpu/kernel.json: not a kernel specification", "correct it there"):
        read_runners(small_book)


# Whose its times are.


@pytest.mark.parametrize("runner", RUNNERS.values(), ids=RUNNERS)
def test_a_runner_with_a_modelled_clock_names_the_card_that_it_models(runner):
    words = runner.specification["argv"]
    modelled = words[words.index("--clock") + 1] == "modelled" if "--clock" in words else False
    assert runner.times == (
        f"modelled for a {words[words.index('--card') + 1]}" if modelled else None
    )
    assert runner.sanitize == ("tests/sanitize-modelled.cfg" if modelled else "tests/sanitize.cfg")
    assert (ROOT / runner.sanitize).is_file()


def test_two_simulated_gpus_have_a_modelled_clock_and_apples_does_not_claim_one():
    assert RUNNERS["simulated"].times == "modelled for a T4"
    assert RUNNERS["simulated-mps"].times is None
    assert "not those of an Apple GPU" in RUNNERS["simulated-mps"].legend


# What makes outputs the same on every machine: the variables that a kernel needs.

REPEATS = {
    "PYTHONHASHSEED": "0",  # sets are printed in one order
    "SOURCE_DATE_EPOCH": "0",  # plots carry no date
}
HIDES = {
    "CUDA_VISIBLE_DEVICES": "-1",  # GPUs of NVIDIA
    "HIP_VISIBLE_DEVICES": "-1",  # of AMD
    "ONEAPI_DEVICE_SELECTOR": "*:cpu",  # of Intel
}


@pytest.mark.parametrize("runner", RUNNERS.values(), ids=RUNNERS)
def test_every_kernel_has_the_variables_that_it_needs(runner):
    needed = REPEATS | (HIDES if runner.is_local else {})
    if runner.simulates:
        needed |= {"CUDASIM_QUIET": "1"}  # no chapter begins with a line about the simulation
        needed |= {"OMP_WAIT_POLICY": "PASSIVE"}  # kernels side by side leave the cores to others
    assert runner.specification["env"] == needed
    assert ("--hide-accelerators" in runner.specification["argv"]) == runner.is_local  # Apple's


CELLS = {
    "variables": f"import json, os\nprint(json.dumps({{n: os.environ[n] for n in {[*HIDES]}}}))",
    "hash": "print(hash('tensor'))",
    "plot": """\
import io
import matplotlib.pyplot as plt
drawing = io.StringIO()
plt.savefig(drawing, format='svg')
print('<dc:date>1970-01-01T' in drawing.getvalue())""",
    "hidden": """\
import torch
print(torch.cuda.device_count(), torch.cuda.is_available())
print(torch.accelerator.device_count(), torch.accelerator.is_available())""",
    "d2l": "from d2l import torch as d2l\nprint(d2l.Trainer.__name__)",
    "cudasim": "import cudasim\nprint(cudasim.__file__, cudasim.is_enabled())",
}


@pytest.fixture(scope="module")
def printed():
    """What a kernel of `cpu` prints, started where every variable says something else."""
    chapter = Chapter("question", notebook(*(code(id, source) for id, source in CELLS.items())))
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("JUPYTER_PATH", raising=False)
        for name in HIDES:
            patch.setenv(name, "0")
        patch.setenv("PYTHONHASHSEED", "1")
        patch.setenv("SOURCE_DATE_EPOCH", "86400")
        executed = execute_one(chapter, RUNNERS["cpu"])
    return {
        cell.id: "".join(each.get("text", "") for each in cell.outputs) for cell in executed.cells
    }


def test_a_kernel_of_cpu_is_told_to_see_no_accelerator_and_sees_none(printed):
    assert json.loads(printed["variables"]) == HIDES
    assert printed["hidden"] == "0 False\n0 False\n"


def test_a_kernel_of_cpu_prints_the_same_on_every_run(printed):
    def hash_by(seed):
        ask = [sys.executable, "-c", CELLS["hash"]]
        environment = os.environ | {"PYTHONHASHSEED": seed}
        return subprocess.run(ask, env=environment, capture_output=True, text=True).stdout

    assert printed["hash"] == hash_by("0") != hash_by("1")
    assert printed["plot"] == "True\n"


def test_d2l_loads_on_the_cpu_runner_and_its_mend_was_tried_with_these_pins(printed):
    assert printed["d2l"] == "Trainer\n"
    # After a bump: does d2l still load without `mend_torchvision`? Then take it out.
    tried = {"torch": "2.13.0", "torchvision": "0.28.0", "d2l": "1.0.3"}
    assert tried.items() <= Book(ROOT).pins.items()


def test_a_chapter_can_import_cudasim_where_nothing_is_simulated(printed):
    package = ROOT / "cudasim" / "src" / "cudasim" / "__init__.py"
    assert printed["cudasim"] == f"{package} False\n"


def test_a_cudasim_that_is_installed_comes_before_that_of_the_book(monkeypatch):
    start, installed = runpy.run_path(ROOT / "kernels" / "start.py"), ["/site-packages"]
    monkeypatch.setattr(sys, "path", installed.copy())
    start["find_cudasim"]()
    assert sys.path == [*installed, str(ROOT / "cudasim" / "src")]


def test_apples_accelerator_is_hidden(monkeypatch):
    start = runpy.run_path(ROOT / "kernels" / "start.py")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.mps, "device_count", lambda: 1)
    mps = torch.device("mps")
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available=False: mps)
    assert torch.accelerator.current_accelerator().type == "mps"
    start["hide_accelerators"]()
    assert not torch.backends.mps.is_available() and torch.mps.device_count() == 0
    assert torch.accelerator.current_accelerator() is None
    assert not torch.accelerator.is_available() and torch.accelerator.device_count() == 0


@pytest.mark.parametrize("target", ["record RUNNER=gpu", "gpu-test"])
def test_on_gpus_no_environment_is_made_and_none_is_used(target):
    said = plan(*target.split(), "PYTHON=another-python")
    assert said.startswith('"another-python" -m tools ') and len(said.splitlines()) == 1
    assert ".venv" not in said and "environment" not in said
    assert ".venv" in plan("record", "RUNNER=cpu")
