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
sys.path[:0] = [
    str(PROJECT / "src"),
    str(PROJECT),
]  # `cudasim`, not installed, and `facts`


def pytest_configure(config):
    """In the book's folder this is its marker too: a table here would be another root of pytest."""
    about = "full: slow, or a second setting of what runs anyway; -m 'not full' leaves it out"
    config.addinivalue_line("markers", about)


@pytest.fixture
def two_gpus():
    """Two simulated GPUs for the length of a test."""
    import cudasim

    with cudasim.simulate(gpus=2):
        yield


@pytest.fixture
def facts(monkeypatch):
    """A function that carries out `python cudasim/facts` with some arguments, in this process."""
    from facts import __main__ as door

    def carry_out(*arguments):
        monkeypatch.setattr(sys, "argv", ["facts", *map(str, arguments)])
        monkeypatch.setattr(door.signal, "signal", lambda *_: None)
        door.main()

    return carry_out


def pytest_terminal_summary(terminalreporter):
    """Where CUDASIM_SUPPORT names a file, write there on what these tests ran, and how it went. It
    is a row of the support matrix; a run of less than the whole folder would say too much."""
    path, config = os.environ.get("CUDASIM_SUPPORT"), terminalreporter.config
    if not path:
        return
    if {Path(name).resolve() for name in config.args} != {PROJECT / "tests"}:
        raise pytest.UsageError(
            "CUDASIM_SUPPORT: only a run of all of cudasim/tests is a row"
        )
    outcomes = ("passed", "failed", "error", "skipped")
    counts = {name: len(terminalreporter.stats.get(name, ())) for name in outcomes}
    counts["failed"] += counts.pop("error")
    row = {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "torch": importlib.metadata.version("torch"),
        "system": f"{platform.system()} {platform.machine()}",
        **counts,
    }
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")
