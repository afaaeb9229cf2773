"""JupyterLab is installed beside `.venv`, not into it, and sees the runners."""

import subprocess
import sys
from pathlib import Path

import nbformat
from helpers import refused

from tools import lab


def test_lab_sees_the_packages_and_the_runners(tmp_path, monkeypatch):
    commands = []
    code = 1

    def run(command, **options):
        words = [str(word) for word in command]
        commands.append((words, options.get("env") or {}))
        return subprocess.CompletedProcess(command, code)

    monkeypatch.setattr(lab.subprocess, "run", run)
    with refused("pip could not install it"):
        lab.open_lab(tmp_path)

    # The next call tries again.
    code = 0
    lab.open_lab(tmp_path)
    _, (install, _), (start, variables) = commands
    python = install[4]
    assert install[-1] == lab.JUPYTERLAB
    assert python.startswith(str(tmp_path / "_build" / ".lab"))
    assert start == [python, "-m", "jupyterlab", str(tmp_path / "notebooks")]
    assert variables["JUPYTER_PATH"] == str(tmp_path)
    assert variables["PATH"].startswith(str(Path(sys.executable).parent))

    monkeypatch.undo()
    where = [python, "-c", "import nbformat; print(nbformat.__file__)"]
    assert subprocess.check_output(where, text=True).strip() == nbformat.__file__
