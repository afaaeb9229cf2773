"""Fills grades into the export of an instructor's own gradebook, of Canvas or of Moodle.

Only the grade of a student who was graded changes, in the one column that is meant: every other
byte stays as it was exported, its quoting and the order of its rows too. So what the system itself
wrote comes back to it unchanged, be it a name that begins with `=`, which Canvas writes as
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

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.errors import BookError
from tools.files import write_bytes, written_by
from tools.grade.intake import SEVERAL, clean
from tools.grade.report import BY_HAND
from tools.grade.tables import BOM, FORMULA

POINTS = "Points Possible"
ASSIGNMENT = re.compile(r"(?P<name>.+) \((?P<id>\d+)\)", re.S)
GRADE = "Grade"  # Moodle's column, where the site is in English
KNOWN_AS = {  # the columns that hold what a student may be known by elsewhere
    *("SIS User ID", "SIS Login ID", "Integration ID"),
    *("Email address", "Username", "ID number"),
}
LEFT = {"EX": "excused", "N/A": "not assigned to them"}  # as Canvas says it in place of a grade
STRAYS = 1 / 3  # of a class may have handed in another chapter; more make it unclear which


@dataclass(frozen=True)
class Cell:
    """A cell of a CSV: what it says, and where it stands in the text."""

    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Gradebook:
    """An export, and where in it the grades of one assignment go."""

    system: str  # Canvas or Moodle
    text: str
    header: list[str]
    column: int
    maximum: float
    students: list[list[Cell]]  # the rows of students


def read_rows(text: str, delimiter: str) -> Iterator[list[Cell]]:
    """The rows of a CSV as RFC 4180 has it, every cell with its place. Blank lines are left out."""
    cell = re.compile(
        rf'(?:"(?P<quoted>(?:[^"]|"")*)"?(?P<rest>[^{delimiter}\r\n]*)|[^{delimiter}\r\n]*)'
        rf"(?P<end>{delimiter}|\r\n|\r|\n|\Z)"
    )
    at, row = len(BOM) if text.startswith(BOM) else 0, []
    while at < len(text) or row:
        match = cell.match(text, at)
        quoted, whole = match["quoted"], text[at : match.start("end")]
        said = whole if quoted is None else quoted.replace('""', '"') + match["rest"]
        row.append(Cell(said, at, match.start("end")))
        at = match.end()
        if match["end"] != delimiter:
            if len(row) > 1 or row[0].text:
                yield row
            row = []


def read_gradebook(text: str, where: str, column: str | None, assignment: str) -> Gradebook:
    """The export, with the column of the grades: the one named, or the one of the assignment.

    Raises BookError, which begins with `where`.
    """
    first = text.removeprefix(BOM).partition("\n")[0]
    delimiter = max(",;\t", key=first.count)  # Canvas writes `;` where the comma is a decimal sign
    rows = list(read_rows(text, delimiter))
    header = [cell.text for cell in rows[0]] if rows else []
    if "ID" in header and {"Student", "LastName"} & set(header):
        return _canvas(text, where, column or assignment, rows, header)
    if rows[1:] and all(re.search(r"\d$", row[0].text) for row in rows[1:]):
        return _moodle(text, where, column or GRADE, rows, header)
    raise BookError(
        f"{where}: neither a gradebook of Canvas nor a grading worksheet of Moodle; export it "
        "again as CSV, and leave it as it is"
    )


def _canvas(
    text: str, where: str, wanted: str, rows: list[list[Cell]], header: list[str]
) -> Gradebook:
    """An export of Canvas's gradebook. Raises BookError."""
    possible = next((row for row in rows if row[0].text.strip() == POINTS), None)
    if possible is None:
        raise BookError(f"{where}: no row '{POINTS}'; export the gradebook again, whole")
    found = {}  # place of each assignment that has points
    for place, (name, cell) in enumerate(zip(header, possible, strict=False)):
        if ASSIGNMENT.fullmatch(name) and number(cell.text) is not None:
            found[place] = name
    places = [place for place, name in found.items() if _meant(wanted, name)]
    if len(places) != 1:
        names = "; ".join(found.values()) or "none has points"
        raise BookError(
            f"{where}: {len(places)} columns for '{wanted}'; name one with --column: {names}"
        )
    [place], own = places, header.index("ID")
    students = [row for row in rows[1:] if len(row) > own and row[own].text.strip()]
    return Gradebook("Canvas", text, header, place, number(possible[place].text), students)


def _meant(wanted: str, name: str) -> bool:
    """Is this the column that is wanted: by its whole name, without its id, or by its id?"""
    match = ASSIGNMENT.fullmatch(name)
    plain = [" ".join(re.findall(r"\w+", text.casefold())) for text in (wanted, match["name"])]
    return wanted in (name, match["id"]) or plain[0] == plain[1]


def _moodle(
    text: str, where: str, wanted: str, rows: list[list[Cell]], header: list[str]
) -> Gradebook:
    """A grading worksheet of Moodle. Raises BookError."""
    if wanted not in header:
        raise BookError(
            f"{where}: no column '{wanted}'; name the one of the grades with --column: "
            f"{'; '.join(header)}"
        )
    place = header.index(wanted)
    said = {row[place + 1].text for row in rows[1:] if len(row) > place + 1}
    maximum = number(said.pop()) if len(said) == 1 else None
    if maximum is None:
        raise BookError(
            f"{where}: no maximum in the column after '{wanted}'; grade the assignment by points, "
            "not by a scale, and download the worksheet again"
        )
    return Gradebook("Moodle", text, header, place, maximum, rows[1:])


