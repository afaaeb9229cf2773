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

from coursework.grade.by_hand import ABOUT, AGAIN, BY_HAND, TYPED, Typed, points_in
from coursework.grade.copies import PUBLISHED, Copies
from coursework.grade.late import is_undated
from coursework.grade.points import rounded, shown
from coursework.grade.tables import COMMAS, Layout, table_text

__all__ = ["AGAIN", "BY_HAND"]  # of `by_hand`

CODE = 6000  # characters of an answer on the list
RAISED = "your code raised an error"  # as judge.toml has it, without the name
INPUT = 120  # of an input that a test was asked with
LOADER = FileSystemLoader(Path(__file__).with_name("templates"))
PAGES = Environment(loader=LOADER, autoescape=True, undefined=StrictUndefined)
PAGES.globals["again"] = AGAIN
PAGES.trim_blocks = PAGES.lstrip_blocks = True


def inputs(given: Mapping[str, object]) -> str:
    words = (
        f"{name} = {json.dumps(value, ensure_ascii=False)}"
        for name, value in given.items()
    )
    return ", ".join(
        word if len(word) <= INPUT else word[:INPUT] + " ..." for word in words
    )


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


def comments_of(result: dict, exercise: str) -> str:
    """The lines of an answer that hold comments of the student's own, with their numbers."""
    comments = result.get("comments", {}).get(exercise, [])
    return "\n".join(f"{number:>3}  {line}" for number, line in comments)[:CODE]


def failure_text(test: dict) -> str:
    """Why a test failed, for the student: an error by its name, never with its text."""
    error, reason = test.get("error"), test["reason"] or ""
    if not error:
        return reason
    raised = f"your code raised {with_article(error)}"
    if RAISED in reason:
        return reason.replace(RAISED, raised)
    return reason if raised in reason else "; ".join(filter(None, [reason, raised]))


def with_article(error: str) -> str:
    """The name of an exception with "a" or "an"; a description has its article already."""
    if " " in error:
        return error
    is_vowel = error[:1] in "AEIO" or error.startswith("Unb")  # a UnicodeError
    return f"{'an' if is_vowel else 'a'} {error}"


def late_text(result: dict) -> str:
    """What being late means for the points, to stand beside the full ones."""
    if not result["late"]:
        return ""
    penalty = result.get("penalty")
    if not penalty or is_undated(result):
        return "handed in late"
    days = penalty["days"]
    if days == 0:
        return "handed in late, within the grace period"
    count = "1 day" if days == 1 else f"{days} days"
    after = shown(result["points_after"])
    unit = "point" if after == "1" else "points"
    return f"handed in {count} late: {shown(penalty['percent'])} % less, {after} {unit}"


PAGES.filters |= {
    "inputs": inputs,
    "coded": coded,
    "answers_of": answers_of,
    "part_of": part_of,
    "shown": shown,
    "failure": failure_text,
    "late": late_text,
    "with_article": with_article,
}


def page(template: str, title: str, **context: Any) -> str:
    return PAGES.get_template(template).render(title=title, **context)


# --- by hand


def add_by_hand(result: dict, assignment: dict, typed: Typed) -> None:
    by_hand = {
        str(asked["number"]): asked["by_hand"] for asked in assignment["questions"]
    }
    result["by_hand"] = {}
    for number in result["questions"]:
        if asked := by_hand.get(number):
            row = TYPED | typed.get(
                (result["submission"], assignment["name"], number), {}
            )
            part = {
                "of": asked["points"],
                "points": points_in(row["points"]),
                "note": row["note"],
            }
            result["by_hand"][number] = part
    parts = [*result["questions"].values(), *result["by_hand"].values()]
    result["points"] = rounded(sum(part["points"] or 0 for part in parts))
    result["of"] = sum(part["of"] for part in parts)


def by_hand_forms(
    results: Iterable[dict], assignments: dict, typed: Typed, layout: Layout
) -> tuple[str, str]:
    """What a person reads, with all that they typed already: `by-hand.csv`, and a page."""
    rows, exercises, rubrics = {}, {}, {}
    for name, assignment in assignments.items():
        for asked in assignment["questions"]:
            rubrics[name, str(asked["number"])] = (
                asked["by_hand"] and asked["by_hand"]["rubric"]
            )
    for result in results:
        submission, name = result["submission"], result["assignment"]
        for number, part in result["by_hand"].items():
            rubric = rubrics.get((name, number))
            if rubric is None:  # of an earlier edition
                continue
            key = submission, name, number
            about = result["student"], *key, rubric, part["of"]
            row = TYPED | typed.get(key, {}) | dict(zip(ABOUT, about, strict=True))
            texts = {
                kind: part_of(result, number, kind) for kind in ("prose", "answers")
            }
            texts |= {"comments": comments_of(result, number), "place": len(rows)}
            exercises.setdefault((name, number), []).append(row | texts)
            rows[key] = row
    names = dict.fromkeys(
        [*ABOUT, *TYPED, *(name for row in typed.values() for name in row)]
    )
    for key, row in typed.items():  # of whom, or of what, there is no result by now
        if key not in rows and any(
            row.get(name) for name in names if name not in ABOUT
        ):
            rows[key] = row
    cells = [[row.get(name, "") for name in names] for row in rows.values()]
    script = PAGES.get_template("by-hand.js").render()
    digest = base64.b64encode(sha256(script.encode()).digest()).decode()
    content = {
        "exercises": sorted(exercises.items()),
        "script": script,
        "digest": digest,
    }
    content["table"] = {
        "header": [*names],
        "rows": cells,
        "separator": layout.separator,
    }
    form = page("by-hand.html", "To be read by a person", **content)
    return table_text([*names], cells, layout), form


