"""What an instructor downloads, as a list of submissions: nothing is written, nothing is run.

A download is a folder or a zip, as Canvas, Moodle, Gradescope or nbgrader's exchange makes it, or
plain files named by student. Nothing of a zip is unpacked to disk: its members are read in memory,
one at a time and bounded. What cannot be graded is still a row, with its reason in one line.
"""

import hashlib
import io
import json
import os
import re
import stat
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path, PurePosixPath

import nbformat
import yaml
from nbformat import NotebookNode

from tools.errors import BookError

MB = 1_000_000
LIMIT = 20 * MB  # of a file; a larger one is refused by its size, unread
UNPACKED = 5 * LIMIT  # of all that a student's own zip holds
MEMBERS = 1000  # of a student's own zip: each costs memory before it is read
PLAIN = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # which zipfile unpacks no further than asked
SEVERAL = "; "  # between the students of one submission
DEPTH = 20  # of folders in folders
CLIMBS = "climbs out of its zip; zip the notebook alone"
# Left by macOS, Windows and Jupyter.
IGNORED = re.compile(r"__MACOSX|\._.*|\.DS_Store|Thumbs\.db|desktop\.ini|\.ipynb_checkpoints")
# Written by nbgrader's exchange and Gradescope's export, not by students.
METADATA = "submission_metadata.yml"
WRITTEN = {"timestamp.txt", "submission_secret.txt", METADATA}


class Refused(Exception):
    """Why a submission is not graded, in one line that its student may read."""


@dataclass(frozen=True)
class Submission:
    """What one student handed in.

    `id` is safe as the name of a file, unique and the same for the same download. `student` is
    the name that the source gives, and in round brackets the id that it has for the student, if
    it has one: 'doejane (Canvas 340934)'. `late` is what the source says of it.
    """

    id: str
    student: str
    who: str  # the source's own name or number for the student, which `student` shows cleaned
    path: str  # in the download
    fault: str | None
    late: bool
    load: Callable[[], bytes]
    time: datetime | None = None  # when it was handed in, where the source says it

    def is_after(self, due: datetime) -> bool:
        return self.time is not None and self.time > due

    def read(self) -> bytes:
        """The bytes of the notebook. Raises Refused."""
        if self.fault:
            raise Refused(self.fault)
        return self.load()


# --- files, of a folder or a zip


@dataclass(frozen=True)
class Entry:
    """A file of a download. It has a fault where it must not be read: what is wrong with it."""

    parts: tuple[str, ...]
    load: Callable[[], bytes]
    fault: str | None = None
    owner: int | None = None  # the account that a file of a folder belongs to

    @property
    def name(self) -> str:
        """Without its folders."""
        return self.parts[-1]

    @property
    def path(self) -> str:
        """With its folders."""
        return "/".join(self.parts)

    @property
    def suffix(self) -> str:
        """The ending of its name, in small letters: '.ipynb'."""
        return PurePosixPath(self.name).suffix.lower()


def too_large(size: int) -> str | None:
    """The fault of a file of that many bytes, if it is one."""
    return f"has {-(-size // MB)} MB; the limit is {LIMIT // MB} MB" if size > LIMIT else None


def folder_entries(folder: Path, parts: tuple[str, ...] = ()) -> Iterator[Entry]:
    """The files below a folder, by name; links are followed neither to files nor to folders."""
    try:
        found = sorted(os.scandir(folder), key=lambda item: item.name)
    except OSError as error:
        yield Entry(parts or ("?",), refuse, f"cannot be read ({error.strerror})")
        return
    for item in found:
        if IGNORED.fullmatch(item.name):
            continue
        here = (*parts, unicodedata.normalize("NFC", item.name))  # macOS writes names as NFD
        kind = item.stat(follow_symlinks=False)
        if item.is_symlink():
            yield Entry(here, refuse, "is a link; hand in the file itself")
        elif stat.S_ISDIR(kind.st_mode) and len(here) < DEPTH:
            yield from folder_entries(Path(item.path), here)
        elif not stat.S_ISREG(kind.st_mode):
            yield Entry(here, refuse, "is not a file: a device, a pipe or too deep a folder")
        else:
            yield Entry(
                here, partial(read_regular, Path(item.path)), too_large(kind.st_size), kind.st_uid
            )


