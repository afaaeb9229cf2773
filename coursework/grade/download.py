"""A download of submissions: the files in it, and the system that it comes from.

It is a folder or a zip of one of the systems in `systems.toml`, whose head says how to add another,
or plain files that are named after students. Nothing is written or unpacked: a zip is read in
memory, a bounded member at a time.
"""

import io
import os
import posixpath
import re
import stat
import tomllib
import unicodedata
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO
from zipfile import BadZipFile, ZipFile

from tools.errors import BookError

MB = 1_000_000
LIMIT = 20 * MB  # of a file; a larger one is refused by its size, unread
DEPTH = 20  # of folders in folders
# Left by macOS, Windows and Jupyter.
IGNORED = re.compile(
    r"__MACOSX|\._.*|\.DS_Store|Thumbs\.db|desktop\.ini|\.ipynb_checkpoints"
)
# What opening and reading a file or a zip may raise; RuntimeError if it is encrypted.
ERRORS = (OSError, EOFError, ValueError, RuntimeError, BadZipFile, zlib.error)


class Refused(Exception):
    """Why a submission is not graded, in one line that its student may read."""


# --- files, of a folder or a zip


@dataclass(frozen=True)
class Entry:
    """A file of a download; one with a fault is not opened."""

    path: PurePosixPath
    open: Callable[[], IO[bytes]]
    fault: str | None
    owner: int | None = None  # the account that a file on disk belongs to

    @property
    def suffix(self) -> str:
        return self.path.suffix.lower()

    def read(self) -> bytes:
        """Return at most LIMIT bytes, whatever size was announced. Raises Refused."""
        if self.fault:
            raise Refused(self.fault)
        try:
            with self.open() as file:
                data = file.read(LIMIT + 1)
        except ERRORS as error:
            text = getattr(error, "strerror", None) or str(error)
            reason = clean(text) or "it is truncated"
            raise Refused(f"cannot be read ({reason}); hand it in again") from None
        if data is None:  # of a pipe that took the file's place
            return b""
        fault = fault_of(stat.S_IFREG, len(data))
        if fault:
            raise Refused(fault)
        return data


def fault_of(mode: int, size: int) -> str | None:
    """Return why a file must not be read. A zip may leave out the kind of file in `mode`."""
    if stat.S_ISLNK(mode):
        return "is a link; hand in the file itself"
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        return "is not a file: a device, a pipe or too deep a folder"
    if size > LIMIT:
        return f"has {-(-size // MB)} MB; the limit is {LIMIT // MB} MB"
    return None


def on_disk(path: Path, parts: tuple[str, ...] = ()) -> Iterator[Entry]:
    """Yield the file at a path, or all below a folder, by name; links are not followed."""
    owner = None
    try:
        status = path.lstat()
        if stat.S_ISDIR(status.st_mode) and len(parts) < DEPTH:
            for name in sorted(os.listdir(path)):
                yield from on_disk(path / name, (*parts, name))
            return
        fault = fault_of(status.st_mode, status.st_size)
        owner = status.st_uid
    except OSError as error:
        fault = f"cannot be read ({error.strerror})"
    open_file = partial(open, path, "rb", opener=_open_plainly)
    yield Entry(PurePosixPath(*parts or "?"), open_file, fault, owner)