def number(text: str) -> float | None:
    """The number that a cell says, with a point or a comma, or None."""
    try:
        value = float(text.strip().replace(",", "."))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def fill(
    book: Gradebook, results: list[dict], chapter: str, where: str, scale: bool = False
) -> tuple[str, list[str]]:
    """The export with the points of these results, and what a person should know.

    A student who is not in it, or twice, or whose submission was refused or is of another chapter,
    is named and gets nothing: never a zero that nobody gave, nor points of which some are still to
    come. Raises BookError if nobody can be filled in, or if the export counts other points than we
    do and `scale` is not asked for.
    """
    notes, cells = [], {}
    handed_in: dict[int, list[tuple[str, dict]]] = {}  # by where a student's row begins
    rows = {row[0].start: row for row in book.students}
    there = {result["student"] for result in results if result["assignment"] in (chapter, None)}
    for result in sorted(results, key=lambda made: (made["student"], made["submission"])):
        if result["assignment"] not in (chapter, None):
            if result["student"] not in there:
                notes.append(
                    f"not filled in: {result['student']}: handed in {result['assignment']}"
                )
            continue
        if result["status"] == "graded" and result["of"] != book.maximum and not scale:
            raise BookError(
                f"{where}: '{book.header[book.column]}' counts {shown(book.maximum)} points, the "
                f"exercises {shown(result['of'])}; change it there, or add --scale"
            )
        for name in result["student"].split(SEVERAL):
            found = _rows_of(name, book)
            if len(found) == 1:
                handed_in.setdefault(found[0][0].start, []).append((name, result))
            else:
                reason = "is in several rows of" if found else "is not in"
                notes.append(f"not filled in: {name}: {result['reason'] or f'{reason} {where}'}")
    for start, given in handed_in.items():
        name, result = given[0]
        cell = next(iter(rows[start][book.column :]), None)
        if reason := _why_not(given, cell):
            notes.append(f"not filled in: {name}: {reason}")
            continue
        share = result["points"] / (result["of"] or 1)
        cells[cell] = shown(share * book.maximum if scale else result["points"])
        before = number(cell.text)
        if cell.text.strip() and (before is None or shown(before) != cells[cell]):
            notes.append(f"replaced: {name}: {clean(cell.text)} by {cells[cell]}")
    if not cells:
        raise BookError("\n".join([f"{where}: nobody can be filled in", *notes]))
    notes.append(f"filled in: {len(cells)} of {len(book.students)} students")
    if absent := [clean(row[0].text) for start, row in rows.items() if start not in handed_in]:
        more = f" and {len(absent) - 10} more" if len(absent) > 10 else ""
        notes.append(f"nothing handed in: {'; '.join(absent[:10])}{more}")
    if any(FORMULA.match(cell.text) for row in book.students for cell in row):
        notes.append("note: some cells begin as a formula does; the export had them")
    return _replaced(book.text, cells), notes


def _why_not(given: list[tuple[str, dict]], cell: Cell | None) -> str | None:
    """Why a student's cell is left as it is, if so: what was handed in, or what it says."""
    if len(given) > 1:
        return "two results, " + " and ".join(f"'{result['submission']}'" for _, result in given)
    [(_, result)] = given
    if result["status"] != "graded":
        return result["reason"]
    if waiting := [n for n, part in result.get("by_hand", {}).items() if part["points"] is None]:
        return f"exercise {', '.join(waiting)} waits for points in {BY_HAND}"
    return "the row ends early" if cell is None else LEFT.get(cell.text.strip().upper())


def _rows_of(student: str, book: Gradebook) -> list[list[Cell]]:
    """The rows of a student, as intake names them: 'doejane (Canvas 340934)'."""
    match = re.fullmatch(r".*\((?P<known>[^()]*)\)", student, re.S)
    known = match["known"] if match else student
    if own := re.fullmatch(r"(Canvas|Moodle) (.+)", known if match else ""):
        if own[1] != book.system:
            return []
        if book.system == "Canvas":
            place = book.header.index("ID")
            return [row for row in book.students if row[place].text.strip() == own[2]]
        return [row for row in book.students if re.search(r"\d+$", row[0].text)[0] == own[2]]
    if not known.strip():
        return []
    places = [place for place, name in enumerate(book.header) if name in KNOWN_AS]
    return [
        row
        for row in book.students
        if any(
            row[place].text.casefold() == known.casefold() for place in places if place < len(row)
        )
    ]


def shown(points: float) -> str:
    """A number of points: two decimals at most, as Canvas shows them."""
    return f"{points:.2f}".rstrip("0").rstrip(".")


def _replaced(text: str, cells: dict[Cell, str]) -> str:
    """The text with other words in some cells, each quoted as it was."""
    parts, at = [], 0
    for cell, said in sorted(cells.items(), key=lambda item: item[0].start):
        quote = '"' if text.startswith('"', cell.start) else ""
        parts += [text[at : cell.start], quote, said, quote]
        at = cell.end
    return "".join([*parts, text[at:]])


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
    try:
        data = export.read_bytes()
    except OSError as error:
        raise BookError(f"{export}: cannot be read ({error.strerror}); export it again") from None
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise BookError(f"{export}: UTF-16, so a spreadsheet saved it; export it again, as CSV")
    encoding = "utf-8"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        encoding = "latin-1"  # which maps every byte to a character and back
        text = data.decode(encoding)
    book = read_gradebook(text, str(export), column, chapter)
    text, notes = fill(book, results, chapter, str(export), scale)
    path = export.with_name(f"{export.stem}-filled{export.suffix}")
    write_bytes(path, text.encode(encoding), path.parent)
    print(f"{book.system}: '{book.header[book.column]}', {shown(book.maximum)} points")
    print("\n".join([*notes, f"written: {path}"]))
