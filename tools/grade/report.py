"""What a grading leaves for people: grades, a page of feedback a student, a list to look through.

The same results give the same bytes. Whatever is a student's is escaped, in HTML and for
spreadsheets.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from tools.errors import BookError
from tools.grade.similar import Pair
from tools.grade.store import file_name
from tools.grade.tables import read_table, table_text

BY_HAND = "by-hand.csv"
BY_HAND_HEADER = ("student", "submission", "assignment", "exercise", "rubric", "of", "points")
CODE = 6000  # characters of an answer on the list
STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;
color:#1b1f24;background:#fff}h1{font-size:1.4rem}h2{font-size:1.1rem;margin:2rem 0 .3rem}
table{border-collapse:collapse;width:100%}td,th{padding:.2rem .6rem .2rem 0;text-align:left;
vertical-align:top;border-bottom:1px solid #d8dee4}td.n,th.n{text-align:right;white-space:nowrap}
pre{background:#f4f6f8;padding:.6rem;overflow-x:auto;white-space:pre-wrap;overflow-wrap:anywhere;
font-size:.85rem}.two{display:grid;grid-template-columns:1fr 1fr;gap:1rem}small{color:#57606a}
@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}pre{background:#161b22}
td,th{border-color:#30363d}small{color:#9198a1}}
""".replace("\n", "")
PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<meta name="robots" content="noindex">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
</body>
</html>
"""
CHECKS = {
    "holds": "The check below the exercise holds.",
    "fails": "The check below the exercise fails.",
    "not run": "The check below the exercise was not run.",
}
PROMISE = (
    "What this page says comes from hidden tests, which called your code on inputs that you have "
    "not seen and compared what it returned. Passing says that the results were right on those "
    "inputs, not that they always are, and nothing of style, speed on a real GPU or "
    "explanation. Your code ran on two simulated GPUs: times in it are modelled. If you think "
    "that a test is wrong, say which, and show your instructor an input and what should come out."
)


@dataclass(frozen=True)
class Row:
    """One submission on its way through a grading."""

    id: str
    student: str
    late: bool
    result: dict
    answers: Mapping[int, str] = field(default_factory=dict)  # the student's own code
    prose: Mapping[int, str] = field(default_factory=dict)  # what a person is to read


# --- by hand


def read_by_hand(folder: Path) -> dict[tuple[str, str], float]:
    """The points that a person gave, by (submission, exercise). Raises BookError."""
    path = folder / BY_HAND
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError):
        raise BookError(f"{BY_HAND}: cannot be read; save it as CSV in UTF-8") from None
    given = {}
    for number, row in enumerate(read_table(text), start=2):
        if not {"submission", "exercise", "of", "points"} <= row.keys():
            raise BookError(
                f"{BY_HAND}: the columns are not {', '.join(BY_HAND_HEADER)}; save it with commas"
            )
        said = (row["points"] or "").strip()
        if not said:
            continue
        try:
            points, of = float(said.replace(",", ".")), float(row["of"])
        except (TypeError, ValueError):
            points, of = -1.0, 0.0
        if not 0 <= points <= of:
            raise BookError(
                f"{BY_HAND}: line {number} gives '{said[:20]}' points; write a number from 0 to "
                f"{row['of']}"
            )
        given[row["submission"], row["exercise"]] = int(points) if points.is_integer() else points
    return given


def add_by_hand(result: dict, assignment: dict, given: Mapping[tuple[str, str], float]) -> None:
    """Add what a person gave to the points of a result, and what they may give to `of`."""
    result["by_hand"] = {}
    for question in assignment["questions"]:
        if question["by_hand"]:
            number = str(question["number"])
            points = given.get((result["submission"], number))
            result["by_hand"][number] = {"points": points, "of": question["by_hand"]["points"]}
    asked = [*result["questions"].values(), *result["by_hand"].values()]
    result["points"] = sum(each["points"] or 0 for each in asked)
    result["of"] = sum(each["of"] for each in asked)


def by_hand_table(rows: Sequence[Row], assignments: Mapping[str, dict]) -> str:
    """What a person still has to read, with what they gave already."""
    lines = []
    for row in rows:
        for number, part in row.result.get("by_hand", {}).items():
            name = row.result["assignment"]
            rubric = _question(assignments[name], number)["by_hand"]["rubric"]
            points = "" if part["points"] is None else part["points"]
            lines.append([row.student, row.id, name, number, rubric, part["of"], points])
    return table_text(BY_HAND_HEADER, lines)


def _question(assignment: dict, number: str) -> dict:
    return next(each for each in assignment["questions"] if str(each["number"]) == number)


# --- grades


def grades_table(rows: Sequence[Row], assignments: Mapping[str, dict]) -> str:
    """A row for each student: points of each exercise, of each part by hand, total, reason."""
    used = {row.result["assignment"] for row in rows}
    columns = []
    for name in sorted(used & assignments.keys()):
        for question in assignments[name]["questions"]:
            number = str(question["number"])
            columns.append(
                (name, number, "questions", f"{name} {number} (of {question['points']})")
            )
            if question["by_hand"]:
                of = question["by_hand"]["points"]
                columns.append((name, number, "by_hand", f"{name} {number} by hand (of {of})"))
    students: dict[str, list[Row]] = {}
    for row in rows:
        students.setdefault(row.student, []).append(row)
    lines = []
    for student, own in students.items():
        graded = {}
        for row in own:
            if row.result["status"] == "graded":
                graded.setdefault(row.result["assignment"], row.result)
        cells = []
        for name, number, part, _ in columns:
            found = graded.get(name, {}).get(part, {}).get(number)
            cells.append("" if found is None or found["points"] is None else found["points"])
        total = sum(each["points"] for each in graded.values())
        of = sum(each["of"] for each in graded.values())
        reasons = [row.result["reason"] for row in own if row.result["reason"]]
        late = "late" if any(row.late for row in own) else ""
        ids = " ".join(row.id for row in own)
        total, of = (total, of) if graded else ("", "")
        lines.append([student, ids, *cells, total, of, late, "; ".join(reasons)])
    header = ["student", "submission", *(column[3] for column in columns)]
    return table_text([*header, "total", "of", "late", "not graded because"], lines)


# --- pages


def _page(title: str, body: Iterable[str]) -> str:
    text = "\n".join(body)
    return PAGE.format(title=escape(title), style=STYLE, body=text)


def feedback_page(row: Row, assignment: dict | None) -> str:
    """What a student gets back: what was tested in words, what held, what their code showed."""
    result = row.result
    title = assignment["title"] if assignment else "Your submission"
    body = [f"<h1>{escape(title)}</h1>", f"<p>{escape(row.student)}</p>"]
    if result["status"] != "graded":
        body += [f"<p><strong>Not graded:</strong> {escape(result['reason'])}.</p>"]
        return _page(title, body)
    body += [f"<p><strong>{result['points']} of {result['of']} points</strong></p>"]
    for number, question in sorted(result["questions"].items(), key=lambda pair: int(pair[0])):
        asked = _question(assignment, number)
        body.append(f"<h2>{number}. {escape(asked['title'])}</h2>")
        body.append(f"<p>{question['points']} of {question['of']} points</p><table>")
        for test in question["tests"]:
            said = "passed" if test["passed"] else escape(test["reason"] or "")
            points = f"{test['points']} of {test['of']}"
            body.append(
                f"<tr><td>{escape(test['about'])}</td><td>{said}</td><td class=n>{points}</td></tr>"
            )
        if part := result.get("by_hand", {}).get(number):
            points = (
                "not read yet" if part["points"] is None else f"{part['points']} of {part['of']}"
            )
            body.append(f"<tr><td>Read by a person</td><td></td><td class=n>{points}</td></tr>")
        body.append(f"</table><p>{CHECKS[question['check']]}</p>")
        if question["shown"]:
            body.append(f"<pre>{escape(question['shown'])}</pre>")
    notes = [each for each in result["findings"] if each["kind"] == "cells"]
    if notes:
        body.append("<h2>How your notebook was read</h2><ul>")
        body += [f"<li>{escape(_where(each))}{escape(each['text'])}.</li>" for each in notes]
        body.append("</ul>")
    body.append(f"<p><small>{PROMISE}</small></p>")
    return _page(title, body)


def _where(finding: dict) -> str:
    return f"Exercise {finding['exercise']}: " if finding["exercise"] else ""


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
    row: Row
    exercise: int | None
    text: str
    other: Row | None = None


def review_items(
    rows: Sequence[Row], assignments: Mapping[str, dict], pairs: Mapping[str, Sequence[Pair]]
) -> list[Item]:
    """All that a person should look at; `pairs` by the name of their assignment."""
    items, by_id = [], {row.id: row for row in rows}
    for row in rows:
        result = row.result
        if result["status"] != "graded":
            items.append(Item("refused", row, None, result["reason"]))
        for each in result["findings"]:
            kind = each["kind"] if each["kind"] in KINDS else "ended"
            items.append(Item(kind, row, each["exercise"], each["text"]))
        for number, part in result.get("by_hand", {}).items():
            if part["points"] is None:
                rubric = _question(assignments[result["assignment"]], number)["by_hand"]["rubric"]
                items.append(Item("by hand", row, int(number), rubric))
    for found in pairs.values():
        for pair in found:
            first, second = by_id[pair.first], by_id[pair.second]
            items.append(Item("similar", first, pair.exercise, pair.text, second))
    order = list(KINDS)
    return sorted(items, key=lambda item: (order.index(item.kind), item.exercise or 0))


def review_table(items: Sequence[Item]) -> str:
    """The list as CSV."""
    lines = [
        [
            item.kind,
            item.row.student,
            item.row.id,
            item.row.result["assignment"] or "",
            item.exercise or "",
            item.text,
            f"{item.other.student} [{item.other.id}]" if item.other else "",
        ]
        for item in items
    ]
    return table_text(REVIEW_HEADER, lines)


def review_page(items: Sequence[Item]) -> str:
    """The list as a page, with the code that it is about."""
    title = "To look at"
    body = [f"<h1>{title}</h1>"]
    body.append(
        "<p>Nothing here is a verdict. Code on this list may be honest, and grades do not "
        "depend on it.</p>"
    )
    for kind, heading in KINDS.items():
        of_kind = [item for item in items if item.kind == kind]
        if not of_kind:
            continue
        body.append(f"<h2>{heading}: {len(of_kind)}</h2>")
        body += [_entry(item) for item in of_kind]
    if not items:
        body.append("<p>There is nothing.</p>")
    return _page(title, body)


def _entry(item: Item) -> str:
    who = item.row.student + (f" and {item.other.student}" if item.other else "")
    where = item.row.result["assignment"] or ""
    where += f", exercise {item.exercise}" if item.exercise else ""
    is_read = item.kind == "by hand"  # its text is a rubric, as long as what it is about
    line = escape(": ".join(filter(None, (who, where, "" if is_read else item.text))))
    rows = [row for row in (item.row, item.other) if row and row.answers.get(item.exercise)]
    if item.kind in ("cells", "refused") or not (rows or is_read):
        return f"<p>{line}</p>"
    texts = [row.answers[item.exercise] for row in rows]
    if is_read:
        texts += [item.row.prose.get(item.exercise, ""), f"Rubric. {item.text}"]
    codes = "".join(f"<pre>{escape(text[:CODE])}</pre>" for text in texts if text)
    both = f'<div class="two">{codes}</div>' if item.other else codes
    return f"<details><summary>{line}</summary>{both}</details>"


def feedback_name(submission: str) -> str:
    """The file of a page of feedback, within the folder of grades."""
    return f"feedback/{file_name(submission)}.html"
