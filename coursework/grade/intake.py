"""What an instructor downloads, as a list of submissions: nothing is written, nothing is run.

A download is a folder or a zip of one of the systems in `sources.toml`, or plain files named by
student. A zip is read in memory, a bounded member at a time. What cannot be graded is still a row,
with its reason in one line.
"""

import hashlib
import io
import json
import os
import posixpath
import re
import stat
import tomllib
import unicodedata
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import product
from pathlib import Path, PurePosixPath
from typing import IO
from zipfile import BadZipFile, ZipFile

import nbformat
import yaml
from nbformat import NotebookNode

from tools.errors import BookError

MB = 1_000_000
LIMIT = 20 * MB  # of a file; a larger one is refused by its size, unread
DEPTH = 20  # of folders in folders
SEVERAL = "; "  # between the students of one submission
METADATA = "submission_metadata.yml"
TEXTS = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # nothing of it becomes an object
WRITTEN = {
    "timestamp.txt",
    "submission_secret.txt",
    METADATA,
}  # by the exchange and Gradescope
# Left by macOS, Windows and Jupyter.
IGNORED = re.compile(
    r"__MACOSX|\._.*|\.DS_Store|Thumbs\.db|desktop\.ini|\.ipynb_checkpoints"
)
# What opening and reading a file or a zip comes to; RuntimeError, where it is encrypted.
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

    def read(self) -> bytes:
        """Its bytes, of LIMIT at most, whatever size it was said to have. Raises Refused."""
        if self.fault:
            raise Refused(self.fault)
        try:
            with self.open() as file:
                data = file.read(LIMIT + 1) or b""  # None of a pipe that took its place
        except ERRORS as error:
            reason = (
                clean(getattr(error, "strerror", None) or str(error))
                or "it is cut short"
            )
            raise Refused(f"cannot be read ({reason}); hand it in again") from None
        if fault := fault_of(stat.S_IFREG, len(data)):
            raise Refused(fault)
        return data


def fault_of(mode: int, size: int) -> str | None:
    """Why a file must not be read, if so. A zip may leave out the kind of file in `mode`."""
    if stat.S_ISLNK(mode):
        return "is a link; hand in the file itself"
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        return "is not a file: a device, a pipe or too deep a folder"
    return (
        f"has {-(-size // MB)} MB; the limit is {LIMIT // MB} MB"
        if size > LIMIT
        else None
    )


def on_disk(path: Path, parts: tuple[str, ...] = ()) -> Iterator[Entry]:
    """The file at a path, or all below a folder, by name; links are not followed."""
    try:
        found = path.lstat()
        if stat.S_ISDIR(found.st_mode) and len(parts) < DEPTH:
            for name in sorted(os.listdir(path)):
                yield from on_disk(path / name, (*parts, name))
            return
        fault, owner = fault_of(found.st_mode, found.st_size), found.st_uid
    except OSError as error:
        fault, owner = f"cannot be read ({error.strerror})", None
    # Even if another took its place by then: no link is followed, no pipe waited for.
    plainly = os.O_NOFOLLOW | os.O_NONBLOCK
    opened = partial(
        open, path, "rb", opener=lambda at, flags: os.open(at, flags | plainly)
    )
    yield Entry(PurePosixPath(*parts or "?"), opened, fault, owner)


def in_zip(file: Path | io.BytesIO) -> Iterator[Entry]:
    """The files of a zip, in its order. Raises Refused if it is none that can be read."""
    try:
        try:
            archive = ZipFile(file, metadata_encoding="utf-8")  # which macOS never says
        except UnicodeDecodeError:
            archive = ZipFile(file)
    except ERRORS:
        raise Refused("is not a zip that can be read; zip it again") from None
    for member in archive.infolist():
        # Windows may write `\\`. As nothing is unpacked, a path that climbs out leads nowhere.
        parts = re.split(r"[/\\]", member.filename)
        if parts[-1]:  # else a folder
            path = PurePosixPath(
                *[part for part in parts if part not in ("", ".", "..")] or "?"
            )
            fault = fault_of(member.external_attr >> 16, member.file_size)
            yield Entry(path, partial(archive.open, member), fault)


