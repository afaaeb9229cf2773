"""`make test`: what its stages are, that none is lost, and how a run ends."""

import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from helpers import RECORDED, ROOT, assert_one_line, copy_kernel, plan, refused, wait_until

from tools import stages as module
from tools.errors import BookError
from tools.stages import TIMES, Stage, all_stages, chosen_stages, run_stages, uncovered

OTHERS = "lint format rules unit content site grade distributed simulator gpu".split()
STAGES = all_stages()
PLAIN = {"ATEN_CPU_CAPABILITY": "default"}  # what the slowest of processors can
NBVAL = [stage for stage in STAGES if "--nbval" in stage.module]


def test_what_every_runner_prints_is_compared_first_as_its_kernel_says():
    assert STAGES[: len(NBVAL)] == NBVAL
    assert [stage.name for stage in STAGES[len(NBVAL) :]] == OTHERS
    assert len({stage.name for stage in STAGES}) == len(STAGES)
    found, expected = [], []
    for stage in NBVAL:
        runner = stage.module[stage.module.index("--nbval-kernel-name") + 1]
        common = {"JUPYTER_PATH": str(ROOT), "OMP_WAIT_POLICY": "PASSIVE"}
        assert common.items() <= stage.environment.items()
        own = {key: value for key, value in stage.environment.items() if key not in common}
        found.append((runner, own))
    for path in sorted((ROOT / "kernels").glob("*/kernel.json")):
        about = json.loads(path.read_text(encoding="utf-8"))["metadata"]["runner"]
        if path.parent.name != "gpu":
            expected += [(path.parent.name, each) for each in about.get("compare", [{}])]
    assert found == expected
    assert {runner for runner, _ in expected} <= {runner for runner, _ in RECORDED}
    one, two = ({"OMP_NUM_THREADS": number} for number in "12")
    for runner, conditions in ("cpu", [one | PLAIN, two]), ("simulated", [one, two]):
        assert [each for name, each in expected if name == runner] == conditions


def test_chapters_that_start_ranks_are_compared_once_on_each_runner():
    for runner in "cpu", "simulated":
        first, second = (each.paths for each in NBVAL if each.name.startswith(f"nbval {runner} "))
        left_out = {path.stem for path in (ROOT / "outputs" / runner).glob("*.ipynb")}
        left_out -= {Path(path).stem for path in second}
        assert first == (f"outputs/{runner}",)
        assert left_out == {
            "many-processes-many-servers", "one-model-on-many-gpus", "when-a-process-dies"
        }  # fmt: skip


def test_make_test_runs_the_stages():
    *_, last = plan("test", "STAGE=nbval site").splitlines()
    assert last.split()[-5:] == ["-m", "tools", "test", "nbval", "site"]


# That none is lost.


def test_no_folder_of_tests_and_no_runner_is_lost():
    assert uncovered(STAGES) == []
    whole = {stage.paths for stage in STAGES if all((ROOT / path).is_dir() for path in stage.paths)}
    for paths in whole - {()}:
        missed = uncovered([stage for stage in STAGES if stage.paths != paths])
        assert missed and all(path.startswith(paths) for path in missed), paths
    only_named = [replace(each, module=("pytest",)) for each in STAGES]
    assert uncovered(only_named) == sorted({f"outputs/{runner}" for runner, _ in RECORDED})


def test_a_new_folder_of_tests_and_a_new_runner_are_missed(book):
    (book / "more" / "tests").mkdir(parents=True)
    (book / "venv").mkdir()  # somebody's environment, with tests that are not ours
    for name in ("more/tests/test_more.py", "venv/pyvenv.cfg", "venv/test_theirs.py"):
        (book / name).touch()
    assert uncovered(all_stages(book), book) == ["more/tests"]
    copy_kernel(book, "cpu", "fresh")
    with refused("outputs/fresh: nothing is recorded", "RUNNER=fresh"):
        all_stages(book)


def test_outputs_without_a_kernel_are_reported_in_one_line(book):
    shutil.move(book / "kernels" / "cpu", book / "kernels" / "renamed")
    with refused("outputs/cpu: no kernels/cpu/kernel.json", "restore it"):
        all_stages(book)


def write_outputs(root, folder, runner):
    (root / "outputs" / folder).mkdir(parents=True)
    metadata = {"provenance": {"runner": runner}}
    (root / "outputs" / folder / "first.ipynb").write_text(json.dumps({"metadata": metadata}))


