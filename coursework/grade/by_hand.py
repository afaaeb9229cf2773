"""The points that people give: `by-hand.csv`, and the copies that several graders fill in.

A person may save the table at any time, also while grading runs. It is therefore read again
right before it is written, and what was typed since counts. A copy in the same folder
(`by-hand-anna.csv`, or `by-hand (1).csv`, as browsers name it) is merged into the table and
then moved to `earlier/`.
"""

import csv
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from coursework.grade.results import Grade, rounded, shown
from coursework.grade.store import Store
from coursework.grade.tables import (
    COMMAS,
    Layout,
    encoding_of,
    is_western,
    loses_a_row,
    numbered_rows,
    read_table,
    separator_of,
)
from tools.errors import BookError

BY_HAND = "by-hand.csv"
COPIES = "by-hand*.csv"
ABOUT = ("student", "submission", "assignment", "exercise", "rubric", "of")
TYPED = {"points": "", "note": ""}  # what a person types; they may add columns
NEEDED = ("submission", "assignment", "exercise", "of", "points")
AGAIN = "given for an earlier hand-in"  # a note beside points; a person takes it away
SAVE_AS = "save it as CSV UTF-8"
SETTLED = 0.2  # seconds without a change, after which a file has been saved whole
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


@dataclass(frozen=True)
class Copy:
    """A copy of the table that a grader filled in, as it was when it was read."""

    path: Path
    data: bytes
    table: Table

    @property
    def name(self) -> str:
        return self.path.name


def number_in(cell: str) -> float:
    """Return the number in a cell, with a decimal point or comma. Raises ValueError."""
    return float(cell.strip().replace(",", "."))


def points_in(cell: str) -> int | float | None:
    """Return the points in a cell, or None if it is empty."""
    return rounded(number_in(cell)) if cell.strip() else None


def parse_table(data: bytes, name: str, students: Mapping[str, str]) -> Table:
    """Read a table as a spreadsheet saved it.

    `students` are names by submission, which show whether an encoding was guessed right.
    Raises BookError, which says what is wrong in which row.
    """
    try:
        encoding = encoding_of(data)
    except ValueError:
        fault = f"{name}: its encoding is not clear"
        raise BookError(f"{fault}; {SAVE_AS}") from None
    separator, numbered = _read_rows(data.decode(encoding), name)

    rows: dict[Key, Row] = {}
    lines: dict[Key, int] = {}
    for line, row in numbered:
        key = _key_of(row)
        if key in rows:
            fault = f"rows {lines[key]} and {line} are both for {person_of(key, row)}"
            raise BookError(f"{name}: {fault}; keep one of them")
        _check_points(row, line, name)
        if encoding == "cp1252":
            _check_guess(row, line, name, students)
        row.setdefault("note", "")
        rows[key] = row
        lines[key] = line
    return Table(rows, Layout(separator, _decimal_sign(separator, rows.values())))


def _read_rows(text: str, name: str) -> tuple[str, list[tuple[int, Row]]]:
    """Return the separator of a table, and its rows with their numbers."""
    try:
        separator, below = separator_of(text, NEEDED)
        if separator:
            return separator, numbered_rows(below, separator)
    except csv.Error as error:
        raise BookError(f"{name}: cannot be read ({error}); {SAVE_AS}") from None
    fault = f"its first row does not name the columns {', '.join(NEEDED)}"
    advice = "save it with commas, semicolons or tabs between columns"
    raise BookError(f"{name}: {fault}; keep that row, and {advice}")


def _key_of(row: Row) -> Key:
    return (
        row["submission"].strip(),
        row["assignment"].strip(),
        row["exercise"].strip(),
    )


def person_of(key: Key, row: Mapping[str, str]) -> str:
    submission, assignment, exercise = key
    return f"{row.get('student') or submission}, {assignment} exercise {exercise}"


def _check_points(row: Row, line: int, name: str) -> None:
    if not row["points"].strip():
        return
    try:
        is_valid = 0 <= number_in(row["points"]) <= number_in(row["of"])
    except ValueError:
        is_valid = False
    if not is_valid:
        student = row.get("student") or row["submission"]
        fault = f"row {line} gives {student} '{row['points'][:20]}' points"
        raise BookError(f"{name}: {fault}; write a number from 0 to {row['of']}")


def _check_guess(row: Row, line: int, name: str, students: Mapping[str, str]) -> None:
    """Raise BookError if cp1252 was a wrong guess.

    It was if a student's name has letters that it does not have in the results, or if
    what a person typed looks like another alphabet.
    """
    known = students.get(row["submission"], "")
    letters = {letter for letter in row.get("student", "") if not letter.isascii()}
    if known and not letters <= set(known):
        fault = f"row {line} has another name than '{known}'"
        raise BookError(f"{name}: {fault}, so its encoding is not clear; {SAVE_AS}")
    for column, value in row.items():
        if column not in ABOUT and not is_western(value):
            fault = f"the encoding of row {line} is not clear"
            raise BookError(f"{name}: {fault}; {SAVE_AS}")


