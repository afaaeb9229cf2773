"""The row of the support matrix that a run of these tests writes: CUDASIM_SUPPORT=row.json."""

import json
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path


def row(stats: Mapping[str, Sequence], torch: str) -> dict:
    """What was tested, on what, and how it went; `stats` is what pytest's reporter has counted."""
    counts = {name: len(stats.get(name, ())) for name in ("passed", "failed", "error", "skipped")}
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "torch": torch,
        "system": f"{platform.system()} {platform.machine()}",
        "passed": counts["passed"],
        "failed": counts["failed"] + counts["error"],
        "skipped": counts["skipped"],
    }


def write(path: str, stats: Mapping[str, Sequence], torch: str) -> None:
    """Write the row to `path`."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(row(stats, torch), indent=1) + "\n", encoding="utf-8")
