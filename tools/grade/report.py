"""What a grading leaves for people: grades, a page of feedback a student, lists to look through.

The same results give the same bytes. Whatever is a student's is escaped, in HTML and for
spreadsheets. The pages are the templates beside this module.
"""

import ast
import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from markdown_it import MarkdownIt
from markupsafe import Markup

from tools.errors import BookError
from tools.grade.code import tree_of
from tools.grade.judge import hidden_tests, rng_of
from tools.grade.similar import Group
from tools.grade.tables import guard, read_table, table_text

BY_HAND = "by-hand.csv"
BY_HAND_HEADER = (
    *("student", "submission", "assignment", "exercise", "rubric", "of"),
    *("points", "note"),  # what a person types
)
AGAIN = "given for an earlier hand-in"  # a note beside points; a person takes it away
LONGEST = 6000  # characters of an answer that is shown or compared
SHORT = 200  # characters of an input that is shown
CHECKS = {
    "holds": "The check below the exercise holds.",
    "fails": "The check below the exercise fails.",
    "not run": "The check below the exercise was not run.",
}
KINDS = {  # of findings, in the order of the list
    "refused": "Not graded",
    "ended": "Ended their session",
    "similar": "Nearly the same answers",
    "lint": "Code that exercises have no use for",
    "cells": "Cells that were changed",
    "by hand": "To be read by a person",
}
REVIEW_HEADER = ("kind", "student", "submission", "assignment", "exercise", "what", "others")
TEMPLATES = Path(__file__).with_name("templates")
WORDS = MarkdownIt("commonmark", {"html": False}).disable(["link", "image"])  # of masters

Key = tuple[str, str, str]  # submission, assignment and exercise of points by hand


