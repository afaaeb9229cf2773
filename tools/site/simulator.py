"""Questions to `cudasim`, which a process of its own answers: no module here imports it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools.book.runners import SIMULATOR
from tools.errors import BookError


def ask(root: Path, arguments: list[str], what: str, given: str = "") -> Any:
    """The JSON that Python prints where `cudasim` is; `what` names it to whom it fails.

    Raises BookError if it does.
    """
    environment = os.environ | {"PYTHONPATH": str(root / SIMULATOR)}
    command = [sys.executable, *arguments]
    run = subprocess.run(
        command, cwd=root, env=environment, input=given, capture_output=True, text=True
    )
    if run.returncode:
        reason = (run.stderr.splitlines() or ["no reason given"])[-1]
        raise BookError(f"{SIMULATOR}: {what} fails: {reason}")
    return json.loads(run.stdout)


def embedded(value: Any) -> str:
    """JSON that may stand within a `<script>`."""
    return json.dumps(value).replace("<", "\\u003c")
