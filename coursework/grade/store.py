"""Results on disk: one JSON file a submission, with the key of all that it follows from.

Grading that was stopped goes on where it was; a changed answer grades that submission alone. What a
person typed or was graded is copied into `earlier/` before another takes its place.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import date
from functools import cache
from hashlib import sha256
from itertools import count
from pathlib import Path

from filelock import FileLock, Timeout

from coursework.grade.tables import read_table
from tools.book.runners import SIMULATOR
from tools.environment import PINS
from tools.errors import BookError
from tools.files import cannot_write, check_writable, digest, write_bytes, write_text
from tools.root import ROOT

LOCK = ".grading.lock"
CODE = (
    "coursework/grade/judge.py",
    "coursework/grade/judge.toml",
    "coursework/grade/measured.py",
    "coursework/grade/deadline.py",
    "coursework/grade/source.py",
    "coursework/grade/sandbox",
    "kernels",
)
RULES = 2  # raised when a result comes to mean another thing

Id = tuple[
    str, str | None
]  # of a submission, and the assignment that it was graded for


def code_files(names: Iterable[str], root: Path = ROOT) -> list[Path]:
    """The files at these paths and below them, but for what Python compiled."""
    paths = (
        path
        for name in names
        for path in [root / name, *sorted((root / name).rglob("*"))]
    )
    return [path for path in paths if path.is_file() and path.suffix != ".pyc"]


@cache
def code_digest(runner: str, root: Path = ROOT) -> str:
    """A hash of what decides a result beside the submission: pins, judge, sandbox, simulator."""
    parts = [str(RULES), runner]
    simulator = [SIMULATOR] if runner != "cpu" else []
    for file in code_files([*PINS, *CODE, *simulator], root):
        parts += [
            file.relative_to(root).as_posix(),
            file.read_bytes().replace(b"\r\n", b"\n"),
        ]
    return digest(parts)


def key_of(assignment: dict, cells: dict) -> str:
    """The key of a submission; words that decide nothing are not in it."""
    judged = [assignment[name] for name in ("name", "class", "seed", "given")]
    words = dict.fromkeys(("title", "by_hand", "holds", "solution"))
    asked = [question | words for question in assignment["questions"]]
    task = json.dumps([judged, asked, cells], sort_keys=True)
    return digest([code_digest(assignment["runner"]), task])


def id_of(result: dict) -> Id:
    """What a result is kept under: a student may hand in several assignments."""
    return result["submission"], result["assignment"]


def check_own(folder: Path) -> None:
    """Raise BookError if files are in a folder in which no grades were written: they could be
    overwritten, or published with grades among them."""
    if not folder.is_dir() or (folder / LOCK).exists() or (folder / "results").is_dir():
        return
    if names := sorted(path.name for path in folder.iterdir()):
        holds = f"holds files that no grading wrote ({', '.join(names[:3])})"
        raise BookError(f"OUT: {folder} {holds}; name another folder")


class Store:
    def __init__(self, folder: Path) -> None:
        """Raises BookError if nothing can be written there, or if it holds files of others."""
        self.folder = folder.resolve()
        self.results: dict[Id, dict] = {}
        check_own(self.folder)
        check_writable(self.folder, self.folder.parent)

    @contextmanager
    def one_at_a_time(self) -> Iterator[None]:
        """Holds the folder, with its results read. Raises BookError if another grading does."""
        try:
            with FileLock(self.folder / LOCK, timeout=0):
                for half in self.folder.rglob("*.part"):  # left by one that was killed
                    half.unlink()
                for path in sorted(self.folder.glob("results/*.json")):
                    # Of half a result the submission is graded anew.
                    with suppress(OSError, ValueError, KeyError, TypeError):
                        result = json.loads(path.read_text(encoding="utf-8"))
                        self.results[id_of(result)] = result
                yield
        except Timeout:
            advice = "wait for it, or name another folder with OUT="
            name = self.folder.name
            raise BookError(
                f"{name}: another 'make grade' writes there; {advice}"
            ) from None

    def files(self, result: dict) -> tuple[Path, Path]:
        said = "-".join(filter(None, id_of(result)))
        name = (
            re.sub(r"[^a-z0-9.-]+", "-", said.lower()).strip("-.")[:60] or "submission"
        )
        if name != said:
            name += f"-{sha256(said.encode('utf-8', 'replace')).hexdigest()[:8]}"
        return (
            self.folder / "results" / f"{name}.json",
            self.folder / "feedback" / f"{name}.html",
        )

    def save(self, result: dict) -> None:
        """Write a result; of one with other points, a copy is kept."""
        before, paths = self.results.get(id_of(result), result), self.files(result)
        both = (one["questions"].items() for one in (before, result))
        was, now = ({number: asked["points"] for number, asked in own} for own in both)
        for path in paths if was not in ({}, now) else ():
            self.keep(path)
        self.write(paths[0], json.dumps(result, indent=1, sort_keys=True) + "\n")
        self.results[id_of(result)] = result

    def remove(self, result: dict) -> None:
        for path in self.files(result):
            path.unlink(missing_ok=True)
        del self.results[id_of(result)]

    def keep(self, path: Path, data: bytes | None = None) -> str | None:
        """Copy a file, or what was read of it, to `earlier/` under a name that says when; returns
        that name, or None where there is nothing to copy."""
        if data is None and path.is_file():
            data = path.read_bytes()
        if data is None:
            return None
        name = f"earlier/{path.stem}.{date.today().isoformat()}"
        copies = (self.folder / f"{name}-{n}{path.suffix}" for n in count(1))
        copy = next(copy for copy in copies if not copy.exists())
        write_bytes(copy, data, self.folder.parent)
        return copy.relative_to(self.folder).as_posix()

    def write(self, path: Path, text: str) -> None:
        if not path.is_file() or path.read_bytes() != text.encode():
            write_text(path, text, self.folder.parent)

    def replace(self, path: Path, text: str, expected: bytes | None) -> bool:
        """Write a file that a person may be saving just now: only if it still holds the `expected`
        bytes, or is still missing for None. Tells whether it holds the text now."""
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

    def write_table(self, name: str, text: str, separator: str = ",") -> None:
        """Write a table; if it loses a row, or what one says, what was there is kept."""
        path, now = self.folder / name, read_table(text, separator)
        before = (
            path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        )
        if any(row not in now for row in read_table(before, separator)):
            self.keep(path)
        self.write(path, text)