def refuse() -> bytes:
    """What reading an entry with a fault comes to."""
    raise Refused("must not be read")


def read_regular(path: Path) -> bytes:
    """The bytes of a regular file, of LIMIT at most, even if another has taken its place."""
    flags = (getattr(os, name, 0) for name in ("O_NONBLOCK", "O_NOFOLLOW", "O_BINARY"))
    try:
        with open(os.open(path, sum(flags, os.O_RDONLY)), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise Refused("is a device or a pipe, not a file")
            data = file.read(LIMIT + 1)
    except OSError as error:
        raise Refused(f"cannot be read ({error.strerror})") from None
    if fault := too_large(len(data)):
        raise Refused(fault)
    return data


def zip_entries(archive: zipfile.ZipFile) -> Iterator[Entry]:
    """The files of a zip, in its order."""
    for member in archive.infolist():
        name = member_name(member)
        parts = tuple(part for part in name.split("/") if part not in ("", "."))
        if not member.is_dir() and not any(IGNORED.fullmatch(part) for part in parts):
            load = partial(read_member, archive, member)
            yield Entry(parts or ("?",), load, member_fault(member, name))


def member_name(member: zipfile.ZipInfo) -> str:
    """The name of a member. macOS writes UTF-8 without saying so, Windows may write `\\`."""
    name = member.filename
    if not member.flag_bits & 0x800:
        try:
            name = name.encode("cp437").decode("utf-8")
        except UnicodeError:
            pass  # it was cp437
    return unicodedata.normalize("NFC", name.replace("\\", "/"))


def member_fault(member: zipfile.ZipInfo, name: str) -> str | None:
    """Why a member of a zip must not be read, if so."""
    kind = stat.S_IFMT(member.external_attr >> 16)
    if name.startswith("/") or re.match("[A-Za-z]:", name) or ".." in name.split("/"):
        return CLIMBS
    if stat.S_ISLNK(kind):
        return "is a link; hand in the file itself"
    if kind not in (0, stat.S_IFREG):
        return "is a device or a pipe, not a file"
    if member.flag_bits & 1:
        return "is encrypted; zip it without a password"
    if member.compress_type not in PLAIN:
        return "is compressed in an unusual way; zip it as your system does"
    return too_large(member.file_size)


def read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """The bytes of a member, of LIMIT at most, whatever size its zip says."""
    try:
        with archive.open(member) as file:
            data = file.read(LIMIT + 1)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError, OSError):
        raise Refused("is damaged in its zip; zip it again") from None
    if fault := too_large(len(data)):
        raise Refused(fault)
    return data


def open_zip(file: Path | io.BytesIO) -> zipfile.ZipFile:
    """A zip. Raises Refused if it is none that can be read."""
    try:
        return zipfile.ZipFile(file)
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
        raise Refused("is not a zip that can be read; zip it again") from None


def notebook_in_zip(data: bytes) -> bytes:
    """The one notebook of a zip that a student handed in. Raises Refused."""
    if data.count(b"PK\1\2") > MEMBERS:  # how each begins in the table of contents
        raise Refused(f"holds more than {MEMBERS} files; zip the notebook alone")
    with open_zip(io.BytesIO(data)) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
        if unpacked > UNPACKED:
            raise Refused(f"unpacks to {unpacked // MB} MB; the limit is {UNPACKED // MB} MB")
        entries = list(zip_entries(archive))
        for entry in entries:
            if entry.fault:
                raise Refused(f"holds {quoted(entry.path)}, which {entry.fault}")
        notebooks = [entry for entry in entries if entry.suffix == ".ipynb"]
        if len(notebooks) != 1:
            raise Refused(
                f"holds {listed(notebooks)}; keep one notebook"
                if notebooks
                else "holds no notebook: no file that ends in .ipynb"
            )
        return notebooks[0].load()


# --- who handed it in, by how each source names files


@dataclass(frozen=True)
class HandIn:
    """Whose file it is, and which of several that replace one another."""

    key: tuple[str, ...]  # of the student, and of the assignment where a source holds several
    student: str
    who: str  # as in Submission
    late: bool = False
    series: str | None = None  # files of one series replace one another
    order: int | str = 0  # in a series; the newest is the greatest
    time: datetime | None = None


