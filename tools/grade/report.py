"""What a grading leaves for people: grades, a page of feedback a student, lists to look through.

The same results give the same bytes. Whatever is a student's is escaped, in HTML and for
spreadsheets.
"""

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from tools.errors import BookError
from tools.grade.similar import PUBLISHED, Group
from tools.grade.tables import read_table, table_text

BY_HAND = "by-hand.csv"
BY_HAND_HEADER = (
    *("student", "submission", "assignment", "exercise", "rubric", "of"),
    *("points", "note"),  # what a person types
)
AGAIN = "given for an earlier hand-in"  # a note beside points; a person takes it away
CODE = 6000  # characters of an answer on the list
INPUT = 120  # of an input that a test was asked with
KINDS = {  # of findings, in the order of the list
    "refused": "Not graded",
    "ended": "Ended their session",
    "similar": "Nearly the same answers",
    "lint": "Code that exercises have no use for",
    "cells": "Cells that were changed",
    "by hand": "To be read again",
}
PAGES = Environment(
    loader=FileSystemLoader(Path(__file__).with_name("templates")),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)

Key = tuple[str, str, str]  # submission, assignment and exercise of points by hand
Typed = Mapping[Key, dict[str, str]]


def inputs(given: Mapping[str, object]) -> str:
    """The inputs of a question, in few words."""
    words = (f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in given.items())
    return ", ".join(word if len(word) <= INPUT else word[:INPUT] + " ..." for word in words)


def word(note: str) -> str:
    """What a person wrote beside points for the student, less what is for themselves."""
    return "; ".join(part for part in note.split("; ") if part not in ("", AGAIN))


