"""`make grade`: a download of submissions in, a folder of grades out.

Only the students of the download are touched: what others got, and what a person typed, stays.
"""

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path

from tqdm import tqdm

from tools.book.book import Book
from tools.errors import BookError
from tools.exercises.choice import Choice, read_choice
from tools.exercises.release import MASTERS, make_drafts
from tools.exercises.variants import BOOK, draws_of
from tools.files import write_bytes
from tools.grade import report
from tools.grade.bounded import Unread, bounded
from tools.grade.engine import Outcome, on_dask, on_this_machine
from tools.grade.exchange.returned import returned
from tools.grade.grade import TRIED, ended, refused, strongest
from tools.grade.intake import Refused, Submission, find_submissions, identity, read_submission
from tools.grade.lint import lint
from tools.grade.similar import PUBLISHED, Group, lines_of, similar
from tools.grade.splice import Spliced, plain, splice
from tools.grade.store import Id, Store, id_of, key_of
from tools.root import ROOT

Engine = Callable[[Iterable[dict]], Iterator[Outcome]]
GRADES = "grades"  # the folder of folders, where OUT names none


@dataclass
class Graded:
    """One submission, from what was handed in to its result."""

    submission: Submission
    assignment: dict | None = None
    group: str | None = None  # the class that the notebook says it was made for
    spliced: Spliced | None = None
    reason: str | None = None
    key: str | None = None
    run: dict | None = None  # what tests gave, in this run or in one before

    @property
    def id(self) -> Id:
        return self.submission.id, self.assignment["name"] if self.assignment else None


def grade_class(
    submissions: Path | None,
    key: str | None,
    masters: Path | None = None,
    workers: int | str | None = None,
    address: str | None = None,
    out: Path | None = None,
    source: str | None = None,
    assignment: Path | None = None,
) -> None:
    """What `make grade` does. Raises BookError."""
    if not sys.platform.startswith("linux"):  # said before a submission is read
        raise BookError("grading needs Linux: a Linux machine, WSL, or the container")
    if submissions is None:
        raise BookError(
            "SUBMISSIONS: name the folder or zip of a download: make grade SUBMISSIONS=... "
            "CLASS=..."
        )
    engine = engine_for(workers, address)
    by_name = assignments_of(key, masters, assignment and read_choice(assignment))
    all_graded = read_all(submissions, by_name, source)
    check_class(all_graded, next(iter(by_name.values()))["class"], key)
    check_graded(all_graded)
    folder = out or folder_of(all_graded)
    print(summary(grade_all(all_graded, by_name, folder, engine), folder))


def assignments_of(
    key: str | None, masters: Path | None = None, choice: Choice | None = None
) -> dict[str, dict]:
    """The assignments of all masters of a folder by name, or the one that a `choice` sets, as a
    class got them. Raises BookError."""
    drafts = make_drafts(Book(ROOT), masters or ROOT / MASTERS, draws_of(key), choice=choice)
    return {assignment["name"]: assignment for _, assignment in drafts}


# --- what was handed in


def read_all(
    submissions: Path, assignments: Mapping[str, dict], source: str | None = None
) -> list[Graded]:
    """Every submission of a download, under an id that it keeps when it is handed in again."""
    found = find_submissions(submissions, source)
    all_graded = [read(submission, assignments) for submission in found]
    count = Counter((graded.submission.who, graded.id[1]) for graded in all_graded)
    for graded in all_graded:
        student, who = graded.submission.student, graded.submission.who
        if count[who, graded.id[1]] == 1:
            graded.submission = replace(graded.submission, id=identity(student, who))
    return all_graded


def check_class(all_graded: list[Graded], own: str, key: str | None) -> None:
    """Raise BookError if the key is missing, or another than that of these notebooks."""
    count = Counter(graded.group for graded in all_graded if graded.group)
    if not count and key is None:
        raise BookError(
            "CLASS: no notebook here says which class it was made for; name the key of the class: "
            f"make grade CLASS=...; for the book's own edition: CLASS={BOOK}"
        )
    most = max(sorted(count), key=count.get, default=own)
    if count[own] < count[most]:
        given = "no key is given" if key is None else f"the key is that of class {own}"
        raise BookError(
            f"CLASS: these notebooks were made for class {most}, and {given}; name the key of the "
            "class: make grade CLASS=..."
        )


