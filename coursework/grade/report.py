"""What a grading leaves for people: grades, a page of feedback per student, lists to look through.

The same grades give the same bytes. What comes from a student is escaped, in HTML and for
spreadsheets.
"""

import base64
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from nbformat.v4 import new_markdown_cell, new_notebook

from coursework.exercises.tasks import Assignment, Assignments, GradedExercise
from coursework.grade.by_hand import (
    ABOUT,
    AGAIN,
    TYPED,
    Key,
    Row,
    Typed,
    about_row,
    counted,
    row_key,
)
from coursework.grade.copies import PUBLISHED, Copies, copies_in
from coursework.grade.results import BROKEN_TEST, Grade, rounded, shown, with_article
from coursework.grade.tables import Layout, table_text
from tools.book.notebooks import notebook_text
from tools.files import zipped

MAX_CODE = 6000  # characters of an answer on a page
MAX_INPUT = 120  # characters of an input that a test was asked with
# Submissions of Canvas, by their student, and of Moodle, by their path.
CANVAS = re.compile(r".*\(Canvas \w+\)", re.S)
MOODLE = re.compile(
    r"(?:.*/)?(?P<folder>[^/]+_\d+_assignsubmission_[a-z]+)(?:[_/].*)?", re.S
)
BODY = re.compile(r"<body>\n(?P<text>.*)</body>", re.S)


# --- what templates show


def inputs_text(inputs: Mapping[str, object]) -> str:
    words = []
    for name, value in inputs.items():
        word = f"{name} = {json.dumps(value, ensure_ascii=False)}"
        if len(word) > MAX_INPUT:
            word = word[:MAX_INPUT] + " ..."
        words.append(word)
    return ", ".join(words)


def coded(text: str) -> Markup:
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def answer_of(grade: Grade, exercise: int) -> str:
    return grade.answers.get(exercise, "")[:MAX_CODE]


def answers_of(grade: Grade, exercises: Iterable[int]) -> str:
    """Return the answers to some exercises, under their numbers if they are several."""
    numbers = list(exercises)
    if len(numbers) == 1:
        return answer_of(grade, numbers[0])
    texts = []
    for number in numbers:
        code = answer_of(grade, number)
        if code:
            texts.append(f"# {number}.\n{code}")
    return "\n\n".join(texts)


def comments_of(grade: Grade, exercise: int) -> str:
    """Return the lines of an answer that hold comments of the student's own, numbered."""
    comments = grade.comments.get(exercise, [])
    lines = [f"{number:>3}  {line}" for number, line in comments]
    return "\n".join(lines)[:MAX_CODE]


def late_text(grade: Grade) -> str:
    """Return what being late means for the points, to stand beside the full ones."""
    if not grade.late:
        return ""
    penalty = grade.penalty
    if not penalty or grade.is_undated:
        return "handed in late"
    if penalty.days == 0:
        return "handed in late, within the grace period"
    after = grade.points_after
    days = counted(penalty.days, "day")
    percent = shown(penalty.percent)
    unit = "point" if after == 1 else "points"
    return f"handed in {days} late: {percent} % less, {shown(after)} {unit}"


LOADER = FileSystemLoader(Path(__file__).with_name("templates"))
PAGES = Environment(loader=LOADER, autoescape=True, undefined=StrictUndefined)
PAGES.globals["again"] = AGAIN
PAGES.trim_blocks = True
PAGES.lstrip_blocks = True
PAGES.filters |= {
    "inputs": inputs_text,
    "coded": coded,
    "answers_of": answers_of,
    "shown": shown,
    "late": late_text,
    "with_article": with_article,
}


def page(template: str, title: str, **context: Any) -> str:
    return PAGES.get_template(template).render(title=title, **context)


def feedback_page(grade: Grade, assignment: Assignment | None) -> str:
    title = assignment.title if assignment else "Your submission"
    return page("feedback.html", title, grade=grade, assignment=assignment)


