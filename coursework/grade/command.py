"""`make grade`: a download of submissions in, a folder of grades out.

A submission goes through once: it is read, judged, gets its points by hand and what being late
costs, and is saved; reports are written of all. Only the students of the download are touched. What
others got, and what a person typed, stays.
"""

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

from tqdm import tqdm

from coursework.exercises.assignment import MASTERS, Choice, choice_of, make_drafts
from coursework.exercises.tasks import BOOK, Assignment, Assignments, Task, draws_of
from coursework.grade import report
from coursework.grade.by_hand import TYPED, HandTable, Typed, points_in, row_key
from coursework.grade.engine import Answer, Engine, on_dask, on_this_machine
from coursework.grade.intake import find_submissions
from coursework.grade.reading import read
from coursework.grade.results import (
    Grade,
    GradeId,
    Judgement,
    PartByHand,
    add_penalty,
    late_notes,
    rounded,
)
from coursework.grade.sandbox import TRIED, strongest
from coursework.grade.store import Store, key_of
from tools.errors import BookError
from tools.files import ROOT, write_bytes

MAX_REASONS = 20  # of submissions that are not graded, among what is printed
# Spreadsheets that a person may save in place of `by-hand.csv`.
SPREADSHEETS = (".xlsx", ".xls", ".ods", ".numbers")

Pending = dict[GradeId, tuple[Grade, Task]]  # what is to be judged


def grade_class(
    submissions: Path,
    key: str | None,
    masters: Path | None = None,
    workers: int | str | None = None,
    address: str | None = None,
    out: Path | None = None,
    source: str | None = None,
    assignment: Path | None = None,
) -> None:
    """Grade a download of submissions, and print what came of it. Raises BookError."""
    if not sys.platform.startswith("linux"):  # said before a submission is read
        raise BookError("grading needs Linux: a Linux machine, WSL, or the container")
    engine = engine_for(workers, address)
    assignments = assignments_of(key, masters, choice_of(None, assignment))
    grades = read_all(submissions, assignments, source)
    check_class(grades, next(iter(assignments.values())).group, key)
    check_masters(grades, assignments, masters or ROOT / MASTERS)
    check_graded(grades)
    folder = out or folder_of(grades)
    grade_all(grades, assignments, folder, engine)
    print(summary(grades, folder))


def assignments_of(
    key: str | None, masters: Path | None, choice: Choice | None
) -> Assignments:
    folder = masters or ROOT / MASTERS
    drafts = make_drafts(ROOT, folder, draws_of(key), choice=choice)
    return {assignment.name: assignment for _, assignment in drafts}


def engine_for(workers: int | str | None, address: str | None) -> Engine:
    """Return the engine that was asked for. Raises BookError.

    The engine raises NoSandbox where there is none.
    """
    if address:
        return lambda tasks: on_dask(tasks, address)
    count = str(workers or os.cpu_count() or 1)
    if not count.isdecimal() or int(count) < 1:
        raise BookError(f"WORKERS={workers}: name a number of processes, 1 or more")

    def on_workers(tasks: Iterable[Task]) -> Iterator[tuple[Task, Answer]]:
        os.environ[TRIED] = strongest().name  # workers need not try it again
        return on_this_machine(tasks, int(count))

    return on_workers


# --- what was handed in


def read_all(path: Path, assignments: Assignments, source: str | None) -> list[Grade]:
    """Read every submission of a download."""
    submissions = find_submissions(path, source)
    grades = [read(submission, assignments) for submission in submissions]
    pairs = list(zip(submissions, grades, strict=True))
    count = Counter()
    for submission, grade in pairs:
        count[submission.who, grade.assignment] += 1
    for submission, grade in pairs:
        if count[submission.who, grade.assignment] == 1:
            # This id stays the same when the student hands in another file.
            grade.submission = submission.make_id()
    return grades


def check_class(grades: list[Grade], group: str, key: str | None) -> None:
    """Raise BookError if the key is missing, or another than that of these notebooks."""
    classes = Counter(grade.made_for for grade in grades if grade.made_for)
    likeliest = max(sorted(classes), key=classes.get, default=group)
    if not classes and key is None:
        fault = "no notebook here says which class it was made for"
    elif classes[group] < classes[likeliest]:
        fault = f"these notebooks were made for class {likeliest}, and "
        if key is None:
            fault += "no key is given"
        else:
            fault += f"the key is that of class {group}"
    else:
        return
    advice = f"make grade CLASS=...; for the book's own edition: CLASS={BOOK}"
    raise BookError(f"CLASS: {fault}; name the key of the class: {advice}")