@cache
def pages() -> Environment:
    """What draws the templates, with every value escaped."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    made.filters["markdown"] = lambda text: Markup(WORDS.render(text).strip())
    return made


def _question(assignment: dict, number: str) -> dict:
    return next(asked for asked in assignment["questions"] if str(asked["number"]) == number)


# --- by hand


def read_by_hand(folder: Path, results: Iterable[dict] = ()) -> dict[Key, dict[str, str]]:
    """The rows that a person may have typed in, columns of their own included. Raises BookError.

    What a row said that is there no more comes from the results.
    """
    typed: dict[Key, dict[str, str]] = {}
    try:
        text = (folder / BY_HAND).read_text(encoding="utf-8")
    except FileNotFoundError:
        text = ""
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
    for result in results:
        for number, part in result["by_hand"].items():
            key = result["submission"], result["assignment"], number
            if key not in typed and (part["points"] is not None or part["note"]):
                points = "" if part["points"] is None else str(part["points"])
                typed[key] = {"points": points, "note": part["note"]}
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


def _by_hand_rows(
    results: Iterable[dict], assignments: Mapping[str, dict], typed: Mapping[Key, dict[str, str]]
) -> tuple[list[str], dict[Key, dict]]:
    """The header, and the rows of what a person has to read, with all that they typed already."""
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
    results: Iterable[dict], assignments: Mapping[str, dict], typed: Mapping[Key, dict[str, str]]
) -> str:
    header, rows = _by_hand_rows(results, assignments, typed)
    return table_text(header, ([row.get(name) for name in header] for row in rows.values()))


def by_hand_page(
    results: Sequence[dict], assignments: Mapping[str, dict], typed: Mapping[Key, dict[str, str]]
) -> str:
    """The same as a form, an exercise after the other, which saves what is typed as that table."""
    header, rows = _by_hand_rows(results, assignments, typed)
    exercises: dict[tuple[str, str], dict] = {}
    wrote = {(result["submission"], result["assignment"]): result for result in results}
    for place, ((submission, name, number), row) in enumerate(rows.items()):
        if result := wrote.get((submission, name)):
            texts = [result[part].get(number, "") for part in ("answers", "prose")]
            title = f"{assignments[name]['title']}, exercise {number}"
            entry = {"title": title, "rubric": row["rubric"], "rows": []}
            shown = {"texts": [text[:LONGEST] for text in texts if text], "place": place}
            exercises.setdefault((name, number), entry)["rows"].append(
                {"points": "", "note": "", **row, **shown}
            )
    script = (TEMPLATES / "by-hand.js").read_text(encoding="utf-8")
    cells = [[guard(row.get(name, "")) for name in header] for row in rows.values()]
    return (
        pages()
        .get_template("by-hand.html")
        .render(
            title="To be read by a person",
            exercises=[exercises[key] for key in sorted(exercises)],
            table={"header": header, "rows": cells},
            script=script,
            scripts=f"'sha256-{base64.b64encode(sha256(script.encode()).digest()).decode()}'",
        )
    )


# --- grades


def grades_table(results: Sequence[dict], assignments: Mapping[str, dict]) -> str:
    """A row for each student: points of each exercise, of each part by hand, total, reason."""
    used = {result["assignment"] for result in results}
    columns = {}
    for name in sorted(used & assignments.keys()):
        for question in assignments[name]["questions"]:
            number = str(question["number"])
            columns[name, number, "questions"] = f"{name} {number} (of {question['points']})"
            if by_hand := question["by_hand"]:
                columns[name, number, "by_hand"] = f"{name} {number} by hand (of {by_hand['points']})"
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
        for name, number, part in columns:
            found = graded.get(name, {}).get(part, {}).get(number)
            cells.append(found["points"] if found else None)
        total = sum(result["points"] for result in graded.values()) if graded else ""
        of = sum(result["of"] for result in graded.values()) if graded else ""
        late = "late" if any(result["late"] for result in own) else ""
        reasons = "; ".join(result["reason"] for result in own if result["reason"])
        ids = " ".join(dict.fromkeys(result["submission"] for result in own))
        lines.append([student, ids, *cells, total, of, late, reasons])
    header = ["student", "submission", *columns.values()]
    return table_text([*header, "total", "of", "late", "not graded because"], lines)


# --- feedback


def feedback_page(result: dict, assignment: dict | None) -> str:
    """What a student gets back: what was asked and what held, what is still to be read, and why."""
    exercises = []
    for number, question in sorted(result["questions"].items(), key=lambda pair: int(pair[0])):
        asked, read = _question(assignment, number), result["by_hand"].get(number)
        is_lost = question["points"] < question["of"]
        tests = [
            test | {"asked": None if test["passed"] else first_input(assignment, asked, test)}
            for test in question["tests"]
        ]
        exercises.append(
            question
            | {
                "number": number,
                "title": asked["title"],
                "tests": tests,
                "read": read,
                "note": read and read["note"].replace(AGAIN, "").strip("; "),
                "remark": is_lost and remark(result["answers"].get(number, ""), asked),
                "holds": is_lost and asked.get("holds"),
                "check": CHECKS[question["check"]],
            }
        )
    unread = {n: part for n, part in result["by_hand"].items() if part["points"] is None}
    waiting = sum(part["of"] for part in unread.values())
    return (
        pages()
        .get_template("feedback.html")
        .render(
            title=assignment["title"] if assignment else "Your submission",
            result=result,
            exercises=exercises,
            counted=result["points"],
            countable=result["of"] - waiting,
            waiting=waiting,
            unread=", ".join(unread),
            notes=[found for found in result["findings"] if found["kind"] == "cells"],
        )
    )


class _Asked(BaseException):
    """Ends a test at its first question."""


class _Listener:
    """In the place of a student: notes the inputs of the first question."""

    inputs: dict[str, Any] = {}

    def ask(self, code: str, **inputs: Any) -> None:
        self.inputs = inputs
        raise _Asked


def first_input(assignment: dict, asked: dict, test: dict) -> str | None:
    """The first input that a hidden test drew, `n = 5`, if it is short: nothing comes from inside."""
    listener = _Listener()
    for hidden in hidden_tests(asked["tests"]):
        if hidden.__name__ == test["name"]:
            try:
                hidden(listener, rng_of(assignment, asked["number"], test["name"]))
            except (_Asked, Exception):
                pass  # a test that asks nothing has no input to show
    said = ", ".join(f"{name} = {value!r}" for name, value in listener.inputs.items())
    return said if 0 < len(said) <= SHORT else None


def remark(answer: str, asked: dict) -> str | None:
    """What the master says of this wrong answer, if it is one of those: as Python reads them."""
    try:
        own = [ast.dump(node) for node in tree_of(answer[:LONGEST]).body]
        for code, text in asked.get("remarks", ()):
            wrong = [ast.dump(node) for node in tree_of(code).body]
            if own[-len(wrong) :] == wrong:
                return text
    except (AttributeError, RecursionError):  # it cannot be read, or is endlessly nested
        pass
    return None


# --- review


@dataclass(frozen=True)
class Item:
    """A thing for a person to look at; `results` are those that it is about."""

    kind: str
    results: list[dict]
    exercise: int | None
    text: str

    @property
    def line(self) -> str:
        """Who, where and what, in one line."""
        name = self.results[0]["assignment"] or ""
        where = f"{name}, exercise {self.exercise}" if self.exercise else name
        who = " and ".join(result["student"] for result in self.results)
        return ": ".join(filter(None, (who, where, self.text)))

    @property
    def alike(self) -> bool:
        return len(self.results) > 1

    @property
    def texts(self) -> list[tuple[str, str]]:
        """The code that it is about, by student."""
        if self.kind in ("cells", "refused"):
            return []
        number = str(self.exercise)
        texts = [(result["student"], result["answers"].get(number)) for result in self.results]
        return [(student, text[:LONGEST]) for student, text in texts if text]


def review_items(
    results: Sequence[dict], groups: Mapping[str, Sequence[Group]]
) -> list[Item]:
    """All that a person should look at; `groups` of answers alike by the name of the assignment."""
    items = []
    for result in results:
        if result["status"] != "graded":
            items.append(Item("refused", [result], None, result["reason"]))
        for found in result["findings"]:
            kind = found["kind"] if found["kind"] in KINDS else "ended"
            items.append(Item(kind, [result], found["exercise"], found["text"]))
        for number, part in result["by_hand"].items():
            if part["points"] is None:
                items.append(Item("by hand", [result], int(number), f"{part['of']} points"))
            elif AGAIN in part["note"]:
                text = f"{part['points']} of {part['of']} points were {AGAIN}"
                items.append(Item("by hand", [result], int(number), text))
    for name, found in groups.items():
        by_id = {one["submission"]: one for one in results if one["assignment"] == name}
        for group in found:
            alike = [by_id[id] for id in group.submissions]
            items.append(Item("similar", alike, group.exercise, group.text))
    order = list(KINDS)
    return sorted(items, key=lambda item: (order.index(item.kind), item.exercise or 0))


def review_table(items: Sequence[Item]) -> str:
    lines = []
    for item in items:
        first, *others = item.results
        told = [item.kind, first["student"], first["submission"], first["assignment"]]
        like = "; ".join(f"{other['student']} [{other['submission']}]" for other in others)
        lines.append([*told, item.exercise or "", item.text, like])
    return table_text(REVIEW_HEADER, lines)


def review_page(items: Sequence[Item]) -> str:
    """The list as a page, with the code that it is about."""
    kinds = [
        (heading, of_kind)
        for kind, heading in KINDS.items()
        if (of_kind := [item for item in items if item.kind == kind])
    ]
    return pages().get_template("review.html").render(title="To look at", kinds=kinds)