# By which a path, without the folders that only hold all, is known, in the order in which they are
# tried. Of the groups, `user` is the source's number for a student; the newest file by `time` or
# `upload` counts.
SOURCES = {
    # *Export Submissions* in https://guides.gradescope.com, "Exporting Grades, Evaluations, and
    # Submissions": `assignment_123_export/submission_456/exercises.ipynb`.
    "gradescope": r"(?:.*?/)??(?P<name>submission_\d+)(?:/.*)?",
    # `load_submissionplugin_filelist` and `get_student_prefix` of https://github.com/moodle/moodle,
    # mod/assign/classes/downloader.php: `Jane Doe_123456_assignsubmission_file/exercises.ipynb`, or
    # flat, with `_exercises.ipynb`. The number is the participant's (or the group's), which the
    # grading worksheet has as *Identifier*; in names `_` has become a space. Some versions end the
    # folder in `_`.
    "moodle": r"(?P<name>[^/]*?)(?:_(?P<user>\d+))?_assignsubmission_[a-z]+(?:_[^/]*)?(?:/.*)?",
    # The inbound folder of https://github.com/jupyter/nbgrader, nbgrader/exchange/default/submit.py
    # and collect.py: `jdoe+hw+2026-02-02 15:58:23.948203 UTC+kX9...` with notebooks in it.
    "exchange": r"(?P<name>[^/]+?)\+(?P<assignment>[^+/]+)"
    r"\+(?P<time>\d{4}-\d\d-\d\d \d\d[^/]\d\d[^/]\d\d[^+/]*)(?:\+[\w=-]+)?/.*",
    # `add_upload_submission` and `get_filename` of https://github.com/instructure/canvas-lms,
    # lib/content_zipper.rb: `doejane_LATE_340934_208490284_exercises-1.ipynb`. Before the user's id
    # stands the name of a student or group, without `_12_` in it, or `anon`; after it, the
    # attachment's, or what a student typed in or linked to: `text.html`, `link.html`. A file handed
    # in again is called `-1`, `-2`. Where three numbers follow one another, a name that ends in a
    # number could pass for another student's id: such a file is left to the instructor.
    "canvas": r"(?>(?:(?P<name>\w*?)_)??(?P<late>LATE_)?(?P<user>\d+|anon_\w+?)_"
    r"(?:(?P<upload>\d+)_|(?=(?:text|link)\.html\Z)))(?(late)|(?!\d+_))(?P<file>[^/]+)",
    # As nbgrader collects: https://nbgrader.readthedocs.io, "The philosophy and the approach".
    "nbgrader": r"(?P<name>[^/]+)/(?P<assignment>[^/]+)/[^/]+",
    # `jdoe.ipynb`, or a folder for each student.
    "plain": r"(?P<name>[^/]+?)(?:/.*|\.[^./]+)?",
}
FORMS = {source: re.compile(form, re.S) for source, form in SOURCES.items()}


People = dict[str, tuple[str, datetime | None]]


def hand_in(entry: Entry, source: str, people: People) -> HandIn | None:
    """What a source's name of a file says.

    `people` are those whom it names by number alone, and when they handed in.
    """
    match = FORMS[source].fullmatch(entry.path)
    if match is None:
        return None
    said = {group: text or "" for group, text in match.groupdict().items()}
    name, user, assignment = (said.get(group, "") for group in ("name", "user", "assignment"))
    if source == "canvas":
        stem, dot, end = said["file"].rpartition(".")
        series = re.sub(r"-\d+$", "", stem) + dot + end
        student = whose(name or "anonymous", f"Canvas {user}")
        return HandIn((user,), student, user, bool(said["late"]), series, int(said["upload"] or 0))
    person, time = people.get(name, ("", None))
    student = person or whose(name, f"Moodle {user}" if user else "")
    who = person or "\0".join((name, user))
    key = (name, user, assignment)
    if source == "exchange":
        return HandIn(key, student, who, False, assignment, said["time"], utc(said["time"]))
    return HandIn(key, student, who, time=time)


