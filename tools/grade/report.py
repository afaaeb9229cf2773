"""What a grading leaves for people: grades, a page of feedback a student, lists to look through.

The same results give the same bytes. What is a student's is escaped, in HTML and for spreadsheets.
"""

import base64
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from tools.errors import BookError
from tools.grade.copies import PUBLISHED, Copies
from tools.grade.tables import read_table, table_text

BY_HAND = "by-hand.csv"
ABOUT = ("student", "submission", "assignment", "exercise", "rubric", "of")
TYPED = {"points": "", "note": ""}  # what a person types, beside columns of their own
AGAIN = "given for an earlier hand-in"  # a note beside points; a person takes it away
CODE = 6000  # characters of an answer on the list
INPUT = 120  # of an input that a test was asked with
LOADER = FileSystemLoader(Path(__file__).with_name("templates"))
PAGES = Environment(loader=LOADER, autoescape=True, undefined=StrictUndefined)
PAGES.globals["again"] = AGAIN
PAGES.trim_blocks = PAGES.lstrip_blocks = True

Key = tuple[str, str, str]  # submission, assignment and exercise of points by hand
Typed = Mapping[Key, dict[str, str]]


def inputs(given: Mapping[str, object]) -> str:
    words = (f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in given.items())
    return ", ".join(word if len(word) <= INPUT else word[:INPUT] + " ..." for word in words)


def coded(text: str) -> Markup:
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def part_of(result: dict, exercise: object, kind: str) -> str:
    return result[kind].get(str(exercise), "")[:CODE]


def answers_of(result: dict, exercises: Iterable[int]) -> str:
    """The answers to some exercises, under their numbers where they are several."""
    parts = {number: part_of(result, number, "answers") for number in exercises}
    if len(parts) == 1:
        return "".join(parts.values())
    return "\n\n".join(f"# {number}.\n{code}" for number, code in parts.items() if code)


PAGES.filters |= {"inputs": inputs, "coded": coded, "answers_of": answers_of}


def page(template: str, title: str, **context: Any) -> str:
    return PAGES.get_template(template).render(title=title, **context)


# --- by hand


def read_by_hand(folder: Path, results: Iterable[dict] = ()) -> dict[Key, dict[str, str]]:
    """What a person typed, by the table, else by the results. Raises BookError."""
    typed = {}
    for result in results:
        for number, part in result["by_hand"].items():
            if part["points"] is not None or part["note"]:
                key = result["submission"], result["assignment"], number
                row = dict(zip(ABOUT, (result["student"], *key, "", part["of"]), strict=True))
                points = "" if part["points"] is None else str(part["points"])
                typed[key] = row | {"points": points, "note": part["note"]}
    path = folder / BY_HAND
    try:
        rows = read_table(path.read_text(encoding="utf-8")) if path.exists() else []
    except (OSError, UnicodeDecodeError):
        raise BookError(f"{BY_HAND}: cannot be read; save it as CSV in UTF-8") from None
    for number, row in enumerate(rows, start=2):
        if not {"submission", "assignment", "exercise", "of", "points"} <= row.keys():
            columns = ", ".join([*ABOUT, *TYPED])
            raise BookError(f"{BY_HAND}: the columns are not {columns}; save it with commas")
        try:
            if row["points"].strip() and not 0 <= given(row) <= float(row["of"]):
                raise ValueError
        except ValueError:
            said = f"line {number} gives '{row['points'][:20]}' points"
            raise BookError(f"{BY_HAND}: {said}; write a number from 0 to {row['of']}") from None
        typed[row["submission"], row["assignment"], row["exercise"]] = {"note": ""} | row
    return typed


def given(row: Mapping[str, str]) -> float | None:
    said = row["points"].strip().replace(",", ".")
    points = float(said) if said else None
    return int(points) if points is not None and points.is_integer() else points


def add_by_hand(result: dict, assignment: dict, typed: Typed) -> None:
    by_hand = {str(asked["number"]): asked["by_hand"] for asked in assignment["questions"]}
    result["by_hand"] = {}
    for number in result["questions"]:
        if asked := by_hand.get(number):
            row = TYPED | typed.get((result["submission"], assignment["name"], number), {})
            part = {"of": asked["points"], "points": given(row), "note": row["note"]}
            result["by_hand"][number] = part
    parts = [*result["questions"].values(), *result["by_hand"].values()]
    result["points"] = sum(part["points"] or 0 for part in parts)
    result["of"] = sum(part["of"] for part in parts)


