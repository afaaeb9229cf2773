"""`make test`: that no folder of tests and no runner is left out, and how a run ends."""

import functools
import json
import os
import re
import signal
import subprocess
import sys

import psutil
import pytest
from helpers import ROOT, assert_one_line, copy_kernel, refused, wait_until

from tools import stages as module
from tools.errors import BookError
from tools.stages import Stage, all_stages, chosen_stages, run_stages


@pytest.fixture
def book(tmp_path):
    """A folder whose name has a space, with what the list of stages is made from."""
    root = tmp_path / "my book"
    for folder, runner in ("cpu", "cpu"), ("h100", "gpu"):
        copy_kernel(root, runner)
        (root / "outputs" / folder).mkdir(parents=True)
        (root / "outputs" / folder / "first.ipynb").write_text("{}")
    return root


def test_folders_of_tests_are_stages_and_so_are_the_runners_that_every_machine_has(
    book,
):
    (book / "tests" / "more").mkdir(parents=True)
    (book / "tests" / "more" / "test_more.py").touch()
    named = {stage.name: stage.paths for stage in all_stages(root=book)}
    assert named["more"] == ("tests/more",)
    compared = {
        name: paths for name, paths in named.items() if name.startswith("nbval")
    }
    assert list(compared.values()) == [
        ("outputs/cpu",)
    ]  # not h100: that is for `tools compare`
    full = [
        stage for stage in all_stages(full=True, root=book) if "--nbval" in stage.module
    ]
    kernel = json.loads(
        (book / "kernels" / "cpu" / "kernel.json").read_text(encoding="utf-8")
    )
    settings = kernel["metadata"]["runner"]["compare"]
    assert len(full) == len(settings) > 1
    for given, stage in zip(settings, full, strict=True):
        assert set(given.items()) <= stage.environment.items()


def test_stages_are_chosen_by_a_part_of_their_names():
    assert [stage.name for stage in chosen_stages(["site", "unit"])] == ["unit", "site"]
    assert [stage.name for stage in chosen_stages(["cleanroom"])] == ["cleanroom"]
    with refused("'toaster'", "unit", "site", "cleanroom"):
        chosen_stages(["toaster"])


MARK = "import pathlib, sys; pathlib.Path(sys.argv[1]).touch()"
FAIL = "print('words of the first'); raise SystemExit(3)"


@pytest.fixture
def three(book, monkeypatch):
    """Three stages, of which the first fails, in place of the real ones."""
    programs = {"first": FAIL, "second": MARK, "last": MARK}
    for name, text in programs.items():
        (book / f"{name}.py").write_text(text)
    stages = [Stage(name, (name,), (f"{name} ran",)) for name in programs]
    monkeypatch.setattr(module, "all_stages", lambda full, root: stages)
    return stages


def test_all_stages_run_although_the_first_fails_and_the_summary_names_it(
    three, book, capfd
):
    with pytest.raises(BookError) as error:
        run_stages([], root=book)
    assert str(error.value) == "make test: failed: first"
    assert (book / "second ran").exists() and (book / "last ran").exists()
    _, summary = capfd.readouterr().out.split("=== summary: 3 stages run\n")
    rows = re.findall(r"^ +\d+:\d\d\.\d  (\w+)  (\w+)$", summary, re.M)
    assert rows == [("FAILED", "first"), ("passed", "second"), ("passed", "last")]


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
import tools.cli
from tools import commands, stages
names = ("stubborn", "second", "last")
stages.all_stages = lambda full, root: [stages.Stage(name, (name,)) for name in names]
stages.run_stages.__defaults__ = (False, stages.Path.cwd())
stages.PATIENCE = 0.5
sys.argv = ["tools", "test"]
sys.exit(commands.main())
"""


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
def test_ctrl_c_says_what_was_not_run_and_leaves_no_process(book):
    (book / "stubborn.py").write_text(STUBBORN)
    heed = functools.partial(signal.signal, signal.SIGINT, signal.default_int_handler)
    own = {name: os.environ[name] for name in os.environ.keys() - {"STAGE", "FULL"}}
    options = {"cwd": book, "env": own | {"PYTHONPATH": str(ROOT)}, "preexec_fn": heed}
    command = [sys.executable, "-c", RUN]
    run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options)
    wait_until((book / "started").exists)
    run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=30)
    assert run.returncode == 130
    assert_one_line(said, "interrupted in the stage stubborn; not run: second, last")
    commands = [
        " ".join(each.info["cmdline"] or [])
        for each in psutil.process_iter(["cmdline"])
    ]
    assert [line for line in commands if str(book) in line] == []


@pytest.mark.skipif(
    sys.platform != "linux", reason="Linux's CI has a browser, others need none"
)
def test_browser_tests_fail_on_ci_without_a_browser(tmp_path):
    node = tmp_path / "node"
    node.write_text("#!/bin/sh\necho 'libatomic.so.1: cannot open' >&2; exit 127\n")
    node.chmod(0o755)
    found = {
        "PATH": f"{tmp_path}:/bin",
        "PLAYWRIGHT_NODEJS_PATH": str(node),
        "CI": "true",
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:xdist",
        "tests/site/test_pages.py",
    ]
    run = subprocess.run(
        command, cwd=ROOT, env=os.environ | found, capture_output=True, text=True
    )
    assert run.returncode != 0 and "libatomic.so.1" in run.stderr, run.stdout
    assert "passed" not in run.stdout and "skipped" not in run.stdout
