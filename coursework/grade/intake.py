"""What students handed in, as a list of submissions: whose each file of a download is.

Nothing is written, nothing is run. What cannot be graded is in the list all the same, with its
reason in one line.
"""

import hashlib
import io
import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import yaml

from coursework.grade.download import (
    FORMS,
    NOTEBOOKS,
    Entry,
    Refused,
    check_plain,
    clean,
    in_zip,
    on_disk,
    quoted,
    read_entries,
    recognise,
    tidy,
    title_of,
)
from tools.errors import BookError

SEVERAL = "; "  # between the students of one submission
METADATA = "submission_metadata.yml"
# This loader makes text of everything, and no objects.
YAML_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
# Written by nbgrader's exchange and by Gradescope.
WRITTEN = {"timestamp.txt", "submission_secret.txt", METADATA}
MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
# Brightspace's `Feb 2, 2026 358 PM`.
DATE = re.compile(r"([a-z]{3})[a-z.]* (\d+), (\d+) (\d+?)(\d\d) ([ap])m", re.I)
# The first line of the text that Blackboard writes for each attempt.
NAMED = re.compile(r"\s*Name: (?P<name>[^\n]*) \((?P<user>[^()\n]+)\)\s*?(?:\n|\Z)")


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
    files = tidy(in_zip(io.BytesIO(data)))
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
    if not person and user:
        student = whose(name or "anonymous", f"{title_of(source)} {user}")
        person = Person(student, who=f"\0{user}", time=utc(newest))
    elif not person:
        person = Person(whose(name or "anonymous"), who=name, time=utc(newest))
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
        fault = "has no text file that says whose it is"
        return nobodys(entry, f"{fault}; grade the download unchanged")
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
    for entry in entries:
        is_handed_in = FORMS["gradescope"].fullmatch(str(entry.path))
        if entry.path.name == METADATA and not is_handed_in:
            return read_metadata(entry)
    return {}


def read_metadata(entry: Entry) -> People:
    people: People = {}
    faults = (AttributeError, LookupError, TypeError, RecursionError)
    try:
        records = yaml.load(entry.read(), YAML_LOADER)
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
        fault = "contains no submission; name the folder or zip of a download"
        raise BookError(f"{path}: {fault}")
    is_named = source is not None
    source, handed_in = recognise(handed_in, source)
    if source == "plain" and not is_named:
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
    entries = tidy(on_disk(folder.resolve()))
    if not entries:
        raise Refused("nothing was handed in")
    return one_submission([Submission(entry, "", "") for entry in entries])


def one_submission(files: list[Submission]) -> Submission:
    """Choose what a student handed in among several files.

    It is the one notebook, or the newest where the source tells which that is. Otherwise the
    submission has a fault that says why there is none.
    """
    newest = newest_of(files)
    notebooks = [file for file in newest if file.entry.suffix in NOTEBOOKS]
    candidates = notebooks or newest
    first = candidates[0]
    quoted_names = [quoted(file.entry.path.name) for file in candidates[:3]]
    names = " and ".join(quoted_names)
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


def whose(name: str, known_as: str = "") -> str:
    """Return a student's name, with the id that the source has for them in round brackets.

    Without an id the name ends in no such brackets.
    """
    name = clean(name).replace(SEVERAL, ", ")
    known_as = clean(known_as).replace(SEVERAL, ", ")
    if known_as:
        return f"{name} ({known_as})"
    return name.replace("(", "[").replace(")", "]")
