"""Text files of the book: read with one line about what is wrong, written in one step."""

import errno
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from itertools import chain, count
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any
from zipfile import ZipFile, ZipInfo

from tools.errors import BookError

CONFLICT = re.compile(
    r'^[ "]*(<{7}|>{7}) ', re.M
)  # as git writes them, also within JSON strings
NO_ROOM = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
}  # a full disk, a share used up, no writing
UNIX, PLAIN, READ = (
    3,
    0o100000,
    0o644,
)  # a plain file that its owner writes and all read


def read_text(path: Path, root: Path) -> str:
    """The text of a file, or BookError; no advice given here throws work away."""
    where = path.relative_to(root).as_posix()
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise BookError(
            f"{where}: no such file; restore it with 'git restore {where}'"
        ) from None
    except OSError as error:
        raise BookError(f"{where}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise BookError(
            f"{where}: not UTF-8 ({error.reason}); save it as UTF-8"
        ) from None
    if text.startswith("\ufeff"):
        raise BookError(
            f"{where}: begins with a byte order mark; save it as UTF-8 without one"
        )
    if conflict := CONFLICT.search(text):
        line = text.count("\n", 0, conflict.start()) + 1
        markers = f"conflict markers of git from line {line} on"
        raise BookError(
            f"{where}: {markers}; choose what to keep there, then 'git add' the file"
        )
    return text


def read_yaml(path: Path, root: Path) -> dict:
    """The entries of a YAML file; raises as `read_text`, and if it is not valid."""
    import yaml  # here: a command that finds nothing to do needs none

    try:
        content = yaml.safe_load(read_text(path, root))
    except yaml.YAMLError as error:
        where, reason = path.relative_to(root).as_posix(), " ".join(str(error).split())
        raise BookError(
            f"{where}: not valid YAML; correct it there: {reason}"
        ) from None
    return content if isinstance(content, dict) else {}


def read_beside(module: str, name: str) -> Any:
    """The content of a YAML file of these tools, which lies beside a module."""
    import yaml

    return yaml.safe_load(Path(module).with_name(name).read_text(encoding="utf-8"))


@contextmanager
def written_by(command: str, where: str, mend: str = "run it again") -> Iterator[None]:
    """Inside, what is read was written by a command: BookError, naming both, if it was not."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BookError(f"{where}: not what '{command}' writes; {mend}") from None


def write_files(files: Mapping[Path, str | bytes], root: Path) -> None:
    """Write all files or none; readers see an old file or a new one, never half."""
    halves = {path: path.with_name(path.name + ".part") for path in files}
    path = root
    try:
        for path, content in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            halves[path].write_bytes(
                content.encode() if isinstance(content, str) else content
            )
        for path, half in halves.items():
            half.replace(path)
    except OSError as error:
        raise cannot_write(path, root, error) from None
    finally:
        for half in halves.values():
            if half.is_file():
                half.unlink()


def write_text(path: Path, content: str | bytes, root: Path) -> None:
    write_files({path: content}, root)


write_bytes = write_text


def write_json(path: Path, content: object, root: Path) -> None:
    write_text(path, json.dumps(content, indent=1) + "\n", root)


def set_aside(path: Path) -> Path:
    """Rename a file that a person wrote to, so that what takes its place overwrites nothing."""
    ends = chain([""], (f"-{number}" for number in count(2)))
    names = (path.with_name(f"{path.name}.edited{end}") for end in ends)
    return path.rename(next(name for name in names if not name.exists()))


def check_writable(folder: Path, root: Path) -> None:
    """Raise BookError if no file can be written into `folder`, before work is done for it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # A file of its own for each of the commands that may look at once.
        with NamedTemporaryFile(dir=folder, suffix=".part", buffering=0) as probe:
            probe.write(b"?" * 4096)
    except OSError as error:
        raise cannot_write(folder, root, error) from None


def cannot_write(path: Path, root: Path, error: OSError) -> BookError:
    """The error that says why `path` was not written."""
    where = path.relative_to(root).as_posix() if path.is_relative_to(root) else path
    advice = "make room or allow writing there, then run the command again"
    return BookError(f"{where}: cannot be written ({error.strerror}); {advice}")


def digest(parts: Iterable[str | bytes]) -> str:
    """A short hash of several texts; where one ends and the next begins counts."""
    hash = sha256()
    for part in parts:
        hash.update((part.encode() if isinstance(part, str) else part) + b"\0")
    return hash.hexdigest()[:16]


def zipped(files: dict[str, bytes], modes: Mapping[str, int] | None = None) -> bytes:
    """An archive of files by path, the same bytes everywhere; `modes` are rights that differ."""
    made = io.BytesIO()
    with ZipFile(made, "w") as archive:
        for name, data in sorted(files.items()):
            entry = ZipInfo(name)  # of the first day of 1980
            entry.create_system = UNIX
            entry.external_attr = (PLAIN | (modes or {}).get(name, READ)) << 16
            archive.writestr(entry, data)
    return made.getvalue()
