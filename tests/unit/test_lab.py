"""JupyterLab is installed beside `.venv`, not into it, and sees the runners."""

import subprocess
import sys
import sysconfig
from pathlib import Path

from helpers import refused

from tools import lab


def test_lab_is_installed_once_and_sees_the_packages_and_the_runners(tmp_path, monkeypatch):
    commands, code = [], 1

    def make(folder, with_pip):
        python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
        packages = sysconfig.get_path("purelib", "venv", vars={"base": str(folder)})
        for path in (python, Path(packages) / "there"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()

    def run(command, **options):
        commands.append((list(map(str, command)), options.get("env") or {}))
        return subprocess.CompletedProcess(command, code)

    monkeypatch.setattr(lab.venv, "create", make)
    monkeypatch.setattr(lab.subprocess, "run", run)
    with refused("pip could not install it"):
        lab.open_lab(tmp_path)
    code = 0
    lab.open_lab(tmp_path)  # it is tried again
    _, (install, _), (start, variables) = commands
    assert install[-1] == lab.JUPYTERLAB and install[0].startswith(str(tmp_path / "_build"))
    assert start[1:] == ["-m", "jupyterlab", str(tmp_path / "notebooks")]
    assert variables["JUPYTER_PATH"] == str(tmp_path)
    assert variables["PATH"].startswith(str(Path(sys.executable).parent))
    [link] = (tmp_path / "_build" / ".lab").rglob("book.pth")
    assert "site-packages" in link.read_text()
    lab.open_lab(tmp_path)
    assert len(commands) == 4  # it is not installed again