def utc(text: str) -> datetime | None:
    """A time as nbgrader writes it, if it is of no other zone: `2026-02-02 15:58:23.9 UTC`."""
    parts = re.fullmatch(r"(\d+)-(\d+)-(\d+) (\d+)\D(\d+)\D(\d+)(?:\.\d+)? UTC", text)
    try:
        return datetime(*map(int, parts.groups()), tzinfo=UTC) if parts else None
    except ValueError:
        return None


def people_of(entries: list[Entry], source: str) -> People:
    """The students of Gradescope's folders, by its metadata, which are documented nowhere.

    Scripts that are published read them as `metadata[folder][":submitters"][0][":sid"]`, with
    Ruby's colons. A student may hand in such a file: those do not count.
    """
    about = [entry for entry in entries if entry.name == METADATA]
    about = [entry for entry in about if not FORMS["gradescope"].fullmatch(entry.path)]
    if source != "gradescope" or not about:
        return {}
    try:
        records = yaml.load(about[0].load(), PlainLoader)
    except (Refused, yaml.YAMLError, ValueError, RecursionError):
        return {}
    people = {}
    for folder, record in mapping(records).items():
        found = mapping(record).get(":submitters")
        names = [submitter(person) for person in found or () if isinstance(person, dict)]
        time = mapping(record).get(":created_at")
        known = isinstance(time, datetime) and time.tzinfo is not None
        people[folder] = (SEVERAL.join(filter(None, names)), time if known else None)
    return people


def submitter(record: dict) -> str:
    """A submitter's name, and in brackets what a gradebook may know them by."""
    name, sid, email = (str(record.get(key) or "") for key in (":name", ":sid", ":email"))
    return whose(name, sid or email)


class PlainLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """YAML without objects: what Ruby tags as one of its own becomes None."""


PlainLoader.add_multi_constructor("!", lambda loader, suffix, node: None)


# --- the list


def find_submissions(path: Path, source: str | None = None) -> list[Submission]:
    """The submissions of a download, one for each student and assignment, by student.

    Prints the source in one line; `source` names it where what is found is wrong. Raises BookError
    if there is no such download, no such source, or nothing in it.
    """
    if source is not None and source not in SOURCES:
        raise BookError(f"SOURCE={source}: no such source; choose from: {', '.join(SOURCES)}")
    entries = read_entries(path)
    outside = [entry for entry in entries if entry.fault == CLIMBS]
    inside = [entry for entry in entries if entry.fault != CLIMBS]
    if all(entry.name in WRITTEN for entry in entries):
        raise BookError(f"{path}: holds no submission; name the folder or zip of a download")
    source, inside = recognised(inside, [source] if source else list(SOURCES))
    strange = f"is not named as {source} names what is handed in"
    groups: dict[tuple[str, ...], list[tuple[Entry, HandIn]]] = {}
    people = people_of(inside, source)
    for entry in inside:
        if found := hand_in(entry, source, people):
            groups.setdefault(found.key, []).append((entry, found))
        else:
            outside.append(Entry(entry.parts, refuse, entry.fault or strange))
    alone = [[(entry, HandIn(entry.parts, whose(entry.path), entry.path))] for entry in outside]
    rows = [*groups.values(), *alone]
    found = [one_submission(row) for row in rows if any(e.name not in WRITTEN for e, _ in row)]
    faults = sum(submission.fault is not None for submission in found)
    unread = f", {faults} of them without a notebook to read" if faults else ""
    print(f"source: {source}, {len(found)} submissions{unread}")
    return sorted(found, key=lambda submission: (submission.student, submission.id))


def single_submission(folder: Path) -> Submission:
    """The submission of one student, whose files alone are in a folder. Raises Refused."""
    entries = list(folder_entries(folder))
    if not entries:
        raise Refused("nothing was handed in")
    return one_submission([(entry, HandIn((), "", "")) for entry in entries])


def read_entries(path: Path) -> list[Entry]:
    """The files of a folder or a zip, or a notebook alone. Raises BookError."""
    if path.is_dir():
        return list(folder_entries(path))
    if not path.is_file():
        raise BookError(f"{path}: no such file; name the folder or zip of a download")
    if path.suffix == ".ipynb":  # of one student, to be graded again
        return [Entry((path.name,), partial(read_regular, path), too_large(path.stat().st_size))]
    try:
        return list(zip_entries(open_zip(path)))
    except Refused:
        raise BookError(f"{path}: neither a folder nor a zip; download it again") from None


