"""nbval's own cells and comparison, without a kernel; and nbval as a command, with one."""

import contextlib
import io
import os
import re
import subprocess
import sys

import pytest
from helpers import ROOT

SANITIZE = str(ROOT / "tests" / "sanitize.cfg")


class Collected:
    """A plugin that keeps what the inner run of pytest collected."""

    def pytest_collection_finish(self, session):
        self.items = list(session.items)


def nbval_cells(path):
    """The cells of a recorded notebook as nbval makes them, sanitizing as `make test` does."""
    collected = Collected()
    options = ["--nbval", "--nbval-kernel-name", "cpu", "--nbval-sanitize-with", SANITIZE]
    quiet = ["--collect-only", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", ROOT]
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main([*map(str, quiet), *options, str(path)], plugins=[collected])
    for cell in collected.items:
        # What nbval does once the kernel is up; and no report, which takes longer than the rest.
        cell.parent.setup_sanitize_files()
        cell.format_output_compare = lambda key, left, right: None
    return collected.items


def run_nbval(folder, *options, kernels=ROOT):
    """Run nbval on what `folder` holds; returns the exit code and the names of failed cells."""
    pytest_options = [
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--tb=no",
        "-q",
        "-rfE",
        "--rootdir",
        str(folder),
    ]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "--nbval", *pytest_options, *options, str(folder)],
        cwd=folder,
        # Kernels side by side, each with a thread for every core, would wait for each other.
        env=os.environ | {"JUPYTER_PATH": str(kernels), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+::Cell \d+)", run.stdout, re.M)
    return run.returncode, failed, run.stdout
