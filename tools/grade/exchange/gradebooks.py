"""Fills grades into the export of an instructor's own gradebook, of Canvas or of Moodle.

Only the grade of a student who was graded changes, in the one column that is meant: every other
cell stays as it was exported, and so do the order of rows, the delimiter and the encoding. What the
system itself wrote comes back to it, be it a name that begins with `=`, which Canvas writes as
`="=name"`; what we write are numbers, which no spreadsheet takes for a formula.

- Canvas, *Grades*, *Export*: `Student, ID, SIS User ID, SIS Login ID, Section`, a column
  `Name (4711)` for each assignment, totals; above the students a row `Points Possible` and maybe
  one of `Manual Posting`. See https://github.com/instructure/canvas-lms, lib/gradebook_exporter.rb;
  its importer takes a point for the decimal sign in every language (lib/gradebook_importer.rb).
- Moodle, *Download grading worksheet*: `Identifier` (`Participant 123456`), `Full name`, ...,
  `Grade, Maximum grade, ...`, in the language of the site, so the first column and the one after
  the grade are known by where they stand. See https://github.com/moodle/moodle,
  mod/assign/gradingtable.php and mod/assign/feedback/offline/importgradeslib.php.
"""

import csv
import io
import json
import math
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tools.errors import BookError
from tools.files import write_bytes, written_by
from tools.grade.intake import SEVERAL, clean
from tools.grade.report import BY_HAND
from tools.grade.tables import FORMULA

POINTS = "Points Possible"
ASSIGNMENT = re.compile(r"(?P<name>.+) \((?P<id>\d+)\)", re.S)
GRADE = "Grade"  # Moodle's column, where the site is in English
KNOWN_AS = {  # the columns that hold what a student may be known by elsewhere
    *("SIS User ID", "SIS Login ID", "Integration ID"),
    *("Email address", "Username", "ID number"),
}
LEFT = {"EX": "excused", "N/A": "not assigned to them"}  # as Canvas says it in place of a grade
STRAYS = 1 / 3  # of a class may have handed in another chapter; more make it unclear which

Row = list[str]


@dataclass
class Gradebook:
    """An export, and where in it the grades of one assignment go."""

    where: str
    encoding: str
    dialect: dict[str, str]  # its delimiter and its ends of lines, for `csv`
    rows: list[Row]
    system: str = "Moodle"
    column: int = 0
    maximum: float = 0

    @property
    def header(self) -> Row:
        return self.rows[0] if self.rows else []

    @property
    def students(self) -> list[tuple[str, Row]]:
        """What the system knows a student by, and their row."""
        if self.system == "Moodle":
            return [(re.search(r"\d+$", row[0])[0], row) for row in self.rows[1:] if row]
        own = self.header.index("ID")
        return [(row[own].strip(), row) for row in self.rows[1:] if row[own:] and row[own].strip()]

    def encoded(self) -> bytes:
        written = io.StringIO()
        csv.writer(written, **self.dialect).writerows(self.rows)
        return written.getvalue().encode(self.encoding)


def read_gradebook(export: Path, column: str | None, assignment: str) -> Gradebook:
    """The export, with the column of the grades: the one named, or the one of the assignment.

    Raises BookError.
    """
    try:
        data = export.read_bytes()
    except OSError as error:
        raise BookError(f"{export}: cannot be read ({error.strerror}); export it again") from None
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise BookError(f"{export}: UTF-16, so a spreadsheet saved it; export it again, as CSV")
    encoding = "utf-8-sig" if data.startswith(b"\xef\xbb\xbf") else "utf-8"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        encoding = "latin-1"  # which maps every byte to a character and back
        text = data.decode(encoding)
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)  # Canvas writes `;` where the comma is a decimal sign
    dialect = {"delimiter": delimiter, "lineterminator": "\r\n" if "\r" in first else "\n"}
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    book = Gradebook(str(export), encoding, dialect, rows)
    if "ID" in book.header and {"Student", "LastName"} & set(book.header):
        _find_in_canvas(book, column or assignment)
    elif rows[1:] and all(re.search(r"\d$", row[0]) for row in rows[1:] if row):
        _find_in_moodle(book, column or GRADE)
    else:
        raise BookError(
            f"{export}: neither a gradebook of Canvas nor a grading worksheet of Moodle; export "
            "it again as CSV, and leave it as it is"
        )
    return book


