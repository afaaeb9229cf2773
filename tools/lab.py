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
    # Hidden, as whatever builds the site looks through every folder that is not.
    made = Environment(root, "_build/.lab")
    venv.create(made.folder)
    packages = sysconfig.get_path("purelib", "venv", vars={"base": str(made.folder)})
    Path(packages, "book.pth").write_text(
        sysconfig.get_path("purelib") + "\n", encoding="utf-8"
    )
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        made.python,
        "--disable-pip-version-check",
    ]
    installing = [*pip, "install", "--quiet", JUPYTERLAB]  # short once it is there
    if subprocess.run(installing).returncode:
        raise BookError(
            f"{JUPYTERLAB}: pip could not install it (see above); then run again"
        )
    # The runners' kernels start a plain `python`: that of the book.
    paths = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    environment = os.environ | {
        "PATH": os.pathsep.join(paths),
        "JUPYTER_PATH": str(root),
    }
    subprocess.run(
        [made.python, "-m", "jupyterlab", root / "notebooks"], cwd=root, env=environment
    )