def check_graded(all_graded: list[Graded]) -> None:
    """Raise BookError if nothing is."""
    if all(graded.reason for graded in all_graded):
        first = all_graded[0]
        raise BookError(
            f"none of {len(all_graded)} submissions can be graded, so nothing is written: "
            f"{first.submission.student}: {first.reason}"
        )


def folder_of(all_graded: list[Graded]) -> Path:
    """Where the grades go that no OUT is named for: by the chapter of the most, and the class."""
    count = Counter(
        (graded.assignment["name"], graded.assignment["class"])
        for graded in all_graded
        if graded.assignment
    )
    return Path(GRADES, "-".join(max(sorted(count), key=count.get)))


def read(submission: Submission, assignments: Mapping[str, dict]) -> Graded:
    """A submission, with its answers spliced into the notebook that it belongs to.

    No file of a student's is opened, and no code of theirs parsed, but in a process of its own.
    """
    graded = Graded(submission)
    try:
        said = bounded(reading, submission, assignments)
    except Unread as reason:
        said = {"reason": f"{reason}; look at it by hand"}
    graded.group, graded.reason = said.get("group"), said.get("reason")
    graded.assignment = assignments.get(said.get("name"))
    if "spliced" in said:
        graded.spliced = Spliced(**said["spliced"])
        graded.key = key_of(graded.assignment, graded.spliced.cells)
    return graded


def reading(submission: Submission, assignments: Mapping[str, dict]) -> dict:
    """What a submission holds, as plain data: the class that it names, its assignment's name, what
    was spliced, and the reason if it cannot be graded."""
    found = {}
    try:
        notebook = read_submission(submission.read())
        said = notebook["metadata"].get("assignment")
        if isinstance(said, dict) and isinstance(said.get("class"), str):
            found["group"] = said["class"][:60]
        assignment = assignment_of(notebook, assignments)
        found["name"] = assignment["name"]
        spliced = splice(notebook, assignment)
        parts = [(spliced.preamble, None)]
        parts += [(source, int(number)) for number, source in spliced.answers.items()]
        spliced.findings += [one for source, number in parts for one in lint(source, number)]
        spliced.lines = {number: dict(lines_of(code)) for number, code in spliced.answers.items()}
        found["spliced"] = asdict(spliced)
    except Refused as refusal:
        found["reason"] = str(refusal)
    return found


def assignment_of(notebook: dict, assignments: Mapping[str, dict]) -> dict:
    """The assignment that a notebook was made for, by its metadata or else by its cells.

    Raises Refused if it is of another class, or of none of these assignments.
    """
    said = notebook["metadata"].get("assignment")
    if isinstance(said, dict) and isinstance(said.get("name"), str):
        found = assignments.get(said["name"])
        if found is None:
            raise Refused(f"'{said['name'][:60]}' is not among the assignments of this class")
        if said.get("class") != found["class"]:
            raise Refused(
                "it was made for another class, whose exercises differ; hand in the notebook "
                "that this class was given"
            )
        numbers = [asked["number"] for asked in found["questions"]]
        if said.get("exercises", numbers) != numbers:
            raise Refused(
                f"it holds the exercises {said['exercises']}, and {numbers} are graded; name the "
                "file that it was released with: ASSIGNMENT=..."
            )
        return found
    # A service dropped the notebook's metadata: what was given and asked tells.
    texts = {plain(cell["source"]) for cell in notebook["cells"]}

    def shared(assignment: dict) -> int:
        own = [text for asked in assignment["questions"] for text in asked["checks"]]
        return len(texts & {plain(text) for text in own})

    best = max(assignments.values(), key=shared, default=None)
    if best is None or not shared(best):
        raise Refused("no exercise of this class is in it; hand in the student edition")
    return best