def kept(entries: Iterator[Entry]) -> list[Entry]:
    """The entries without what no one handed in, their names as Linux writes them."""
    handed_in = (
        one for one in entries if not any(map(IGNORED.fullmatch, one.path.parts))
    )
    named = ((one, unicodedata.normalize("NFC", str(one.path))) for one in handed_in)
    return [replace(one, path=PurePosixPath(name)) for one, name in named]


def read_entries(path: Path) -> list[Entry]:
    """The files of a folder or a zip, or a notebook alone. Raises BookError."""
    if not (path.is_file() or path.is_dir()):
        raise BookError(f"{path}: no such file; name the folder or zip of a download")
    is_one = (
        path.suffix == ".ipynb" and path.is_file()
    )  # of one student, to be graded again
    if is_one or path.is_dir():
        return kept(on_disk(path.resolve(), (path.name,) if is_one else ()))
    try:
        return kept(in_zip(path))
    except Refused:
        raise BookError(
            f"{path}: neither a folder nor a zip; download it again"
        ) from None


# --- who handed it in, by how each source names files

SOURCES = tomllib.loads(
    Path(__file__).with_name("sources.toml").read_text(encoding="utf-8")
)
BESIDE = {
    name: re.compile(form, re.S | re.X) for name, form in SOURCES.pop("beside").items()
}
FORMS = {name: re.compile(form, re.S | re.X) for name, form in SOURCES.items()}
TITLES = {  # of sources that are not written as any other name is
    "ilias": "ILIAS",
    "exchange": "nbgrader's exchange",
    "nbgrader": "nbgrader",
    "classroom": "Google Classroom",
}
MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
# Brightspace's `Feb 2, 2026 358 PM`.
DATE = re.compile(r"([a-z]{3})[a-z.]* (\d+), (\d+) (\d+?)(\d\d) ([ap])m", re.I)
# The first line of the text that Blackboard writes for each attempt.
NAMED = re.compile(r"\s*Name: (?P<name>[^\n]*) \((?P<user>[^()\n]+)\)\s*?(?:\n|\Z)")
NOTEBOOKS = (".ipynb", ".zip")
STAMP = re.compile(r"\d{4}-\d\d-\d\d|\d{14}|\d{8}T\d{6}")  # a date or a time in a name
COPY = re.compile(
    r" ?\(\d+\)\Z"
)  # added by a browser, or by Drive, to a name that was taken


@dataclass(frozen=True)
class Submission:
    """What one student handed in. `id` is a unique name of a file, the same for the same download;
    `student` the name and, in round brackets, the id that the source gives: 'doejane (Canvas
    340934)'; `who` is that name or id, not cleaned."""

    entry: Entry
    student: str
    who: str
    late: bool = False  # as the source says it
    time: datetime | None = None  # when it was handed in, where the source says it
    key: tuple[
        str, ...
    ] = ()  # of the student, and of the assignment where a source holds several
    series: tuple[str, str] | None = None  # files of one series replace one another
    order: Sequence[int] = ()  # in a series; the newest is the greatest
    fault: str | None = None
    id: str = ""
    id_name: str = ""  # which ids are made of where `student` comes from a file that may be missing

    @property
    def path(self) -> str:
        return clean(str(self.entry.path))

    def make_id(self, path: str = "") -> str:
        return identity(self.id_name or self.student, self.who, path)

    def read(self) -> bytes:
        """The bytes of the notebook, or of the one in a zip. Raises Refused."""
        if self.fault:
            raise Refused(self.fault)
        try:
            data = self.entry.read()
            if self.entry.path.suffix.lower() != ".zip":
                return data
            files = kept(in_zip(io.BytesIO(data)))
            notebooks = [file for file in files if file.path.suffix.lower() == ".ipynb"]
            if len(notebooks) == 1:
                return notebooks[0].read()
            raise Refused(
                f"holds {len(notebooks)} files that end in .ipynb; zip the one notebook"
            )
        except Refused as reason:
            raise Refused(f"{quoted(self.entry.path.name)} {reason}") from None


