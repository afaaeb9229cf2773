"""JupyterLab with the chapters and the runners at hand: `make lab`.

It is not part of `.venv`, whose pins the book is made with. It has an environment of its own,
which sees the packages of `.venv` and holds nothing but what JupyterLab needs beside them.
"""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from tools.environment import Environment
from tools.errors import BookError

JUPYTERLAB = "jupyterlab==4.6.6"  # opens the chapters for whoever writes them


def open_lab(root: Path) -> None:
    """Install JupyterLab, if need be, and open the chapters in it."""
    # Hidden, as whatever builds the site looks through every folder that is not.
    lab = Environment(root, "_build/.lab")
    venv.create(lab.folder)
    packages = sysconfig.get_path("purelib", "venv", vars={"base": str(lab.folder)})
    book_packages = sysconfig.get_path("purelib")
    Path(packages, "book.pth").write_text(f"{book_packages}\n", encoding="utf-8")

    pip = [sys.executable, "-m", "pip", "--python", lab.python]
    options = ["--disable-pip-version-check", "install", "--quiet"]
    installing = subprocess.run([*pip, *options, JUPYTERLAB])  # short once it is there
    if installing.returncode != 0:
        raise BookError(
            JUPYTERLAB,
            "pip could not install it (see above)",
            "correct that and run again",
        )

    # The runners' kernels start a plain `python`: that of the book.
    book_scripts = str(Path(sys.executable).parent)
    path = os.pathsep.join([book_scripts, os.environ.get("PATH", "")])
    variables = os.environ | {"PATH": path, "JUPYTER_PATH": str(root)}
    command = [lab.python, "-m", "jupyterlab", root / "notebooks"]
    subprocess.run(command, cwd=root, env=variables)