# --- grading


def grade_all(
    all_graded: list[Graded], assignments: Mapping[str, dict], out: Path, engine: Engine
) -> list[dict]:
    """Grade what was read, and write all that people read; returns the results of this download."""
    store = Store(out)
    with store.one_at_a_time():
        check_folder(store, assignments, out)
        typed = report.read_by_hand(store.folder, store.results.values())
        note_anew(all_graded, store, typed, assignments)
        tasks = [task for graded in all_graded if (task := left(graded, store))]
        by_id = {graded.id: graded for graded in all_graded}
        outcomes = engine(iter(tasks)) if tasks else (none for none in ())
        bar = tqdm(total=len(tasks), desc="graded", unit="", disable=not tasks)
        with closing(outcomes), bar as progress:  # Ctrl-C ends the workers, wherever it falls
            for task, outcome in outcomes:
                graded = by_id[task["submission"], task["assignment"]["name"]]
                take(graded, outcome)
                if not graded.reason:
                    store.save(result_of(graded, typed))
                progress.update()
        check_graded(all_graded)
        results = [result_of(graded, typed) for graded in all_graded]
        for result in results:  # a notebook that can be read takes the place of one that could not
            if unread := store.results.get((result["submission"], None)):
                store.remove(unread)
        for result in results:
            store.save(result)
        write_reports(store, typed, assignments)
    return results


def check_folder(store: Store, assignments: Mapping[str, dict], out: Path) -> None:
    """Raise BookError if a folder holds grades of another class."""
    for result in store.results.values():
        name, group = result["assignment"], result["class"]
        if name and (name not in assignments or assignments[name]["class"] != group):
            raise BookError(
                f"OUT: {out} holds grades of '{name}' for class {group}; name another folder"
            )


def note_anew(
    all_graded: list[Graded],
    store: Store,
    typed: dict[report.Key, dict],
    assignments: Mapping[str, dict],
) -> None:
    """Note beside points by hand that the exercise was answered anew, before it is graded."""
    by_id, noted = {graded.id: graded for graded in all_graded}, {}
    for (*id, number), row in typed.items():
        graded, was = by_id.get(tuple(id)), store.results.get(tuple(id))
        if (
            graded
            and was
            and not graded.reason
            and row["points"]
            and report.AGAIN not in row["note"]
        ):
            if any(was[part].get(number) != now.get(number) for part, now in told(graded).items()):
                note = "; ".join(filter(None, [row["note"], report.AGAIN]))
                noted[*id, number] = row | {"note": note}
    if noted:
        typed |= noted
        table = report.by_hand_table(store.results.values(), assignments, typed)
        store.write_table(report.BY_HAND, table)


def left(graded: Graded, store: Store) -> dict | None:
    """The task of a submission that is still to be graded."""
    if graded.reason:
        return None
    before = store.results.get(graded.id, {})
    if before.get("key") == graded.key:
        graded.run = before
        return None
    return {
        "assignment": graded.assignment,
        "submission": graded.submission.id,
        "student": graded.submission.student,
        "cells": graded.spliced.cells,
        "key": graded.key,
    }


def take(graded: Graded, outcome: dict | BookError) -> None:
    """Take in what a worker answered."""
    if isinstance(outcome, BookError):  # next time it is tried again, as it has no key
        graded.reason = str(outcome)
    elif outcome["status"] != "graded":
        graded.reason = outcome["reason"]
    else:
        graded.run = outcome


def told(graded: Graded) -> dict[str, dict[str, str]]:
    """What the student wrote, as a result holds it: code and prose by exercise."""
    spliced = graded.spliced or Spliced([], {}, "", {})
    return {"answers": spliced.answers, "prose": spliced.prose}


