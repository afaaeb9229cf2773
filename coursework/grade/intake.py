"""What an instructor downloads, as a list of submissions: nothing is written, nothing is run.

A download is a folder or a zip of one of the systems in `sources.toml`, or plain files named after
students. A zip is read in memory, a bounded member at a time. What cannot be graded is in the list
all the same, with its reason in one line.
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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any
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
# This loader makes text of everything, and no objects.
YAML_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
# Written by nbgrader's exchange and by Gradescope.
WRITTEN = {"timestamp.txt", "submission_secret.txt", METADATA}
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
            reason = clean(text) or "it is cut short"
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


def kept(entries: Iterable[Entry]) -> list[Entry]:
    """Leave out what nobody handed in, and write names as Linux does."""
    kept_entries = []
    for entry in entries:
        if any(IGNORED.fullmatch(part) for part in entry.path.parts):
            continue
        name = unicodedata.normalize("NFC", str(entry.path))
        kept_entries.append(replace(entry, path=PurePosixPath(name)))
    return kept_entries


def read_entries(path: Path) -> list[Entry]:
    """Return the files of a folder or a zip, or a single notebook. Raises BookError."""
    if path.is_dir():
        return kept(on_disk(path.resolve()))
    if not path.is_file():
        raise BookError(f"{path}: no such file; name the folder or zip of a download")
    if path.suffix == ".ipynb":  # of one student, to be graded again
        return kept(on_disk(path.resolve(), (path.name,)))
    try:
        return kept(in_zip(path))
    except Refused:
        fault = "neither a folder nor a zip; download it again"
        raise BookError(f"{path}: {fault}") from None


# --- who handed it in, by how each source names files


def _compiled(forms: dict[str, str]) -> dict[str, re.Pattern]:
    return {name: re.compile(form, re.S | re.X) for name, form in forms.items()}


SOURCES = tomllib.loads(
    Path(__file__).with_name("sources.toml").read_text(encoding="utf-8")
)
BESIDE = _compiled(SOURCES.pop("beside"))
FORMS = _compiled(SOURCES)
# The sources whose names do not merely begin with a capital.
TITLES = {
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
# Added by a browser, or by Drive, to a name that was taken.
COPY = re.compile(r" ?\(\d+\)\Z")


def title_of(source: str) -> str:
    return TITLES.get(source, source.title())


@dataclass(frozen=True)
class Person:
    """Whom a source's own file about a submission names."""

    student: str  # the name as it is shown
    who: str  # the same, not cleaned
    user: str = ""  # of Blackboard
    time: datetime | None = None  # of the hand-in


People = dict[str, Person]  # by the source's name of a submission


@dataclass(frozen=True)
class Submission:
    """What one student handed in."""

    entry: Entry
    student: str  # the name and, in round brackets, the id: 'doejane (Canvas 340934)'
    who: str  # that name or id, not cleaned
    late: bool = False  # as the source says it
    time: datetime | None = None  # when it was handed in, where the source says it
    # Of the student, and of the assignment where a source holds several.
    key: tuple[str, ...] = ()
    series: tuple[str, str] | None = None  # files of one series replace one another
    order: Sequence[int] = ()  # in a series; the newest is the greatest
    fault: str | None = None
    id: str = ""  # the name of its files, unique, and the same for the same download
    # What ids are made of where `student` comes from a file that may be missing.
    id_name: str = ""

    @property
    def path(self) -> str:
        return clean(str(self.entry.path))

    def make_id(self, path: str = "") -> str:
        return identity(self.id_name or self.student, self.who, path)

    def read(self) -> bytes:
        """Return the bytes of the notebook, or of the one in a zip. Raises Refused."""
        if self.fault:
            raise Refused(self.fault)
        try:
            data = self.entry.read()
            if self.entry.suffix == ".zip":
                return _notebook_in_zip(data)
            return data
        except Refused as reason:
            raise Refused(f"{quoted(self.entry.path.name)} {reason}") from None