People = dict[
    str, tuple[str, str, datetime | None]
]  # by Gradescope's name of a submission


def hand_in(entry: Entry, source: str, people: People) -> Submission:
    """A file, by how the source named it; one that it would not name so has a fault."""
    path = str(entry.path)
    match = FORMS[source].fullmatch(path)
    if not match:
        named = (
            f"is not named as {TITLES.get(source, source.title())} names submissions"
        )
        fault = entry.fault or f"{named}, so its student is not known"
        return Submission(replace(entry, fault=fault), whose(path), path, key=(path,))
    if source == "blackboard":
        return from_blackboard(entry, match, people)
    said = defaultdict(str, match.groupdict(""))
    name, user, newest = said["name"], said["user"], said["newest"]
    student = whose(
        name or "anonymous", user and f"{TITLES.get(source, source.title())} {user}"
    )
    told = student, f"\0{user}" if user else name, utc(newest)
    student, who, time = people.get(name, told)
    series = (said["series"], said["end"]) if newest else None
    key = name, user, said["assignment"]
    return Submission(
        entry, student, who, bool(said["late"]), time, key, series, order_of(newest)
    )


def order_of(newest: str) -> list[int]:
    """Numbers that are greater the later something was handed in, by a number or a time."""
    if date := DATE.fullmatch(newest):
        month, day, year, hour, minute, half = date.groups()
        afternoon = 12 if half.lower() == "p" else 0
        month = MONTHS.index(month.lower())
        return [int(year), month, int(day), int(hour) % 12 + afternoon, int(minute)]
    return [int(digits) for digits in re.findall(r"\d+", newest)]


def from_blackboard(entry: Entry, match: re.Match, people: People) -> Submission:
    """A file of Blackboard's, which puts `_` between the title of an assignment and a user name.
    Both may hold one: then only the text that it writes for each attempt tells them apart."""
    path, prefix, newest = str(entry.path), match["prefix"], match["newest"]
    name, user, _ = people.get(f"{prefix}_attempt_{newest}", ("", "", None))
    if not (user and prefix.endswith(f"_{user}")):
        name, user = "", prefix.rpartition("_")[2]
        if prefix.count("_") > 1:
            fault = "has no text beside it that says whose it is; grade the download as it came"
            return Submission(
                replace(entry, fault=fault), whose(path), path, key=(path,)
            )
    known_as, assignment = f"Blackboard {user}", prefix.removesuffix(f"_{user}")
    return Submission(
        entry,
        student=whose(name or user, known_as),
        who=f"\0{user}",
        key=(user, assignment),
        series=("", ""),  # an attempt is handed in as a whole
        order=order_of(newest),
        id_name=whose(user, known_as),
    )


def utc(text: str) -> datetime | None:
    """A time, if nbgrader (`UTC`) or Gradescope (`Z`) says that it is of this zone."""
    with suppress(ValueError):
        time = datetime.strptime(re.sub(r"\D", "", text)[:14], "%Y%m%d%H%M%S")
        return time.replace(tzinfo=UTC) if text.endswith((" UTC", " Z")) else None
    return None


def people_of(entries: list[Entry]) -> People:
    """The students of Gradescope's submissions, by its metadata: documented nowhere, in published
    scripts `metadata[folder][":submitters"][0][":sid"]`. One that a student handed in is none."""
    is_students = FORMS["gradescope"].fullmatch
    about = [entry for entry in entries if entry.path.name == METADATA]
    about = [entry.read for entry in about if not is_students(str(entry.path))]
    try:
        records = yaml.load(about[0](), TEXTS) if about else {}
        return {folder: submitters(record) for folder, record in records.items()}
    except (
        Refused,
        yaml.YAMLError,
        AttributeError,
        LookupError,
        TypeError,
        RecursionError,
    ):
        print(
            f"{METADATA}: cannot be read, so students are called by their submission's number"
        )
        return {}