# --- by hand


@dataclass
class ToRead:
    """What a person reads of an answer, and its row in the table."""

    place: int  # of the row
    row: Row
    prose: str
    answers: str
    comments: str


@dataclass
class HandForms:
    """The rows of `by-hand.csv`, and by assignment and exercise what its page shows."""

    rows: dict[Key, Row] = field(default_factory=dict)
    readings: dict[tuple[str, int], list[ToRead]] = field(default_factory=dict)

    def add(self, grade: Grade, exercise: GradedExercise, typed: Typed) -> None:
        number = exercise.number
        key = row_key(grade, number)
        about = about_row(grade, number, exercise.by_hand.rubric)
        row = TYPED | typed.get(key, {}) | about
        reading = ToRead(
            place=len(self.rows),
            row=row,
            prose=grade.prose.get(number, "")[:MAX_CODE],
            answers=answer_of(grade, number),
            comments=comments_of(grade, number),
        )
        self.rows[key] = row
        readings = self.readings.setdefault((grade.assignment, number), [])
        readings.append(reading)

    def add_rest(self, typed: Typed) -> None:
        """Keep what was typed about people or exercises of which there is no result any more."""
        for key, row in typed.items():
            is_filled = any(row[name] for name in row if name not in ABOUT)
            if key not in self.rows and is_filled:
                self.rows[key] = row


def by_hand_forms(
    grades: Iterable[Grade], assignments: Assignments, typed: Typed, layout: Layout
) -> tuple[str, str]:
    """Return what a person reads, with all that was typed so far: `by-hand.csv`, and a page."""
    forms = HandForms()
    for grade in grades:
        exercises = {}
        if grade.assignment in assignments:
            exercises = assignments[grade.assignment].by_number
        for number in grade.by_hand:
            exercise = exercises.get(number)
            if exercise and exercise.by_hand:  # else of an earlier edition
                forms.add(grade, exercise, typed)
    forms.add_rest(typed)

    columns = columns_by_hand(typed)
    cells = []
    for row in forms.rows.values():
        cells.append([row.get(name, "") for name in columns])
    table = table_text(columns, cells, layout)
    return table, by_hand_page(forms, columns, cells, layout)


def columns_by_hand(typed: Typed) -> list[str]:
    """Return our columns, and those that a person has added."""
    columns = dict.fromkeys([*ABOUT, *TYPED])
    for row in typed.values():
        columns |= dict.fromkeys(row)
    return list(columns)


def by_hand_page(
    forms: HandForms, columns: list[str], cells: list[list], layout: Layout
) -> str:
    script = PAGES.get_template("by-hand.js").render()
    digest = sha256(script.encode()).digest()  # the page allows this script alone
    table = {"header": columns, "rows": cells, "separator": layout.separator}
    return page(
        "by-hand.html",
        "To be read by a person",
        readings={key: forms.readings[key] for key in sorted(forms.readings)},
        script=script,
        digest=base64.b64encode(digest).decode(),
        table=table,
    )


# --- grades


LATE_COLUMNS = ["days late", "penalty in %", "penalty in points", "total after penalty"]


@dataclass(frozen=True)
class Column:
    """A column of `grades.csv`: the points of an exercise, by tests or by hand."""

    assignment: str
    number: int
    title: str
    is_by_hand: bool

    def points(self, grade: Grade | None) -> int | float | None:
        if grade is None:
            return None
        parts = grade.by_hand if self.is_by_hand else grade.results
        part = parts.get(self.number)
        return part.points if part else None


def columns_of(assignment: Assignment) -> list[Column]:
    columns = []
    for exercise in assignment.exercises:
        title = f"{assignment.name} {exercise.number}"
        number = exercise.number
        by_tests = f"{title} (of {exercise.points})"
        columns.append(Column(assignment.name, number, by_tests, False))
        if exercise.by_hand:
            by_hand = f"{title} by hand (of {exercise.by_hand.points})"
            columns.append(Column(assignment.name, number, by_hand, True))
    return columns