def _find_in_canvas(book: Gradebook, wanted: str) -> None:
    """Find the column of an assignment, by its whole name, without its id, or by its id."""
    possible = next((row for row in book.rows if row and row[0].strip() == POINTS), None)
    if possible is None:
        raise BookError(f"{book.where}: no row '{POINTS}'; export the gradebook again, whole")
    found = {}  # place of each assignment that has points
    for place, (name, points) in enumerate(zip(book.header, possible, strict=False)):
        if ASSIGNMENT.fullmatch(name) and number(points) is not None:
            found[place] = name
    places = []
    for place, name in found.items():
        match = ASSIGNMENT.fullmatch(name)
        plain = [" ".join(re.findall(r"\w+", text.casefold())) for text in (wanted, match["name"])]
        if wanted in (name, match["id"]) or plain[0] == plain[1]:
            places.append(place)
    if len(places) != 1:
        names = "; ".join(found.values()) or "none has points"
        raise BookError(
            f"{book.where}: {len(places)} columns for '{wanted}'; name one with --column: {names}"
        )
    book.system, book.column, book.maximum = "Canvas", places[0], number(possible[places[0]])


def _find_in_moodle(book: Gradebook, wanted: str) -> None:
    """Find the column of the grades, and their maximum in the one after it."""
    if wanted not in book.header:
        raise BookError(
            f"{book.where}: no column '{wanted}'; name the one of the grades with --column: "
            f"{'; '.join(book.header)}"
        )
    book.column = book.header.index(wanted)
    said = {row[book.column + 1] for row in book.rows[1:] if len(row) > book.column + 1}
    maximum = number(said.pop()) if len(said) == 1 else None
    if maximum is None:
        raise BookError(
            f"{book.where}: no maximum in the column after '{wanted}'; grade the assignment by "
            "points, not by a scale, and download the worksheet again"
        )
    book.maximum = maximum


def number(text: str) -> float | None:
    """The number that a cell says, with a point or a comma, or None."""
    try:
        value = float(text.strip().replace(",", "."))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def fill(book: Gradebook, results: list[dict], chapter: str, scale: bool = False) -> list[str]:
    """Fill the points of these results in; returns what a person should know.

    A student who is not in it, or twice, or whose submission was refused or is of another chapter,
    is named and gets nothing: never a zero that nobody gave, nor points of which some are still to
    come. Raises BookError if nobody can be filled in, or if the export counts other points than we
    do and `scale` is not asked for.
    """
    notes, filled = [], 0
    handed_in: dict[str, list[tuple[str, dict, Row]]] = {}  # by what the system knows them by
    there = {result["student"] for result in results if result["assignment"] in (chapter, None)}
    for result in sorted(results, key=lambda made: (made["student"], made["submission"])):
        if result["assignment"] not in (chapter, None):
            if result["student"] not in there:
                stray = f"not filled in: {result['student']}: handed in {result['assignment']}"
                notes.append(stray)
            continue
        if result["status"] == "graded" and result["of"] != book.maximum and not scale:
            raise BookError(
                f"{book.where}: '{book.header[book.column]}' counts {shown(book.maximum)} points, "
                f"the exercises {shown(result['of'])}; change it there, or add --scale"
            )
        for name in result["student"].split(SEVERAL):
            found = _rows_of(name, book)
            if len(found) == 1:
                [(id, row)] = found
                handed_in.setdefault(id, []).append((name, result, row))
            else:
                reason = "is in several rows of" if found else "is not in"
                reason = result["reason"] or f"{reason} {book.where}"
                notes.append(f"not filled in: {name}: {reason}")
    for given in handed_in.values():
        name, result, row = given[0]
        was = row[book.column] if book.column < len(row) else None
        if reason := _why_not([result for _, result, _ in given], was):
            notes.append(f"not filled in: {name}: {reason}")
            continue
        share = result["points"] / (result["of"] or 1)
        row[book.column] = shown(share * book.maximum if scale else result["points"])
        filled += 1
        before = number(was)
        if was.strip() and (before is None or shown(before) != row[book.column]):
            notes.append(f"replaced: {name}: {clean(was)} by {row[book.column]}")
    if not filled:
        raise BookError("\n".join([f"{book.where}: nobody can be filled in", *notes]))
    notes.append(f"filled in: {filled} of {len(book.students)} students")
    if absent := [clean(row[0]) for id, row in book.students if id not in handed_in]:
        more = f" and {len(absent) - 10} more" if len(absent) > 10 else ""
        notes.append(f"nothing handed in: {'; '.join(absent[:10])}{more}")
    if any(FORMULA.match(text) for _, row in book.students for text in row):
        notes.append("note: some cells begin as a formula does; the export had them")
    return notes


