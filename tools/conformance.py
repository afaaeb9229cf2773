"""Run PyTorch's own tests of CUDA on the simulator, and keep what came of them for its page."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.errors import BookError
from tools.page.conformance import CONFORMANCE
from tools.run.provenance import made_here
from tools.source.files import write_json
from tools.source.runners import SIMULATOR

SUITE = "cudasim/conformance"


def record_conformance(source: Path, resume: bool, root: Path) -> None:
    """Run the tests in the folder `source` of PyTorch and write `book/conformance.json`.

    `resume` goes on where an earlier run was stopped. Raises BookError where there are no
    tests, and if a test fails that has no reason, or passes though it has one.
    """
    if not (source / "test").is_dir():
        raise BookError(
            "PYTORCH_SOURCE: name the folder of PyTorch's sources, with 'test' in it: "
            "'make conformance PYTORCH_SOURCE=folder'"
        )
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "conformance.json"
        command = [sys.executable, SUITE, str(source.resolve()), "--json", str(written)]
        environment = os.environ | {"PYTHONPATH": str(root / SIMULATOR)}
        run = subprocess.run(command + ["--resume"] * resume, cwd=root, env=environment)
        if run.returncode:
            raise BookError(f"{SUITE}: what is named above has no reason; nothing is written")
        found = json.loads(written.read_text(encoding="utf-8"))
    write_json(root / CONFORMANCE, made_here() | found, root)