def by_hand_forms(results: Iterable[dict], assignments: dict, typed: Typed) -> tuple[str, str]:
    """What a person reads, with all that they typed already: `by-hand.csv`, and a page."""
    rows, exercises, rubrics = {}, {}, {}
    for name, assignment in assignments.items():
        for asked in assignment["questions"]:
            rubrics[name, str(asked["number"])] = asked["by_hand"] and asked["by_hand"]["rubric"]
    for result in results:
        submission, name = result["submission"], result["assignment"]
        for number, part in result["by_hand"].items():
            rubric = rubrics.get((name, number))
            if rubric is None:  # of an earlier edition
                continue
            key = submission, name, number
            about = result["student"], *key, rubric, part["of"]
            row = TYPED | typed.get(key, {}) | dict(zip(ABOUT, about, strict=True))
            texts = {kind: part_of(result, number, kind) for kind in ("prose", "answers")}
            exercises.setdefault((name, number), []).append(row | texts | {"place": len(rows)})
            rows[key] = row
    names = dict.fromkeys([*ABOUT, *TYPED, *(name for row in typed.values() for name in row)])
    for key, row in typed.items():  # of whom, or of what, there is no result by now
        if key not in rows and any(row.get(name) for name in names if name not in ABOUT):
            rows[key] = row
    cells = [[row.get(name, "") for name in names] for row in rows.values()]
    script = PAGES.get_template("by-hand.js").render()
    digest = base64.b64encode(sha256(script.encode()).digest()).decode()
    shown = {"exercises": sorted(exercises.items()), "script": script, "digest": digest}
    shown["table"] = {"header": [*names], "rows": cells}
    form = page("by-hand.html", "To be read by a person", **shown)
    return table_text([*names], cells), form


# --- grades


def grades_table(results: Iterable[dict], assignments: Mapping[str, dict]) -> str:
    """A row for each student: points of each exercise, of each part by hand, total, reason."""
    students: dict[str, list[dict]] = {}
    for result in results:
        students.setdefault(result["submission"], []).append(result)  # two may have one name
    used = {result["assignment"] for own in students.values() for result in own}
    columns = {
        (name, str(asked["number"]), part): f"{name} {asked['number']}{words} (of {of['points']})"
        for name in sorted(used & assignments.keys())
        for asked in assignments[name]["questions"]
        for part, words, of in (("questions", "", asked), ("by_hand", " by hand", asked["by_hand"]))
        if of
    }
    lines = []
    for submission, own in students.items():
        by_name = {one["assignment"]: one for one in own if not one["reason"]}
        found = [by_name.get(name, {}).get(part, {}).get(n, {}) for name, n, part in columns]
        cells = [own[0]["student"], submission, *(one.get("points") for one in found)]
        for part in ("points", "of"):
            cells.append(sum(one[part] for one in by_name.values()) if by_name else None)
        late = "late" if any(one["late"] for one in own) else ""
        lines.append([*cells, late, "; ".join(one["reason"] for one in own if one["reason"])])
    header = ["student", "submission", *columns.values()]
    return table_text([*header, "total", "of", "late", "not graded because"], lines)


# --- pages


@dataclass(frozen=True)
class Item:
    """Something that a person should look at."""

    kind: str  # a heading of `review.html`
    exercises: tuple[int, ...]  # whose code is shown; none: of no exercise
    results: list[dict]  # whose it is
    text: str
    code: str = ""  # a line of it, beside the text


def review_page(results: list[dict], assignments: dict, copies: Mapping[str, Copies]) -> str:
    """All that a person should look at, with the code; `copies` by the name of an assignment."""
    items = []
    for result in results:
        if result["reason"]:
            items.append(Item("refused", (), [result], result["reason"]))
        for found in result["findings"]:
            kind = "cells" if found["kind"] == "cells" else "ended"
            exercises = (found["exercise"],) if found["exercise"] else ()
            items.append(Item(kind, exercises, [result], found["text"]))
        for entry in result.get("reach", ()):  # which results of an earlier grading lack
            exercises = (entry["exercise"],) if entry["exercise"] else ()
            place = (
                f"line {entry['line']}"
                if exercises
                else f"above the exercises, line {entry['line']}"
            )
            text = f"{place}: {entry['text']}"
            items.append(Item("reach", exercises, [result], text, entry["code"]))
        for number, part in result["by_hand"].items():
            if part["points"] is not None and AGAIN in part["note"]:
                text = f"{part['points']} of {part['of']} points were {AGAIN}"
                items.append(Item("by hand", (int(number),), [result], text))
    for name, found in copies.items():
        by_id = {one["submission"]: one for one in results if one["assignment"] == name}
        solutions = {str(one["number"]): one["solution"] for one in assignments[name]["questions"]}
        by_id[PUBLISHED] = {"student": PUBLISHED, "assignment": name, "answers": solutions}
        for kind, groups in ("notebooks", found.notebooks), ("similar", found.answers):
            for group in groups:
                own = sorted(group.submissions, key=lambda id: id == PUBLISHED)  # it comes last
                who = [by_id[id] for id in own]
                items.append(Item(kind, group.exercises, who, group.text))
        for short in found.short:
            about = {"student": "", "assignment": name}
            items.append(Item("short", (short.exercise,), [about], short.text))
    items.sort(key=lambda item: item.exercises[:1])
    return page("review.html", "To look at", items=items)
