"""Fixtures of the simulator's tests, and where they find what they test."""

import importlib.metadata
import json
import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]
# `cudasim`, which need not be installed, and `facts`.
sys.path[:0] = [str(PROJECT / "src"), str(PROJECT)]


def pytest_configure(config):
    """Declare the marker here: a table in an ini file would be another root of pytest."""
    description = "full: slow, or a second setting of what runs anyway"
    config.addinivalue_line("markers", f"{description}; -m 'not full' leaves it out")


@pytest.fixture
def two_gpus():
    """Simulate two GPUs for the length of a test."""
    import cudasim

    with cudasim.simulate(gpus=2):
        yield


@pytest.fixture
def facts(monkeypatch):
    """Return a function that runs `python cudasim/facts` with its arguments, in this process."""
    from facts import __main__ as command

    def run_facts(*arguments):
        monkeypatch.setattr(sys, "argv", ["facts", *map(str, arguments)])
        monkeypatch.setattr(command.signal, "signal", lambda *_: None)
        command.main()

    return run_facts


def pytest_terminal_summary(terminalreporter):
    """Write a row of the support matrix to the file that CUDASIM_SUPPORT names, if any.

    The row says on what these tests ran and how many passed. A run of only some of them would
    claim too much, so it is refused.
    """
    path = os.environ.get("CUDASIM_SUPPORT")
    if not path:
        return

    tested = {Path(name).resolve() for name in terminalreporter.config.args}
    if tested != {PROJECT / "tests"}:
        raise pytest.UsageError(
            "CUDASIM_SUPPORT: only a run of all of cudasim/tests is a row"
        )

    def count(outcome):
        return len(terminalreporter.stats.get(outcome, ()))

    row = {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "torch": importlib.metadata.version("torch"),
        "system": f"{platform.system()} {platform.machine()}",
        "passed": count("passed"),
        "failed": count("failed") + count("error"),
        "skipped": count("skipped"),
    }
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")
