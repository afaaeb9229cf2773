"""What git knows of the book's files."""

import subprocess
from pathlib import Path


def untracked(folder: str, root: Path) -> list[str]:
    """The files in `folder` that a commit would leave out; none where there is no repository."""
    if not (root / ".git").exists():
        return []
    ask = ["git", "ls-files", "-z", "--others", "--exclude-standard", "--", folder]
    run = subprocess.run(ask, cwd=root, capture_output=True, text=True, check=True)
    return [name for name in run.stdout.split("\0") if name]
