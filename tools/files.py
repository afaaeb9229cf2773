"""Text files of the book: read with one line about what is wrong, written in one step."""

import errno
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any
from zipfile import ZipFile, ZipInfo

from tools.errors import BookError

# Where this repository is.
ROOT = Path(__file__).resolve().parents[1]

# The markers of a conflict as git writes them, also within JSON strings.
CONFLICT = re.compile(r'^[ "]*(<{7}|>{7}) ', re.MULTILINE)
# A full disk, a share used up, a disk that is only read.
NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}

# Of a file in an archive: made on Unix, a plain file, which its owner writes and all read.
UNIX = 3
PLAIN_FILE = 0o100000
READABLE = 0o644


def read_text(path: Path, root: Path) -> str:
    """Return the text of a file, or raise BookError if it is not sound.

    The advice in its errors must not cost anyone their work: a file in conflict is named so,
    and is not to be restored.
    """
    where = path.relative_to(root).as_posix()
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise BookError(
            where, "no such file", f"restore it with 'git restore {where}'"
        ) from None
    except OSError as error:
        raise BookError(where, f"cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise BookError(
            where, f"not UTF-8 ({error.reason})", "save it as UTF-8"
        ) from None
    if text.startswith("\ufeff"):
        raise BookError(
            where, "begins with a byte order mark", "save it as UTF-8 without one"
        )
    if conflict := CONFLICT.search(text):
        line = text.count("\n", 0, conflict.start()) + 1
        markers = f"conflict markers of git from line {line} on"
        raise BookError(
            where, markers, "choose what to keep there, then 'git add' the file"
        )
    return text


def read_yaml(path: Path, root: Path) -> dict:
    """Return the entries of a YAML file.

    Raises BookError as `read_text` does, and if it is not valid.
    """
    import yaml  # here: a command that finds nothing to do needs none

    try:
        content = yaml.safe_load(read_text(path, root))
    except yaml.YAMLError as error:
        where = path.relative_to(root).as_posix()
        reason = " ".join(str(error).split())
        raise BookError(
            where, "not valid YAML", f"correct it there: {reason}"
        ) from None
    return content if isinstance(content, dict) else {}


def read_beside(module: str, name: str) -> Any:
    """Return the content of a YAML file that lies beside a module."""
    import yaml

    return yaml.safe_load(Path(module).with_name(name).read_text(encoding="utf-8"))


@contextmanager
def written_by(command: str, where: str, mend: str = "run it again") -> Iterator[None]:
    """Raise BookError if the block cannot make sense of what `command` wrote to `where`."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BookError(where, f"not what '{command}' writes", mend) from None


def write_files(files: Mapping[Path, str | bytes], root: Path) -> None:
    """Write files. No file is replaced until all are written, and none is ever half."""
    parts = {path: path.with_name(path.name + ".part") for path in files}
    path = root  # what is being written, for the error
    try:
        for path, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            path.parent.mkdir(parents=True, exist_ok=True)
            parts[path].write_bytes(data)
        for path, part in parts.items():
            part.replace(path)
    except OSError as error:
        raise cannot_write(path, root, error) from None
    finally:
        for part in parts.values():
            if part.is_file():
                part.unlink()


def write_text(path: Path, content: str | bytes, root: Path) -> None:
    write_files({path: content}, root)


write_bytes = write_text


def write_json(path: Path, content: object, root: Path) -> None:
    write_text(path, json.dumps(content, indent=1) + "\n", root)


def set_aside(path: Path) -> Path:
    """Rename a file that a person wrote to, so that what takes its place overwrites nothing."""
    aside = path.with_name(f"{path.name}.edited")
    number = 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.edited-{number}")
    return path.rename(aside)


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
    """Return the error that says why `path` was not written."""
    if path.is_relative_to(root):
        path = path.relative_to(root)
    return BookError(
        path.as_posix(),
        f"cannot be written ({error.strerror})",
        "make room or allow writing there, then run the command again",
    )


def digest(parts: Iterable[str | bytes]) -> str:
    """Return a short hash of several texts; where one ends and the next begins counts."""
    hash = sha256()
    for part in parts:
        hash.update(part.encode() if isinstance(part, str) else part)
        hash.update(b"\0")
    return hash.hexdigest()[:16]


def zipped(files: dict[str, bytes], modes: Mapping[str, int] | None = None) -> bytes:
    """Return an archive of files by path, the same bytes everywhere.

    `modes` are the rights of those files that not everyone may just read.
    """
    modes = modes or {}
    buffer = io.BytesIO()
    with ZipFile(buffer, "w") as archive:
        for name, data in sorted(files.items()):
            entry = ZipInfo(name)  # of the first day of 1980
            entry.create_system = UNIX
            entry.external_attr = (PLAIN_FILE | modes.get(name, READABLE)) << 16
            archive.writestr(entry, data)
    return buffer.getvalue()
