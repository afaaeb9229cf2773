"""The points that people give: `by-hand.csv`, and the copies of it that several graders fill in.

A person may save the table at any time, also while grading runs: it is read again right before it
is written, and what was typed since counts. A copy beside it (`by-hand-anna.csv`, or
`by-hand (1).csv`, as browsers name it) is merged into it and then moved to `earlier/`.
"""

import csv
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from coursework.grade.points import rounded, shown
from coursework.grade.results import Grade
from coursework.grade.store import Store
from coursework.grade.tables import (
    COMMAS,
    Layout,
    encoding_of,
    is_western,
    numbered_rows,
    read_table,
    separator_of,
)
from tools.errors import BookError

BY_HAND = "by-hand.csv"
COPIES = "by-hand*.csv"
ABOUT = ("student", "submission", "assignment", "exercise", "rubric", "of")
TYPED = {"points": "", "note": ""}  # what a person types, beside columns of their own
NEEDED = ("submission", "assignment", "exercise", "of", "points")
AGAIN = "given for an earlier hand-in"  # a note beside points; a person takes it away
SETTLED = (
    0.2  # seconds without a change, after which a program has saved the whole file
)
TRIES = 25

Key = tuple[str, str, str]  # submission, assignment and exercise of points by hand
Row = dict[str, str]
Typed = Mapping[Key, Row]


# --- one file


@dataclass(frozen=True)
class Table:
    """A table that a person saved: its rows, and how their spreadsheet writes it."""

    rows: dict[Key, Row]
    layout: Layout


def number_in(cell: str) -> float:
    """The number in a cell, with a decimal point or comma. Raises ValueError."""
    return float(cell.strip().replace(",", "."))


def points_in(cell: str) -> int | float | None:
    """The points in a cell; None where it is empty."""
    return rounded(number_in(cell)) if cell.strip() else None


def parse_table(data: bytes, name: str, students: Mapping[str, str]) -> Table:
    """Read a table as a spreadsheet saved it. `students` are names by submission: they tell whether
    an encoding was guessed right. Raises BookError, which says what is wrong in which row."""
    try:
        encoding = encoding_of(data)
    except ValueError:
        raise BookError(
            f"{name}: its encoding is not clear; save it as CSV UTF-8"
        ) from None
    try:
        separator, text = separator_of(data.decode(encoding), NEEDED)
        numbered = numbered_rows(text, separator) if separator else []
    except csv.Error as error:
        raise BookError(
            f"{name}: cannot be read ({error}); save it as CSV UTF-8"
        ) from None
    if separator is None:
        fault = f"its first row does not name the columns {', '.join(NEEDED)}"
        advice = (
            "keep that row, and save it with commas, semicolons or tabs between columns"
        )
        raise BookError(f"{name}: {fault}; {advice}")

    rows: dict[Key, Row] = {}
    lines: dict[Key, int] = {}
    for line, row in numbered:
        key = (
            row["submission"].strip(),
            row["assignment"].strip(),
            row["exercise"].strip(),
        )
        if key in rows:
            fault = f"rows {lines[key]} and {line} are both for {person_of(key, row)}"
            raise BookError(f"{name}: {fault}; keep one of them")
        check_points(row, line, name)
        if encoding == "cp1252":
            check_guess(row, line, name, students)
        row.setdefault("note", "")
        rows[key] = row
        lines[key] = line
    return Table(rows, Layout(separator, decimal_of(separator, rows.values())))


def person_of(key: Key, row: Mapping[str, str]) -> str:
    submission, assignment, exercise = key
    return f"{row.get('student') or submission}, {assignment} exercise {exercise}"


def check_points(row: Row, line: int, name: str) -> None:
    try:
        if row["points"].strip() and not 0 <= number_in(row["points"]) <= number_in(
            row["of"]
        ):
            raise ValueError
    except ValueError:
        student = row.get("student") or row["submission"]
        fault = f"row {line} gives {student} '{row['points'][:20]}' points"
        raise BookError(
            f"{name}: {fault}; write a number from 0 to {row['of']}"
        ) from None


def check_guess(row: Row, line: int, name: str, students: Mapping[str, str]) -> None:
    """Raise BookError if cp1252 was a wrong guess: a student's name has letters that it does not
    have in the results, or what a person typed looks like another alphabet."""
    known = students.get(row["submission"], "")
    letters = {sign for sign in row.get("student", "") if not sign.isascii()}
    if known and not letters <= set(known):
        fault = (
            f"row {line} has another name than '{known}', so its encoding is not clear"
        )
        raise BookError(f"{name}: {fault}; save it as CSV UTF-8")
    for column in row.keys() - {*ABOUT}:
        if not is_western(row[column]):
            fault = f"the encoding of row {line} is not clear"
            raise BookError(f"{name}: {fault}; save it as CSV UTF-8")