def _open_plainly(path: str, flags: int) -> int:
    """Follow no link and wait for no pipe, should one have taken the file's place."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def in_zip(file: Path | io.BytesIO) -> Iterator[Entry]:
    """Yield the files of a zip, in its order. Raises Refused if it cannot be read."""
    try:
        archive = _open_zip(file)
    except ERRORS:
        raise Refused("is not a zip that can be read; zip it again") from None
    for member in archive.infolist():
        # Windows may write `\\`. As nothing is unpacked, a path that climbs out leads nowhere.
        parts = re.split(r"[/\\]", member.filename)
        if not parts[-1]:  # a folder
            continue
        parts = [part for part in parts if part not in ("", ".", "..")]
        fault = fault_of(member.external_attr >> 16, member.file_size)
        open_member = partial(archive.open, member)
        yield Entry(PurePosixPath(*parts or "?"), open_member, fault)


def _open_zip(file: Path | io.BytesIO) -> ZipFile:
    try:
        return ZipFile(file, metadata_encoding="utf-8")  # macOS never names it
    except UnicodeDecodeError:
        return ZipFile(file)


def tidy(entries: Iterable[Entry]) -> list[Entry]:
    """Leave out what nobody handed in, and write names as Linux does."""
    tidied = []
    for entry in entries:
        if any(IGNORED.fullmatch(part) for part in entry.path.parts):
            continue
        name = unicodedata.normalize("NFC", str(entry.path))
        tidied.append(replace(entry, path=PurePosixPath(name)))
    return tidied


def read_entries(path: Path) -> list[Entry]:
    """Return the files of a folder or a zip, or a single notebook. Raises BookError."""
    if path.is_dir():
        return tidy(on_disk(path.resolve()))
    if not path.is_file():
        raise BookError(f"{path}: no such file; name the folder or zip of a download")
    if path.suffix == ".ipynb":  # of one student, to be graded again
        return tidy(on_disk(path.resolve(), (path.name,)))
    try:
        return tidy(in_zip(path))
    except Refused:
        fault = "neither a folder nor a zip; download it again"
        raise BookError(f"{path}: {fault}") from None


# --- texts that students chose


def clean(text: str, longest: int = 200) -> str:
    """Return a text in one line that shows as it reads.

    It has no control characters, and none that change the direction of writing.
    """
    text = text.encode("utf-8", "replace").decode("utf-8")
    text = unicodedata.normalize("NFC", text)
    joiners = "\u200c\u200d"  # within words of several scripts
    shown = ""
    for sign in text:
        shown += sign if sign.isprintable() or sign in joiners else " "
    return " ".join(shown.split())[:longest]


def quoted(text: str) -> str:
    return f"'{clean(text, 80)}'"


# --- the systems


def _compiled(forms: dict[str, str]) -> dict[str, re.Pattern]:
    return {name: re.compile(form, re.S | re.X) for name, form in forms.items()}


SYSTEMS = tomllib.loads(
    Path(__file__).with_name("systems.toml").read_text(encoding="utf-8")
)
BESIDE = _compiled(SYSTEMS.pop("beside"))
TITLES = SYSTEMS.pop("titles")
FORMS = _compiled(SYSTEMS)
NOTEBOOKS = (".ipynb", ".zip")
STAMP = re.compile(r"\d{4}-\d\d-\d\d|\d{14}|\d{8}T\d{6}")  # a date or a time in a name
# Added by a browser, or by Drive, to a name that was taken.
COPY = re.compile(r" ?\(\d+\)\Z")


def title_of(source: str) -> str:
    return TITLES.get(source, source.title())


def recognise(entries: list[Entry], source: str | None) -> tuple[str, list[Entry]]:
    """Return the source of these files, and the files below the folders that only hold them all.

    It is the first source in whose form most of the names are, unless one is given. The names are
    tried with those folders first, then with fewer and fewer of them.
    """
    levels = _levels(entries)
    sources = [source] if source else list(FORMS)
    for name in sources:
        if name == "plain":  # any name has its form
            continue
        for level in levels:
            own = [entry for entry in level if not is_beside(name, entry)]
            matches = matches_of(name, own)
            is_possible = source is not None or is_likely(name, matches)
            if is_possible and len(matches) * 2 > len(own):
                return name, own

    innermost = levels[-1]
    if len({entry.path.parts[0] for entry in innermost}) > 1:
        return sources[-1], innermost
    return sources[-1], entries  # the folder of a single student is their name


def _levels(entries: list[Entry]) -> list[list[Entry]]:
    """Return the files with the folders that hold them all, and without one after the other."""
    common = posixpath.commonpath([entry.path.parent for entry in entries])
    levels = [entries]
    for folder in PurePosixPath(common).parts:
        level = []
        for entry in levels[-1]:
            level.append(replace(entry, path=entry.path.relative_to(folder)))
        levels.append(level)
    return levels


def matches_of(source: str, entries: list[Entry]) -> list[re.Match]:
    matches = [FORMS[source].fullmatch(str(entry.path)) for entry in entries]
    return [match for match in matches if match]


def is_beside(source: str, entry: Entry) -> bool:
    """True of a file that the source itself puts beside what students handed in."""
    if source not in BESIDE:
        return False
    path = str(entry.path)
    is_its_own = BESIDE[source].fullmatch(path) is not None
    return is_its_own and not FORMS[source].fullmatch(path)


def is_likely(source: str, matches: list[re.Match]) -> bool:
    """False where names fit the form of a source and yet are more likely of another."""
    if source == "nbgrader" and matches:
        # `week 1/jdoe/hw.ipynb` of a class is not what one student has in nbgrader's folders.
        names = {match["name"] for match in matches}
        assignments = {match["assignment"] for match in matches}
        return len(names) > 1 or len(assignments) == 1
    if source == "ilias":
        # `hw_1_part_2` is somebody's folder of an assignment.
        with_capital = 0
        for match in matches:
            if re.search("(?:^|_)[A-Z]", match["name"]):
                with_capital += 1
        return with_capital * 2 > len(matches)
    if source == "classroom":
        return is_likely_classroom(matches)
    return True


def is_likely_classroom(matches: list[re.Match]) -> bool:
    if any(match["assignment"] for match in matches):
        return True
    # Of `HW 3 - Jane Doe.ipynb` the first half is no student: there it is the same for all.
    if not matches:
        return False
    titles = Counter(match["title"] for match in matches)
    [(title, count)] = titles.most_common(1)
    names = {match["name"] for match in matches if match["title"] == title}
    return len(names) > 1 and count * 2 > len(matches)


def check_plain(path: Path, entries: list[Entry]) -> None:
    """Raise BookError where these are hardly a notebook or a folder of each student.

    Better no grades than those of somebody else.
    """
    fault = fault_of_names(entries)
    advice = "name each notebook or folder after its student"
    if not fault and len(entries) == 1:
        only = entries[0].path
        if len(only.parts) == 1 and FORMS["classroom"].fullmatch(only.name):
            fault = f"{quoted(only.name)}: which half of it is the student"
            advice = "add SOURCE=classroom if the first is"
    if fault:
        raise BookError(
            f"{path}: not a known form of download ({fault}); {advice}, or add "
            "SOURCE=plain to take every name as that of a student"
        )


def fault_of_names(entries: list[Entry]) -> str | None:
    """Return why these names are hardly those of students."""
    at_top = [entry for entry in entries if len(entry.path.parts) == 1]
    # A link or the like has a fault, and may stand for the folder of a student.
    sound = [entry for entry in at_top if not entry.fault]
    loose = [entry.path.name for entry in sound if entry.suffix not in NOTEBOOKS]
    if loose:
        return f"{listed(loose)}: neither a notebook nor a student's folder"

    copies = copies_among([entry.path for entry in at_top])
    if copies:
        return f"{listed(copies)}: copies under one name, and nothing says whose"

    names = sorted({entry.path.parts[0] for entry in entries})
    stamped = [name for name in names if STAMP.search(name)]
    if len(stamped) * 2 > len(names):
        fault = "names with a date, so that one student may have several"
        return f"{listed(stamped)}: {fault}"

    notebooks: Counter[str] = Counter()  # by the folder at the top
    for entry in entries:
        if entry.suffix == ".ipynb" and len(entry.path.parts) > 1:
            notebooks[entry.path.parts[0]] += 1
    full = [name for name, count in notebooks.items() if count > 1]
    if len(notebooks) > 1 and len(full) * 2 > len(notebooks):
        fault = "folders of several notebooks, of which each may be a student's"
        return f"{listed(full)}: {fault}"
    return None


def copies_among(paths: list[PurePosixPath]) -> list[str]:
    """Return the files whose names differ only in what was added to a name that was taken."""
    by_stem = defaultdict(list)
    for path in paths:
        by_stem[COPY.sub("", path.stem)].append(path.name)
    copies = []
    for names in by_stem.values():
        if len(names) > 1:
            copies += names
    return copies


def listed(names: Sequence[str]) -> str:
    text = ", ".join(quoted(name) for name in names[:3])
    if len(names) > 3:
        text += f" and {len(names) - 3} more"
    return text
