"""Run PyTorch's own tests of CUDA on the simulator, and keep what came of them for its page."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.book.runners import SIMULATOR
from tools.errors import BookError
from tools.files import write_json
from tools.record.provenance import made_here
from tools.site.conformance import CONFORMANCE

SUITE = "cudasim/conformance"


def record_conformance(source: Path, resume: bool, limit: float | None, root: Path) -> None:
    """Run the tests in the folder `source` of PyTorch and write `book/conformance.json`.

    `resume` goes on where an earlier run was stopped; a test has `limit` seconds. Raises
    BookError where there are no tests, and if a test fails that has no reason, or passes though
    it has one.
    """
    if not (source / "test").is_dir():
        raise BookError(
            "PYTORCH_SOURCE: name the folder of PyTorch's sources, with 'test' in it: "
            "'make conformance PYTORCH_SOURCE=folder'"
        )
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "conformance.json"
        command = [sys.executable, SUITE, str(source.resolve()), "--json", str(written)]
        command += ["--resume"] * resume
        command += [] if limit is None else ["--limit", f"{limit:g}"]
        environment = os.environ | {"PYTHONPATH": str(root / SIMULATOR)}
        if _run(command, root, environment):
            raise BookError(f"{SUITE}: what is named above has no reason; nothing is written")
        found = json.loads(written.read_text(encoding="utf-8"))
    write_json(root / CONFORMANCE, made_here() | found, root)


def _run(command: list[str], root: Path, environment: dict[str, str]) -> int:
    """The exit status of the suite, which is asked to end, and waited for, if this one is."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    suite = subprocess.Popen(command, cwd=root, env=environment)
    try:
        return suite.wait()
    finally:
        suite.terminate()  # nothing, if it has ended
        suite.wait()
