"""Grades on disk: one JSON file per submission, with the key of all that its points follow from.

Grading that was stopped continues where it was, and a changed answer grades that submission alone.
What a person typed or was graded is copied into `earlier/` before another takes its place.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import date
from functools import cache
from hashlib import sha256
from pathlib import Path

from filelock import FileLock, Timeout

from coursework.exercises.tasks import Assignment, Cells, cells_as_json
from coursework.grade.results import Grade, GradeId
from coursework.grade.tables import loses_a_row, read_table
from tools.environment import REQUIREMENTS
from tools.errors import BookError
from tools.files import (
    ROOT,
    cannot_write,
    check_writable,
    digest,
    write_bytes,
    write_text,
)

LOCK = ".grading.lock"
CODE = (
    "coursework/grade/judge.py",
    "coursework/grade/results.py",
    "coursework/grade/reasons.toml",
    "coursework/grade/hidden_tests.py",
    "coursework/grade/measured.py",
    "coursework/grade/deadline.py",
    "coursework/grade/student_code.py",
    "coursework/grade/sandbox",
    "kernels",
)
SIMULATOR = "cudasim/src"
RULES = 2  # raised when a result comes to mean another thing
# What of an exercise decides nothing about the points by tests.
NOT_JUDGED = {"title": None, "by_hand": None, "condition": None, "solution": None}


# --- the key of a result


def code_files(names: Iterable[str], root: Path = ROOT) -> list[Path]:
    """Return the files at these paths and below them, except those that Python compiled."""
    files = []
    for name in names:
        path = root / name
        for file in [path, *sorted(path.rglob("*"))]:
            if file.is_file() and file.suffix != ".pyc":
                files.append(file)
    return files


@cache
def code_digest(runner: str, root: Path = ROOT) -> str:
    """Return a hash of all that decides a result besides the submission.

    That is the pins, the judge, the sandbox and the simulator.
    """
    names = [*REQUIREMENTS, *CODE]
    if runner != "cpu":
        names.append(SIMULATOR)
    parts: list[str | bytes] = [str(RULES), runner]
    for file in code_files(names, root):
        parts.append(file.relative_to(root).as_posix())
        parts.append(file.read_bytes().replace(b"\r\n", b"\n"))
    return digest(parts)


def key_of(assignment: Assignment, cells: Cells) -> str:
    """Return the key of a submission; words that decide nothing are not in it."""
    judged = [assignment.name, assignment.group, assignment.seed, assignment.given]
    exercises = [asdict(exercise) | NOT_JUDGED for exercise in assignment.exercises]
    content = [judged, exercises, cells_as_json(cells)]
    task = json.dumps(content, sort_keys=True)
    return digest([code_digest(assignment.runner), task])


# --- the folder


def check_folder(folder: Path) -> None:
    """Raise BookError if grades must not be written into this folder.

    If it holds files of others, they could be overwritten, or published with grades among them.
    """
    if folder.is_file():
        fault = f"{folder} is a file, and grades are written into a folder"
        raise BookError(f"OUT: {fault}; name a folder")
    if not folder.is_dir() or (folder / LOCK).exists() or (folder / "results").is_dir():
        return
    names = sorted(path.name for path in folder.iterdir())
    if names:
        fault = f"contains files that no grading wrote ({', '.join(names[:3])})"
        raise BookError(f"OUT: {folder} {fault}; name another folder")


class Store:
    """A folder of grades, and what is written into it."""

    def __init__(self, folder: Path) -> None:
        """Raise BookError if nothing can be written there, or if it holds files of others."""
        self.folder = folder.resolve()
        self.grades: dict[GradeId, Grade] = {}
        check_folder(self.folder)
        check_writable(self.folder, self.folder.parent)

    @contextmanager
    def one_at_a_time(self) -> Iterator[None]:
        """Hold the folder, with its grades read. Raises BookError if another grading does."""
        try:
            with FileLock(self.folder / LOCK, timeout=0):
                for half in self.folder.rglob("*.part"):  # left by one that was killed
                    half.unlink()
                self._read_grades()
                yield
        except Timeout:
            fault = f"{self.folder.name}: another 'make grade' writes there"
            advice = "wait for it, or name another folder with OUT="
            raise BookError(f"{fault}; {advice}") from None

    def _read_grades(self) -> None:
        # A submission whose file is damaged is graded anew.
        damages = (OSError, ValueError, KeyError, TypeError, AttributeError)
        for path in sorted(self.folder.glob("results/*.json")):
            with suppress(*damages):
                entry = json.loads(path.read_text(encoding="utf-8"))
                grade = Grade.from_json(entry)
                self.grades[grade.id] = grade

    def files(self, grade: Grade) -> tuple[Path, Path]:
        """Return where the result and the feedback of a submission are."""
        readable = "-".join(part for part in grade.id if part)
        name = re.sub(r"[^a-z0-9.-]+", "-", readable.lower()).strip("-.")
        name = name[:60] or "submission"
        if name != readable:
            hash = sha256(readable.encode("utf-8", "replace")).hexdigest()
            name += f"-{hash[:8]}"
        result = self.folder / "results" / f"{name}.json"
        feedback = self.folder / "feedback" / f"{name}.html"
        return result, feedback

    # --- grades

    def save(self, grade: Grade) -> None:
        """Write a grade; a copy of the earlier one is kept if it had other points."""
        paths = self.files(grade)
        before = points_by_tests(self.grades.get(grade.id, grade))
        if before and before != points_by_tests(grade):
            for path in paths:
                self.keep(path)
        text = json.dumps(grade.as_json(), indent=1, sort_keys=True)
        self.write(paths[0], text + "\n")
        self.grades[grade.id] = grade

    def remove(self, grade: Grade) -> None:
        for path in self.files(grade):
            path.unlink(missing_ok=True)
        del self.grades[grade.id]

    # --- files

    def keep(self, path: Path, data: bytes | None = None) -> str | None:
        """Copy a file, or what was read of it, into `earlier/` under a name with the date.

        Returns the path of the copy, or None if there is nothing to copy.
        """
        if data is None and path.is_file():
            data = path.read_bytes()
        if data is None:
            return None
        name = f"earlier/{path.stem}.{date.today().isoformat()}"
        number = 1
        while (copy := self.folder / f"{name}-{number}{path.suffix}").exists():
            number += 1
        write_bytes(copy, data, self.folder.parent)
        return copy.relative_to(self.folder).as_posix()

    def write(self, path: Path, text: str) -> None:
        if not path.is_file() or path.read_bytes() != text.encode():
            write_text(path, text, self.folder.parent)

    def replace(self, path: Path, text: str, expected: bytes | None) -> bool:
        """Write a file that a person may be saving just now; tell whether it holds the text now.

        It is written only if it still holds the `expected` bytes, or is still missing for None.
        """
        data = text.encode()
        half = path.with_name(path.name + ".part")
        try:
            if data != expected:
                half.write_bytes(data)
            current = path.read_bytes() if path.is_file() else None
            if current != expected:
                return False
            if data != expected:
                os.replace(half, path)
            return True
        except OSError as error:
            raise cannot_write(path, self.folder.parent, error) from None
        finally:
            half.unlink(missing_ok=True)

    def write_table(self, name: str, text: str, separator: str) -> None:
        """Write a table; if it loses a row, or what one says, the earlier one is kept."""
        path = self.folder / name
        before = ""
        if path.is_file():
            before = path.read_text(encoding="utf-8", errors="replace")
        if loses_a_row(read_table(before, separator), read_table(text, separator)):
            self.keep(path)
        self.write(path, text)


def points_by_tests(grade: Grade) -> dict[int, int | float]:
    return {number: result.points for number, result in grade.results.items()}
