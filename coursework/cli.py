"""The commands on exercises: releasing them, and grading what students hand in."""

import os
from pathlib import Path
from typing import Any

from tools.commands import Folder, argument, command, folder, the_book
from tools.errors import BookError
from tools.root import ROOT

# What a command needs is imported within it: `make book` with nothing stale needs next to nothing.


def key() -> str | None:
    """The key of a class; from the environment, so that no list of processes shows it."""
    return os.environ.get("CLASS")


CHAPTER = argument("chapter", needed=True, help="the chapter: computing-devices")
MASTERS = argument(
    "--masters", "MASTERS", type=folder, help="a folder; else the book's own"
)
SETS = {"type": folder, "help": "a file that sets exercises, points, due and late"}
ASSIGNMENT = argument("--assignment", "ASSIGNMENT", **SETS)
WORKERS = argument("--workers", "WORKERS", help="processes; else one for each core")
OUT = argument("--out", "OUT", type=folder, help="the folder to write")


@command(
    *(MASTERS, OUT, ASSIGNMENT, WORKERS),
    argument("--chapter", "CHAPTER", help="one only; else all"),
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

    engine = engine_for(workers, None)
    given = key(), masters, out, choice_of(chapter, assignment)
    for line in release(the_book(), engine, key_of, *given):
        print(line)
    if key() is None:
        print("no CLASS: this is the book's own edition, whose solutions are public")


@command(
    argument("folder", needed=True, type=folder, help="a new folder, not in the book")
)
def masters(folder: Path) -> None:
    """Make a folder of masters of your own, for exercises that count."""
    from coursework.exercises.masters import copy_masters

    if folder.resolve().is_relative_to(ROOT):
        raise BookError(
            f"{folder}: within the book, which is public; name a folder outside"
        )
    copy_masters(ROOT / "masters", folder)
    print(f"written: {folder}; use it with MASTERS={folder}")


@command(
    argument("--out", type=folder, help="the folder of the release"),
    argument("--repository", metavar="OWNER/NAME"),
    argument("--branch"),
    argument("--hub", help="a JupyterHub with nbgitpuller, or 'none'"),
)
def handout(
    out: Folder, repository: str | None, branch: str | None, hub: str | None
) -> None:
    """Print links to a repository that holds the student edition."""
    from coursework.exercises.release import handout
    from coursework.exercises.variants import draws_of
    from tools.book.repository import make_repository

    out = out or ROOT / "_build" / "release" / draws_of(key()).fingerprint
    print(
        handout(out, make_repository(repository or "", branch or "main", hub or "none"))
    )


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
        True,
        type=folder,
        help="the folder or zip downloaded",
    ),
    WORKERS,
    argument("--dask", "DASK", metavar="ADDRESS", help="of a scheduler"),
    argument(
        "--source", "SOURCE", help="where they were downloaded, if it is not seen"
    ),
    *(MASTERS, OUT, ASSIGNMENT),
)
def grade(submissions: Path, dask: str | None, **options: Any) -> None:
    """Grade what students handed in, as it was downloaded."""
    from coursework.grade.command import grade_class

    grade_class(submissions, key(), address=dask, **options)


@command(
    argument(
        "export", "", True, type=folder, help="the gradebook that was exported, a CSV"
    ),
    argument(
        "--grades",
        "",
        True,
        type=folder,
        help="the folder that grade wrote: --grades FOLDER",
    ),
    argument("--column", help="the one to fill in"),
    argument("--scale", action="store_true", help="to the export's maximum"),
    argument("--chapter", help="whose grades, if there are several's"),
)
def fill(
    export: Path, grades: Path, column: str | None, scale: bool, chapter: str | None
) -> None:
    """Fill grades into an export of the instructor's own gradebook."""
    from coursework.grade.exchange.gradebooks import fill_export

    fill_export(export, grades, column, scale, chapter)


@command(argument("chapter", nargs="?", help="computing-devices"), MASTERS, ASSIGNMENT)
def gradescope(chapter: str | None, masters: Folder, assignment: Folder) -> None:
    """Build the autograder of a chapter, or of an assignment, for Gradescope."""
    from coursework.exercises.assignment import choice_of
    from coursework.grade.exchange.gradescope import make_autograder

    choice = choice_of(chapter, assignment)
    if choice is None:
        raise BookError(
            "CHAPTER: name the chapter: computing-devices, or --assignment FILE"
        )
    print(f"written: {make_autograder(choice, key(), masters or ROOT / 'masters')}")
