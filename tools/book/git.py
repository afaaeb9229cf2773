"""What git knows of the book's files."""

import subprocess
from pathlib import Path

from tools.errors import BookError


def untracked(folder: str, root: Path) -> list[str]:
    """The files in `folder` that a commit would leave out; none where there is no repository.

    Raises BookError if git is not installed, or refuses to say.
    """
    if not (root / ".git").exists():
        return []
    ask = ["git", "ls-files", "-z", "--others", "--exclude-standard", "--", folder]
    try:
        run = subprocess.run(ask, cwd=root, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        reason = " ".join((getattr(error, "stderr", None) or str(error)).split())
        raise BookError(f".git: git does not say what it tracks in {folder}: {reason}") from None
    return [name for name in run.stdout.split("\0") if name]