def _decimal_sign(separator: str, rows: Iterable[Row]) -> str:
    """Return the decimal sign of a spreadsheet, by its points or else its separator."""
    points = "".join(row["points"] for row in rows)
    if separator == "," or "." in points:
        return "."
    if separator == ";" or "," in points:
        return ","
    return "."


# --- copies of several graders


@dataclass(frozen=True)
class Conflict:
    """A cell in which two files differ."""

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
    """The rows of a table, with what copies add to them. An empty cell yields."""

    def __init__(self, rows: Typed) -> None:
        self.rows = {key: dict(row) for key, row in rows.items()}
        self.conflicts: list[Conflict] = []
        # By copy, the number of rows to which it added something.
        self.counts: dict[str, int] = {}
        # The copy that a cell was taken from.
        self._files: dict[tuple[Key, str], str] = {}

    def add(self, name: str, copy: Typed) -> None:
        self.counts[name] = 0
        for key, row in copy.items():
            if key not in self.rows:
                self.rows[key] = {column: row.get(column, "") for column in ABOUT}
            added = [self._add_cell(key, column, row[column], name) for column in row]
            if any(added):
                self.counts[name] += 1

    def _add_cell(self, key: Key, column: str, value: str, name: str) -> bool:
        """Take over a copy's cell where ours is empty; tell whether it was taken."""
        if column in ABOUT:
            return False
        row = self.rows[key]
        current = row.setdefault(column, "")
        is_marked = False
        if column == "note":  # a run may have added to ours since the copy was taken
            is_marked = AGAIN in current
            current = without_again(current)
            value = without_again(value)

        if not value.strip() or is_same(column, current, value):
            return False
        if current.strip():
            files = (self._files.get((key, column), BY_HAND), name)
            student = row.get("student", "")
            conflict = Conflict(key, student, column, (current, value), files)
            self.conflicts.append(conflict)
            return False

        if is_marked:
            value = with_again(value)
        row[column] = value
        self._files[key, column] = name
        return True


def with_again(note: str) -> str:
    return f"{note}; {AGAIN}" if note else AGAIN


def without_again(note: str) -> str:
    return "; ".join(part for part in note.split("; ") if part != AGAIN)


def is_same(column: str, current: str, copied: str) -> bool:
    """Tell whether a cell and one of a copy, which is not empty, say the same."""
    if column == "points" and current.strip():
        return number_in(current) == number_in(copied)
    return current.strip() == copied.strip()


# --- the table of a folder