def submitters(record: dict) -> tuple[str, str, datetime | None]:
    """Their names, in brackets what a gradebook may know them by; the same, not cleaned; when."""
    people = record[":submitters"]
    known = [
        (one.get(":name", ""), one.get(":sid") or one.get(":email", ""))
        for one in people
    ]
    student = SEVERAL.join(whose(*names) for names in known)
    return student, json.dumps(known), utc(str(record.get(":created_at")))


def attempts_of(entries: list[Entry]) -> People:
    """The students of Blackboard's attempts: names and user names, by its texts about them."""
    people: People = {}
    for entry in entries:
        match = FORMS["blackboard"].fullmatch(str(entry.path))
        if not match or match["file"]:  # else one that a student handed in
            continue
        with suppress(Refused):
            text = entry.read().decode("utf-8-sig", "replace")
            if named := NAMED.match(text):
                attempt = f"{match['prefix']}_attempt_{match['newest']}"
                people[attempt] = named["name"], named["user"], None
    return people


# --- the list


def find_submissions(path: Path, source: str | None = None) -> list[Submission]:
    """The submissions of a download, one for each student and assignment, by student. Prints the
    source; `source` names it where what is found is wrong. Raises BookError."""
    if source not in (None, *FORMS):
        raise BookError(
            f"SOURCE={source}: no such source; choose from: {', '.join(FORMS)}"
        )
    entries = read_entries(path)
    handed_in = [entry for entry in entries if entry.path.name not in WRITTEN]
    if not handed_in:
        raise BookError(
            f"{path}: holds no submission; name the folder or zip of a download"
        )
    wanted = source
    source, handed_in = recognised(handed_in, [source] if source else list(FORMS))
    if source == "plain" and not wanted:
        check_plain(path, handed_in)
    people = people_of(entries) if source == "gradescope" else {}
    if source == "blackboard":
        people = attempts_of(handed_in)
    rows = defaultdict(list)
    for file in (hand_in(entry, source, people) for entry in handed_in):
        rows[file.key].append(file)
    found = [one_submission(files) for files in rows.values()]
    faults = sum(submission.fault is not None for submission in found)
    unread = f", {faults} of them without a notebook to read" if faults else ""
    print(f"source: {source}, {len(found)} submissions{unread}")
    return sorted(found, key=lambda submission: (submission.student, submission.id))


def single_submission(folder: Path) -> Submission:
    entries = kept(on_disk(folder.resolve()))
    if not entries:
        raise Refused("nothing was handed in")
    return one_submission([Submission(entry, "", "") for entry in entries])


def recognised(entries: list[Entry], sources: list[str]) -> tuple[str, list[Entry]]:
    """The source of these files, the first in whose form the most of their names are, and the files
    without the folders that only hold them all; with those it is asked first."""
    folders = PurePosixPath(
        posixpath.commonpath([entry.path.parent for entry in entries])
    )
    levels = [
        [
            replace(entry, path=PurePosixPath(*entry.path.parts[depth:]))
            for entry in entries
        ]
        for depth in range(len(folders.parts) + 1)
    ]
    for source, level in product(sources, levels):
        own = [entry for entry in level if not is_beside(source, entry)]
        matches = [FORMS[source].fullmatch(str(entry.path)) for entry in own]
        matches = [match for match in matches if match]
        if len(sources) > 1 and not is_likely(source, matches):
            continue
        if source != "plain" and len(matches) * 2 > len(own):
            return source, own
    several = len({entry.path.parts[0] for entry in levels[-1]}) > 1
    return sources[-1], levels[
        -1
    ] if several else entries  # one student's folder is their name


def is_beside(source: str, entry: Entry) -> bool:
    """True of a file that the source itself puts beside what students handed in."""
    path = str(entry.path)
    is_its_own = source in BESIDE and BESIDE[source].fullmatch(path)
    return bool(is_its_own and not FORMS[source].fullmatch(path))