def grades_table(grades: list[Grade], assignments: Assignments, layout: Layout) -> str:
    """Return a table with a row for each student.

    It has the points of each exercise and of each part by hand, the total, and why something was
    not graded. If a rule for late work is set, it also tells what that took and what is left.
    """
    grades_of: dict[str, list[Grade]] = {}  # by submission, as two may have one name
    for grade in grades:
        grades_of.setdefault(grade.submission, []).append(grade)
    used = {grade.assignment for grade in grades} & assignments.keys()
    columns = []
    for name in sorted(used):
        columns += columns_of(assignments[name])
    has_rule = any(assignments[name].late for name in used)

    header = ["student", "submission", *(column.title for column in columns)]
    header += ["total", "of", "late"]
    if has_rule:
        header += LATE_COLUMNS
    header.append("not graded because")
    rows = [student_row(own, columns, has_rule) for own in grades_of.values()]
    return table_text(header, rows, layout)


def student_row(
    grades: list[Grade], columns: list[Column], has_rule: bool
) -> list[object]:
    """Return the row of a student, who may have handed in several assignments."""
    graded = {grade.assignment: grade for grade in grades if not grade.reason}
    row = [grades[0].student, grades[0].submission]
    row += [column.points(graded.get(column.assignment)) for column in columns]
    row.append(total([grade.points for grade in graded.values()]))
    row.append(total([grade.of for grade in graded.values()]))
    row.append("late" if any(grade.late for grade in grades) else "")
    if has_rule:
        row += late_cells(list(graded.values()))
    reasons = [grade.reason for grade in grades if grade.reason]
    row.append("; ".join(reasons))
    return row


def late_cells(graded: list[Grade]) -> list[object]:
    """Return the cells below LATE_COLUMNS; of several late assignments, the days of each."""
    penalties = [grade.penalty for grade in graded if grade.penalty]
    days = []
    for penalty in penalties:
        days.append("not known" if penalty.days is None else penalty.days)
    percents = [penalty.percent for penalty in penalties]
    taken = total([penalty.points for penalty in penalties])
    left = total([grade.points_after for grade in graded])
    return [joined(days), joined(percents), taken, left]


def total(points: list[int | float]) -> int | float | None:
    """Return a sum; None, and not 0, of nothing."""
    return rounded(sum(points)) if points else None


def joined(values: list[object]) -> object:
    """Return one number as it is, so that a spreadsheet can count with it; several as a text."""
    if len(values) == 1:
        return values[0]
    return "; ".join(str(value) for value in values)


# --- to look at


@dataclass(frozen=True)
class Item:
    """Something that a person should look at."""

    kind: str  # a heading of `review.html`
    exercises: tuple[int, ...]  # whose code is shown; none: of no exercise
    grades: list[Grade]  # whose it is
    text: str
    code: str = ""  # a line of it, beside the text


def review_page(grades: list[Grade], assignments: Assignments) -> str:
    """Return all that a person should look at, with the code."""
    items = []
    for grade in grades:
        items += items_of(grade)
    for name in sorted(assignments):
        own = [grade for grade in grades if grade.assignment == name]
        copies = copies_in(assignments[name], own)
        items += items_of_copies(copies, own, assignments[name])
        items += items_of_broken_tests(own)
    items.sort(key=lambda item: item.exercises[:1])
    return page("review.html", "To look at", items=items)