def _notebook_in_zip(data: bytes) -> bytes:
    files = kept(in_zip(io.BytesIO(data)))
    notebooks = [file for file in files if file.suffix == ".ipynb"]
    if len(notebooks) != 1:
        count = f"holds {len(notebooks)} files that end in .ipynb"
        raise Refused(f"{count}; zip the one notebook")
    return notebooks[0].read()


def hand_in(entry: Entry, source: str, people: People) -> Submission:
    """Tell by a file's name whose it is; a name that the source would not give is a fault."""
    match = FORMS[source].fullmatch(str(entry.path))
    if not match:
        fault = f"is not named as {title_of(source)} names submissions"
        return nobodys(entry, f"{fault}, so its student is not known")
    if source == "blackboard":
        return from_blackboard(entry, match, people)
    parts = defaultdict(str, match.groupdict(""))
    name = parts["name"]
    user = parts["user"]
    newest = parts["newest"]
    person = people.get(name)
    if not person:
        known_as = f"{title_of(source)} {user}" if user else ""
        student = whose(name or "anonymous", known_as)
        who = f"\0{user}" if user else name
        person = Person(student, who, time=utc(newest))
    return Submission(
        entry,
        person.student,
        person.who,
        late=bool(parts["late"]),
        time=person.time,
        key=(name, user, parts["assignment"]),
        series=(parts["series"], parts["end"]) if newest else None,
        order=order_of(newest),
    )


def nobodys(entry: Entry, fault: str) -> Submission:
    """Return a file whose student is not known; it stands for itself."""
    path = str(entry.path)
    entry = replace(entry, fault=entry.fault or fault)
    return Submission(entry, whose(path), path, key=(path,))


def order_of(newest: str) -> list[int]:
    """Return numbers that are greater the later something was handed in, by a number or a time."""
    date = DATE.fullmatch(newest)
    if not date:
        return [int(digits) for digits in re.findall(r"\d+", newest)]
    month_name, day, year, hour, minute, half = date.groups()
    month = MONTHS.index(month_name.lower())
    hours = int(hour) % 12
    if half.lower() == "p":
        hours += 12
    return [int(year), month, int(day), hours, int(minute)]


def from_blackboard(entry: Entry, match: re.Match, people: People) -> Submission:
    """Tell whose a file of Blackboard is.

    It puts `_` between the title of an assignment and a user name. Both may hold one: then only the
    text that it writes for each attempt tells them apart.
    """
    prefix = match["prefix"]
    newest = match["newest"]
    person = people.get(f"{prefix}_attempt_{newest}")
    if person and prefix.endswith(f"_{person.user}"):
        user = person.user
        name = person.student
    elif prefix.count("_") > 1:
        fault = "has no text beside it that says whose it is"
        return nobodys(entry, f"{fault}; grade the download as it came")
    else:
        user = prefix.rpartition("_")[2]
        name = ""
    known_as = f"Blackboard {user}"
    return Submission(
        entry,
        student=whose(name or user, known_as),
        who=f"\0{user}",
        key=(user, prefix.removesuffix(f"_{user}")),
        series=("", ""),  # an attempt is handed in as a whole
        order=order_of(newest),
        id_name=whose(user, known_as),
    )