@pytest.fixture
def book(tmp_path):
    """A folder whose name has a space, with what the list of stages is made from."""
    root = tmp_path / "my book"
    copy_kernel(root, "cpu")
    write_outputs(root, "cpu", "cpu")
    return root


def test_what_a_card_printed_is_left_to_the_comparison_on_gpus(book):
    write_outputs(book, "h100", "gpu")
    copy_kernel(book, "gpu")
    stages = all_stages(book)
    paths = {path for stage in stages for path in stage.paths}
    assert {path for path in paths if "outputs" in path} == {"outputs/cpu"}
    assert uncovered(stages, book) == []


# How a run ends.

MARK = "import pathlib, sys; pathlib.Path(sys.argv[1]).touch()"
FAIL = "print('words of the first'); raise SystemExit(3)"


@pytest.fixture
def three(book, monkeypatch):
    """Three stages, of which the first fails, in place of the real ones."""
    programs = {"first": FAIL, "second": MARK, "last": MARK}
    for name, text in programs.items():
        (book / f"{name}.py").write_text(text)
    stages = [Stage(name, (name,), (f"{name} ran",)) for name in programs]
    monkeypatch.setattr(module, "all_stages", lambda root: stages)
    monkeypatch.setattr(module, "uncovered", lambda stages, root: [])
    return stages


def test_all_stages_run_although_the_first_fails_and_the_summary_names_it(three, book, capfd):
    with pytest.raises(BookError) as error:
        run_stages([], book)
    assert str(error.value) == "make test: failed: first"
    assert (book / "second ran").exists() and (book / "last ran").exists()
    printed = capfd.readouterr().out
    announced, summary = printed.split("=== summary: 3 of 3 stages run\n")
    order = ["first (1 of 3)", "second (2 of 3)", "last (3 of 3)"]
    assert re.findall("=== (.*)", announced) == order
    assert announced.index("=== first") < announced.index("words of the first")
    rows = re.findall(r"^ +\d+:\d\d\.\d  (\w+)  (\w+)$", summary, re.M)
    assert rows == [("FAILED", "first"), ("passed", "second"), ("passed", "last")]
    assert not (book / TIMES).exists()


def test_times_of_a_whole_run_that_passes_are_kept(three, book):
    del three[0]
    run_stages(["last"], book)
    assert not (book / TIMES).exists() and not (book / "second ran").exists()
    run_stages([], book)
    times = json.loads((book / TIMES).read_text())
    assert times["seconds"].keys() == {"second", "last"} and "cores" in times["hardware"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", times["date"])


def test_a_run_in_which_all_pass_is_red_while_one_is_missing(three, book, monkeypatch):
    del three[0]
    monkeypatch.setattr(module, "uncovered", lambda stages, root: ["tests/lost"])
    with refused("in no stage of tools/stages.py: tests/lost"):
        run_stages([], book)


def test_stages_are_chosen_by_a_part_of_their_names():
    assert chosen_stages(["nbval"], STAGES) == NBVAL
    assert [stage.name for stage in chosen_stages(["site", "unit"], STAGES)] == ["unit", "site"]
    with refused("'toaster'", *OTHERS):
        chosen_stages(["toaster"], STAGES)


STUBBORN = """
import pathlib, signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
sleep = [sys.executable, "-c", "import time; time.sleep(60)", str(pathlib.Path.cwd())]
subprocess.Popen(sleep, start_new_session=True)
pathlib.Path("started").touch()
time.sleep(60)
"""
RUN = """
import sys
from tools import __main__, stages
names = ("stubborn", "second", "last")
stages.all_stages = lambda root: [stages.Stage(name, (name,)) for name in names]
stages.run_stages.__defaults__ = (stages.Path.cwd(),)
stages.PATIENCE = 0.5
sys.argv = ["tools", "test"]
sys.exit(__main__.main())
"""


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_says_what_was_not_run_and_leaves_no_process(book, sent):
    (book / "stubborn.py").write_text(STUBBORN)
    run = subprocess.Popen(
        [sys.executable, "-c", RUN],
        cwd=book,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.default_int_handler),
    )
    wait_until((book / "started").exists)
    start = time.monotonic()
    run.send_signal(sent)
    _, said = run.communicate(timeout=30)
    assert time.monotonic() - start < 10
    assert run.returncode == 130
    assert_one_line(said, "interrupted in the stage stubborn; not run: second, last")
    commands = [" ".join(each.info["cmdline"] or []) for each in psutil.process_iter(["cmdline"])]
    assert [line for line in commands if str(book) in line] == []
