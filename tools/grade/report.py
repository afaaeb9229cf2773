"""What a grading leaves for people: grades, a page of feedback a student, a list to look through.

The same results give the same bytes. Whatever is a student's is escaped, in HTML and for
spreadsheets.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from tools.errors import BookError
from tools.grade.similar import Pair
from tools.grade.tables import read_table, table_text

BY_HAND = "by-hand.csv"
BY_HAND_HEADER = (
    *("student", "submission", "assignment", "exercise", "rubric", "of"),
    *("points", "note"),  # what a person types
)
AGAIN = "given for an earlier hand-in"  # a note beside points; a person takes it away
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


def by_hand_table(
    results: Sequence[dict], assignments: Mapping[str, dict], typed: Mapping[Key, dict[str, str]]
) -> str:
    """What a person still has to read, with all that they typed already."""
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
    header = [*BY_HAND_HEADER, *own]
    return table_text(header, ([row.get(name) for name in header] for row in rows.values()))


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


def _page(title: str, body: Iterable[str]) -> str:
    text = "\n".join(body)
    return PAGE.format(title=escape(title), style=STYLE, body=text)


def feedback_page(result: dict, assignment: dict | None) -> str:
    """What a student gets back: what was tested in words, what held, what their code showed."""
    title = assignment["title"] if assignment else "Your submission"
    body = [f"<h1>{escape(title)}</h1>", f"<p>{escape(result['student'])}</p>"]
    if result["status"] != "graded":
        body += [f"<p><strong>Not graded:</strong> {escape(result['reason'])}.</p>"]
        return _page(title, body)
    body += [f"<p><strong>{result['points']} of {result['of']} points</strong></p>"]
    for number, question in sorted(result["questions"].items(), key=lambda pair: int(pair[0])):
        asked = _question(assignment, number)
        body.append(f"<h2>{number}. {escape(asked['title'])}</h2>")
        body.append(f"<p>{question['points']} of {question['of']} points</p><table>")
        rows = [
            (test["about"], "passed" if test["passed"] else test["reason"] or "", test)
            for test in question["tests"]
        ]
        if part := result["by_hand"].get(number):
            rows.append(("Read by a person", "", part))
        for about, said, part in rows:
            points = f"{part['points']} of {part['of']}"
            points = "not read yet" if part["points"] is None else points
            cells = f"<td>{escape(about)}</td><td>{escape(said)}</td><td class=n>{points}</td>"
            body.append(f"<tr>{cells}</tr>")
        body.append(f"</table><p>{CHECKS[question['check']]}</p>")
        if question["shown"]:
            body.append(f"<pre>{escape(question['shown'])}</pre>")
    notes = [found for found in result["findings"] if found["kind"] == "cells"]
    if notes:
        body.append("<h2>How your notebook was read</h2><ul>")
        for found in notes:
            where = f"Exercise {found['exercise']}: " if found["exercise"] else ""
            body.append(f"<li>{escape(where)}{escape(found['text'])}.</li>")
        body.append("</ul>")
    body.append(f"<p><small>{PROMISE}</small></p>")
    return _page(title, body)


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
    other: dict | None = None  # the result that is like it


def review_items(
    results: Sequence[dict], assignments: Mapping[str, dict], pairs: Mapping[str, Sequence[Pair]]
) -> list[Item]:
    """All that a person should look at; `pairs` by the name of their assignment."""
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
    for name, found in pairs.items():
        by_id = {one["submission"]: one for one in results if one["assignment"] == name}
        for pair in found:
            first, second = by_id[pair.first], by_id[pair.second]
            items.append(Item("similar", first, pair.exercise, pair.text, second))
    order = list(KINDS)
    return sorted(items, key=lambda item: (order.index(item.kind), item.exercise or 0))


def review_table(items: Sequence[Item]) -> str:
    lines = []
    for item in items:
        result, other = item.result, item.other
        told = [item.kind, result["student"], result["submission"], result["assignment"]]
        like = f"{other['student']} [{other['submission']}]" if other else ""
        lines.append([*told, item.exercise or "", item.text, like])
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
        if of_kind := [item for item in items if item.kind == kind]:
            body.append(f"<h2>{heading}: {len(of_kind)}</h2>")
            body += [_entry(item) for item in of_kind]
    if not items:
        body.append("<p>There is nothing.</p>")
    return _page(title, body)


def _entry(item: Item) -> str:
    both = [item.result, item.other] if item.other else [item.result]
    number, name = str(item.exercise), item.result["assignment"]
    who = " and ".join(result["student"] for result in both)
    where = (name or "") + (f", exercise {number}" if item.exercise else "")
    is_read = item.kind == "by hand"  # its text is a rubric, as long as what it is about
    line = escape(": ".join(filter(None, (who, where, "" if is_read else item.text))))
    texts = [result["answers"].get(number, "") for result in both]
    if is_read:
        texts += [item.result["prose"].get(number, ""), f"Rubric. {item.text}"]
    if item.kind in ("cells", "refused") or not any(texts):
        return f"<p>{line}</p>"
    codes = "".join(f"<pre>{escape(text[:CODE])}</pre>" for text in texts if text)
    shown = f'<div class="two">{codes}</div>' if item.other else codes
    return f"<details><summary>{line}</summary>{shown}</details>"
