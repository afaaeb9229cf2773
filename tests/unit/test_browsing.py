"""What a browser lacks on a machine is reported in one line, before anything is opened."""

import os
import subprocess
import sys

import pytest
from browsing import missing
from helpers import ROOT, assert_one_line

LACKS = "error while loading shared libraries: libatomic.so.1: cannot open shared object file"
pytestmark = pytest.mark.skipif(os.name != "posix", reason="stand-ins are shell scripts")


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Puts programs that work, or fail with the words given, in the place of the real ones."""

    def replace(**fails):
        for name in ("chromium", "node"):
            ends = f"echo '{name}: {fails[name]}' >&2; exit 127" if name in fails else "echo 1.0"
            (tmp_path / name).write_text(f"#!/bin/sh\n{ends}\n")
            (tmp_path / name).chmod(0o755)

    replace()
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.setenv("PLAYWRIGHT_NODEJS_PATH", str(tmp_path / "node"))
    return replace


def test_nothing_is_missing_where_both_programs_start(programs):
    assert missing.__wrapped__() is None


@pytest.mark.parametrize(
    ("broken", "named"), [("node", "Playwright's driver"), ("chromium", "Chromium")]
)
def test_a_program_that_does_not_start_is_reported_with_the_packages(programs, broken, named):
    programs(**{broken: LACKS})
    reason = missing.__wrapped__()
    assert_one_line(reason, named, LACKS, "apt-get install chromium libatomic1")


def test_a_machine_without_chromium_is_advised_on_packages(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert_one_line(missing.__wrapped__(), "no Chromium", "apt-get install chromium libatomic1")


def run_browser_tests(**variables):
    command = ["pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "tests/site/test_browser.py"]
    run = subprocess.run(
        [sys.executable, "-m", *command, "-k", "doctored or hidden"],
        cwd=ROOT,
        env={name: os.environ[name] for name in os.environ.keys() - {"CI"}} | variables,
        capture_output=True,
        text=True,
    )
    said = [line for line in (run.stdout + run.stderr).splitlines() if "browser: " in line]
    return run.returncode, said, run.stdout


def test_browser_tests_are_skipped_with_the_reason_said_once(programs):
    programs(node=LACKS)
    returncode, said, log = run_browser_tests()
    assert returncode == 0 and "6 skipped" in log and "passed" not in log, log
    assert len(said) == 1 and "apt-get install" in said[0]


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's CI has a browser, others need none")
def test_on_ci_the_same_line_fails_them(programs):
    programs(node=LACKS)
    returncode, said, log = run_browser_tests(CI="true")
    assert returncode != 0 and "skipped" not in log, log
    assert len(said) == 1 and LACKS in said[0] and "apt-get install" in said[0]
