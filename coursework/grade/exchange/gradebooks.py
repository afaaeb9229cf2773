"""Fills grades into the export of an instructor's own gradebook, of Canvas or of Moodle.

Only the grade of a student who was graded changes: all other cells, the order of rows, delimiter
and encoding stay as they were, a name that Canvas writes as `="=name"` too.

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
from itertools import zip_longest
from pathlib import Path

from coursework.grade.by_hand import BY_HAND
from coursework.grade.intake import SEVERAL, clean
from coursework.grade.late import is_undated
from coursework.grade.points import shown
from coursework.grade.tables import BOM
from tools.errors import BookError
from tools.files import write_bytes, written_by

POINTS = "Points Possible"
GRADE = "Grade"  # Moodle's column, where the site is in English
KNOWN_AS = {
    "SIS User ID",
    "SIS Login ID",
    "Integration ID",
}  # what a student may be known by
KNOWN_AS |= {"Email address", "Username", "ID number"}
LEFT = {
    "EX": "excused",
    "N/A": "not assigned to them",
}  # as Canvas says it in place of a grade
STRAYS = (
    1 / 3
)  # of a class may have handed in another chapter; more make it unclear which
ENCODING = ("utf-8", "surrogateescape")  # keeps the bytes of any other as they are


def fill_export(
    export: Path,
    folder: Path,
    column: str | None = None,
    scale: bool = False,
    chapter: str | None = None,
) -> None:
    """Write the filled export beside the one that was exported, which stays. Raises BookError."""
    paths = sorted(folder.glob("results/*.json"))
    if not paths:
        raise BookError(f"{folder}: no results; run 'make grade SUBMISSIONS=...' first")
    with written_by("make grade", str(folder / "results")):
        results = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
        names = sorted(
            result["assignment"] for result in results if result["assignment"]
        )
    [(most, count)] = Counter(names).most_common(1) or [(None, 0)]
    if not chapter and (not names or count < (1 - STRAYS) * len(names)):
        known = ", ".join(dict.fromkeys(names)) or "none"
        raise BookError(
            f"{folder}: whose grades are meant? name one with --chapter: {known}"
        )
    book = Gradebook(export, column, chapter or most)
    notes = book.fill(results, chapter or most, scale)
    path = export.with_name(f"{export.stem}-filled{export.suffix}")
    filled = io.StringIO()
    csv.writer(filled, **book.dialect).writerows(book.rows)
    write_bytes(path, (book.bom + filled.getvalue()).encode(*ENCODING), path.parent)
    print(f"{book.system}: '{book.title}', {shown(book.maximum)} points")
    print("\n".join([*notes, f"written: {path}"]))


class Gradebook:
    """An export, and where in it the grades of one assignment go."""

    def __init__(self, export: Path, wanted: str | None, chapter: str) -> None:
        self.where = str(export)
        try:
            text = export.read_bytes().decode(*ENCODING)
        except OSError as error:
            raise BookError(
                f"{export}: cannot be read ({error.strerror}); export it"
            ) from None
        first, self.bom = text.partition("\n")[0], BOM * text.startswith(BOM)
        delimiter = max(
            ",;\t", key=first.count
        )  # Canvas: `;`, where the comma is decimal
        self.dialect = {
            "delimiter": delimiter,
            "lineterminator": "\r\n" if "\r" in first else "\n",
        }
        lines = io.StringIO(text.removeprefix(BOM), newline="")
        self.rows = list(csv.reader(lines, **self.dialect))
        columns = list(zip_longest(*self.rows, fillvalue="")) or [("",)]
        header = [column[0] for column in columns]
        own = header.index("ID") if "ID" in header else 0  # Moodle's id comes first
        self.system = "Canvas" if own else "Moodle"
        ids = {
            row: re.search(r"\d*$", cell.strip())[0]
            for row, cell in enumerate(columns[own])
        }
        ids = {row: id for row, id in ids.items() if id}
        self.students = defaultdict(
            set
        )  # the rows of each, by all that results may call them
        for row, id in ids.items():
            known = [
                column[row]
                for column in columns
                if column[0] in KNOWN_AS and column[row]
            ]
            for name in (
                f"({self.system} {id})",
                *known,
                *(f"({name})" for name in known),
            ):
                self.students[name.casefold()].add(row)
        # The points that a column counts: in Moodle the next one says it, for each student.
        saying = [row for row, cell in enumerate(columns[0]) if cell.strip() == POINTS]
        points = {}
        for place, column in enumerate(columns if own else columns[1:]):
            said = {number(column[row]) for row in (saying if own else ids)}
            if len(said) == 1 and None not in said:
                points[place] = said.pop()
        if not points:
            like = "as in a gradebook of Canvas or a grading worksheet of Moodle"
            raise BookError(
                f"{export}: no column has points, {like}; export it again as CSV"
            )
        wanted = wanted or (chapter if own else GRADE)
        found = [place for place in points if _is_called(header[place], wanted)]
        if len(found) != 1:
            told = f"{len(found)} columns for '{wanted}'; name one with --column"
            raise BookError(
                f"{export}: {told}: {'; '.join(header[place] for place in points)}"
            )
        self.column, self.title, self.maximum = (
            found[0],
            header[found[0]],
            points[found[0]],
        )

    def fill(self, results: list[dict], chapter: str, scale: bool = False) -> list[str]:
        """Fill the points of these results in; returns what a person should know. Who is not in it
        or twice, was refused, handed in another chapter or waits for points by hand is named and
        gets nothing, never a zero that nobody gave. Raises BookError."""
        handed_in, left = (
            defaultdict(list),
            {},
        )  # by row the results, by name why it is left
        for result in sorted(
            results, key=lambda made: (made["student"], made["submission"])
        ):
            is_other = result["assignment"] not in (chapter, None)
            if not (
                is_other or scale or result["reason"] or result["of"] == self.maximum
            ):
                counts = (
                    f"{shown(self.maximum)} points, the exercises {shown(result['of'])}"
                )
                fault = f"{self.where}: '{self.title}' counts {counts}"
                raise BookError(f"{fault}; change it there, or add --scale")
            for name in result["student"].split(SEVERAL):
                known_as = f"({name.rpartition('(')[2]}" if name.endswith(")") else name
                places = self.students.get(known_as.casefold(), ())
                if is_other:
                    left.setdefault(name, f"handed in {result['assignment']}")
                elif len(places) == 1:
                    handed_in[min(places)].append((name, result))
                else:
                    where = f"is {'in several rows of' if places else 'not in'} {self.where}"
                    left[name] = result["reason"] or where
        notes, filled_in = [], []
        for place, given in handed_in.items():
            row, (name, result) = self.rows[place], given[0]
            row += [""] * (self.column + 1 - len(row))
            was = row[self.column]
            left[name] = _why_not([result for _, result in given], was)
            if left[name] is None:
                share = self.maximum / (result["of"] or 1) if scale else 1
                points = result.get(
                    "points_after", result["points"]
                )  # if late, less the penalty
                row[self.column] = shown(points * share)
                filled_in.append(result)
                if was.strip() and shown(number(was)) != row[self.column]:
                    notes.append(
                        f"replaced: {name}: {clean(was)} by {row[self.column]}"
                    )
        notes += [
            f"not filled in: {name}: {reason}"
            for name, reason in left.items()
            if reason
        ]
        if not filled_in:
            raise BookError(
                "\n".join([f"{self.where}: nobody can be filled in", *notes])
            )
        if reduced := sum(
            bool((one.get("penalty") or {}).get("days")) for one in filled_in
        ):
            notes.append(f"filled in after a penalty for being late: {reduced}")
        if undated := sum(map(is_undated, filled_in)):
            notes.append(
                f"handed in late, at an unknown time, so nothing was taken off: {undated}"
            )
        students = set().union(*self.students.values())
        notes.append(f"filled in: {len(filled_in)} of {len(students)} students")
        if absent := [
            clean(self.rows[place][0]) for place in sorted(students - handed_in.keys())
        ]:
            more = f" and {len(absent) - 10} more" if len(absent) > 10 else ""
            notes.append(f"nothing handed in: {'; '.join(absent[:10])}{more}")
        return notes


def _is_called(name: str, wanted: str) -> bool:
    plain, id = re.fullmatch(r"(.*?)(?: \((\d+)\))?", name, re.S).groups()
    words = [re.findall(r"\w+", text.casefold()) for text in (plain, wanted)]
    return wanted in (name, id) or words[0] == words[1]


def _why_not(given: list[dict], was: str) -> str | None:
    if len(given) > 1:
        return "two results, " + " and ".join(
            f"'{result['submission']}'" for result in given
        )
    [result] = given
    if waiting := [
        n for n, part in result.get("by_hand", {}).items() if part["points"] is None
    ]:
        return f"exercise {', '.join(waiting)} waits for points in {BY_HAND}"
    return result["reason"] or LEFT.get(was.strip().upper())


def number(text: str) -> float | None:
    """The number that a cell says, with a point or a comma, or None."""
    said = re.fullmatch(r"\s*(-?\d+(?:[.,]\d*)?)\s*", text)
    return float(said[1].replace(",", ".")) if said else None
