"""Run the simulator's survey and keep its figures for the page on the simulation."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.book.runners import SIMULATOR
from tools.errors import BookError
from tools.files import write_json
from tools.record.provenance import made_here
from tools.site.status import SURVEY


def record_survey(root: Path) -> None:
    """Run `python -m cudasim.survey` and write `book/survey.json` in one step.

    The file holds the summary, what it ran on, and every operator and module that did not
    pass. Raises BookError if one failed that is not a known exception.
    """
    with tempfile.TemporaryDirectory() as folder:
        verdicts = Path(folder) / "verdicts.json"
        command = [sys.executable, "-m", "cudasim.survey", "--json", str(verdicts)]
        environment = os.environ | {"PYTHONPATH": str(root / SIMULATOR)}
        run = subprocess.run(command, cwd=root, env=environment)
        if run.returncode:
            raise BookError("cudasim/: the survey found failures, named above; nothing is written")
        found = json.loads(verdicts.read_text(encoding="utf-8"))
    summary = made_here() | {
        "torch": found["torch"],
        "python": found["python"],
        "summary": found["summary"],
        "exceptions": [
            {name: verdict[name] for name in ("kind", "name", "reason")}
            for verdict in found["verdicts"]
            if verdict["outcome"] == "expected"
        ],
    }
    write_json(root / SURVEY, summary, root)
