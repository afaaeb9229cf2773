"""Run small programs in Python processes of their own, as a reader would."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments, cwd, python=sys.executable, **variables):
    """Run `python *arguments` in `cwd`, which the package is not in; returns what came of it."""
    environ = {name: os.environ[name] for name in os.environ if not name.startswith("CUDASIM")}
    environ |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    environ |= variables
    environ = {name: value for name, value in environ.items() if value}
    return subprocess.run(
        [python, *map(str, arguments)],
        cwd=cwd,
        env=environ,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def write(path, text):
    """Write a program; returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path
