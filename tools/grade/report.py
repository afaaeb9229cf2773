"""What a grading leaves for people: grades, a page of feedback a student, a list to look through.

The same results give the same bytes. Whatever is a student's is escaped, in HTML and for
spreadsheets.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tools.errors import BookError
from tools.files import read_text
from tools.grade.similar import PUBLISHED, Group
from tools.grade.tables import read_table, table_text

BY_HAND = "by-hand.csv"
BY_HAND_HEADER = (
    *("student", "submission", "assignment", "exercise", "rubric", "of"),
    *("points", "note"),  # what a person types
)
TYPED = BY_HAND_HEADER.index("points")
AGAIN = "given for an earlier hand-in"  # a note beside points; a person takes it away
CODE = 6000  # characters of an answer on the list
INPUT = 120  # of an input that a test was asked with
TEMPLATES = Path(__file__).with_name("templates")
PAGES = Environment(
    loader=FileSystemLoader(TEMPLATES),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def inputs(given: Mapping[str, object]) -> str:
    """The inputs of a question, in few words."""
    words = (f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in given.items())
    return ", ".join(word if len(word) <= INPUT else word[:INPUT] + " ..." for word in words)


def word(note: str) -> str:
    """What a person wrote beside points for the student, less what is for themselves."""
    return "; ".join(part for part in note.split("; ") if part not in ("", AGAIN))


def digest(script: str) -> str:
    """What a page says of the one script that it lets run."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


PAGES.filters |= {"inputs": inputs, "word": word, "digest": digest}


def page(template: str, title: str, **context: Any) -> str:
    return PAGES.get_template(template).render(title=title, **context)


Key = tuple[str, str, str]  # submission, assignment and exercise of points by hand


# --- by hand


def read_by_hand(folder: Path) -> dict[Key, dict[str, str]]:
    """The rows that a person may have typed in, columns of their own included. Raises BookError."""
    try:
        text = (folder / BY_HAND).read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError):
        raise BookError(f"{BY_HAND}: cannot be read; save it as CSV in UTF-8") from None
    typed = {}
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


def add_by_hand(result: dict, typed: Mapping[Key, dict[str, str]]) -> None:
    """Add what a person gave to the points of a result, and what they may give to `of`."""
    for number, part in result["by_hand"].items():
        row = typed.get((result["submission"], result["assignment"], number), {})
        part |= {"points": given(row), "note": row.get("note", "")}
    asked = [*result["questions"].values(), *result["by_hand"].values()]
    result["points"] = sum(part["points"] or 0 for part in asked)
    result["of"] = sum(part["of"] for part in asked)


def by_hand_rows(
    results: Sequence[dict], assignments: Mapping[str, dict], typed: Mapping[Key, dict[str, str]]
) -> tuple[list[str], dict[Key, dict]]:
    """The columns and the rows of what a person reads, with all that they typed already."""
    rows = {}
    for result in results:
        submission, name = result["submission"], result["assignment"]
        for number, part in result["by_hand"].items():
            rubric = _question(assignments[name], number)["by_hand"]["rubric"]
            told = [result["student"], submission, name, number, rubric, part["of"]]
            row = dict(zip(BY_HAND_HEADER, told, strict=False))
            rows[submission, name, number] = typed.get((submission, name, number), {}) | row
    own = dict.fromkeys(name for row in typed.values() for name in row)
    own = [name for name in own if name not in BY_HAND_HEADER]
    for key, row in typed.items():  # of whom there is no result by now
        if key not in rows and any(row.get(name) for name in ("points", "note", *own)):
            rows[key] = row
    return [*BY_HAND_HEADER, *own], rows


def by_hand_table(
    results: Sequence[dict], assignments: Mapping[str, dict], typed: Mapping[Key, dict[str, str]]
) -> str:
    """What a person still has to read, as a table."""
    header, rows = by_hand_rows(results, assignments, typed)
    return table_text(header, ([row.get(name) for name in header] for row in rows.values()))


def by_hand_page(
    results: Sequence[dict], assignments: Mapping[str, dict], typed: Mapping[Key, dict[str, str]]
) -> str:
    """The same with what the students wrote, and places for points and a word."""
    header, rows = by_hand_rows(results, assignments, typed)
    by_key = {(result["submission"], result["assignment"]): result for result in results}
    shown = []
    for (submission, name, number), row in rows.items():
        result = by_key.get((submission, name), {"prose": {}, "answers": {}})
        before, after = header[:TYPED], header[TYPED + 2 :]
        shown.append(
            {name: "" if row.get(name) is None else row[name] for name in BY_HAND_HEADER}
            | {"text": result["prose"].get(number), "code": result["answers"].get(number)}
            | {
                "before": _line(row, before) + ",",
                "after": "".join(f",{_line(row, [name])}" for name in after),
            }
        )
    columns = table_text(header, []).rstrip("\r\n")
    script = read_text(TEMPLATES / "by-hand.js", TEMPLATES).replace("HEADER", json.dumps(columns))
    return page("by-hand.html", "To be read by a person", rows=shown, script=script)


def _line(row: Mapping[str, object], names: Sequence[str]) -> str:
    """Some cells of a row, as the table has them."""
    return table_text([], [[row.get(name) for name in names]]).split("\r\n", 1)[1].rstrip("\r\n")


def _question(assignment: dict, number: str) -> dict:
    return next(asked for asked in assignment["questions"] if str(asked["number"]) == number)


# --- grades