def check_masters(grades: list[Grade], assignments: Assignments, folder: Path) -> None:
    """Raise BookError if most notebooks of an assignment were released from other masters."""
    for name, assignment in assignments.items():
        masters = assignment.masters
        releases: Counter[str] = Counter()  # notebooks, by the masters that they name
        graded = 0  # also those that name no masters, whichever they came from
        for grade in grades:
            if grade.made_from and grade.made_from[0] == name:
                releases[grade.made_from[1]] += 1
            if grade.assignment == name:
                graded += 1
        likeliest = max(sorted(releases), key=releases.get, default=masters)
        if likeliest != masters and releases[likeliest] > graded:
            fault = (
                f"the notebooks of '{name}' were released from masters {likeliest}, but "
                f"{folder} holds {masters}"
            )
            advice = (
                "grade with the folder that they were released from, make grade "
                "MASTERS=..., or undo what has changed in it since"
            )
            raise BookError(f"MASTERS: {fault}; {advice}")


def check_graded(grades: list[Grade]) -> None:
    if any(not grade.reason for grade in grades):
        return
    head = f"none of {len(grades)} submissions can be graded, so nothing is written"
    reasons = reasons_of(grades)
    if len(reasons) == 1:
        raise BookError(f"{head}: {reasons[0]}")
    lines = [f"{head}:"]
    for reason in reasons[:MAX_REASONS]:
        lines.append(f"  {reason}")
    if len(reasons) > MAX_REASONS:
        lines.append(f"  and {len(reasons) - MAX_REASONS} more")
    raise BookError("\n".join(lines))


def reasons_of(grades: list[Grade]) -> list[str]:
    return [f"{grade.student}: {grade.reason}" for grade in grades if grade.reason]


def folder_of(grades: list[Grade]) -> Path:
    """Return where grades go if no OUT is named: by the chapter of the most, and the class."""
    names = []
    for grade in grades:
        if grade.assignment:
            names.append(f"{grade.assignment}-{grade.group}")
    [(name, _)] = Counter(sorted(names)).most_common(1)
    return Path("grades", name)


# --- grading


def grade_all(
    grades: list[Grade], assignments: Assignments, out: Path, engine: Engine
) -> None:
    store = Store(out)
    with store.one_at_a_time():
        check_groups(store, assignments, out)
        note_spreadsheets(store.folder)
        hand = HandTable(store)
        note_anew(grades, store, hand, assignments)
        pending = reuse(grades, store, hand, assignments)
        judge_all(pending, store, hand, engine)
        check_graded(grades)
        for grade in grades:
            # A notebook that can be read takes the place of one that could not.
            unread = store.grades.get((grade.submission, None))
            if unread:
                store.remove(unread)
            store.save(grade)
        write_reports(store, hand, assignments)
        hand.set_copies_aside()


def check_groups(store: Store, assignments: Assignments, out: Path) -> None:
    """Raise BookError if the folder holds grades of another class or assignment."""
    for grade in store.grades.values():
        if not grade.assignment:
            continue
        assignment = assignments.get(grade.assignment)
        if not assignment or assignment.group != grade.group:
            fault = f"holds grades of '{grade.assignment}' for class {grade.group}"
            raise BookError(f"OUT: {out} {fault}; name another folder")


def note_spreadsheets(folder: Path) -> None:
    """Say that a spreadsheet in the place of `by-hand.csv` is not read."""
    for path in sorted(folder.glob("by-hand*")):
        if path.suffix.lower() in SPREADSHEETS:
            print(f"{path.name}: is not read; save it as CSV in the same folder")


def note_anew(
    grades: list[Grade], store: Store, hand: HandTable, assignments: Assignments
) -> None:
    """Note beside points by hand that the exercise was answered anew, before it is graded."""
    keys = []
    for grade in grades:
        before = store.grades.get(grade.id)
        if not before or grade.reason:
            continue
        for number in before.by_hand:
            if is_answered_anew(number, before, grade):
                keys.append(row_key(grade, number))
    if not hand.note_anew(keys):
        return
    is_written = False
    while not is_written:
        hand.refresh()
        old = store.grades.values()
        table, _ = report.by_hand_forms(old, assignments, hand.rows, hand.layout)
        is_written = hand.replace(table)


