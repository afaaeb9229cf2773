"""Sends the code that grades to the workers of a Dask cluster, those that come later too.

A worker needs the pins installed and a sandbox; the code it gets from here, whatever checkout it
was started in. This module goes by value: it imports nothing of this project at its head.
"""

import hashlib
import io
import os
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from distributed.diagnostics.plugin import WorkerPlugin

SENT = ("tools", "kernels", "cudasim/src", "requirements.txt", "requirements-no-deps.txt")
ENDINGS = (".py", ".json", ".toml", ".txt", ".pth")


def packed(root: Path) -> bytes:
    """The code as a zip: the same bytes for the same code."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in SENT:
            path = root / name
            for file in [path] if path.is_file() else sorted(path.rglob("*")):
                if file.suffix in ENDINGS and "__pycache__" not in file.parts:
                    member = zipfile.ZipInfo(file.relative_to(root).as_posix())
                    member.external_attr = 0o644 << 16
                    archive.writestr(member, file.read_bytes(), zipfile.ZIP_DEFLATED)
    return packed.getvalue()


class Code(WorkerPlugin):
    """Unpacks the code on a worker and lets it import that, and no other."""

    def __init__(self, archive: bytes) -> None:
        self.archive = archive
        self.name = f"grading-{hashlib.sha256(archive).hexdigest()[:16]}"

    def setup(self, worker: Any) -> None:
        """Called on every worker, and on those that come later."""
        folder = tempfile.mkdtemp(prefix=f"{self.name}-", dir=worker.local_directory)
        os.chmod(folder, 0o755)  # sandboxes run as another user
        with zipfile.ZipFile(io.BytesIO(self.archive)) as archive:
            archive.extractall(folder)
        sys.path[:] = [folder, *(path for path in sys.path if "grading-" not in path)]
        for name in [name for name in sys.modules if name.split(".")[0] == "tools"]:
            del sys.modules[name]
        self.folder = folder

    def teardown(self, worker: Any) -> None:
        import shutil

        shutil.rmtree(self.folder, ignore_errors=True)


def send(client: Any) -> None:
    import cloudpickle

    from tools.root import ROOT

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    client.register_plugin(Code(packed(ROOT)))


def by_value() -> Callable[[dict], dict]:
    """A function that runs on a worker: its answer to a task, as `tools/grade/worker.py` gives it.

    It is made within another, and so travels whole: neither the scheduler nor a worker that has
    not got the code yet could import it.
    """

    def grade(task: dict) -> dict:
        from tools.grade.worker import answer_to

        return answer_to(task)

    return grade
