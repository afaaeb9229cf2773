"""Fills grades into the export of an instructor's own gradebook, of Canvas or of Moodle.

Only the grade of a student who was graded changes. All other cells, the order of rows, the
delimiter and the encoding stay as they were, and so does a name that Canvas writes as `="=name"`.

- Canvas, *Grades*, *Export*: `Student, ID, SIS User ID, SIS Login ID, Section`, a column
  `Name (4711)` for each assignment, totals; above the students a row `Points Possible`. Its
  importer takes a point for the decimal sign in every language. See lib/gradebook_exporter.rb and
  lib/gradebook_importer.rb of https://github.com/instructure/canvas-lms.
- Moodle, *Download grading worksheet*: `Identifier` (`Participant 123456`), ..., `Grade,
  Maximum grade, ...`, in the language of the site: known by where they stand. See
  mod/assign/gradingtable.php and mod/assign/feedback/offline/importgradeslib.php of
  https://github.com/moodle/moodle.
"""

import csv
import io
import json
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from coursework.grade.by_hand import BY_HAND
from coursework.grade.download import clean
from coursework.grade.intake import SEVERAL
from coursework.grade.results import Grade, late_notes, shown
from coursework.grade.tables import BOM
from tools.errors import BookError
from tools.files import write_bytes, written_by

POINTS = "Points Possible"
GRADE = "Grade"  # Moodle's column, where the site is in English
# The columns with what a student may be known by.
KNOWN_AS = {
    "SIS User ID",
    "SIS Login ID",
    "Integration ID",
    "Email address",
    "Username",
    "ID number",
}
# What Canvas writes in place of a grade, which then stays.
EXEMPT = {"EX": "excused", "N/A": "not assigned to them"}
# The share of a class that may have handed in another chapter; with more it is not clear which
# one is meant.
STRAYS = 1 / 3
ENCODING = ("utf-8", "surrogateescape")  # keeps the bytes of any other as they are
MAX_ABSENT = 10  # students named who handed nothing in


def fill_export(
    export: Path,
    folder: Path,
    column: str | None = None,
    scale: bool = False,
    chapter: str | None = None,
) -> None:
    """Write the filled export beside the one that was exported, which stays. Raises BookError."""
    grades = read_grades(folder)
    chapter = chapter or chapter_of(grades, folder)
    gradebook = Gradebook(export, column, chapter)
    notes = gradebook.fill(grades, chapter, scale)
    path = export.with_name(f"{export.stem}-filled{export.suffix}")
    write_bytes(path, gradebook.as_bytes(), path.parent)
    maximum = shown(gradebook.maximum)
    print(f"{gradebook.system}: '{gradebook.title}', {maximum} points")
    for note in notes:
        print(note)
    print(f"written: {path}")


def read_grades(folder: Path) -> list[Grade]:
    """Return the grades that a folder holds. Raises BookError."""
    paths = sorted(folder.glob("results/*.json"))
    if not paths:
        raise BookError(f"{folder}: no results; run 'make grade SUBMISSIONS=...' first")
    with written_by("make grade", str(folder / "results")):
        entries = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
        return [Grade.from_json(entry) for entry in entries]


def chapter_of(grades: list[Grade], folder: Path) -> str:
    """Return the chapter that most have handed in. Raises BookError if it is not clear."""
    names = sorted(grade.assignment for grade in grades if grade.assignment)
    for most, count in Counter(names).most_common(1):
        if count >= (1 - STRAYS) * len(names):
            return most
    known = ", ".join(dict.fromkeys(names)) or "none"
    fault = "whose grades are meant? name one with --chapter"
    raise BookError(f"{folder}: {fault}: {known}")


@dataclass(frozen=True)
class HandIn:
    """A grade, and the name of one of the students who handed in together."""

    name: str
    grade: Grade