def decimal_of(separator: str, rows: Iterable[Row]) -> str:
    """The decimal sign of a person's spreadsheet, by their points, else by their separator."""
    points = "".join(row["points"] for row in rows)
    if separator == "," or "." in points:
        return "."
    return "," if separator == ";" or "," in points else "."


# --- copies of several graders


@dataclass(frozen=True)
class Conflict:
    """Two files that say different things in one cell."""

    key: Key
    student: str
    column: str
    values: tuple[str, str]
    files: tuple[str, str]

    def __str__(self) -> str:
        person = person_of(self.key, {"student": self.student})
        here, there = self.values
        first, second = self.files
        return f"{person}: {self.column} '{here}' in {first}, '{there}' in {second}"


class Merge:
    """Rows of the table, with what the copies add to them. A cell that is empty yields."""

    def __init__(self, rows: Typed) -> None:
        self.rows = {key: dict(row) for key, row in rows.items()}
        self.conflicts: list[Conflict] = []
        self.counts: dict[
            str, int
        ] = {}  # by copy, the rows to which it added something
        self._files: dict[
            tuple[Key, str], str
        ] = {}  # the copy that a cell was taken from

    def add(self, name: str, copy: Typed) -> None:
        self.counts[name] = 0
        for key, row in copy.items():
            if key not in self.rows:
                self.rows[key] = {column: row.get(column, "") for column in ABOUT}
            added = [self._add_cell(key, column, row[column], name) for column in row]
            self.counts[name] += any(added)

    def _add_cell(self, key: Key, column: str, value: str, name: str) -> bool:
        """Take a copy's cell where ours is empty; tells whether it was taken."""
        row = self.rows[key]
        if column in ABOUT:
            return False
        current, again = row.setdefault(column, ""), ""
        if column == "note":  # a run may have added to ours since the copy was taken
            again = AGAIN if AGAIN in current else ""
            current, value = without_again(current), without_again(value)
        if not value.strip() or is_same(column, current, value):
            return False
        if current.strip():
            files = (self._files.get((key, column), BY_HAND), name)
            student = row.get("student", "")
            self.conflicts.append(
                Conflict(key, student, column, (current, value), files)
            )
            return False
        row[column] = "; ".join(filter(None, [value, again]))
        self._files[key, column] = name
        return True


def without_again(note: str) -> str:
    return "; ".join(part for part in note.split("; ") if part != AGAIN)


def is_same(column: str, value: str, other: str) -> bool:
    value, other = value.strip(), other.strip()
    if column == "points" and value and other:
        return number_in(value) == number_in(other)
    return value == other


# --- the table of a folder


