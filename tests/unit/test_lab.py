"""JupyterLab is installed beside `.venv`, not into it, and sees the runners."""

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from helpers import refused

from tools import lab


@pytest.fixture
def commands(monkeypatch):
    """The commands that are run instead of pip and JupyterLab, with their variables."""
    run = []
    monkeypatch.setattr(lab.venv, "create", lambda folder, with_pip: _make(folder))

    def pretend(command, **options):
        run.append((list(map(str, command)), options.get("env") or {}))
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(lab.subprocess, "run", pretend)
    return run


def test_lab_sees_the_packages_and_the_runners(tmp_path, commands):
    lab.open_lab(tmp_path)
    (install, _), (start, variables) = commands
    assert install[-1] == lab.JUPYTERLAB and install[0].startswith(str(tmp_path / "_build"))
    assert start[1:] == ["-m", "jupyterlab", str(tmp_path / "notebooks")]
    assert variables["JUPYTER_PATH"] == str(tmp_path)
    assert variables["PATH"].startswith(str(Path(sys.executable).parent))
    (link,) = (tmp_path / "_build" / ".lab").rglob("book.pth")
    assert "site-packages" in link.read_text()
    lab.open_lab(tmp_path)
    assert len(commands) == 3  # installed once


def test_an_install_that_fails_is_one_line_and_is_tried_again(tmp_path, commands, monkeypatch):
    failed = subprocess.CompletedProcess([], 1)
    with monkeypatch.context() as patch:
        patch.setattr(lab.subprocess, "run", lambda command, **options: failed)
        with refused("pip could not install it"):
            lab.open_lab(tmp_path)
    lab.open_lab(tmp_path)
    assert len(commands) == 2


def _make(folder):
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    packages = sysconfig.get_path("purelib", "venv", vars={"base": str(folder)})
    for path in (python, Path(packages) / "there"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
