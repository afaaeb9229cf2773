"""JupyterLab is installed beside `.venv`, not into it, and sees the runners."""

import subprocess
import sys
from pathlib import Path

import nbformat
from helpers import refused

from tools import lab


def test_lab_is_installed_and_sees_the_packages_and_the_runners(tmp_path, monkeypatch):
    commands, code = [], 1

    def run(command, **options):
        commands.append((list(map(str, command)), options.get("env") or {}))
        return subprocess.CompletedProcess(command, code)

    monkeypatch.setattr(lab.subprocess, "run", run)
    with refused("pip could not install it"):
        lab.open_lab(tmp_path)
    code = 0
    lab.open_lab(tmp_path)  # it is tried again
    _, (install, _), (start, variables) = commands
    folder = tmp_path / "_build" / ".lab"
    assert install[-1] == lab.JUPYTERLAB and install[4].startswith(str(folder))
    assert start == [install[4], "-m", "jupyterlab", str(tmp_path / "notebooks")]
    assert variables["JUPYTER_PATH"] == str(tmp_path)
    assert variables["PATH"].startswith(str(Path(sys.executable).parent))
    monkeypatch.undo()
    ask = [install[4], "-c", "import nbformat; print(nbformat.__file__)"]
    assert subprocess.check_output(ask, text=True).strip() == nbformat.__file__
