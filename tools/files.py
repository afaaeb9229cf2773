"""Text files of the book: read with one line about what is wrong, written in one step."""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from tools.errors import BookError

CONFLICT = re.compile(r'^[ "]*(<{7}|>{7}) ', re.M)  # as git writes them, also within JSON strings


def read_text(path: Path, root: Path) -> str:
    """The text of a file, or BookError if it is missing, no UTF-8, or half of a merge.

    No advice given here throws work away.
    """
    where = path.relative_to(root).as_posix()
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise BookError(f"{where}: no such file; restore it with 'git restore {where}'") from None
    except OSError as error:
        raise BookError(f"{where}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise BookError(f"{where}: not UTF-8 ({error.reason}); save it as UTF-8") from None
    if text.startswith("\ufeff"):
        raise BookError(f"{where}: begins with a byte order mark; save it as UTF-8 without one")
    if conflict := CONFLICT.search(text):
        line = text.count("\n", 0, conflict.start()) + 1
        raise BookError(
            f"{where}: conflict markers of git from line {line} on; choose what to keep there, "
            "then 'git add' the file"
        )
    return text


@contextmanager
def written_by(command: str, where: str, mend: str = "run it again") -> Iterator[None]:
    """Inside, what is read was written by a command: BookError, naming both, if it was not."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BookError(f"{where}: not what '{command}' writes; {mend}") from None


def write_text(path: Path, text: str, root: Path) -> None:
    """Write a file in one step: readers see the old file or the new one, never half.

    Raises BookError if the disk is full or nothing may be written there.
    """
    write_bytes(path, text.encode(), root)


def write_bytes(path: Path, data: bytes, root: Path) -> None:
    """The same for bytes."""
    half = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        half.write_bytes(data)
        half.replace(path)
    except OSError as error:
        raise cannot_write(path, root, error) from None
    finally:
        if half.exists():
            half.unlink()


def check_writable(folder: Path, root: Path) -> None:
    """Raise BookError if no file can be written into `folder`, before work is done for it."""
    probe = folder / "probe.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"?" * 4096)
    except OSError as error:
        raise cannot_write(folder, root, error) from None
    finally:
        if probe.exists():
            probe.unlink()


def cannot_write(path: Path, root: Path, error: OSError) -> BookError:
    """The error that says why `path` was not written."""
    where = path.relative_to(root).as_posix() if path.is_relative_to(root) else path
    return BookError(
        f"{where}: cannot be written ({error.strerror}); make room or allow writing there, "
        "then run the command again"
    )


def write_json(path: Path, content: object, root: Path) -> None:
    """Write `content` as JSON, in one step."""
    write_text(path, json.dumps(content, indent=1) + "\n", root)


def digest(parts: Iterable[str | bytes]) -> str:
    """A short hash of several texts; where one ends and the next begins counts."""
    hash = sha256()
    for part in parts:
        hash.update((part.encode() if isinstance(part, str) else part) + b"\0")
    return hash.hexdigest()[:16]