def is_likely(source: str, matches: list[re.Match]) -> bool:
    """False where names fit the form of a source and yet are more likely of another."""
    if source == "nbgrader" and matches:
        # `week 1/jdoe/hw.ipynb` of a class is not what one student has in nbgrader's folders.
        names, assignments = ({match[group] for match in matches} for group in (1, 2))
        return not len(names) == 1 < len(assignments)
    if source == "ilias":  # `hw_1_part_2` is somebody's folder of an assignment
        capital = [
            match for match in matches if re.search(r"(?:^|_)[A-Z]", match["name"])
        ]
        return len(capital) * 2 > len(matches)
    if source == "classroom":
        if any(match["assignment"] for match in matches):
            return True
        # Of `HW 3 - Jane Doe.ipynb` the first half is no student: there it is the same for all.
        titles = Counter(match["title"] for match in matches)
        [(title, count)] = titles.most_common(1) or [("", 0)]
        names = {match["name"] for match in matches if match["title"] == title}
        return len(names) > 1 and count * 2 > len(matches)
    return True


def check_plain(path: Path, entries: list[Entry]) -> None:
    """Raise BookError where these are hardly a notebook or a folder of each student: better no
    grades than those of somebody else."""
    flat = [entry.path.name for entry in entries if len(entry.path.parts) == 1]
    # A link or the like has a fault, and may stand for the folder of a student.
    loose = [
        entry.path.name
        for entry in entries
        if len(entry.path.parts) == 1
        and not entry.fault
        and entry.path.suffix.lower() not in NOTEBOOKS
    ]
    folders = Counter(
        entry.path.parts[0]
        for entry in entries
        if len(entry.path.parts) > 1 and entry.path.suffix.lower() == ".ipynb"
    )
    everything = sorted({entry.path.parts[0] for entry in entries})
    stamped = [name for name in everything if STAMP.search(name)]
    full = [name for name, count in folders.items() if count > 1]
    by_base = defaultdict(list)
    for name in flat:
        by_base[COPY.sub("", PurePosixPath(name).stem)].append(name)
    copies = [name for names in by_base.values() if len(names) > 1 for name in names]

    advice = "name each notebook or folder after its student"
    if loose:
        fault = f"{listed(loose)}: neither a notebook nor a student's folder"
    elif copies:
        fault = f"{listed(copies)}: copies under one name, and nothing says whose"
    elif len(stamped) * 2 > len(everything):
        fault = f"{listed(stamped)}: names with a date, of which one student may have several"
    elif len(folders) > 1 and len(full) * 2 > len(folders):
        fault = f"{listed(full)}: folders of several notebooks, of which each may be a student's"
    elif len(entries) == len(flat) == 1 and FORMS["classroom"].fullmatch(flat[0]):
        fault = f"{listed(flat)}: which half of it is the student"
        advice = "add SOURCE=classroom if the first is"
    else:
        return
    raise BookError(
        f"{path}: not a known form of download ({fault}); {advice}, or add SOURCE=plain "
        "to take every name as that of a student"
    )


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(quoted(name) for name in names[:3]) + more


def one_submission(files: list[Submission]) -> Submission:
    """What a student handed in, of several files: the one notebook, or the newest where the source
    says it, or why there is none. Whoever can write into nbgrader's exchange can make a folder with
    another's name there: the account that owns it tells."""
    owners = {file.entry.owner for file in files} - {None}
    newest = {
        file.series: file.order for file in sorted(files, key=lambda file: file.order)
    }
    files = [file for file in files if file.order == newest[file.series]]
    notebooks = [file for file in files if file.entry.path.suffix.lower() in NOTEBOOKS]
    first, fault = (notebooks or files)[0], None
    names = " and ".join(
        quoted(file.entry.path.name) for file in (notebooks or files)[:3]
    )
    if len(notebooks) > 1:
        fault = f"{names} were handed in; keep one notebook"
    elif first.series is not None and len(owners) > 1:
        fault = (
            f"{len(owners)} accounts handed in under this name; keep the student's own"
        )
    elif first.entry.fault:
        fault = f"{quoted(first.entry.path.name)} {first.entry.fault}"
    elif not notebooks:
        fault = f"{names}: no notebook, which ends in .ipynb"
    return replace(first, id=first.make_id(str(first.entry.path)), fault=fault)


