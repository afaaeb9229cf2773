"""The Makefile: values reach a command as they were typed, and a slip is refused."""

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
    """Run `make record RUNNER=gpu` by a PYTHON that shows the values it is given."""
    if shutil.which("make") is None or os.name != "posix":
        pytest.skip("no make, or no shell of POSIX, on this machine")
    python = tmp_path / "a python's own"
    python.write_text(SHOW)
    python.chmod(0o755)
    words = ["make", "--no-print-directory", "record", "RUNNER=gpu", f"PYTHON={python}"]

    def run(*assignments, **variables):
        return subprocess.run(
            [*words, *assignments],
            cwd=ROOT,
            env=os.environ | variables,
            capture_output=True,
            text=True,
        )

    return run


@pytest.mark.parametrize("value", ["it's", "a$b", "$(HOME)", "a b", '"`id`"', "~/x"])
def test_a_value_arrives_as_it_was_typed(make, value):
    assert make(f"CHAPTER={value}", CLASS=value).stdout == f"gpu|{value}|{value}"


def test_a_misspelt_name_is_refused_at_once(make):
    run = make("CHAPTRE=x")
    assert run.returncode != 0
    assert run.stdout == ""
    assert_one_line(run.stderr, "Makefile", "'CHAPTRE='", "CHAPTER")
