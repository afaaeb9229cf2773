"""The commands on exercises: releasing them, and grading what students hand in."""

import os
from pathlib import Path
from typing import Any

from tools.commands import Folder, argument, command, folder, the_book
from tools.errors import BookError
from tools.files import ROOT

# Each command imports what it needs when it runs, so that `make book` starts quickly. The help of a
# needed argument completes the error "name ...".


def key() -> str | None:
    """Return the key of a class. Arguments are shown in the list of processes; this is not."""
    return os.environ.get("CLASS")


CHAPTER = argument(
    "chapter", needed=True, help="the chapter, such as computing-devices"
)
MASTERS = argument(
    "--masters",
    "MASTERS",
    type=folder,
    help="folder of masters (default: the book's own)",
)
ASSIGNMENT = argument(
    "--assignment",
    "ASSIGNMENT",
    type=folder,
    help="file that chooses exercises, points, the due date and the late penalty",
)
WORKERS = argument(
    "--workers", "WORKERS", help="number of processes (default: one per core)"
)
OUT = argument("--out", "OUT", type=folder, help="folder to write into")


@command(
    MASTERS,
    OUT,
    ASSIGNMENT,
    WORKERS,
    argument("--chapter", "CHAPTER", help="only this chapter (default: all)"),
)
def release(
    masters: Folder,
    out: Folder,
    assignment: Folder,
    chapter: str | None,
    workers: str | None,
) -> None:
    """Verify the masters, and write their editions for a class, or those of the book."""
    from coursework.exercises.assignment import choice_of
    from coursework.exercises.release import release
    from coursework.grade.command import engine_for
    from coursework.grade.store import key_of

    grade = engine_for(workers, None)
    choice = choice_of(chapter, assignment)
    done = release(the_book(), grade, key_of, key(), masters, out, choice)
    for line in done:
        print(line)
    if key() is None:
        print("no CLASS: this is the book's own edition, whose solutions are public")


@command(
    argument("folder", needed=True, type=folder, help="a new folder outside the book")
)
def masters(folder: Path) -> None:
    """Make a folder of masters of your own, for exercises that count."""
    from coursework.exercises.masters import copy_masters

    if folder.resolve().is_relative_to(ROOT):
        fault = "within the book, which is public"
        raise BookError(f"{folder}: {fault}; name a folder outside")
    copy_masters(ROOT / "masters", folder)
    print(f"written: {folder}; use it with MASTERS={folder}")


@command(
    argument("--out", type=folder, help="folder of the release"),
    argument("--repository", metavar="OWNER/NAME"),
    argument("--branch"),
    argument("--hub", help="address of a JupyterHub with nbgitpuller, or 'none'"),
)
def handout(
    out: Folder, repository: str | None, branch: str | None, hub: str | None
) -> None:
    """Print links to a repository that holds the student edition."""
    from coursework.exercises.release import handout
    from coursework.exercises.tasks import draws_of
    from tools.book.repository import make_repository

    if out is None:
        out = ROOT / "_build" / "release" / draws_of(key()).fingerprint
    for_students = make_repository(repository or "", branch or "main", hub or "none")
    print(handout(out, for_students))


@command(CHAPTER, MASTERS)
def example(chapter: str, masters: Folder) -> None:
    """Invent a class of five, to try grading on."""
    from coursework.grade.example import write_example

    for path in write_example(chapter, key(), masters, the_book()):
        print(f"written: {path}")


@command(
    argument(
        "submissions",
        "SUBMISSIONS",
        needed=True,
        type=folder,
        help="the folder or zip that was downloaded: SUBMISSIONS=submissions.zip",
    ),
    WORKERS,
    argument("--dask", "DASK", metavar="ADDRESS", help="address of a Dask scheduler"),
    argument(
        "--source", "SOURCE", help="system of the download, if it is not recognized"
    ),
    MASTERS,
    OUT,
    ASSIGNMENT,
)
def grade(submissions: Path, dask: str | None, **options: Any) -> None:
    """Grade what students handed in, as it was downloaded."""
    from coursework.grade.command import grade_class

    grade_class(submissions, key(), address=dask, **options)


@command(
    argument(
        "export",
        needed=True,
        type=folder,
        help="the gradebook that was exported, a CSV",
    ),
    argument(
        "--grades",
        needed=True,
        type=folder,
        help="the folder that 'grade' wrote: --grades FOLDER",
    ),
    argument("--column", help="name of the column to fill in"),
    argument(
        "--scale", action="store_true", help="scale points to the export's maximum"
    ),
    argument("--chapter", help="chapter whose grades to fill in, if there are several"),
)
def fill(
    export: Path, grades: Path, column: str | None, scale: bool, chapter: str | None
) -> None:
    """Fill grades into an export of the instructor's own gradebook."""
    from coursework.grade.exchange.gradebooks import fill_export

    fill_export(export, grades, column, scale, chapter)


@command(
    argument("chapter", nargs="?", help="name of the chapter"), MASTERS, ASSIGNMENT
)
def gradescope(chapter: str | None, masters: Folder, assignment: Folder) -> None:
    """Build the autograder of a chapter, or of an assignment, for Gradescope."""
    from coursework.exercises.assignment import choice_of
    from coursework.grade.exchange.gradescope import make_autograder

    choice = choice_of(chapter, assignment)
    if choice is None:
        advice = "name the chapter: computing-devices, or --assignment FILE"
        raise BookError(f"CHAPTER: {advice}")
    path = make_autograder(choice, key(), masters or ROOT / "masters")
    print(f"written: {path}")
