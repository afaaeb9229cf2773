"""`make conformance`: what it hands to the suite, what it keeps of it, and how it is stopped."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from helpers import ROOT

from tools.site.conformance import CONFORMANCE

PROGRAM = """
import sys
from pathlib import Path

from tools.conformance import record_conformance
from tools.errors import BookError

try:
    record_conformance(Path(sys.argv[1]), True, 900, Path(sys.argv[2]))
except BookError as error:
    sys.exit(str(error))
"""
WRITES = """
import json, sys
with open(sys.argv[sys.argv.index("--json") + 1], "w") as file:
    json.dump({"files": [], "given": sys.argv[1:]}, file)
"""
SLEEPS = """
import os, time
with open("suite", "w") as file:
    file.write(str(os.getpid()))
time.sleep(600)
"""


@pytest.fixture
def start(tmp_path):
    """Starts `record_conformance` in a folder whose suite is the program that is given."""

    def started(suite):
        folder = tmp_path / "cudasim" / "conformance"
        folder.mkdir(parents=True)
        (folder / "__main__.py").write_text(suite)
        for name in ("book", "test"):
            (tmp_path / name).mkdir()
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(tmp_path), str(tmp_path)],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
        )

    return started


def test_what_the_suite_found_is_kept_with_where_it_ran(start, tmp_path):
    assert start(WRITES).wait(timeout=60) == 0
    found = json.loads((tmp_path / CONFORMANCE).read_text())
    assert {"date", "hardware", "files"} <= set(found)
    assert found["given"][0] == str(tmp_path.resolve())
    assert found["given"][-3:] == ["--resume", "--limit", "900"]


def test_nothing_is_written_if_the_suite_finds_a_fault(start, tmp_path):
    _, said = start("raise SystemExit('a fault')").communicate(timeout=60)
    assert "a fault" in said and "nothing is written" in said
    assert not (tmp_path / CONFORMANCE).exists()


@pytest.mark.skipif(os.name != "posix", reason="the signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_suite_ends_with_the_command(start, tmp_path, number):
    run = start(SLEEPS)
    suite = tmp_path / "suite"
    wait_until(lambda: suite.exists() and suite.read_text())
    run.send_signal(number)
    run.communicate(timeout=60)
    assert run.returncode != 0
    with pytest.raises(ProcessLookupError):
        os.kill(int(suite.read_text()), 0)


def wait_until(happened, limit=60):
    deadline = time.monotonic() + limit
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)