class Gradebook:
    """An export, and where in it the grades of one assignment go."""

    def __init__(self, export: Path, wanted: str | None, chapter: str) -> None:
        """Read an export. `wanted` is the name of the column, else that of the chapter."""
        self.where = str(export)
        self._read(export)
        self.columns = list(zip_longest(*self.rows, fillvalue="")) or [("",)]
        self.header = [column[0] for column in self.columns]
        if "ID" in self.header[1:]:
            self.system = "Canvas"
            id_column = self.columns[self.header.index("ID", 1)]
            own_column = chapter
        else:
            self.system = "Moodle"
            id_column = self.columns[0]
            own_column = GRADE

        ids = ids_in(id_column)
        self.students = self._students(ids)
        maximums = self._maximums(list(ids))
        wanted = wanted or own_column
        self.column = self._find_column(wanted, maximums)
        self.title = self.header[self.column]
        self.maximum = maximums[self.column]

    def _read(self, export: Path) -> None:
        try:
            text = export.read_bytes().decode(*ENCODING)
        except OSError as error:
            fault = f"cannot be read ({error.strerror}); export it"
            raise BookError(f"{export}: {fault}") from None
        self.bom = BOM if text.startswith(BOM) else ""
        first = text.partition("\n")[0]
        self.dialect = {
            # Canvas writes `;` where the comma is the decimal sign.
            "delimiter": max(",;\t", key=first.count),
            "lineterminator": "\r\n" if "\r" in first else "\n",
        }
        lines = io.StringIO(text.removeprefix(BOM), newline="")
        self.rows = list(csv.reader(lines, **self.dialect))

    def as_bytes(self) -> bytes:
        text = io.StringIO()
        csv.writer(text, **self.dialect).writerows(self.rows)
        return (self.bom + text.getvalue()).encode(*ENCODING)

    def _students(self, ids: dict[int, str]) -> dict[str, set[int]]:
        """Return the rows of students by all that grades may call them."""
        known_as = [column for column in self.columns if column[0] in KNOWN_AS]
        students = defaultdict(set)
        for row, id in ids.items():
            names = [f"({self.system} {id})"]
            for column in known_as:
                name = column[row]
                if name:
                    names += [name, f"({name})"]
            for name in names:
                students[name.casefold()].add(row)
        return students

    def _maximums(self, student_rows: list[int]) -> dict[int, float]:
        """Return the points that each column counts, by the place of the column.

        Canvas says it in a row of its own, Moodle in the next column, for each student.
        """
        if self.system == "Canvas":
            names = enumerate(self.columns[0])
            rows = [row for row, name in names if name.strip() == POINTS]
            columns = self.columns
        else:
            rows = student_rows
            columns = self.columns[1:]
        maximums = {}
        for place, column in enumerate(columns):
            numbers = {number(column[row]) for row in rows}
            if len(numbers) == 1 and None not in numbers:
                maximums[place] = numbers.pop()
        return maximums

    def _find_column(self, wanted: str, maximums: dict[int, float]) -> int:
        """Return the place of the column of this name that counts points. Raises BookError."""
        if not maximums:
            like = "as in a gradebook of Canvas or a grading worksheet of Moodle"
            fault = f"no column has points, {like}"
            raise BookError(f"{self.where}: {fault}; export it again as CSV")
        places = [place for place in maximums if _is_called(self.header[place], wanted)]
        if len(places) != 1:
            known = "; ".join(self.header[place] for place in maximums)
            fault = f"{len(places)} columns for '{wanted}'"
            raise BookError(f"{self.where}: {fault}; name one with --column: {known}")
        return places[0]

    # --- filling in

    def fill(self, grades: list[Grade], chapter: str, scale: bool = False) -> list[str]:
        """Fill in the points of these grades; return what a person should know.

        Those who are not in the export or twice, were refused, handed in another chapter or wait
        for points by hand are named and get nothing, never a zero that nobody gave. Raises
        BookError.
        """
        if not scale:
            self._check_maximum(grades, chapter)
        handed_in, left_out = self._find(grades, chapter)
        notes = []
        filled_in = []
        for row, hand_ins in handed_in.items():
            before = self.columns[self.column][row]
            name = hand_ins[0].name
            reason = why_not([hand_in.grade for hand_in in hand_ins], before)
            if reason:
                left_out[name] = reason
                continue

            left_out.pop(name, None)  # another chapter of theirs
            grade = hand_ins[0].grade
            after = self._points(grade, scale)
            self._write(row, after)
            filled_in.append(grade)
            if before.strip() and shown(number(before)) != after:
                notes.append(f"replaced: {name}: {clean(before)} by {after}")
        for name, reason in left_out.items():
            notes.append(f"not filled in: {name}: {reason}")
        if not filled_in:
            fault = f"{self.where}: nobody can be filled in"
            raise BookError("\n".join([fault, *notes]))
        notes += late_notes(filled_in)
        notes += self._count_notes(filled_in, set(handed_in))
        return notes

    def _write(self, row: int, points: str) -> None:
        cells = self.rows[row]
        missing = self.column + 1 - len(cells)
        cells += [""] * missing
        cells[self.column] = points

    def _check_maximum(self, grades: list[Grade], chapter: str) -> None:
        for grade in in_order(grades):
            is_graded = grade.assignment in (chapter, None) and not grade.reason
            if is_graded and grade.of != self.maximum:
                maximum = f"{shown(self.maximum)} points"
                counts = f"counts {maximum}, the exercises {shown(grade.of)}"
                advice = "change it there, or add --scale"
                raise BookError(f"{self.where}: '{self.title}' {counts}; {advice}")

    def _find(
        self, grades: list[Grade], chapter: str
    ) -> tuple[dict[int, list[HandIn]], dict[str, str]]:
        """Return what was handed in by row, and by name why others have no grade."""
        handed_in = defaultdict(list)
        left_out: dict[str, str] = {}
        for grade in in_order(grades):
            for name in grade.student.split(SEVERAL):
                rows = self._rows_of(name)
                if grade.assignment not in (chapter, None):
                    left_out.setdefault(name, f"handed in {grade.assignment}")
                elif len(rows) == 1:
                    handed_in[min(rows)].append(HandIn(name, grade))
                elif grade.reason:
                    left_out[name] = grade.reason
                elif rows:
                    left_out[name] = f"is in several rows of {self.where}"
                else:
                    left_out[name] = f"is not in {self.where}"
        return handed_in, left_out

    def _rows_of(self, name: str) -> set[int]:
        known_as = name
        if name.endswith(")"):
            known_as = f"({name.rpartition('(')[2]}"
        return self.students.get(known_as.casefold(), set())

    def _points(self, grade: Grade, scale: bool) -> str:
        points = grade.points_after  # if late, less the penalty
        if points is None:  # an earlier version wrote the result
            points = grade.points
        if scale:
            points *= self.maximum / (grade.of or 1)
        return shown(points)

    def _count_notes(self, filled_in: list[Grade], handed_in: set[int]) -> list[str]:
        rows = set().union(*self.students.values())
        notes = [f"filled in: {len(filled_in)} of {len(rows)} students"]
        absent = sorted(rows - handed_in)
        if absent:
            names = [clean(self.rows[row][0]) for row in absent[:MAX_ABSENT]]
            listed = "; ".join(names)
            if len(absent) > MAX_ABSENT:
                listed += f" and {len(absent) - MAX_ABSENT} more"
            notes.append(f"nothing handed in: {listed}")
        return notes


