"""`make grade`: a download of submissions in, a folder of grades out.

Only the students of the download are touched: what others got, and what a person typed, stays.
"""

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from datetime import datetime
from pathlib import Path

from tqdm import tqdm

from coursework.exercises.assignment import Choice, choice_of
from coursework.exercises.release import MASTERS, make_drafts
from coursework.exercises.variants import BOOK, draws_of
from coursework.grade import intake, report
from coursework.grade.bounded import bounded
from coursework.grade.by_hand import HandTable
from coursework.grade.comments import own_comments
from coursework.grade.copies import copies_in
from coursework.grade.engine import Outcome, on_dask, on_this_machine
from coursework.grade.exchange.returned import returned
from coursework.grade.late import add_penalty, is_undated
from coursework.grade.reach import reaches
from coursework.grade.sandbox import TRIED, strongest
from coursework.grade.similar import lines_of
from coursework.grade.splice import plain, splice
from coursework.grade.store import Store, id_of, key_of
from tools.book.book import Book
from tools.errors import BookError
from tools.files import write_bytes
from tools.root import ROOT

Assignments = Mapping[str, dict]  # by name
WRITTEN = ("answers", "prose")  # by a student
Engine = Callable[[Iterable[dict]], Iterator[Outcome]]


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
    if not sys.platform.startswith("linux"):  # said before a submission is read
        raise BookError("grading needs Linux: a Linux machine, WSL, or the container")
    engine = engine_for(workers, address)
    by_name = assignments_of(key, masters, choice_of(None, assignment))
    results = read_all(submissions, by_name, source)
    check_class(results, next(iter(by_name.values()))["class"], key)
    check_masters(results, by_name, masters or ROOT / MASTERS)
    check_graded(results)
    folder = out or folder_of(results)
    grade_all(results, by_name, folder, engine)
    print(summary(results, folder))


def assignments_of(
    key: str | None, masters: Path | None, choice: Choice | None
) -> Assignments:
    drafts = make_drafts(
        Book(ROOT), masters or ROOT / MASTERS, draws_of(key), choice=choice
    )
    return {assignment["name"]: assignment for _, assignment in drafts}


# --- what was handed in


def read_all(
    submissions: Path, assignments: Assignments, source: str | None = None
) -> list[dict]:
    """Every submission, as `read` gives it, under an id that it keeps when handed in again."""
    found = intake.find_submissions(submissions, source)
    handed_in = [(one, read(one, assignments)) for one in found]
    count = Counter((one.who, result["assignment"]) for one, result in handed_in)
    for one, result in handed_in:
        if count[one.who, result["assignment"]] == 1:
            result["submission"] = one.make_id()
    return [result for _, result in handed_in]


def check_class(results: list[dict], own: str, key: str | None) -> None:
    """Raise BookError if the key is missing, or another than that of these notebooks."""
    count = Counter(result["made_for"] for result in results if result["made_for"])
    most = max(sorted(count), key=count.get, default=own)
    given = "no key is given" if key is None else f"the key is that of class {own}"
    if not count and key is None:
        fault = "no notebook here says which class it was made for"
    elif count[own] < count[most]:
        fault = f"these notebooks were made for class {most}, and {given}"
    else:
        return
    advice = f"make grade CLASS=...; for the book's own edition: CLASS={BOOK}"
    raise BookError(f"CLASS: {fault}; name the key of the class: {advice}")


def check_masters(results: list[dict], assignments: Assignments, folder: Path) -> None:
    """Raise BookError if most notebooks of an assignment were released from other masters."""
    for name, assignment in assignments.items():
        own = assignment["masters"]
        released = [result["made_from"] for result in results if result["made_from"]]
        count = Counter(masters for chapter, masters in released if chapter == name)
        most = max(sorted(count), key=count.get, default=own)
        # Those that name no masters are graded, whichever they came from.
        graded = sum(result["assignment"] == name for result in results)
        if most != own and count[most] > graded:
            raise BookError(
                f"MASTERS: the notebooks of '{name}' were released from masters {most}, but "
                f"{folder} holds {own}; grade with the folder that they were released from, "
                "make grade MASTERS=..., or undo what has changed in it since"
            )


def check_graded(results: list[dict]) -> None:
    if all(result["reason"] for result in results):
        why = f"{results[0]['student']}: {results[0]['reason']}"
        none = f"none of {len(results)} submissions can be graded"
        raise BookError(f"{none}, so nothing is written: {why}")


def folder_of(results: list[dict]) -> Path:
    """Where the grades go that no OUT is named for: by the chapter of the most, and the class."""
    names = sorted(
        f"{one['assignment']}-{one['class']}" for one in results if one["assignment"]
    )
    return Path("grades", Counter(names).most_common(1)[0][0])