def _why_not(given: list[dict], was: str | None) -> str | None:
    """Why a student's cell is left as it is, if so: what was handed in, or what it says."""
    if len(given) > 1:
        return "two results, " + " and ".join(f"'{result['submission']}'" for result in given)
    [result] = given
    if result["status"] != "graded":
        return result["reason"]
    if waiting := [n for n, part in result.get("by_hand", {}).items() if part["points"] is None]:
        return f"exercise {', '.join(waiting)} waits for points in {BY_HAND}"
    return "the row ends early" if was is None else LEFT.get(was.strip().upper())


def _rows_of(student: str, book: Gradebook) -> list[tuple[str, Row]]:
    """The rows of a student, as intake names them: 'doejane (Canvas 340934)'."""
    match = re.fullmatch(r".*\((?:(?P<system>Canvas|Moodle) )?(?P<known>[^()]*)\)", student, re.S)
    system, known = match.group("system", "known") if match else (None, student)
    if system:
        return [(id, row) for id, row in book.students if (system, id) == (book.system, known)]
    places = [place for place, name in enumerate(book.header) if name in KNOWN_AS]
    return [
        (id, row)
        for id, row in book.students
        if known.strip()
        and known.casefold() in {row[place].casefold() for place in places if place < len(row)}
    ]


def shown(points: float) -> str:
    """A number of points: two decimals at most, as Canvas shows them."""
    return f"{points:.2f}".rstrip("0").rstrip(".")


def _read_results(folder: Path) -> list[dict]:
    """The results that `make grade` left in a folder. Raises BookError."""
    paths = sorted(folder.glob("results/*.json"))
    if not paths:
        raise BookError(f"{folder}: no results; run 'make grade SUBMISSIONS=...' first")
    with written_by("make grade", str(folder / "results")):
        return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def _chapter_of(results: list[dict], folder: Path) -> str:
    """The chapter that these are the grades of. Raises BookError if they are of several."""
    count = Counter(result["assignment"] for result in results if result["assignment"])
    most = max(sorted(count), key=count.get, default=None)
    if most is None or count.total() - count[most] > STRAYS * count.total():
        names = ", ".join(sorted(count)) or "none"
        raise BookError(f"{folder}: whose grades are meant? name one with --chapter: {names}")
    return most


def fill_export(
    export: Path,
    folder: Path,
    column: str | None = None,
    scale: bool = False,
    chapter: str | None = None,
) -> None:
    """Write the filled export beside the one that was exported, which stays. Raises BookError."""
    results = _read_results(folder)
    chapter = chapter or _chapter_of(results, folder)
    book = read_gradebook(export, column, chapter)
    notes = fill(book, results, chapter, scale)
    path = export.with_name(f"{export.stem}-filled{export.suffix}")
    write_bytes(path, book.encoded(), path.parent)
    print(f"{book.system}: '{book.header[book.column]}', {shown(book.maximum)} points")
    print("\n".join([*notes, f"written: {path}"]))
