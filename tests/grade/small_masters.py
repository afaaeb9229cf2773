"""A small master, the book that it is of, and a stand-in for what grades: no sandbox."""

import re
import shutil
from pathlib import Path

from classroom import StandIn
from helpers import ROOT, code, copy_code, prose, write

from tools.book.book import Book
from tools.exercises.masters import read_master
from tools.grade.judge import grade_one

SMALL = Path(__file__).with_name("small.md").read_text(encoding="utf-8")
HEAD, FIRST, SECOND = re.split(r"(?=\n## \d)", SMALL)


def write_master(folder, text=SMALL, name="small"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(text, encoding="utf-8")
    return folder


def read_small(folder, text=SMALL, **options):
    return read_master(write_master(folder, text) / "small.md", folder, **options)


def book_of_one(root):
    """A book of one chapter, whose exercises come from a master."""
    copy_code(root, "kernels/cpu")
    for folder in ("notebooks", "cudasim"):
        (root / folder).mkdir()
    for name in ("_config.yml", "requirements-no-deps.txt", "cudasim/pyproject.toml"):
        shutil.copy(ROOT / name, root / name)
    write(
        root,
        "small",
        prose("title", "# Small numbers"),
        code("switch", "SIMULATE_GPUS = False", tags=["setup"]),
        code("base", "base = 10"),
        *(prose(id, "old") for id in ("exercise-1", "answer-1", "between", "exercise-2")),
    )
    (root / "_toc.yml").write_text("format: jb-book\nroot: notebooks/small\n")
    write_master(root / "masters")
    return Book(root)


class Grader:
    """Grades one task after another, and remembers which."""

    def __init__(self):
        self.graded = []

    def __call__(self, tasks):
        for task in tasks:
            self.graded.append(task["submission"])
            yield task, grade_one(task, StandIn())


def contents(folder: Path):
    """The bytes of each file below a folder, by its path in it."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