def result_of(graded: Graded, typed: Mapping[report.Key, dict]) -> dict:
    """The result of a submission: the same from one grading or from several."""
    submission = graded.submission
    due = (graded.assignment or {}).get("due")
    late = submission.late or bool(due and submission.is_after(datetime.fromisoformat(due)))
    facts = {"student": submission.student, "late": late, "by_hand": {}} | told(graded)
    facts["path"] = submission.path
    facts["lines"] = graded.spliced.lines if graded.spliced else {}
    if graded.reason or not graded.run:
        reason = graded.reason or "not graded yet"
        return refused(submission.id, submission.student, reason, graded.assignment) | facts
    spliced = graded.spliced
    facts["by_hand"] = {
        str(asked["number"]): {"of": asked["by_hand"]["points"]}
        for asked in graded.assignment["questions"]
        if asked["by_hand"]
    }
    findings = [
        *spliced.findings,
        *(found for found in graded.run["findings"] if found["kind"] == "preamble"),
        *ended(graded.run["questions"]),
    ]
    result = {**graded.run, **facts, "findings": findings}
    report.add_by_hand(result, typed)
    return result


def write_reports(
    store: Store, typed: Mapping[report.Key, dict], assignments: Mapping[str, dict]
) -> None:
    """Write all that people read, of this download and of those before."""
    results = sorted(
        store.results.values(), key=lambda result: (result["student"], *map(str, id_of(result)))
    )
    for result in results:
        if result["status"] == "graded":
            report.add_by_hand(result, typed)
            store.save(result)
    groups = {
        name: similar_in(assignment, [one for one in results if one["assignment"] == name])
        for name, assignment in sorted(assignments.items())
    }
    items = report.review_items(results, assignments, groups)
    store.write_table(report.BY_HAND, report.by_hand_table(results, assignments, typed))
    store.write(store.folder / "by-hand.html", report.by_hand_page(results, assignments, typed))
    store.write_table("grades.csv", report.grades_table(results, assignments))
    store.write(store.folder / "review.html", report.review_page(items))
    pages = []
    for result in results:
        page = report.feedback_page(result, assignments.get(result["assignment"]))
        store.write(store.files(result)[1], page)
        pages.append((result, page))
    for name, data in returned(pages).items():
        write_bytes(store.folder / name, data, store.folder.parent)


def similar_in(assignment: dict, results: list[dict]) -> list[Group]:
    """Those whose answers are nearly the same, or nearly the published one, by exercise."""
    given = [source for _, source in assignment["given"]]
    groups = []
    for question in assignment["questions"]:
        number = question["number"]
        lines = {one["submission"]: one.get("lines", {}).get(str(number)) for one in results}
        answers = {submission: Counter(own) for submission, own in lines.items() if own}
        answers[PUBLISHED] = lines_of(question["solution"])
        groups += similar(number, answers, [*given, question["starter"], *question["checks"]])
    return groups


def engine_for(workers: int | str | None, address: str | None) -> Engine:
    """The engine that was asked for; it raises NoSandbox where there is none. Raises BookError."""
    if address:
        return lambda tasks: on_dask(tasks, address)
    try:
        count = int(os.cpu_count() or 1 if workers is None else workers)
    except ValueError:
        count = 0
    if count < 1:
        raise BookError(f"WORKERS={workers}: name a number of processes, 1 or more")

    def here(tasks: Iterable[dict]) -> Iterator[Outcome]:
        os.environ[TRIED] = strongest().name  # so that its workers need not try it again
        return on_this_machine(tasks, count)

    return here


def summary(results: list[dict], out: Path) -> str:
    """What a grading comes to, in a few lines."""
    graded = [result for result in results if result["status"] == "graded"]
    full = sum(result["points"] == result["of"] for result in graded)
    lines = [f"graded: {len(graded)} of {len(results)} submissions, {full} with full points"]
    lines += [f"sandbox: {name}" for name in sorted({result["sandbox"] for result in graded})]
    lines += [
        f"not graded: {result['student']}: {result['reason']}"
        for result in results
        if result["status"] != "graded"
    ][:20]
    return "\n".join([*lines, f"written: {out}"])
