"""The Makefile: what is written after a command reaches it as it was typed, and a slip is said."""

import os
import shutil
import subprocess

import pytest
from helpers import ROOT, assert_one_line

SHOW = """#!/bin/sh
printf '%s|%s|%s' "$RUNNER" "$CHAPTER" "$CLASS"
"""


@pytest.fixture
def make(tmp_path):
    """Runs `make record RUNNER=gpu`, which calls PYTHON itself: here one that shows its values."""
    if shutil.which("make") is None or os.name != "posix":
        pytest.skip("no make, or no shell of POSIX, on this machine")
    python = tmp_path / "a python's own"
    python.write_text(SHOW)
    python.chmod(0o755)
    words = ["make", "--no-print-directory", "record", "RUNNER=gpu", f"PYTHON={python}"]
    return lambda *given, **variables: subprocess.run(
        [*words, *given],
        cwd=ROOT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("value", ["it's", "a$b", "$(HOME)", "a b", '"`id`"', "~/x"])
def test_a_value_arrives_as_it_was_typed(make, value):
    assert make(f"CHAPTER={value}", CLASS=value).stdout == f"gpu|{value}|{value}"


def test_a_misspelt_name_is_refused_before_anything_runs(make):
    run = make("CHAPTRE=x")
    assert run.returncode and run.stdout == ""
    assert_one_line(run.stderr, "Makefile", "'CHAPTRE='", "CHAPTER")
