"""Links to what students get: a repository with the student edition and nothing else.

`make release` writes that edition; the instructor pushes the folder `student/` of the release to a
repository of its own, whose links are these. nbgitpuller copies it into each student's server and
merges later changes without touching what they wrote.
"""

import json
from pathlib import Path

from tools.book.links import notebook_links
from tools.book.repository import Repository
from tools.errors import BookError
from tools.exercises.release import MANIFEST

# Not Kaggle, where a notebook is not handed in as a file, nor Binder, which would need a file of
# requirements beside it. The second name is the one where no hub is known.
SERVICES = ("Google Colab", "SageMaker Studio Lab", "JupyterHub", "Your JupyterHub", "Download")


def handout(release: Path, repository: Repository) -> str:
    """A line of Markdown for each notebook of a release, with its links. Raises BookError."""
    try:
        chapters = json.loads((release / MANIFEST).read_text(encoding="utf-8"))["chapters"]
    except (OSError, ValueError, KeyError):
        raise BookError(f"{release}: no release; write one with 'make release' first") from None
    lines = []
    for chapter in chapters:
        links = notebook_links(f"{chapter['name']}.ipynb", repository)
        shown = (f"[{link.label}]({link.url})" for link in links if link.label in SERVICES)
        lines.append(f"- {chapter['title']}: {', '.join(shown)}")
    return "\n".join(lines)
