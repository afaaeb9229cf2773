"""Compare modelled times with published ones, and keep the rows for the page on the simulation."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tools.book.runners import SIMULATOR
from tools.errors import BookError
from tools.files import write_json
from tools.site.timings import PUBLISHED

FIGURES = "cudasim/timings/published.json"
DIGITS = 9  # of a time in seconds that are kept: nanoseconds


def record_timings(root: Path) -> None:
    """Write `book/timings.json`: every published figure, its source, and what the model says.

    Raises BookError if `python -m cudasim.published` fails.
    """
    write_json(root / PUBLISHED, {"rows": compared(root)}, root)


def compared(root: Path) -> list[dict]:
    """A row for each published figure; times are in seconds."""
    command = [sys.executable, "-m", "cudasim.published", "--json"]
    environment = os.environ | {"PYTHONPATH": str(root / SIMULATOR)}
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    if run.returncode:
        reason = (run.stderr.strip().splitlines() or ["nothing"])[-1]
        raise BookError(f"{FIGURES}: 'python -m cudasim.published' fails and says: {reason}")
    about = {row["id"]: row for row in json.loads((root / FIGURES).read_text(encoding="utf-8"))}
    return [
        {
            "card": row["card"],
            "what": about[row["id"]]["what"],
            "source": about[row["id"]]["source"],
            "use": row["use"],
            "published": round(row["published"], DIGITS),
            "modelled": round(row["modelled"], DIGITS),
        }
        for row in json.loads(run.stdout)
    ]
