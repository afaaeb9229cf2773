"""`make test`: no folder of tests and no runner is left out, and how a run ends."""

import os
import re
import signal
import subprocess
import sys

import psutil
import pytest
from helpers import (
    ROOT,
    assert_one_line,
    copy_kernel,
    refused,
    specification,
    wait_until,
)

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


def test_every_folder_of_tests_is_a_stage(book):
    (book / "tests" / "more").mkdir(parents=True)
    (book / "tests" / "more" / "test_more.py").touch()
    [more] = [stage for stage in all_stages(root=book) if stage.name == "more"]
    assert more.paths == ("tests/more",)


def test_portable_runners_are_compared_in_each_setting(book):
    settings = [{"OMP_NUM_THREADS": "1"}, {"OMP_NUM_THREADS": "2"}]
    metadata = specification("cpu")["metadata"]
    metadata["runner"]["compare"] = settings
    copy_kernel(book, "cpu", metadata=metadata)

    # A card is not compared: that is for `tools compare`.
    [quick] = [stage for stage in all_stages(root=book) if "--nbval" in stage.module]
    assert quick.paths == ("outputs/cpu",)
    every = all_stages(full=True, root=book)
    full = [stage for stage in every if "--nbval" in stage.module]
    for setting, stage in zip(settings, full, strict=True):
        assert setting.items() <= stage.environment.items()


def test_stages_are_chosen_by_a_part_of_their_names():
    unit, site = chosen_stages(["site", "unit"])
    assert (unit.name, site.name) == ("unit", "site")
    [rooms] = chosen_stages(["cleanroom"])
    assert rooms.name == "cleanroom"
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


def test_all_stages_run_although_the_first_fails(three, book, capfd):
    with pytest.raises(BookError) as error:
        run_stages([], root=book)
    assert str(error.value) == "make test: failed: first"
    assert (book / "second ran").exists()
    assert (book / "last ran").exists()
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


def heed_interrupts():
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
def test_ctrl_c_names_what_was_not_run_and_ends_all(book):
    (book / "stubborn.py").write_text(STUBBORN)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    for name in ("STAGE", "FULL"):
        environment.pop(name, None)
    run = subprocess.Popen(
        [sys.executable, "-c", RUN],
        cwd=book,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )
    wait_until((book / "started").exists)
    run.send_signal(signal.SIGINT)
    _, errors = run.communicate(timeout=30)
    assert run.returncode == 130
    assert_one_line(errors, "interrupted in the stage stubborn; not run: second, last")
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        assert str(book) not in " ".join(words)


ON_LINUX = pytest.mark.skipif(
    sys.platform != "linux", reason="Linux's CI has a browser, others need none"
)


@ON_LINUX
def test_browser_tests_fail_on_ci_without_a_browser(tmp_path):
    node = tmp_path / "node"
    node.write_text("#!/bin/sh\necho 'libatomic.so.1: cannot open' >&2; exit 127\n")
    node.chmod(0o755)
    variables = {
        "PATH": f"{tmp_path}:/bin",
        "PLAYWRIGHT_NODEJS_PATH": str(node),
        "CI": "true",
    }
    pytest_alone = [sys.executable, "-m", "pytest", "-p", "no:xdist"]
    run = subprocess.run(
        [*pytest_alone, "tests/site/test_pages.py"],
        cwd=ROOT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
    )
    assert run.returncode != 0, run.stdout
    assert "libatomic.so.1" in run.stderr, run.stdout
    assert "passed" not in run.stdout
    assert "skipped" not in run.stdout
