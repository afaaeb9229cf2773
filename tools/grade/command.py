"""`make grade`: a download of submissions in, a folder of grades out."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from tqdm import tqdm

from tools.book.book import Book
from tools.errors import BookError
from tools.exercises.release import MASTERS, make_drafts
from tools.exercises.variants import draws_of
from tools.grade import report
from tools.grade.engine import Outcome, on_dask, on_this_machine
from tools.grade.grade import TRIED, ended, refused, strongest
from tools.grade.intake import Refused, Submission, find_submissions, read_submission
from tools.grade.lint import lint
from tools.grade.report import Row
from tools.grade.similar import Pair, similar
from tools.grade.splice import Spliced, splice, text_of
from tools.grade.store import Store, keys_of
from tools.root import ROOT

Engine = Callable[[Iterable[dict]], Iterator[Outcome]]


@dataclass
class Graded:
    """One submission, from what was handed in to its result."""

    submission: Submission
    assignment: dict | None = None
    spliced: Spliced | None = None
    reason: str | None = None
    keys: dict[str, str] = field(default_factory=dict)
    questions: dict[str, dict] = field(default_factory=dict)  # of this run or of one before
    run: dict | None = None  # the result that the other facts come from


def grade(
    submissions: Path,
    assignments: Iterable[dict],
    out: Path,
    engine: Engine,
    source: str | None = None,
) -> list[dict]:
    """Grade a download; what was graded before with the same keys is not graded again.

    Returns the results. Raises BookError if there is nothing to grade, if another grading holds
    `out`, or NoSandbox.
    """
    by_name = {each["name"]: each for each in assignments}
    store = Store(out)
    with store.one_at_a_time():
        given = report.read_by_hand(store.folder)
        all_graded = [read(each, by_name) for each in find_submissions(submissions, source)]
        by_id = {each.submission.id: each for each in all_graded}
        tasks = [task for each in all_graded if (task := left(each, store))]
        outcomes = engine(iter(tasks)) if tasks else (none for none in ())
        bar = tqdm(total=len(tasks), desc="graded", unit="", disable=not tasks)
        with closing(outcomes), bar as progress:  # Ctrl-C ends the workers, wherever it falls
            for task, outcome in outcomes:
                take(by_id[task["submission"]], outcome)
                store.save(result_of(by_id[task["submission"]], given))
                progress.update()
        results = [result_of(each, given) for each in all_graded]
        for result in results:
            store.save(result)
        write_reports(store, all_graded, results, by_name)
    return results


def grade_class(
    submissions: Path,
    key: str | None,
    masters: Path | None = None,
    workers: int | None = None,
    address: str | None = None,
    out: Path | None = None,
    source: str | None = None,
) -> None:
    """What `make grade` does. Raises BookError."""
    folder = out or Path("grades", submissions.stem)
    engine = engine_for(workers, address)
    results = grade(submissions, assignments_of(key, masters), folder, engine, source)
    print(summary(results, folder))


def assignments_of(key: str | None, masters: Path | None = None, root: Path = ROOT) -> list[dict]:
    """The assignments of all masters of a folder, as a class got them. Raises BookError."""
    drafts = make_drafts(Book(root), masters or root / MASTERS, draws_of(key))
    return [assignment.to_json() for _, assignment in drafts]


def read(submission: Submission, assignments: dict[str, dict]) -> Graded:
    """A submission, with its answers spliced into the notebook that it belongs to."""
    graded = Graded(submission)
    try:
        notebook = read_submission(submission.read())
        graded.assignment = assignment_of(notebook, assignments)
        graded.spliced = splice(notebook, graded.assignment)
        graded.keys = keys_of(graded.assignment, graded.spliced.cells)
    except Refused as refusal:
        graded.reason = str(refusal)
    return graded


def assignment_of(notebook: dict, assignments: dict[str, dict]) -> dict:
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
        return found
    # A service dropped the notebook's metadata: what was given and asked tells.
    texts = {text_of(cell) for cell in notebook["cells"]}

    def shared(assignment: dict) -> int:
        own = [text for each in assignment["questions"] for text in each["checks"]]
        return len(texts & {text_of({"source": text}) for text in own})

    best = max(assignments.values(), key=shared, default=None)
    if best is None or not shared(best):
        raise Refused("no exercise of this class is in it; hand in the student edition")
    return best


def left(graded: Graded, store: Store) -> dict | None:
    """The task of what is left to grade: nothing where each exercise has its result."""
    if graded.reason:
        return None
    before = store.load(graded.submission.id) or {}
    for number, question in before.get("questions", {}).items():
        if question["key"] == graded.keys.get(number):
            graded.questions[number] = question
    ask = [int(number) for number in graded.keys if number not in graded.questions]
    if not ask:
        graded.run = before
        return None
    return {
        "assignment": graded.assignment,
        "submission": graded.submission.id,
        "student": graded.submission.student,
        "cells": graded.spliced.cells,
        "ask": ask,
        "keys": graded.keys,
    }


def take(graded: Graded, outcome: dict | BookError) -> None:
    """Take in what a worker answered."""
    if isinstance(outcome, BookError):  # next time it is tried again, as nothing has a key
        graded.reason = str(outcome)
    elif outcome["status"] != "graded":
        graded.reason = outcome["reason"]
    else:
        graded.run = outcome
        graded.questions |= outcome["questions"]


def result_of(graded: Graded, given: dict) -> dict:
    """The result of a submission: the same from one grading or from several."""
    submission = graded.submission
    if graded.reason or not graded.run:
        reason = graded.reason or "not graded yet"
        return refused(submission.id, submission.student, reason, graded.assignment)
    spliced, numbers = graded.spliced, sorted(graded.questions, key=int)
    questions = {number: graded.questions[number] for number in numbers}
    result = {
        **graded.run,
        "student": submission.student,
        "questions": questions,
        "findings": [
            *spliced.findings,
            *lint(spliced.preamble, None),
            *(each for n, source in spliced.answers.items() for each in lint(source, n)),
            *(each for each in graded.run["findings"] if each["kind"] == "preamble"),
            *ended(questions),
        ],
    }
    report.add_by_hand(result, graded.assignment, given)
    return result


def write_reports(
    store: Store, all_graded: list[Graded], results: list[dict], assignments: dict[str, dict]
) -> None:
    """Write all that people read, and take away what belongs to no submission any more."""
    rows = [
        Row(
            each.submission.id,
            each.submission.student,
            each.submission.late,
            result,
            each.spliced.answers if each.spliced else {},
            each.spliced.prose if each.spliced else {},
        )
        for each, result in zip(all_graded, results, strict=True)
    ]
    pairs = {
        name: similar_in(assignment, [row for row in rows if row.result["assignment"] == name])
        for name, assignment in sorted(assignments.items())
    }
    items = report.review_items(rows, assignments, pairs)
    store.write("grades.csv", report.grades_table(rows, assignments))
    store.write("review.csv", report.review_table(items))
    store.write("review.html", report.review_page(items))
    store.write(report.BY_HAND, report.by_hand_table(rows, assignments))
    for row in rows:
        assignment = assignments.get(row.result["assignment"])
        store.write(report.feedback_name(row.id), report.feedback_page(row, assignment))
    store.keep_only(row.id for row in rows)


def similar_in(assignment: dict, rows: list[Row]) -> list[Pair]:
    """The pairs of nearly the same answers to the exercises of one assignment."""
    given = [source for _, source in assignment["given"]]
    pairs = []
    for question in assignment["questions"]:
        number = question["number"]
        answers = {row.id: row.answers[number] for row in rows if row.answers.get(number)}
        pairs += similar(number, answers, [*given, question["starter"], *question["checks"]])
    return pairs


def engine_for(workers: int | None, address: str | None) -> Engine:
    """The engine that was asked for; it raises NoSandbox where there is none. Raises BookError."""
    if address:
        return lambda tasks: on_dask(tasks, address)
    if workers is not None and workers < 1:
        raise BookError(f"WORKERS={workers}: name a number of processes, 1 or more")

    def here(tasks: Iterable[dict]) -> Iterator[Outcome]:
        os.environ[TRIED] = strongest().name  # so that its workers need not try it again
        return on_this_machine(tasks, workers or os.cpu_count() or 1)

    return here


def summary(results: list[dict], out: Path) -> str:
    """What a grading comes to, in a few lines."""
    graded = [each for each in results if each["status"] == "graded"]
    full = sum(each["points"] == each["of"] for each in graded)
    lines = [f"graded: {len(graded)} of {len(results)} submissions, {full} with full points"]
    lines += [f"sandbox: {name}" for name in sorted({each["sandbox"] for each in graded})]
    lines += [
        f"not graded: {each['student']}: {each['reason']}"
        for each in results
        if each["status"] != "graded"
    ][:20]
    return "\n".join([*lines, f"written: {out}"])