def grades_table(results: Sequence[dict], assignments: Mapping[str, dict]) -> str:
    """A row for each student: points of each exercise, of each part by hand, total, reason."""
    used = {result["assignment"] for result in results}
    columns = []
    for name in sorted(used & assignments.keys()):
        for question in assignments[name]["questions"]:
            number, points = str(question["number"]), question["points"]
            columns.append((name, number, "questions", f"{name} {number} (of {points})"))
            if question["by_hand"]:
                of = question["by_hand"]["points"]
                columns.append((name, number, "by_hand", f"{name} {number} by hand (of {of})"))
    students: dict[str, list[dict]] = {}
    for result in results:
        students.setdefault(result["student"], []).append(result)
    lines = []
    for student, own in students.items():
        graded = {}
        for result in own:
            if result["status"] == "graded":
                graded.setdefault(result["assignment"], result)
        cells = []
        for name, number, part, _ in columns:
            found = graded.get(name, {}).get(part, {}).get(number)
            cells.append("" if found is None or found["points"] is None else found["points"])
        total = sum(result["points"] for result in graded.values()) if graded else ""
        of = sum(result["of"] for result in graded.values()) if graded else ""
        late = "late" if any(result["late"] for result in own) else ""
        reasons = "; ".join(result["reason"] for result in own if result["reason"])
        ids = " ".join(dict.fromkeys(result["submission"] for result in own))
        lines.append([student, ids, *cells, total, of, late, reasons])
    header = ["student", "submission", *(column[3] for column in columns)]
    return table_text([*header, "total", "of", "late", "not graded because"], lines)


# --- pages


def feedback_page(result: dict, assignment: dict | None) -> str:
    """What a student gets back: what was tested in words, on which inputs, and what held."""
    unread = sum(part["of"] for part in result["by_hand"].values() if part["points"] is None)
    return page(
        "feedback.html",
        assignment["title"] if assignment else "Your submission",
        result=result
        | {"by_hand": {number: {} for number in result["questions"]} | result["by_hand"]},
        exercises=[
            asked
            for asked in (assignment["questions"] if assignment else ())
            if str(asked["number"]) in result["questions"]
        ],
        unread=unread,
        notes=[found for found in result["findings"] if found["kind"] == "cells"],
    )


KINDS = {  # of findings, in the order of the list
    "refused": "Not graded",
    "ended": "Ended their session",
    "similar": "Nearly the same answers",
    "lint": "Code that exercises have no use for",
    "cells": "Cells that were changed",
    "by hand": "To be read by a person",
}
REVIEW_HEADER = ("kind", "student", "submission", "assignment", "exercise", "what", "other")


@dataclass(frozen=True)
class Item:
    """A thing for a person to look at."""

    kind: str
    result: dict
    exercise: int | None
    text: str
    others: tuple[dict, ...] = ()  # the results that are like it


def review_items(
    results: Sequence[dict], assignments: Mapping[str, dict], groups: Mapping[str, Sequence[Group]]
) -> list[Item]:
    """All that a person should look at; `groups` by the name of their assignment."""
    items = []
    for result in results:
        if result["status"] != "graded":
            items.append(Item("refused", result, None, result["reason"]))
        for found in result["findings"]:
            kind = found["kind"] if found["kind"] in KINDS else "ended"
            items.append(Item(kind, result, found["exercise"], found["text"]))
        for number, part in result["by_hand"].items():
            rubric = _question(assignments[result["assignment"]], number)["by_hand"]["rubric"]
            if part["points"] is None:
                items.append(Item("by hand", result, int(number), rubric))
            elif AGAIN in part["note"]:
                text = f"{part['points']} of {part['of']} points were {AGAIN}. {rubric}"
                items.append(Item("by hand", result, int(number), text))
    for name, found in groups.items():
        by_id = {one["submission"]: one for one in results if one["assignment"] == name}
        solutions = {str(one["number"]): one["solution"] for one in assignments[name]["questions"]}
        by_id[PUBLISHED] = {"student": PUBLISHED, "submission": "", "answers": solutions}
        for group in found:
            last = sorted(group.submissions, key=lambda id: id == PUBLISHED)
            first, *others = (by_id[id] for id in last)
            items.append(Item("similar", first, group.exercise, group.text, tuple(others)))
    order = list(KINDS)
    return sorted(items, key=lambda item: (order.index(item.kind), item.exercise or 0))


def review_table(items: Sequence[Item]) -> str:
    lines = []
    for item in items:
        result = item.result
        told = [item.kind, result["student"], result["submission"], result["assignment"]]
        named = (f"{one['student']} [{one['submission']}]" for one in item.others)
        lines.append([*told, item.exercise or "", item.text, "; ".join(named)])
    return table_text(REVIEW_HEADER, lines)


def review_page(items: Sequence[Item]) -> str:
    """The list as a page, with the code that it is about."""
    groups = [
        (heading, [_shown(item) for item in items if item.kind == kind])
        for kind, heading in KINDS.items()
    ]
    return page("review.html", "To look at", groups=[group for group in groups if group[1]])


def _shown(item: Item) -> dict[str, Any]:
    """An item in a line, and the answers that it is about."""
    both = [item.result, *item.others]
    number = str(item.exercise)
    who = ", ".join(result["student"] for result in both)
    where = (item.result["assignment"] or "") + (f", exercise {number}" if item.exercise else "")
    texts = [result["answers"].get(number, "") for result in both[:2]]
    codes = [text[:CODE] for text in texts if text]
    return {
        "line": ": ".join(filter(None, (who, where, item.text))),
        "codes": [] if item.kind in ("cells", "refused", "by hand") else codes,
    }
