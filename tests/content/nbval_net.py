"""nbval's own cells and comparison, without a kernel; and nbval as a command, with one."""

import contextlib
import io
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
from helpers import ROOT

from tools.book.book import Book
from tools.book.runners import GPU, SANITIZE

RUNNERS = Book(ROOT).runners
QUIET = "--nbval -q -rfE --tb=no -p no:cacheprovider -p no:xdist --rootdir".split()


def rules_of(folder):
    """The file with what `make test` leaves out of the outputs of a runner, or a card."""
    return RUNNERS.get(folder, RUNNERS[GPU]).sanitize


def nbval_cells(path, rules=SANITIZE):
    """The cells of a recorded notebook as nbval makes them, sanitizing by a file of rules."""
    cells = []
    keep = SimpleNamespace(pytest_collection_finish=lambda session: cells.extend(session.items))
    options = ["--collect-only", "--nbval-kernel-name", "cpu"]
    options += ["--nbval-sanitize-with", str(ROOT / rules)]
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main([*QUIET, str(ROOT), *options, str(path)], plugins=[keep])
    for cell in cells:
        # What nbval does once the kernel is up; and no report, which takes longer than the rest.
        cell.parent.setup_sanitize_files()
        cell.format_output_compare = lambda key, left, right: None
    return cells


def run_nbval(folder, *options, kernels=ROOT):
    """Run nbval on what `folder` holds; returns the exit code and the names of failed cells."""
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *QUIET, folder, *options, folder],
        cwd=folder,
        # Kernels side by side, each with a thread for every core, would wait for each other.
        env=os.environ | {"JUPYTER_PATH": str(kernels), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+::Cell \d+)", run.stdout, re.M)
    return run.returncode, failed, run.stdout