def recognised(entries: list[Entry], sources: list[str]) -> tuple[str, list[Entry]]:
    """The source of these files, and the files without the folders that only hold them all.

    It is the first in whose form the most of the names are; whether it is, is asked with those
    folders first.
    """
    levels = [entries]
    while (held := one_folder(levels[-1])) is not None:
        levels.append(held)
    for source in sources:
        if source == "plain":
            break
        for level in levels:
            handed = [entry for entry in level if entry.name not in WRITTEN]
            known = [entry for entry in handed if FORMS[source].fullmatch(entry.path)]
            if len(known) * 2 > len(handed):
                return source, level
    several = len({entry.parts[0] for entry in levels[-1]}) > 1
    return sources[-1], levels[-1] if several else entries  # one student's folder is their name


def one_folder(entries: list[Entry]) -> list[Entry] | None:
    """The files within the one folder that holds them all, if there is one."""
    if len({entry.parts[0] for entry in entries}) != 1 or any(len(e.parts) < 2 for e in entries):
        return None
    return [replace(entry, parts=entry.parts[1:]) for entry in entries]


def one_submission(files: list[tuple[Entry, HandIn]]) -> Submission:
    """What a student handed in, of several files: the notebook, or the reason that there is none.

    Nothing is chosen among several notebooks, unless the source says which is the newest. Whoever
    can write into nbgrader's exchange can make a folder with another student's name there: the
    account that owns it tells.
    """
    owners = {entry.owner for entry, _ in files}
    files = newest(files)
    notebooks = newest([pair for pair in files if pair[0].suffix in (".ipynb", ".zip")])
    entry, hand_in = (notebooks or files)[0]
    fault = f"{quoted(entry.name)} {entry.fault}" if entry.fault else None
    if len(notebooks) > 1:
        fault = f"{listed(entry for entry, _ in notebooks)} were handed in; keep one notebook"
    elif hand_in.series is not None and len(owners) > 1:
        fault = f"{len(owners)} accounts handed in under this name; keep the student's own"
    elif not notebooks and not fault:
        fault = f"{listed(entry for entry, _ in files)}: no notebook, which ends in .ipynb"
    return Submission(
        identity(hand_in.student, hand_in.who, entry.path),
        hand_in.student,
        hand_in.who,
        clean(entry.path),
        fault,
        hand_in.late,
        partial(load_notebook, entry),
        hand_in.time,
    )


def newest(files: list[tuple[Entry, HandIn]]) -> list[tuple[Entry, HandIn]]:
    """The newest of the files, if all are of one series; else all of them."""
    series = {hand_in.series for _, hand_in in files}
    if len(series) != 1 or None in series:
        return files
    last = max(hand_in.order for _, hand_in in files)
    return [pair for pair in files if pair[1].order == last]


def load_notebook(entry: Entry) -> bytes:
    """The bytes of a notebook, or of the one in a zip. Raises Refused."""
    try:
        data = entry.load()
        return notebook_in_zip(data) if entry.suffix == ".zip" else data
    except Refused as reason:
        raise Refused(f"{quoted(entry.name)} {reason}") from None


def identity(student: str, who: str, path: str = "") -> str:
    """A name of a file for the submission: readable, and unique by a hash of who and where."""
    plain_letters = unicodedata.normalize("NFKD", student).encode("ascii", "ignore").decode()
    slug = re.sub("[^a-z0-9]+", "-", plain_letters.lower())[:40].strip("-")
    hash = hashlib.sha256(f"{who}\0{path}".encode("utf-8", "surrogateescape")).hexdigest()
    return f"{slug or 'student'}-{hash[:12]}"


# --- texts that students chose


def clean(text: str, longest: int = 200) -> str:
    """A text in one line that shows as it reads: no control characters, none that turn it round."""
    text = unicodedata.normalize("NFC", text.encode("utf-8", "replace").decode("utf-8"))
    joiners = "\u200c\u200d"  # within words of several scripts
    hidden = (unicodedata.category(letter)[0] in "CZ" and letter not in joiners for letter in text)
    shown = (" " if hide else letter for letter, hide in zip(text, hidden, strict=True))
    return " ".join("".join(shown).split())[:longest]