def read(submission: intake.Submission, assignments: Assignments) -> dict:
    """The result of a submission as far as it is known before tests, and its `cells` to be run. No
    file of a student's is opened, and no code of theirs parsed, but in a process of its own."""
    said = bounded(reading, submission, assignments)
    assignment = assignments.get(said.get("assignment"), {})
    late, due, time = submission.late, assignment.get("due"), submission.time
    late |= bool(due and time and time > datetime.fromisoformat(due))
    about = {
        "submission": submission.id,
        "student": submission.student,
        "path": submission.path,
    }
    about |= {
        "late": late,
        "class": assignment.get("class"),
        "findings": [],
        "reach": [],
    }
    about["handed_in"] = time.isoformat() if time else None
    # `made_for` is the class that the notebook names, `made_from` its assignment and the masters
    # that it was released from, `reason` why it is not graded
    about |= dict.fromkeys(["assignment", "made_for", "made_from", "reason", "sandbox"])
    by_exercise = ("answers", "comments", "prose", "lines", "questions", "by_hand")
    about |= {name: {} for name in by_exercise}
    return about | said


def reading(submission: intake.Submission, assignments: Assignments) -> dict:
    """What a submission holds, as plain data: what was spliced, and what it says that it is."""
    found = {}
    try:
        notebook = intake.read_submission(submission.read())
        said = intake.mapping(notebook["metadata"].get("assignment"))
        if isinstance(said.get("class"), str):
            found["made_for"] = said["class"][:60]
        assignment = assignment_of(said, notebook["cells"], assignments)
        masters = said.get(
            "masters"
        )  # not there if it is of before, or a service dropped it
        if isinstance(masters, str):
            masters = intake.clean(masters, 60)
            found["made_from"] = [assignment["name"], masters]
            if masters != assignment["masters"]:
                raise intake.Refused(
                    f"it was released from masters {masters}, and those of this class are "
                    f"{assignment['masters']}; hand in the notebook that this class got"
                )
        found["assignment"] = assignment["name"]
        found |= splice(notebook, assignment)
        found["reach"] = reaches(found.pop("sources"), assignment)
        found["lines"] = {
            number: lines_of(code) for number, code in found["answers"].items()
        }
        found["comments"] = comments_for_a_person(found["answers"], assignment)
    except intake.Refused as refusal:
        found["reason"] = " ".join(str(refusal).split())
    return found


def comments_for_a_person(
    answers: Mapping[str, str], assignment: dict
) -> dict[str, list]:
    """The comments in the answers of which a person reads a part: the task may ask for some."""
    comments = {}
    for question in assignment["questions"]:
        number = str(question["number"])
        if question["by_hand"]:
            comments[number] = own_comments(answers[number], question["starter"])
    return comments


def assignment_of(said: Mapping, cells: list[dict], assignments: Assignments) -> dict:
    """The assignment that a notebook was made for, by metadata or else cells, or Refused."""
    if not isinstance(name := said.get("name"), str):  # a service dropped it
        texts = {plain(cell["source"]) for cell in cells}

        def shared(one: dict) -> int:
            checks = (
                plain(text) for asked in one["questions"] for text in asked["checks"]
            )
            return sum(check in texts for check in checks)

        best = max(assignments.values(), key=shared)
        if not shared(best):
            raise intake.Refused(
                "no exercise of this class is in it; hand in the student edition"
            )
        return best
    if name not in assignments:
        raise intake.Refused(
            f"'{name[:60]}' is not among the assignments of this class"
        )
    found = assignments[name]
    if said.get("class") != found["class"]:
        raise intake.Refused(
            "it was made for another class; hand in the one that this class got"
        )
    numbers = [asked["number"] for asked in found["questions"]]
    if said.get("exercises", numbers) != numbers:
        advice = "name the file that it was released with: ASSIGNMENT=..."
        told = f"it holds the exercises {said['exercises']}, and {numbers} are graded"
        raise intake.Refused(f"{told}; {advice}")
    return found


# --- grading


def grade_all(
    results: list[dict], assignments: Assignments, out: Path, engine: Engine
) -> None:
    store = Store(out)
    with store.one_at_a_time():
        for result in store.results.values():
            name, group = result["assignment"], result["class"]
            if name and assignments.get(name, {}).get("class") != group:
                fault = f"{out} holds grades of '{name}' for class {group}"
                raise BookError(f"OUT: {fault}; name another folder")
        hand = HandTable(store)
        note_anew(results, store, hand, assignments)
        tasks, by_id = [], {id_of(result): result for result in results}
        for id, result in by_id.items():
            if result["reason"]:
                continue
            task = {name: result[name] for name in ("submission", "student")}
            task |= {
                "assignment": assignments[result["assignment"]],
                "cells": result.pop("cells"),
            }
            task["key"] = key_of(task["assignment"], task["cells"])
            before = store.results.get(id, {})
            if before.get("key") == task["key"]:
                finish(result, before, task["assignment"], hand)
            else:
                tasks.append(task)
        if tasks:
            with closing(
                engine(iter(tasks))
            ) as outcomes:  # Ctrl-C ends the workers at any point
                for task, outcome in tqdm(outcomes, "graded", len(tasks), unit=""):
                    result = by_id[task["submission"], task["assignment"]["name"]]
                    if isinstance(
                        outcome, BookError
                    ):  # without a key: the next run tries again
                        result["reason"] = " ".join(str(outcome).split())
                    else:
                        finish(result, outcome, task["assignment"], hand)
                        store.save(result)
        check_graded(results)
        for result in results:
            # A notebook that can be read takes the place of one that could not.
            if unread := store.results.get((result["submission"], None)):
                store.remove(unread)
            store.save(result)
        write_reports(store, hand, assignments)
        hand.set_copies_aside()


