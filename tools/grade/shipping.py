"""Sends the code that grades to the workers of a Dask cluster, those that come later too.

A worker needs the pins installed and a sandbox; the code it gets from here, whatever checkout it
was started in.
"""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from distributed import Client
from distributed.diagnostics.plugin import UploadDirectory

from tools.root import ROOT

SENT = ("tools", "kernels", "cudasim/src", "requirements.txt", "requirements-no-deps.txt")


def send(client: Client) -> None:
    """Put the code first on the path of every worker; those that are there start anew."""
    with tempfile.TemporaryDirectory() as staged:
        folder = Path(staged, "grading")
        for name in SENT:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, folder / name)
        plugin = UploadDirectory(str(folder), restart_workers=True, update_path=True)
    client.register_plugin(plugin)


def by_value() -> Callable[[dict], dict]:
    """A function that runs on a worker: its answer to a task, as `tools/grade/worker.py` gives it.

    It is made within another, and so travels whole: the scheduler could not import it.
    """

    def grade(task: dict) -> dict:
        from tools.grade.worker import answer_to

        return answer_to(task)

    return grade