class HandTable:
    """`by-hand.csv` of a folder of grades, for as long as a run holds the folder."""

    def __init__(self, store: Store) -> None:
        """Read the table and its copies. Raises BookError: one cannot be read, or two differ."""
        self.store = store
        self.path = store.folder / BY_HAND
        self.students = {
            grade.submission: grade.student for grade in store.grades.values()
        }
        self.from_results = graded_rows(store.grades.values())
        self.answered_anew: set[Key] = set()  # since the points were given
        self.tries = 0

        self.data = bytes_of(self.path)
        self.at_start = self.table = self._parse(self.data, BY_HAND)
        copies = sorted(
            path for path in store.folder.glob(COPIES) if path.name != BY_HAND
        )
        self.copies = {path.name: bytes_of(path) for path in copies if path.is_file()}
        self.copied = {
            name: self._parse(data, name) for name, data in self.copies.items()
        }
        self._combine()
        self.counts = (
            self.merge.counts
        )  # later the table itself holds what the copies added
        if self.merge.conflicts:
            raise BookError(conflicts_text(self.merge.conflicts))

    @property
    def layout(self) -> Layout:
        """That of the person's table, else that of the first copy."""
        if self.data is None and self.copied:
            return next(iter(self.copied.values())).layout
        return self.table.layout

    def note_anew(self, keys: Iterable[Key]) -> bool:
        """Note beside the points of these exercises, and beside what a person types while grading
        runs, that they were answered anew. Tells whether there is such a note by now."""
        before = self.rows
        self.answered_anew |= set(keys)
        self._combine()
        return self.rows != before

    def refresh(self) -> None:
        """Read the table again if a person has saved it since, so that what they typed counts."""
        if bytes_of(self.path) == self.data:
            return
        layout = self.layout
        self.data = settled_bytes(self.path)
        try:
            table = self._parse(self.data, BY_HAND) if self.data else Table({}, layout)
        except BookError as error:
            copy = self.store.keep(self.path, self.data)
            reason = str(error).removeprefix(f"{BY_HAND}: ")
            kept = f"it was saved while grading ran and cannot be merged, so it is kept as {copy}"
            print(f"{BY_HAND}: {kept}: {reason}")
            return
        self._tell_changes(self.table, table)
        self.table = table
        known = set(self.merge.conflicts)
        self._combine()
        for conflict in self.merge.conflicts:
            if conflict not in known:
                print(
                    f"{BY_HAND}: changed while grading ran; its value was taken: {conflict}"
                )

    def replace(self, text: str) -> bool:
        """Write the table unless a person has saved it since it was read; tells whether it was."""
        self.tries += 1
        if self.tries > TRIES:
            advice = "close it in the other program, then run this again"
            raise BookError(
                f"{BY_HAND}: another program saves it again and again; {advice}"
            )
        now = {
            frozenset(row.items()) for row in read_table(text, self.layout.separator)
        }
        if any(frozenset(row.items()) not in now for row in self.table.rows.values()):
            self.store.keep(self.path, self.data)
        if not self.store.replace(self.path, text, self.data):
            return False
        self.data = text.encode()
        self.table = self._parse(self.data, BY_HAND)
        self.tries = 0
        return True

    def set_copies_aside(self) -> None:
        """Move copies that are merged to `earlier/`, and say what came of each."""
        in_conflict = {
            name for conflict in self.merge.conflicts for name in conflict.files
        }
        for name, data in self.copies.items():
            path = self.store.folder / name
            if name in in_conflict:
                print(f"{name}: stays, as it differs from {BY_HAND}; make them agree")
            elif bytes_of(path) != data:
                print(
                    f"{name}: was saved while grading ran, and is read by the next 'make grade'"
                )
            else:
                kept = self.store.keep(path, data)
                path.unlink()
                rows = counted(self.counts[name], "row")
                print(f"{BY_HAND}: {rows} taken from {name}, which is now {kept}")

    def _parse(self, data: bytes | None, name: str) -> Table:
        return parse_table(data, name, self.students) if data else Table({}, COMMAS)

    def _combine(self) -> None:
        """Put the rows together again, of the results, the table and the copies."""
        # A row that is gone from the table is none that a person wanted to lose.
        rows = self.from_results | self.at_start.rows | self.table.rows
        self.merge = Merge(rows)
        for name, copy in self.copied.items():
            self.merge.add(name, copy.rows)
        self.rows: dict[Key, Row] = self.merge.rows
        for key in self.answered_anew & self.rows.keys():
            row = self.rows[key]
            if row["points"].strip() and AGAIN not in row["note"]:
                row["note"] = "; ".join(filter(None, [row["note"], AGAIN]))

    def _tell_changes(self, before: Table, now: Table) -> None:
        """Name the rows that a person and this run have both changed; both changes stay."""
        for key in sorted(self.answered_anew & now.rows.keys()):
            row = now.rows[key]
            at_start = self.at_start.rows.get(key, TYPED)
            is_typed = row["points"] and any(
                row[name] != at_start[name] for name in TYPED
            )
            if is_typed and row != before.rows.get(
                key
            ):  # else it is the note of this run
                words = (
                    "you changed its row while grading ran, and it was answered anew"
                )
                kept = f"what you typed stays, with '{AGAIN}' beside it"
                print(f"{BY_HAND}: {person_of(key, row)}: {words}; {kept}")


def graded_rows(grades: Iterable[Grade]) -> dict[Key, Row]:
    """The points by hand that results hold, as rows of a table that may be lost."""
    rows: dict[Key, Row] = {}
    for grade in grades:
        for exercise, part in grade.by_hand.items():
            if part.points is None and not part.note:
                continue
            key = (grade.submission, grade.assignment, str(exercise))
            about = (grade.student, *key, "", str(part.of))
            row = dict(zip(ABOUT, about, strict=True))
            rows[key] = row | {"points": shown(part.points), "note": part.note}
    return rows


def conflicts_text(conflicts: list[Conflict]) -> str:
    places = counted(len(conflicts), "place")
    advice = "write the same into both, or clear the cell that does not count, and run it again"
    head = f"{BY_HAND}: graders differ in {places}, so nothing was graded or written; {advice}"
    return "\n".join([head, *(f"  {conflict}" for conflict in conflicts)])


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def bytes_of(path: Path) -> bytes | None:
    """The bytes of a file, or None if there is none. Raises BookError."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BookError(f"{path.name}: cannot be read ({error.strerror})") from None


def settled_bytes(path: Path) -> bytes | None:
    """The bytes of a file that may be being saved: as they are once they no longer change."""
    data = bytes_of(path)
    for _ in range(TRIES):
        time.sleep(SETTLED)
        now = bytes_of(path)
        if now == data:
            break
        data = now
    return data