class HandTable:
    """`by-hand.csv` of a folder of grades, for as long as a run holds the folder."""

    def __init__(self, store: Store) -> None:
        """Read the table and its copies.

        Raises BookError if one of them cannot be read, or if two differ.
        """
        self.store = store
        self.path = store.folder / BY_HAND
        grades = store.grades.values()
        self.students = {grade.submission: grade.student for grade in grades}
        self.from_results = graded_rows(grades)
        self.answered_anew: set[Key] = set()  # since the points were given
        self.tries = 0

        self.data = bytes_of(self.path)
        self.table = self._parse(self.data, BY_HAND)
        self.at_start = self.table
        self.copies: list[Copy] = []
        for path in sorted(store.folder.glob(COPIES)):
            if path.name != BY_HAND and path.is_file():
                data = bytes_of(path)
                self.copies.append(Copy(path, data, self._parse(data, path.name)))
        self._combine()
        # Later the table itself holds what the copies added.
        self.counts = self.merge.counts
        if self.merge.conflicts:
            raise BookError(conflicts_text(self.merge.conflicts))

    @property
    def layout(self) -> Layout:
        """The layout of the person's table, or else of the first copy."""
        if self.data is None and self.copies:
            return self.copies[0].table.layout
        return self.table.layout

    def note_anew(self, keys: Iterable[Key]) -> bool:
        """Note beside the points of these exercises that they were answered anew.

        Points that a person types while grading runs get the note as well. Tells whether
        a row has changed.
        """
        before = self.rows
        self.answered_anew |= set(keys)
        self._combine()
        return self.rows != before

    def refresh(self) -> None:
        """Read the table again if a person has saved it since."""
        if bytes_of(self.path) == self.data:
            return
        layout = self.layout
        self.data = settled_bytes(self.path)
        try:
            table = self._parse(self.data, BY_HAND) if self.data else Table({}, layout)
        except BookError as error:
            copy = self.store.keep(self.path, self.data)
            reason = str(error).removeprefix(f"{BY_HAND}: ")
            fault = "it was saved while grading ran and cannot be merged"
            print(f"{BY_HAND}: {fault}, so it is kept as {copy}: {reason}")
            return

        self._tell_changes(self.table, table)
        self.table = table
        known = set(self.merge.conflicts)
        self._combine()
        for conflict in self.merge.conflicts:
            if conflict not in known:
                fault = "changed while grading ran; its value was taken"
                print(f"{BY_HAND}: {fault}: {conflict}")

    def replace(self, text: str) -> bool:
        """Write the table unless a person has saved it since it was read.

        Tells whether it was written. Raises BookError if it is saved again and again.
        """
        self.tries += 1
        if self.tries > TRIES:
            fault = "another program saves it again and again"
            advice = "close it in the other program, then run this again"
            raise BookError(f"{BY_HAND}: {fault}; {advice}")

        new_rows = read_table(text, self.layout.separator)
        if loses_a_row(self.table.rows.values(), new_rows):
            self.store.keep(self.path, self.data)
        if not self.store.replace(self.path, text, self.data):
            return False
        self.data = text.encode()
        self.table = self._parse(self.data, BY_HAND)
        self.tries = 0
        return True

    def set_copies_aside(self) -> None:
        """Move copies that are merged to `earlier/`, and say what came of each."""
        in_conflict = set()
        for conflict in self.merge.conflicts:
            in_conflict.update(conflict.files)
        for copy in self.copies:
            name = copy.name
            if name in in_conflict:
                print(f"{name}: stays, as it differs from {BY_HAND}; make them agree")
            elif bytes_of(copy.path) != copy.data:
                advice = "is read by the next 'make grade'"
                print(f"{name}: was saved while grading ran, and {advice}")
            else:
                kept = self.store.keep(copy.path, copy.data)
                copy.path.unlink()
                rows = counted(self.counts[name], "row")
                print(f"{BY_HAND}: {rows} taken from {name}, which is now {kept}")

    def _parse(self, data: bytes | None, name: str) -> Table:
        if not data:
            return Table({}, COMMAS)
        return parse_table(data, name, self.students)

    def _combine(self) -> None:
        """Put together the rows of the results, the table and the copies."""
        # A person who takes a row out of the table does not want to lose its points.
        rows = self.from_results | self.at_start.rows | self.table.rows
        self.merge = Merge(rows)
        for copy in self.copies:
            self.merge.add(copy.name, copy.table.rows)
        self.rows: dict[Key, Row] = self.merge.rows
        for key in self.answered_anew & self.rows.keys():
            row = self.rows[key]
            if row["points"].strip() and AGAIN not in row["note"]:
                row["note"] = with_again(row["note"])

    def _tell_changes(self, before: Table, now: Table) -> None:
        """Name the rows that a person and this run have both changed."""
        for key in sorted(self.answered_anew & now.rows.keys()):
            row = now.rows[key]
            at_start = self.at_start.rows.get(key, TYPED)
            is_typed = any(row[name] != at_start[name] for name in TYPED)
            is_own_note = row == before.rows.get(key)
            if row["points"] and is_typed and not is_own_note:
                person = person_of(key, row)
                fault = (
                    "its row was changed while grading ran, and it was answered anew"
                )
                advice = f"what you typed stays, with '{AGAIN}' beside it"
                print(f"{BY_HAND}: {person}: {fault}; {advice}")


def row_key(grade: Grade, exercise: int) -> Key:
    return grade.submission, grade.assignment, str(exercise)


def about_row(grade: Grade, exercise: int, rubric: str = "") -> Row:
    """Return the cells under ABOUT: whose points these are, and for what."""
    of = str(grade.by_hand[exercise].of)
    cells = (grade.student, *row_key(grade, exercise), rubric, of)
    return dict(zip(ABOUT, cells, strict=True))


def graded_rows(grades: Iterable[Grade]) -> dict[Key, Row]:
    """Return the points by hand that results hold, as rows of a table that may be lost."""
    rows: dict[Key, Row] = {}
    for grade in grades:
        for exercise, part in grade.by_hand.items():
            if part.points is None and not part.note:
                continue
            typed = {"points": shown(part.points), "note": part.note}
            rows[row_key(grade, exercise)] = about_row(grade, exercise) | typed
    return rows


def conflicts_text(conflicts: list[Conflict]) -> str:
    places = counted(len(conflicts), "place")
    fault = f"graders differ in {places}, so nothing was graded or written"
    advice = "write the same into both, or clear the cell that does not count"
    lines = [f"{BY_HAND}: {fault}; {advice}, and run it again"]
    for conflict in conflicts:
        lines.append(f"  {conflict}")
    return "\n".join(lines)


def counted(number: int, noun: str) -> str:
    if number != 1:
        noun += "s"
    return f"{number} {noun}"


def bytes_of(path: Path) -> bytes | None:
    """Return the bytes of a file, or None if there is none. Raises BookError."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BookError(f"{path.name}: cannot be read ({error.strerror})") from None


def settled_bytes(path: Path) -> bytes | None:
    """Return the bytes of a file once they no longer change: it may be being saved."""
    data = bytes_of(path)
    for _ in range(TRIES):
        time.sleep(SETTLED)
        now = bytes_of(path)
        if now == data:
            break
        data = now
    return data
