"""nbval as a command, on notebooks of a test."""

import os
import re
import subprocess
import sys

from helpers import ROOT, copy_kernel

QUIET = "--nbval -q -rfE -p no:cacheprovider -p no:xdist --color no --rootdir".split()
BARE = "python -m ipykernel_launcher -f {connection_file}".split()


def run_nbval(folder, *options, runner="cpu", notebooks="."):
    """Run nbval on `notebooks` in `folder`, by a kernel that imports nothing unless it is there.

    Returns the exit code, the names of the items that failed, and the log.
    """
    if not (folder / "kernels").exists():
        copy_kernel(folder, runner, argv=BARE, env={})
    command = [
        sys.executable,
        "-m",
        "pytest",
        *QUIET,
        folder,
        "--nbval-kernel-name",
        runner,
    ]
    run = subprocess.run(
        [*command, *options, notebooks],
        cwd=folder,
        env=os.environ | {"JUPYTER_PATH": str(folder), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    failed = re.findall(r"^(?:FAILED|ERROR) \S+?::(.+?)(?: - |$)", run.stdout, re.M)
    return run.returncode, failed, run.stdout