# --- grades


def grades_table(
    results: Iterable[dict], assignments: Mapping[str, dict], layout: Layout = COMMAS
) -> str:
    """A row for each student: points of each exercise, of each part by hand, total, reason. Where
    a rule for late work is set, also what it took and what is left."""
    students: dict[str, list[dict]] = {}
    for result in results:
        students.setdefault(result["submission"], []).append(
            result
        )  # two may have one name
    used = {result["assignment"] for own in students.values() for result in own}
    used = sorted(used & assignments.keys())
    columns = {
        (
            name,
            str(asked["number"]),
            part,
        ): f"{name} {asked['number']}{words} (of {of['points']})"
        for name in used
        for asked in assignments[name]["questions"]
        for part, words, of in (
            ("questions", "", asked),
            ("by_hand", " by hand", asked["by_hand"]),
        )
        if of
    }
    has_rule = any(assignments[name].get("late") for name in used)
    lines = []
    for submission, own in students.items():
        by_name = {one["assignment"]: one for one in own if not one["reason"]}
        found = [
            by_name.get(name, {}).get(part, {}).get(n, {}) for name, n, part in columns
        ]
        cells = [own[0]["student"], submission, *(one.get("points") for one in found)]
        for part in ("points", "of"):
            cells.append(_sum(by_name, part))
        cells.append("late" if any(one["late"] for one in own) else "")
        if has_rule:
            cells += _late_cells(by_name)
        lines.append([*cells, "; ".join(one["reason"] for one in own if one["reason"])])
    header = ["student", "submission", *columns.values(), "total", "of", "late"]
    if has_rule:
        header += LATE_COLUMNS
    return table_text([*header, "not graded because"], lines, layout)


LATE_COLUMNS = ["days late", "penalty in %", "penalty in points", "total after penalty"]


def _sum(by_name: Mapping[str, dict], part: str) -> int | float | None:
    return (
        rounded(sum(result[part] for result in by_name.values())) if by_name else None
    )


def _late_cells(by_name: Mapping[str, dict]) -> list[object]:
    """The cells below LATE_COLUMNS; of several late assignments, the days of each."""
    late = [result["penalty"] for result in by_name.values() if result["penalty"]]
    days = [
        "not known" if penalty["days"] is None else penalty["days"] for penalty in late
    ]
    percent = [penalty["percent"] for penalty in late]
    taken = rounded(sum(penalty["points"] for penalty in late)) if late else None
    return [_cell(days), _cell(percent), taken, _sum(by_name, "points_after")]


def _cell(values: list[object]) -> object:
    """One number as it is, so that a spreadsheet can count with it; several as a text."""
    return values[0] if len(values) == 1 else "; ".join(map(str, values))


# --- pages


@dataclass(frozen=True)
class Item:
    """Something that a person should look at."""

    kind: str  # a heading of `review.html`
    exercises: tuple[int, ...]  # whose code is shown; none: of no exercise
    results: list[dict]  # whose it is
    text: str
    code: str = ""  # a line of it, beside the text


def review_page(
    results: list[dict], assignments: dict, copies: Mapping[str, Copies]
) -> str:
    """All that a person should look at, with the code; `copies` by the name of an assignment."""
    items = []
    for result in results:
        if result["reason"]:
            items.append(Item("refused", (), [result], result["reason"]))
        for found in result["findings"]:
            kind = (
                found["kind"] if found["kind"] in ("cells", "gap", "note") else "ended"
            )
            exercises = (found["exercise"],) if found["exercise"] else ()
            items.append(Item(kind, exercises, [result], found["text"]))
        for entry in result.get(
            "reach", ()
        ):  # which results of an earlier grading lack
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
                text = f"{shown(part['points'])} of {part['of']} points were {AGAIN}"
                items.append(Item("by hand", (int(number),), [result], text))
    for name, found in copies.items():
        by_id = {one["submission"]: one for one in results if one["assignment"] == name}
        solutions = {
            str(one["number"]): one["solution"]
            for one in assignments[name]["questions"]
        }
        by_id[PUBLISHED] = {
            "student": PUBLISHED,
            "assignment": name,
            "answers": solutions,
        }
        for kind, groups in ("notebooks", found.notebooks), ("similar", found.answers):
            for group in groups:
                own = sorted(
                    group.submissions, key=lambda id: id == PUBLISHED
                )  # it comes last
                who = [by_id[id] for id in own]
                items.append(Item(kind, group.exercises, who, group.text))
        for short in found.short:
            about = {"student": "", "assignment": name}
            items.append(Item("short", (short.exercise,), [about], short.text))
    items.sort(key=lambda item: item.exercises[:1])
    return page("review.html", "To look at", items=items)
