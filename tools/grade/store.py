"""Results on disk: one JSON file a submission, written in one step, with the key of each exercise.

The key covers all that a result follows from. So grading that was stopped goes on where it was, a
changed test grades only its exercise again, and a changed answer only that submission.
"""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path

from filelock import FileLock, Timeout

from tools.errors import BookError
from tools.files import check_writable, digest, write_text
from tools.root import ROOT

LOCK = ".grading.lock"
PINS = ("requirements.txt", "requirements-no-deps.txt")
CODE = (
    "tools/grade/judge.py",
    "tools/grade/grade.py",
    "tools/grade/code.py",
    "tools/grade/sandbox",
)
SIMULATOR = "cudasim/src/cudasim"  # for runners with simulated GPUs
RULES = 1  # raised when a result comes to mean another thing


@cache
def code_digest(runner: str, root: Path = ROOT) -> str:
    """A hash of what decides a result beside the submission: pins, judge, sandbox, simulator."""
    names = [*PINS, *CODE, "kernels"]
    if runner != "cpu":
        names += [SIMULATOR]
    parts = [str(RULES), runner]
    for name in names:
        path = root / name
        files = [path] if path.is_file() else sorted(path.rglob("*"))
        for file in files:
            if file.suffix in (".py", ".txt", ".json", ".toml") and "__pycache__" not in file.parts:
                text = file.read_bytes().replace(b"\r\n", b"\n")
                parts += [file.relative_to(root).as_posix(), text.decode()]
    return digest(parts)


def keys_of(assignment: dict, cells: list) -> dict[str, str]:
    """The key of each exercise of a submission, by number.

    All answers are in each, since all cells run before the first question is asked.
    """
    questions = assignment["questions"]
    shared = {name: assignment[name] for name in ("name", "class", "seed", "runner", "given")}
    limits = [[each["seconds"], each["memory"]] for each in questions]
    common = json.dumps([shared, limits, cells], sort_keys=True, ensure_ascii=True)
    base = digest([code_digest(assignment["runner"]), common])
    return {
        str(each["number"]): digest([base, json.dumps(each, sort_keys=True)]) for each in questions
    }


def file_name(submission: str) -> str:
    """The name of a submission's file: readable, safe everywhere, its own for each."""
    plain = re.sub(r"[^A-Za-z0-9.-]+", "-", submission).strip("-.")[:60] or "submission"
    if plain == submission and plain == plain.lower():
        return plain
    return f"{plain.lower()}-{sha256(submission.encode('utf-8', 'replace')).hexdigest()[:8]}"


class Store:
    """The folder of one class's grades."""

    def __init__(self, folder: Path) -> None:
        """Raises BookError if nothing can be written there."""
        self.folder = folder.resolve()
        check_writable(self.folder, self.folder.parent)

    @contextmanager
    def one_at_a_time(self) -> Iterator[None]:
        """Holds the folder. Raises BookError if another grading does."""
        try:
            with FileLock(self.folder / LOCK, timeout=0):
                for half in self.folder.rglob("*.part"):  # left by one that was killed
                    half.unlink()
                yield
        except Timeout:
            raise BookError(
                f"{self.folder.name}: another 'make grade' writes there; wait for it, or name "
                "another folder with OUT="
            ) from None

    def path(self, submission: str) -> Path:
        """Where the result of a submission lies."""
        return self.folder / "results" / f"{file_name(submission)}.json"

    def load(self, submission: str) -> dict | None:
        """The result of a submission, if there is a whole one."""
        try:
            result = json.loads(self.path(submission).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return (
            result if isinstance(result, dict) and result.get("submission") == submission else None
        )

    def save(self, result: dict) -> None:
        """Write a result in one step, if it is not there as it is."""
        text = json.dumps(result, indent=1, sort_keys=True) + "\n"
        self.write(self.path(result["submission"]).relative_to(self.folder).as_posix(), text)

    def keep_only(self, submissions: Iterable[str]) -> None:
        """Remove results and feedback of submissions that are not among these."""
        names = {file_name(each) for each in submissions}
        for kind in ("results/*.json", "feedback/*.html"):
            for path in self.folder.glob(kind):
                if path.stem not in names:
                    path.unlink()

    def write(self, name: str, text: str) -> None:
        """Write a file of this folder in one step, if it is not there as it is."""
        path = self.folder / name
        try:
            if path.read_bytes() == text.encode():
                return
        except OSError:
            pass
        write_text(path, text, self.folder.parent)
