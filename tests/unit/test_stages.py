"""`make test`: what its stages are, that none is lost, and how a run ends."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace

import psutil
import pytest
from helpers import RECORDED, ROOT, assert_one_line, copy_kernel
from test_execute import wait_until

from tools import bench
from tools import stages as module
from tools.errors import BookError
from tools.stages import TIMES, Stage, all_stages, chosen_stages, run_stages, uncovered

OTHERS = ["lint", "format", "rules", "unit", "content", "site", "simulator", "gpu"]
STAGES = all_stages()
NBVAL = [stage for stage in STAGES if "--nbval" in stage.module]


def kernels_of_stages():
    """The runner and the variables of each comparison by nbval, in order."""
    kernel = [stage.module[stage.module.index("--nbval-kernel-name") + 1] for stage in NBVAL]
    own = [{k: v for k, v in stage.environment.items() if k != "JUPYTER_PATH"} for stage in NBVAL]
    return list(zip(kernel, own, strict=True))


def test_the_stages_are_these_and_what_runners_print_comes_first():
    assert STAGES[: len(NBVAL)] == NBVAL
    assert [stage.name for stage in STAGES[len(NBVAL) :]] == OTHERS
    assert len({stage.name for stage in STAGES}) == len(STAGES)


def test_every_runner_is_compared_as_its_kernel_says():
    expected = []
    for path in sorted((ROOT / "kernels").glob("*/kernel.json")):
        about = json.loads(path.read_text(encoding="utf-8"))["metadata"]["runner"]
        if path.parent.name != "gpu":
            expected += [(path.parent.name, each) for each in about.get("compare", [{}])]
    assert kernels_of_stages() == expected
    assert {runner for runner, _ in expected} <= {runner for runner, _ in RECORDED}


def test_outputs_are_compared_with_one_thread_with_two_and_on_a_plain_processor():
    found = kernels_of_stages()
    for runner in ("cpu", "simulated"):
        assert (runner, {"OMP_NUM_THREADS": "1"}) in found
        assert (runner, {"OMP_NUM_THREADS": "2"}) in found
    assert ("cpu", {"ATEN_CPU_CAPABILITY": "default"}) in found


def test_make_test_runs_the_stages():
    plan = ["make", "-n", "--no-print-directory", "test", "STAGE=nbval site"]
    run = subprocess.run(plan, cwd=ROOT, capture_output=True, text=True)
    assert run.stdout.splitlines()[-1].split()[-5:] == ["-m", "tools", "test", "nbval", "site"]


# That none is lost.


def test_every_folder_of_tests_and_every_runner_is_in_a_stage():
    assert uncovered(STAGES) == []


@pytest.mark.parametrize("lost", [stage for stage in STAGES if stage.paths], ids=lambda s: s.name)
def test_a_stage_that_is_taken_out_is_missed(lost):
    left = [stage for stage in STAGES if stage.paths != lost.paths]
    missed = uncovered(left)
    assert missed and all(path.startswith(lost.paths) for path in missed)


def test_outputs_that_a_stage_only_names_are_missed():
    only_named = [replace(each, module=("pytest",)) for each in STAGES]
    assert uncovered(only_named) == sorted({f"outputs/{runner}" for runner, _ in RECORDED})


def test_a_new_folder_of_tests_and_a_new_runner_are_missed(book):
    (book / "more" / "tests").mkdir(parents=True)
    (book / "more" / "tests" / "test_more.py").touch()
    (book / "venv").mkdir()  # somebody's environment, with tests that are not ours
    (book / "venv" / "pyvenv.cfg").touch()
    (book / "venv" / "test_theirs.py").touch()
    assert uncovered(all_stages(book), book) == ["more/tests"]
    copy_kernel(book, "cpu", "fresh")
    with pytest.raises(BookError) as error:
        all_stages(book)
    assert_one_line(str(error.value), "outputs/fresh: nothing is recorded", "RUNNER=fresh")


def test_outputs_without_a_kernel_are_reported_in_one_line(book):
    shutil.move(book / "kernels" / "cpu", book / "kernels" / "renamed")
    with pytest.raises(BookError) as error:
        all_stages(book)
    assert_one_line(str(error.value), "outputs/cpu: no kernels/cpu/kernel.json", "restore it")


@pytest.fixture
def book(tmp_path):
    """A folder whose name has a space, with what the list of stages is made from."""
    root = tmp_path / "my book"
    copy_kernel(root, "cpu")
    (root / "outputs" / "cpu").mkdir(parents=True)
    metadata = {"provenance": {"runner": "cpu"}}
    (root / "outputs" / "cpu" / "first.ipynb").write_text(json.dumps({"metadata": metadata}))
    return root


def test_what_a_card_printed_is_left_to_the_comparison_on_gpus(book):
    (book / "outputs" / "h100").mkdir()
    facts = {"metadata": {"provenance": {"runner": "gpu"}}}
    (book / "outputs" / "h100" / "first.ipynb").write_text(json.dumps(facts))
    copy_kernel(book, "gpu")
    stages = all_stages(book)
    assert {path for stage in stages for path in stage.paths if "outputs" in path} == {
        "outputs/cpu"
    }
    assert uncovered(stages, book) == []


# How a run ends.

MARK = "import pathlib, sys; pathlib.Path(sys.argv[1]).touch()"


def program(root, name, text, *arguments):
    """A stage that runs a small program."""
    (root / f"{name}.py").write_text(textwrap.dedent(text))
    return Stage(name, (name, *arguments))


@pytest.fixture
def three(book, monkeypatch):
    """Three stages, of which the first fails, in place of the real ones."""
    stages = [
        program(book, "first", "print('words of the first'); raise SystemExit(3)"),
        program(book, "second", MARK, str(book / "second ran")),
        program(book, "last", "import pathlib; pathlib.Path('last ran').touch()"),
    ]
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
    assert re.findall("=== (.*)", announced) == [
        "first (1 of 3)",
        "second (2 of 3)",
        "last (3 of 3)",
    ]
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
    with pytest.raises(BookError) as error:
        run_stages([], book)
    assert_one_line(str(error.value), "in no stage of tools/stages.py: tests/lost")


def test_stages_are_chosen_by_a_part_of_their_names():
    assert chosen_stages(["nbval"], STAGES) == NBVAL
    assert [stage.name for stage in chosen_stages(["site", "unit"], STAGES)] == ["unit", "site"]
    with pytest.raises(BookError) as error:
        chosen_stages(["toaster"], STAGES)
    assert_one_line(str(error.value), "'toaster'", *OTHERS)


STUBBORN = """
import pathlib, signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
sleep = [sys.executable, "-c", "import time; time.sleep(60)", {mark!r}]
subprocess.Popen(sleep, start_new_session=True)
pathlib.Path("started").touch()
time.sleep(60)
"""


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_says_what_was_not_run_and_leaves_no_process(book, sent):
    mark = f"child of {book}"
    program(book, "stubborn", STUBBORN.format(mark=mark))
    (book / "run.py").write_text(
        textwrap.dedent("""
        import sys
        from tools import __main__, stages
        names = ("stubborn", "second", "last")
        stages.all_stages = lambda root: [stages.Stage(name, (name,)) for name in names]
        stages.run_stages.__defaults__ = (stages.Path.cwd(),)
        stages.PATIENCE = 0.5
        sys.argv = ["tools", "test"]
        sys.exit(__main__.main())
        """)
    )

    def catch_ctrl_c():
        signal.signal(signal.SIGINT, signal.default_int_handler)

    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    run = subprocess.Popen(
        [sys.executable, "run.py"],
        cwd=book,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=catch_ctrl_c,
    )
    wait_until((book / "started").exists)
    start = time.monotonic()
    run.send_signal(sent)
    _, said = run.communicate(timeout=30)
    assert time.monotonic() - start < 10
    assert run.returncode == 130
    assert_one_line(said, "interrupted in the stage stubborn; not run: second, last")
    commands = [" ".join(each.info["cmdline"] or []) for each in psutil.process_iter(["cmdline"])]
    assert [line for line in commands if mark in line or str(book) in line] == []


def test_the_times_are_what_make_bench_reports(tmp_path):
    with pytest.raises(BookError, match="run 'make test' first"):
        bench._stages(tmp_path)
    module.write_times({"unit": 62.0, "site": 30.0}, tmp_path)
    assert [(row["value"], row["unit"]) for row in bench._stages(tmp_path)] == [
        (1.5, "min"),
        (62, "s"),
        (30, "s"),
    ]
    (tmp_path / TIMES).write_text("{}")
    with pytest.raises(BookError, match="not what 'make test' writes"):
        bench._stages(tmp_path)
