"""Gather the rows of the simulator's support matrix for the page on testing."""

import json
from pathlib import Path

from tools.errors import BookError
from tools.files import write_json
from tools.site.support import COLUMNS, SUPPORT


def record_support(folder: Path, root: Path) -> int:
    """Write `book/support.json` from the rows in `folder`, and beneath it; returns how many.

    A row takes the place of an older one of the same Python, PyTorch and system. Raises BookError
    for a folder without rows, and for a file that is none.
    """
    paths = sorted(folder.rglob("*.json"))
    if not paths:
        raise BookError(
            f"RECORDS: {folder} holds no row; write one with "
            "'CUDASIM_SUPPORT=row.json make test STAGE=simulator'"
        )
    rows = {place(row): row for row in [*_recorded(root), *map(_read, paths)]}
    write_json(root / SUPPORT, {"rows": [rows[key] for key in sorted(rows)]}, root)
    return len(rows)


def place(row: dict) -> tuple[str, ...]:
    """What a row is of: Python and PyTorch up to their minor versions, and the system."""
    short = (".".join(row[name].split(".")[:2]) for name in ("python", "torch"))
    return row["system"], *short


def _recorded(root: Path) -> list[dict]:
    path = root / SUPPORT
    return json.loads(path.read_text(encoding="utf-8"))["rows"] if path.is_file() else []


def _read(path: Path) -> dict:
    try:
        row = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        row = None
    if not isinstance(row, dict) or row.keys() != set(COLUMNS.values()):
        raise BookError(f"{path}: not what CUDASIM_SUPPORT writes; leave it out of RECORDS")
    return row