def utc(text: str) -> datetime | None:
    """Return a time, if nbgrader (`UTC`) or Gradescope (`Z`) says that it is of this zone."""
    if not text.endswith((" UTC", " Z")):
        return None
    digits = re.sub(r"\D", "", text)[:14]
    with suppress(ValueError):
        return datetime.strptime(digits, "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    return None


def people_of(entries: list[Entry]) -> People:
    """Return the students of Gradescope's submissions, by its metadata.

    Its form is documented nowhere; published scripts read
    `metadata[folder][":submitters"][0][":sid"]`. A file of that name that a student handed in is
    not Gradescope's.
    """
    own = [
        entry
        for entry in entries
        if entry.path.name == METADATA
        and not FORMS["gradescope"].fullmatch(str(entry.path))
    ]
    if not own:
        return {}
    people: People = {}
    faults = (AttributeError, LookupError, TypeError, RecursionError)
    try:
        records = yaml.load(own[0].read(), YAML_LOADER)
        for folder, record in records.items():
            people[folder] = submitters(record)
    except (Refused, yaml.YAMLError, *faults):
        called = "students are called by their submission's number"
        print(f"{METADATA}: cannot be read, so {called}")
        return {}
    return people


def submitters(record: dict) -> Person:
    """Return the students of a submission, in brackets what a gradebook may know them by."""
    known = []
    names = []
    for person in record[":submitters"]:
        name = person.get(":name", "")
        known_as = person.get(":sid") or person.get(":email", "")
        known.append((name, known_as))
        names.append(whose(name, known_as))
    time = utc(str(record.get(":created_at")))
    return Person(SEVERAL.join(names), json.dumps(known), time=time)


def attempts_of(entries: list[Entry]) -> People:
    """Return the students of Blackboard's attempts, by its texts about them."""
    people: People = {}
    for entry in entries:
        match = FORMS["blackboard"].fullmatch(str(entry.path))
        if not match or match["file"]:  # a student handed it in
            continue
        with suppress(Refused):
            text = entry.read().decode("utf-8-sig", "replace")
            if named := NAMED.match(text):
                attempt = f"{match['prefix']}_attempt_{match['newest']}"
                name = named["name"]
                people[attempt] = Person(name, name, user=named["user"])
    return people


# --- the list


def find_submissions(path: Path, source: str | None = None) -> list[Submission]:
    """Return the submissions of a download, one for each student and assignment, by student.

    Prints the source that it is taken for; `source` names it where that would be wrong. Raises
    BookError.
    """
    if source not in (None, *FORMS):
        known = ", ".join(FORMS)
        raise BookError(f"SOURCE={source}: no such source; choose from: {known}")
    entries = read_entries(path)
    handed_in = [entry for entry in entries if entry.path.name not in WRITTEN]
    if not handed_in:
        fault = "holds no submission; name the folder or zip of a download"
        raise BookError(f"{path}: {fault}")
    if source:
        _, handed_in = recognised(handed_in, [source])
    else:
        source, handed_in = recognised(handed_in, list(FORMS))
        if source == "plain":
            check_plain(path, handed_in)

    people: People = {}
    if source == "gradescope":
        people = people_of(entries)
    elif source == "blackboard":
        people = attempts_of(handed_in)
    files_by_key = defaultdict(list)
    for entry in handed_in:
        file = hand_in(entry, source, people)
        files_by_key[file.key].append(file)
    submissions = [one_submission(files) for files in files_by_key.values()]
    submissions.sort(key=lambda submission: (submission.student, submission.id))
    print_source(source, submissions)
    return submissions


def print_source(source: str, submissions: list[Submission]) -> None:
    line = f"source: {source}, {len(submissions)} submissions"
    faults = sum(submission.fault is not None for submission in submissions)
    if faults:
        line += f", {faults} of them without a notebook to read"
    print(line)


def single_submission(folder: Path) -> Submission:
    """Return what is in a folder, as the submission of one student. Raises Refused."""
    entries = kept(on_disk(folder.resolve()))
    if not entries:
        raise Refused("nothing was handed in")
    return one_submission([Submission(entry, "", "") for entry in entries])


def recognised(entries: list[Entry], sources: list[str]) -> tuple[str, list[Entry]]:
    """Return the source of these files, and the files below the folders that only hold them all.

    It is the first source in whose form most of the names are. The names are tried with those
    folders first, then with fewer and fewer of them.
    """
    levels = _levels(entries)
    for source in sources:
        for level in levels:
            own = [entry for entry in level if not is_beside(source, entry)]
            matches = matches_of(source, own)
            if len(sources) > 1 and not is_likely(source, matches):
                continue
            if source != "plain" and len(matches) * 2 > len(own):
                return source, own
    innermost = levels[-1]
    if len({entry.path.parts[0] for entry in innermost}) > 1:
        return sources[-1], innermost
    return sources[-1], entries  # the folder of a single student is their name


def _levels(entries: list[Entry]) -> list[list[Entry]]:
    """Return the files with the folders that hold them all, and without one after the other."""
    common = posixpath.commonpath([entry.path.parent for entry in entries])
    levels = []
    for depth in range(len(PurePosixPath(common).parts) + 1):
        level = []
        for entry in entries:
            path = PurePosixPath(*entry.path.parts[depth:])
            level.append(replace(entry, path=path))
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
        return not len(names) == 1 < len(assignments)
    if source == "ilias":
        # `hw_1_part_2` is somebody's folder of an assignment.
        capital = re.compile(r"(?:^|_)[A-Z]")
        with_capital = [match for match in matches if capital.search(match["name"])]
        return len(with_capital) * 2 > len(matches)
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
    loose = []  # files that are no student's notebook
    by_base = defaultdict(list)  # files at the top by the names that they are copies of
    notebooks = Counter()  # by the folder at the top
    for entry in entries:
        top = entry.path.parts[0]
        if len(entry.path.parts) == 1:
            by_base[COPY.sub("", entry.path.stem)].append(top)
            # A link or the like has a fault, and may stand for the folder of a student.
            if not entry.fault and entry.suffix not in NOTEBOOKS:
                loose.append(top)
        elif entry.suffix == ".ipynb":
            notebooks[top] += 1
    copies = []
    for names in by_base.values():
        if len(names) > 1:
            copies += names
    everything = sorted({entry.path.parts[0] for entry in entries})
    stamped = [name for name in everything if STAMP.search(name)]
    full = [name for name, count in notebooks.items() if count > 1]

    if loose:
        return f"{listed(loose)}: neither a notebook nor a student's folder"
    if copies:
        return f"{listed(copies)}: copies under one name, and nothing says whose"
    if len(stamped) * 2 > len(everything):
        fault = "names with a date, of which one student may have several"
        return f"{listed(stamped)}: {fault}"
    if len(notebooks) > 1 and len(full) * 2 > len(notebooks):
        fault = "folders of several notebooks, of which each may be a student's"
        return f"{listed(full)}: {fault}"
    return None


def listed(names: Sequence[str]) -> str:
    text = ", ".join(quoted(name) for name in names[:3])
    if len(names) > 3:
        text += f" and {len(names) - 3} more"
    return text


def one_submission(files: list[Submission]) -> Submission:
    """Choose what a student handed in among several files.

    It is the one notebook, or the newest where the source tells which that is. Otherwise the
    submission has a fault that says why there is none.
    """
    newest = newest_of(files)
    notebooks = [file for file in newest if file.entry.suffix in NOTEBOOKS]
    candidates = notebooks or newest
    first = candidates[0]
    names = " and ".join(quoted(file.entry.path.name) for file in candidates[:3])
    accounts = {file.entry.owner for file in files} - {None}
    fault = None
    if len(notebooks) > 1:
        fault = f"{names} were handed in; keep one notebook"
    elif first.series is not None and len(accounts) > 1:
        # Whoever can write into nbgrader's exchange can make a folder with another's name there.
        # The account that owns it tells.
        count = f"{len(accounts)} accounts handed in under this name"
        fault = f"{count}; keep the student's own"
    elif first.entry.fault:
        fault = f"{quoted(first.entry.path.name)} {first.entry.fault}"
    elif not notebooks:
        fault = f"{names}: no notebook, which ends in .ipynb"
    return replace(first, id=first.make_id(str(first.entry.path)), fault=fault)


def newest_of(files: list[Submission]) -> list[Submission]:
    """Return the files that no newer one of their series replaces."""
    newest: dict[tuple[str, str] | None, Sequence[int]] = {}
    for file in files:
        known = newest.get(file.series, file.order)
        newest[file.series] = max(known, file.order)
    return [file for file in files if file.order == newest[file.series]]


def identity(student: str, who: str, path: str = "") -> str:
    """Return a file name for a submission: readable, and unique by a hash of who and where."""
    ascii_letters = unicodedata.normalize("NFKD", student).encode("ascii", "ignore")
    slug = re.sub("[^a-z0-9]+", "-", ascii_letters.decode().lower())
    slug = slug[:40].strip("-") or "student"
    identified = f"{who}\0{path}".encode("utf-8", "surrogateescape")
    return f"{slug}-{hashlib.sha256(identified).hexdigest()[:12]}"


# --- texts that students chose


def clean(text: str, longest: int = 200) -> str:
    """Return a text in one line that shows as it reads.

    It has no control characters, and none that change the direction of writing.
    """
    text = text.encode("utf-8", "replace").decode("utf-8")
    text = unicodedata.normalize("NFC", text)
    joiners = "\u200c\u200d"  # within words of several scripts
    signs = [sign if sign.isprintable() or sign in joiners else " " for sign in text]
    return " ".join("".join(signs).split())[:longest]


def whose(name: str, known_as: str = "") -> str:
    """Return a student's name, with the id that the source has for them in round brackets.

    Without an id the name ends in no such brackets.
    """
    name = clean(name).replace(SEVERAL, ", ")
    known_as = clean(known_as).replace(SEVERAL, ", ")
    if known_as:
        return f"{name} ({known_as})"
    return name.replace("(", "[").replace(")", "]")


def quoted(text: str) -> str:
    return f"'{clean(text, 80)}'"


# --- notebooks


def read_submission(data: bytes) -> NotebookNode:
    """Return the cells of a notebook as they were handed in. Raises Refused.

    Outputs are left out: what a file says that it printed is no evidence.
    """
    try:
        return read_notebook(json.loads(data.decode("utf-8-sig")))
    except (ValueError, RecursionError) as error:
        reason = str(error) if data.strip() else "it is empty"
    except (AttributeError, LookupError, TypeError):
        reason = "its cells cannot be read"
    fault = f"the file is not a notebook or is cut short ({reason})"
    raise Refused(f"{fault}; save it and hand it in again")


def read_notebook(content: dict[str, Any]) -> NotebookNode:
    """Return a notebook, which need not follow nbformat's schema: some services' do not."""
    minor = content.get("nbformat_minor", 0)
    if content.get("nbformat") != 4 or minor not in range(6):
        fault = "the notebook is in none of the formats 4.0 to 4.5"
        raise Refused(f"{fault}; save it in JupyterLab")
    metadata = mapping(content.get("metadata"))
    language = language_of(metadata)
    if not re.match("i?python", language):
        fault = f"the notebook is in {quoted(language)}"
        raise Refused(f"{fault}; the answers are asked for in Python")
    notebook = {
        "nbformat": 4,
        "nbformat_minor": minor,
        "metadata": metadata,
        "cells": [read_cell(cell) for cell in content["cells"]],
    }
    return nbformat.from_dict(notebook)


def language_of(metadata: dict[str, Any]) -> str:
    kernel = mapping(metadata.get("kernelspec"))
    info = mapping(metadata.get("language_info"))
    kernel_name = str(kernel.get("name")).lower().split("-")[0]
    by_kernel = {"ir": "r", "julia": "julia"}.get(kernel_name, "python")
    language = info.get("name") or kernel.get("language") or by_kernel
    return str(language).lower()


def read_cell(cell: dict[str, Any]) -> dict[str, Any]:
    source = "".join(cell["source"])
    if cell["cell_type"] not in ("code", "markdown", "raw"):
        raise TypeError
    read = {
        "cell_type": cell["cell_type"],
        # JSON may hold half a character.
        "source": source.encode("utf-8", "replace").decode("utf-8"),
        "metadata": mapping(cell.get("metadata")),
    }
    if isinstance(cell.get("id"), str):
        read["id"] = cell["id"]
    return read


def mapping(value: object) -> dict:
    return value if isinstance(value, dict) else {}