def items_of(grade: Grade) -> list[Item]:
    """Return what is to be seen of one submission by itself."""
    items = []
    if grade.reason:
        items.append(Item("refused", (), [grade], grade.reason))
    for finding in grade.findings:
        kind = finding.kind
        if kind == BROKEN_TEST:  # listed with those of other submissions
            continue
        if kind not in ("cells", "gap", "note"):
            kind = "ended"
        exercises = (finding.exercise,) if finding.exercise else ()
        items.append(Item(kind, exercises, [grade], finding.text))
    for entry in grade.reach:
        exercises = (entry.exercise,)
        place = f"line {entry.line}"
        if entry.exercise is None:
            exercises = ()
            place = f"above the exercises, {place}"
        text = f"{place}: {entry.text}"
        items.append(Item("reach", exercises, [grade], text, entry.code))
    for number, part in grade.by_hand.items():
        if part.points is not None and AGAIN in part.note:
            text = f"{shown(part.points)} of {part.of} points were {AGAIN}"
            items.append(Item("by hand", (number,), [grade], text))
    return items


def items_of_broken_tests(grades: list[Grade]) -> list[Item]:
    """Return each line at which hidden tests broke off, with all whose answers led to it."""
    grades_by_line: dict[tuple[int, str], list[Grade]] = {}
    for grade in grades:
        for finding in grade.findings:
            if finding.kind == BROKEN_TEST:
                line = finding.exercise, finding.text
                grades_by_line.setdefault(line, []).append(grade)

    items = []
    for (exercise, text), with_it in grades_by_line.items():
        items.append(Item(BROKEN_TEST, (exercise,), with_it, text))
    return items


def items_of_copies(
    copies: Copies, grades: list[Grade], assignment: Assignment
) -> list[Item]:
    """Return the notebooks and answers to an assignment that agree."""
    by_submission = {grade.submission: grade for grade in grades}
    by_submission[PUBLISHED] = published(assignment)
    items = []
    for kind, groups in ("notebooks", copies.notebooks), ("similar", copies.answers):
        for group in groups:
            # The published solution comes last.
            members = sorted(group.submissions, key=lambda id: id == PUBLISHED)
            own = [by_submission[id] for id in members]
            items.append(Item(kind, group.exercises, own, group.text))
    of_the_class = Grade(submission="", student="", assignment=assignment.name)
    for short in copies.short:
        items.append(Item("short", (short.exercise,), [of_the_class], short.text))
    return items


def published(assignment: Assignment) -> Grade:
    """Return the published solutions as if somebody had handed them in."""
    answers = {}
    for exercise in assignment.exercises:
        answers[exercise.number] = exercise.solution
    return Grade(PUBLISHED, PUBLISHED, assignment=assignment.name, answers=answers)


# --- feedback as Canvas and Moodle take it back


def returned(pages: Iterable[tuple[Grade, str]]) -> dict[str, bytes]:
    """Return the zips to upload, by name, of each grade and its page of feedback.

    The names in a zip say whose page is whose:

    - Canvas, *Re-upload submissions*: a page is named as the submission was, and given to
      the student under the name of their file, so it is a notebook as theirs was. See
      `infer_comment_context_from_filename` in app/models/assignment.rb of
      https://github.com/instructure/canvas-lms.
    - Moodle, *Upload multiple feedback files in a zip*: any file in a folder that is named
      as that of the submission. See mod/assign/feedback/file/importziplib.php of
      https://github.com/moodle/moodle.
    """
    canvas = {}
    moodle = {}
    for grade, page in pages:
        if match := MOODLE.fullmatch(grade.path):
            moodle[f"{match['folder']}_/feedback.html"] = page.encode()
        elif CANVAS.fullmatch(grade.student):
            name = grade.path.rpartition("/")[2]
            canvas[name] = canvas_file(name, page)
    zips = {}
    if canvas:
        zips["feedback-canvas.zip"] = zipped(canvas)
    if moodle:
        zips["feedback-moodle.zip"] = zipped(moodle)
    return zips


def canvas_file(name: str, page: str) -> bytes:
    """Return a page of feedback as a notebook, in a zip if the submission was one."""
    cell = new_markdown_cell(BODY.search(page)["text"], id="feedback")
    notebook = notebook_text(new_notebook(cells=[cell])).encode()
    if name.endswith(".zip"):
        return zipped({"feedback.ipynb": notebook})
    return notebook