def note_anew(
    results: list[dict], store: Store, hand: HandTable, assignments: Assignments
) -> None:
    """Note beside points by hand that the exercise was answered anew, before it is graded."""
    keys = []
    for result in results:
        was = store.results.get(id_of(result))
        for number in was["by_hand"] if was and not result["reason"] else ():
            before, now = (
                [one[kind].get(number) for kind in WRITTEN] for one in (was, result)
            )
            is_anew = (
                number in result["answers"] and before != now
            )  # else of an earlier edition
            if is_anew:
                keys.append((*id_of(result), number))
    if not hand.note_anew(keys):
        return
    is_written = False
    while not is_written:
        hand.refresh()
        old = store.results.values()
        table, _ = report.by_hand_forms(old, assignments, hand.rows, hand.layout)
        is_written = hand.replace(table)


def finish(result: dict, run: dict, assignment: dict, hand: HandTable) -> None:
    result |= {name: run[name] for name in ("key", "questions", "sandbox")}
    result["findings"] += [
        found for found in run["findings"] if found["kind"] != "cells"
    ]
    add_points(result, assignment, hand)


def add_points(result: dict, assignment: dict, hand: HandTable) -> None:
    """Add up the points by tests and by hand; what being late costs comes off both."""
    report.add_by_hand(result, assignment, hand.rows)
    add_penalty(result, assignment)


def write_reports(store: Store, hand: HandTable, assignments: Assignments) -> None:
    results = sorted(
        store.results.values(), key=lambda one: (one["student"], str(id_of(one)))
    )
    is_written = False
    while not is_written:  # until nobody has saved the table in between
        hand.refresh()
        for result in results:
            if not result["reason"]:
                add_points(result, assignments[result["assignment"]], hand)
        table, form = report.by_hand_forms(results, assignments, hand.rows, hand.layout)
        is_written = hand.replace(table)
    store.write(store.folder / "by-hand.html", form)

    pages = []
    for result in results:
        assignment = assignments.get(result["assignment"])
        if not result["reason"]:
            store.save(result)
        title = assignment["title"] if assignment else "Your submission"
        page = report.page("feedback.html", title, result=result, assignment=assignment)
        pages.append((result, page))
        store.write(store.files(result)[1], page)
    copies = {
        name: copies_in(
            assignment, [one for one in results if one["assignment"] == name]
        )
        for name, assignment in sorted(assignments.items())
    }
    grades = report.grades_table(results, assignments, hand.layout)
    store.write_table("grades.csv", grades, hand.layout.separator)
    store.write(
        store.folder / "review.html", report.review_page(results, assignments, copies)
    )
    for name, data in returned(pages).items():
        write_bytes(store.folder / name, data, store.folder.parent)


def engine_for(workers: int | str | None, address: str | None) -> Engine:
    """The engine that was asked for; it raises NoSandbox where there is none. Raises BookError."""
    if address:
        return lambda tasks: on_dask(tasks, address)
    count = str(workers or os.cpu_count() or 1)
    if not count.isdecimal() or int(count) < 1:
        raise BookError(f"WORKERS={workers}: name a number of processes, 1 or more")

    def here(tasks: Iterable[dict]) -> Iterator[Outcome]:
        os.environ[TRIED] = (
            strongest().name
        )  # so that its workers need not try it again
        return on_this_machine(tasks, int(count))

    return here


def summary(results: list[dict], out: Path) -> str:
    graded = [result for result in results if not result["reason"]]
    full = sum(result["points"] == result["of"] for result in graded)
    refused = [f"{one['student']}: {one['reason']}" for one in results if one["reason"]]
    lines = [
        f"graded: {len(graded)} of {len(results)} submissions, {full} with full points"
    ]
    lines += [
        f"sandbox: {name}" for name in sorted({result["sandbox"] for result in graded})
    ]
    lines += late_lines(graded)
    lines += [f"not graded: {words}" for words in refused[:20]]
    return "\n".join([*lines, f"written: {out}"])


def late_lines(graded: list[dict]) -> list[str]:
    """What a rule for late work did, and where it could do nothing; no rule, no line."""
    lines = []
    reduced = sum(
        bool(result["penalty"] and result["penalty"]["days"]) for result in graded
    )
    if reduced:
        lines.append(f"handed in late, and graded with the penalty: {reduced}")
    if undated := sum(map(is_undated, graded)):
        why = "the download does not say when, so nothing was taken off"
        lines.append(f"handed in late, at an unknown time: {undated}; {why}")
    return lines
