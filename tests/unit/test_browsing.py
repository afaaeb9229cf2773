"""What a browser lacks on a machine is reported in one line, before anything is opened."""

import os
import re
import subprocess
import sys

import pytest
from browsing import missing
from helpers import ROOT, assert_one_line

LACKS = "error while loading shared libraries: libatomic.so.1: cannot open shared object file"
INSTALL = "apt-get install chromium libatomic1"
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


def test_what_does_not_start_or_is_not_there_is_reported_with_the_packages(programs, monkeypatch):
    assert missing.__wrapped__() is None
    for broken, named in (("node", "Playwright's driver"), ("chromium", "Chromium")):
        programs(**{broken: LACKS})
        assert_one_line(missing.__wrapped__(), named, LACKS, INSTALL)
    monkeypatch.setenv("PATH", "/nowhere")
    assert_one_line(missing.__wrapped__(), "no Chromium", INSTALL)


@pytest.mark.parametrize("ci", [False, True])
def test_browser_tests_give_the_reason_once_skipped_at_home_and_failed_on_ci(programs, ci):
    if ci and sys.platform != "linux":
        pytest.skip("Linux's CI has a browser, others need none")
    programs(node=LACKS)
    command = ["pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "tests/site/test_pages.py"]
    run = subprocess.run(
        [sys.executable, "-m", *command, "-k", "keyboard_shows"],
        cwd=ROOT,
        env=os.environ | {"CI": "true" if ci else ""},
        capture_output=True,
        text=True,
    )
    assert (run.returncode != 0) == ci and "passed" not in run.stdout, run.stdout
    assert re.findall(r"\d+ skipped", run.stdout) == ([] if ci else ["2 skipped"]), run.stdout
    (said,) = [line for line in (run.stdout + run.stderr).splitlines() if "browser: " in line]
    assert LACKS in said and INSTALL in said