def is_answered_anew(number: int, before: Grade, grade: Grade) -> bool:
    if number not in grade.answers:  # an exercise of an earlier edition
        return False
    is_same_answer = before.answers.get(number) == grade.answers[number]
    is_same_prose = before.prose.get(number) == grade.prose.get(number)
    return not (is_same_answer and is_same_prose)


def reuse(
    grades: list[Grade], store: Store, hand: HandTable, assignments: Assignments
) -> Pending:
    """Take over what was judged before; return what is still to be judged."""
    pending: Pending = {}
    for grade in grades:
        if grade.reason:
            continue
        assignment = assignments[grade.assignment]
        key = key_of(assignment, grade.cells)
        before = store.grades.get(grade.id)
        if before and before.key == key:
            complete(grade, before.judgement(), assignment, hand.rows)
        else:
            task = Task(assignment, grade.cells, grade.submission, grade.student, key)
            pending[grade.id] = grade, task
    return pending


def judge_all(pending: Pending, store: Store, hand: HandTable, engine: Engine) -> None:
    """Judge these tasks, and save each grade as it comes."""
    if not pending:
        return
    tasks = [task for _, task in pending.values()]
    with closing(
        engine(iter(tasks))
    ) as answers:  # Ctrl-C ends the workers at any point
        for task, answer in tqdm(answers, "graded", len(pending), unit=""):
            grade, _ = pending[task.submission, task.assignment.name]
            if isinstance(answer, BookError):  # without a key: the next run tries again
                grade.reason = " ".join(str(answer).split())
            else:
                complete(grade, answer, task.assignment, hand.rows)
                store.save(grade)


def complete(
    grade: Grade, judgement: Judgement, assignment: Assignment, typed: Typed
) -> None:
    grade.take(judgement)
    add_points(grade, assignment, typed)


def add_points(grade: Grade, assignment: Assignment, typed: Typed) -> None:
    """Add up the points by tests and by hand; what being late costs comes off both."""
    add_by_hand(grade, assignment, typed)
    points = 0
    of = 0
    for part in [*grade.results.values(), *grade.by_hand.values()]:
        points += part.points or 0
        of += part.of
    grade.points = rounded(points)
    grade.of = of
    add_penalty(grade, assignment)


def add_by_hand(grade: Grade, assignment: Assignment, typed: Typed) -> None:
    grade.by_hand = {}
    for exercise in assignment.exercises:
        if exercise.by_hand and exercise.number in grade.results:
            row = TYPED | typed.get(row_key(grade, exercise.number), {})
            points = points_in(row["points"])
            part = PartByHand(exercise.by_hand.points, points, row["note"])
            grade.by_hand[exercise.number] = part


# --- reports


def write_reports(store: Store, hand: HandTable, assignments: Assignments) -> None:
    grades = sorted(
        store.grades.values(), key=lambda grade: (grade.student, str(grade.id))
    )
    form = write_hand_table(grades, hand, assignments)
    store.write(store.folder / "by-hand.html", form)

    pages = []
    for grade in grades:
        if not grade.reason:
            store.save(grade)
        page = report.feedback_page(grade, assignments.get(grade.assignment))
        pages.append((grade, page))
        _, path = store.files(grade)
        store.write(path, page)

    table = report.grades_table(grades, assignments, hand.layout)
    store.write_table("grades.csv", table, hand.layout.separator)
    review = report.review_page(grades, assignments)
    store.write(store.folder / "review.html", review)
    for name, data in report.returned(pages).items():
        write_bytes(store.folder / name, data, store.folder.parent)


def write_hand_table(
    grades: list[Grade], hand: HandTable, assignments: Assignments
) -> str:
    """Write `by-hand.csv`, and count what was typed until then; return the page to go with it."""
    while True:  # until nobody has saved the table in between
        hand.refresh()
        for grade in grades:
            if not grade.reason:
                add_points(grade, assignments[grade.assignment], hand.rows)
        table, form = report.by_hand_forms(grades, assignments, hand.rows, hand.layout)
        if hand.replace(table):
            return form


def summary(grades: list[Grade], out: Path) -> str:
    graded = [grade for grade in grades if not grade.reason]
    full = sum(grade.points == grade.of for grade in graded)
    count = f"{len(graded)} of {len(grades)} submissions"
    lines = [f"graded: {count}, {full} with full points"]
    for sandbox in sorted({grade.sandbox for grade in graded}):
        lines.append(f"sandbox: {sandbox}")
    lines += late_notes(graded)
    for reason in reasons_of(grades)[:MAX_REASONS]:
        lines.append(f"not graded: {reason}")
    lines.append(f"written: {out}")
    return "\n".join(lines)