def coded(text: str) -> Markup:
    """A text of the master, whose code stands in backticks."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


PAGES.filters |= {"inputs": inputs, "word": word, "coded": coded}


def page(template: str, title: str, **context: Any) -> str:
    return PAGES.get_template(template).render(title=title, **context)


# --- by hand


def read_by_hand(folder: Path, results: Iterable[dict] = ()) -> dict[Key, dict[str, str]]:
    """The rows that a person may have typed in, columns of their own included. Raises BookError.

    What was given in a row that is no more there comes from the results.
    """
    typed = {}
    for result in results:
        for number, part in result["by_hand"].items():
            if part["points"] is not None or part["note"]:
                points = "" if part["points"] is None else str(part["points"])
                key = result["submission"], result["assignment"], number
                typed[key] = {"points": points, "note": part["note"]}
    try:
        text = (folder / BY_HAND).read_text(encoding="utf-8")
    except FileNotFoundError:
        return typed
    except (OSError, UnicodeDecodeError):
        raise BookError(f"{BY_HAND}: cannot be read; save it as CSV in UTF-8") from None
    for number, row in enumerate(read_table(text), start=2):
        if not {"submission", "assignment", "exercise", "of", "points"} <= row.keys():
            raise BookError(
                f"{BY_HAND}: the columns are not {', '.join(BY_HAND_HEADER)}; save it with commas"
            )
        try:
            if row["points"].strip() and not 0 <= given(row) <= float(row["of"]):
                raise ValueError
        except ValueError:
            raise BookError(
                f"{BY_HAND}: line {number} gives '{row['points'][:20]}' points; write a number "
                f"from 0 to {row['of']}"
            ) from None
        typed[row["submission"], row["assignment"], row["exercise"]] = {"note": ""} | row
    return typed


def given(row: Mapping[str, str]) -> float | None:
    """The points that a person gave."""
    said = row.get("points", "").strip().replace(",", ".")
    points = float(said) if said else None
    return int(points) if points is not None and points.is_integer() else points


def add_by_hand(result: dict, typed: Typed) -> None:
    """Add what a person gave to the points of a result, and what they may give to `of`."""
    for number, part in result["by_hand"].items():
        row = typed.get((result["submission"], result["assignment"], number), {})
        part |= {"points": given(row), "note": row.get("note", "")}
    asked = [*result["questions"].values(), *result["by_hand"].values()]
    result["points"] = sum(part["points"] or 0 for part in asked)
    result["of"] = sum(part["of"] for part in asked)


def _by_hand_rows(
    results: Iterable[dict], assignments: Mapping[str, dict], typed: Typed
) -> tuple[list[str], dict[Key, dict]]:
    """The columns and the rows of what a person reads, with all that they typed already."""
    rows = {}
    for result in results:
        submission, name = result["submission"], result["assignment"]
        for number, part in result["by_hand"].items():
            rubric = _question(assignments[name], number)["by_hand"]["rubric"]
            told = [result["student"], submission, name, number, rubric, part["of"]]
            row = {"points": "", "note": ""} | typed.get((submission, name, number), {})
            rows[submission, name, number] = row | dict(zip(BY_HAND_HEADER, told, strict=False))
    own = dict.fromkeys(name for row in typed.values() for name in row)
    own = [name for name in own if name not in BY_HAND_HEADER]
    for key, row in typed.items():  # of whom there is no result by now
        if key not in rows and any(row.get(name) for name in ("points", "note", *own)):
            rows[key] = row
    return [*BY_HAND_HEADER, *own], rows


def by_hand_table(results: Iterable[dict], assignments: Mapping[str, dict], typed: Typed) -> str:
    header, rows = _by_hand_rows(results, assignments, typed)
    return table_text(header, ([row.get(name) for name in header] for row in rows.values()))


def by_hand_page(results: Iterable[dict], assignments: Mapping[str, dict], typed: Typed) -> str:
    """The same as a form, an exercise after the other, with what the students wrote.

    Its button saves the whole table with what was typed, as `by-hand.csv`.
    """
    header, rows = _by_hand_rows(results, assignments, typed)
    wrote = {(result["submission"], result["assignment"]): result for result in results}
    exercises: dict[tuple[str, str], list[dict]] = {}
    for place, ((submission, name, number), row) in enumerate(rows.items()):
        if result := wrote.get((submission, name)):
            texts = {part: result[part].get(number, "")[:CODE] for part in ("prose", "answers")}
            exercises.setdefault((name, number), []).append(row | texts | {"place": place})
    cells = [[row.get(name, "") for name in header] for row in rows.values()]
    script = PAGES.get_template("by-hand.js").render()
    return page(
        "by-hand.html",
        "To be read by a person",
        exercises=sorted(exercises.items()),
        table={"header": header, "rows": cells},
        script=script,
        digest=base64.b64encode(sha256(script.encode()).digest()).decode(),
    )


def _question(assignment: dict, number: str) -> dict:
    return next(asked for asked in assignment["questions"] if str(asked["number"]) == number)


# --- grades


def grades_table(results: Iterable[dict], assignments: Mapping[str, dict]) -> str:
    """A row for each student: points of each exercise, of each part by hand, total, reason."""
    students: dict[str, list[dict]] = {}
    for result in results:
        students.setdefault(result["submission"], []).append(result)  # two may have one name
    used = {result["assignment"] for own in students.values() for result in own}
    columns = {}
    for name in sorted(used & assignments.keys()):
        for question in assignments[name]["questions"]:
            number, by_hand = str(question["number"]), question["by_hand"]
            columns[name, number, "questions"] = f"{name} {number} (of {question['points']})"
            if by_hand:
                words = f"{name} {number} by hand (of {by_hand['points']})"
                columns[name, number, "by_hand"] = words
    lines = []
    for submission, own in students.items():
        graded = [result for result in reversed(own) if result["status"] == "graded"]
        by_name = {result["assignment"]: result for result in graded}
        cells = [
            by_name.get(name, {}).get(part, {}).get(number, {}).get("points")
            for name, number, part in columns
        ]
        sums = [
            sum(result[part] for result in by_name.values()) if graded else None
            for part in ("points", "of")
        ]
        late = "late" if any(result["late"] for result in own) else ""
        reasons = "; ".join(result["reason"] for result in own if result["reason"])
        lines.append([own[0]["student"], submission, *cells, *sums, late, reasons])
    header = ["student", "submission", *columns.values()]
    return table_text([*header, "total", "of", "late", "not graded because"], lines)


# --- pages


def feedback_page(result: dict, assignment: dict | None) -> str:
    """What a student gets back: what was tested in words, on which inputs, and what held."""
    waiting = {n: part["of"] for n, part in result["by_hand"].items() if part["points"] is None}
    return page(
        "feedback.html",
        assignment["title"] if assignment else "Your submission",
        result=result,
        exercises=[
            (asked, result["questions"][number], result["by_hand"].get(number))
            for asked in (assignment["questions"] if assignment else ())
            if (number := str(asked["number"])) in result["questions"]
        ],
        counted=result["of"] - sum(waiting.values()),
        waiting=sum(waiting.values()),
        unread=", ".join(waiting),
        notes=[found for found in result["findings"] if found["kind"] == "cells"],
    )


@dataclass(frozen=True)
class Item:
    """A thing for a person to look at: of one student, or of several that are alike."""

    kind: str
    results: list[dict]
    exercise: int | None
    text: str

    @property
    def line(self) -> str:
        """Who, where and what."""
        name = self.results[0]["assignment"] or ""
        where = f"{name}, exercise {self.exercise}" if self.exercise else name
        who = ", ".join(result["student"] for result in self.results)
        return ": ".join(filter(None, (who, where, self.text)))

    @property
    def codes(self) -> list[str]:
        """The answers that it is about: two of them tell enough of those that are alike."""
        if self.kind in ("cells", "refused", "by hand"):
            return []
        codes = [result["answers"].get(str(self.exercise), "") for result in self.results[:2]]
        return [code[:CODE] for code in codes if code]


def review_items(
    results: Sequence[dict], assignments: Mapping[str, dict], groups: Mapping[str, Sequence[Group]]
) -> list[Item]:
    """All that a person should look at; `groups` by the name of their assignment."""
    items = []
    for result in results:
        if result["status"] != "graded":
            items.append(Item("refused", [result], None, result["reason"]))
        for found in result["findings"]:
            kind = found["kind"] if found["kind"] in KINDS else "ended"
            items.append(Item(kind, [result], found["exercise"], found["text"]))
        for number, part in result["by_hand"].items():
            if part["points"] is not None and AGAIN in part["note"]:
                text = f"{part['points']} of {part['of']} points were {AGAIN}"
                items.append(Item("by hand", [result], int(number), text))
    for name, found in groups.items():
        by_id = {one["submission"]: one for one in results if one["assignment"] == name}
        solutions = {str(one["number"]): one["solution"] for one in assignments[name]["questions"]}
        by_id[PUBLISHED] = {"student": PUBLISHED, "submission": "", "answers": solutions}
        for group in found:
            last = sorted(group.submissions, key=lambda id: id == PUBLISHED)
            items.append(Item("similar", [by_id[id] for id in last], group.exercise, group.text))
    order = list(KINDS)
    return sorted(items, key=lambda item: (order.index(item.kind), item.exercise or 0))


def review_page(items: Sequence[Item]) -> str:
    """The list as a page, with the code that it is about."""
    of_kind = {heading: [i for i in items if i.kind == kind] for kind, heading in KINDS.items()}
    groups = [(heading, found) for heading, found in of_kind.items() if found]
    return page("review.html", "To look at", groups=groups)