def identity(student: str, who: str, path: str = "") -> str:
    """A name of a file for the submission: readable, and unique by a hash of who and where."""
    plain_letters = (
        unicodedata.normalize("NFKD", student).encode("ascii", "ignore").decode()
    )
    slug = re.sub("[^a-z0-9]+", "-", plain_letters.lower())[:40].strip("-")
    hash = hashlib.sha256(
        f"{who}\0{path}".encode("utf-8", "surrogateescape")
    ).hexdigest()
    return f"{slug or 'student'}-{hash[:12]}"


# --- texts that students chose


def clean(text: str, longest: int = 200) -> str:
    """A text in one line that shows as it reads: no control characters, none that turn it round."""
    text = unicodedata.normalize("NFC", text.encode("utf-8", "replace").decode("utf-8"))
    joiners = "\u200c\u200d"  # within words of several scripts
    shown = (sign if sign.isprintable() or sign in joiners else " " for sign in text)
    return " ".join("".join(shown).split())[:longest]


def whose(name: str, known_as: str = "") -> str:
    """A student's name; only the id that the source has for them ends in round brackets."""
    name, known_as = (clean(text).replace(SEVERAL, ", ") for text in (name, known_as))
    return (
        f"{name} ({known_as})" if known_as else name.replace("(", "[").replace(")", "]")
    )


def quoted(text: str) -> str:
    return f"'{clean(text, 80)}'"


# --- notebooks


def read_submission(data: bytes) -> NotebookNode:
    """The cells of a notebook as they were handed in, without outputs: what a file says that it
    printed is no evidence. Raises Refused."""
    try:
        return read_notebook(json.loads(data.decode("utf-8-sig")))
    except (ValueError, RecursionError) as error:
        reason = error if data.strip() else "it is empty"
    except (AttributeError, LookupError, TypeError):
        reason = "its cells cannot be read"
    fault = f"the file is not a notebook or is cut short ({reason})"
    raise Refused(f"{fault}; save it and hand it in again")


def read_notebook(content: dict) -> NotebookNode:
    """A notebook, which need not be as nbformat's schema has it: some services write others."""
    minor, metadata = content.get("nbformat_minor", 0), mapping(content.get("metadata"))
    if content.get("nbformat") != 4 or minor not in range(6):
        raise Refused(
            "the notebook is in none of the formats 4.0 to 4.5; save it in JupyterLab"
        )
    kernel, info = (
        mapping(metadata.get(name)) for name in ("kernelspec", "language_info")
    )
    named = {"ir": "r", "julia": "julia"}.get(
        str(kernel.get("name")).lower().split("-")[0]
    )
    language = str(
        info.get("name") or kernel.get("language") or named or "python"
    ).lower()
    if not re.match("i?python", language):
        raise Refused(
            f"the notebook is in {quoted(language)}; the answers are asked for in Python"
        )
    cells = [read_cell(cell) for cell in content["cells"]]
    made = {
        "nbformat": 4,
        "nbformat_minor": minor,
        "metadata": metadata,
        "cells": cells,
    }
    return nbformat.from_dict(made)


def read_cell(cell: dict) -> dict:
    source = "".join(cell["source"]).encode(
        "utf-8", "replace"
    )  # JSON may hold half a character
    if cell["cell_type"] not in ("code", "markdown", "raw"):
        raise TypeError
    kept = {
        name: cell[name]
        for name in ("cell_type", "id")
        if isinstance(cell.get(name), str)
    }
    return kept | {
        "source": source.decode("utf-8"),
        "metadata": mapping(cell.get("metadata")),
    }


def mapping(value: object) -> dict:
    return value if isinstance(value, dict) else {}