def ids_in(column: tuple[str, ...]) -> dict[int, str]:
    """Return the numbers at the end of the cells of a column, by row."""
    ids = {}
    for row, cell in enumerate(column):
        id = re.search(r"\d*$", cell.strip())[0]
        if id:
            ids[row] = id
    return ids


def in_order(grades: list[Grade]) -> list[Grade]:
    return sorted(grades, key=lambda grade: (grade.student, grade.submission))


def _is_called(name: str, wanted: str) -> bool:
    """Tell whether a column is meant: by its name, Canvas's number, or the words of the name."""
    words, id = re.fullmatch(r"(.*?)(?: \((\d+)\))?", name, re.S).groups()
    return wanted in (name, id) or words_of(wanted) == words_of(words)


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def why_not(grades: list[Grade], before: str) -> str | None:
    """Return why a student's grades are not filled in where `before` stands."""
    if len(grades) > 1:
        names = " and ".join(f"'{grade.submission}'" for grade in grades)
        return f"two results, {names}"
    [grade] = grades
    waiting = []
    for exercise, part in grade.by_hand.items():
        if part.points is None:
            waiting.append(str(exercise))
    if waiting:
        return f"exercise {', '.join(waiting)} waits for points in {BY_HAND}"
    return grade.reason or EXEMPT.get(before.strip().upper())


def number(text: str) -> float | None:
    """Return the number in a cell, with a point or a comma, or None."""
    match = re.fullmatch(r"\s*(-?\d+(?:[.,]\d*)?)\s*", text)
    return float(match[1].replace(",", ".")) if match else None
