"""nbval as a command, on notebooks of a test."""

import os
import re
import subprocess
import sys

from helpers import ROOT, copy_kernel

QUIET = "--nbval -q -rfE -p no:cacheprovider -p no:xdist --color no --rootdir".split()
BARE = "python -m ipykernel_launcher -f {connection_file}".split()


def run_nbval(folder, *options, runner="cpu", notebooks="."):
    """Run nbval on `notebooks`; where `folder` has no kernel, it gets one that imports nothing.

    Return the exit code, the names of the items that failed, and the log.
    """
    if not (folder / "kernels").exists():
        copy_kernel(folder, runner, argv=BARE, env={})
    command = [sys.executable, "-m", "pytest", *QUIET, folder]
    kernel = ["--nbval-kernel-name", runner]
    run = subprocess.run(
        [*command, *kernel, *options, notebooks],
        cwd=folder,
        env=os.environ | {"JUPYTER_PATH": str(folder), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    failed = re.findall(r"^(?:FAILED|ERROR) \S+?::(.+?)(?: - |$)", run.stdout, re.M)
    return run.returncode, failed, run.stdout