def whose(name: str, known_as: str = "") -> str:
    """A student's name with the id that the source has for them.

    What stands in round brackets at the end is the source's, whatever students call themselves.
    """
    name, known_as = (clean(text).replace(SEVERAL, ", ") for text in (name, known_as))
    return f"{name} ({known_as})" if known_as else name.replace("(", "[").replace(")", "]")


def quoted(text: str) -> str:
    """A name that a student chose, within a sentence."""
    return f"'{clean(text, 80)}'"


def listed(entries: Iterable[Entry]) -> str:
    """The names of some files: three, and how many more."""
    names = [quoted(entry.name) for entry in entries]
    shown, more = names[:3], len(names) - 3
    if more > 0:
        shown.append(f"{more} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


# --- notebooks


def read_submission(data: bytes) -> NotebookNode:
    """The cells of a notebook as they were handed in, ids that are there twice included.

    Of each cell `cell_type`, `source`, `metadata` and, if it has one, `id` are kept; outputs are
    not: what a file says that it printed is no evidence. Raises Refused.
    """
    try:
        content = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise Refused("the file is not a notebook: not UTF-8") from None
    except RecursionError:
        raise Refused("the file is not a notebook: lists in lists without end") from None
    except ValueError as error:  # of JSON, and of an integer with thousands of digits
        place = f" in line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        reason = "empty" if not data.strip() else f"its JSON ends or errs{place}"
        raise Refused(
            f"the file is not a notebook: {reason}; save it and hand it in again"
        ) from None
    if not isinstance(content, dict) or not isinstance(content.get("nbformat"), int):
        raise Refused("the file is not a notebook: it names no nbformat")
    major, minor = content["nbformat"], content.get("nbformat_minor", 0)
    if major < 4:
        raise Refused(
            f"the file is in format {major}, of before 2015; open it in JupyterLab and save it"
        )
    if major > 4 or not isinstance(minor, int) or not 0 <= minor <= 5:
        raise Refused("the file is in a format that is not known here; the formats 4.0 to 4.5 are")
    metadata = mapping(content.get("metadata"))
    refuse_other_languages(metadata)
    if not isinstance(content.get("cells"), list):
        raise Refused("the file is not a notebook: it has no list of cells")
    cells = [read_cell(cell, number) for number, cell in enumerate(content["cells"], start=1)]
    try:
        return nbformat.from_dict(
            {"nbformat": 4, "nbformat_minor": minor, "metadata": metadata, "cells": cells}
        )
    except RecursionError:
        raise Refused("the file is not a notebook: lists in lists without end") from None


def read_cell(cell: object, number: int) -> dict:
    """One cell. Raises Refused."""
    source = cell.get("source") if isinstance(cell, dict) else None
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    if not isinstance(source, str) or cell.get("cell_type") not in ("code", "markdown", "raw"):
        raise Refused(f"the file is not a notebook: cell {number} is not a cell")
    source = source.encode("utf-8", "replace").decode("utf-8")  # JSON may hold half a character
    kept = {"cell_type": cell["cell_type"], "source": source}
    kept["metadata"] = mapping(cell.get("metadata"))
    return kept | ({"id": cell["id"]} if isinstance(cell.get("id"), str) else {})


def mapping(value: object) -> dict:
    """The value, if it is a mapping; else an empty one."""
    return value if isinstance(value, dict) else {}


def refuse_other_languages(metadata: dict) -> None:
    """Raise Refused if the notebook is in another language than Python."""
    kernel, info = mapping(metadata.get("kernelspec")), mapping(metadata.get("language_info"))
    language = str(info.get("name") or kernel.get("language") or "").lower()
    if not language and re.match(r"(ir|julia.*)$", str(kernel.get("name")).lower()):
        language = "r" if kernel["name"].lower() == "ir" else "julia"
    if language and not re.match("i?python", language):
        raise Refused(f"the notebook is in {quoted(language)}; the answers are asked for in Python")
