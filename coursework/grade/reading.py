"""Reads one submission: which assignment it is, and what was answered.

A student's file may be made to take forever, or all memory. So no file is opened and no code is
parsed but in a process of its own, within limits.
"""

import json
import multiprocessing
import re
import signal
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import nbformat
from nbformat import NotebookNode

from coursework.exercises.tasks import (
    Assignment,
    Assignments,
    cells_as_json,
    cells_from_json,
)
from coursework.grade.download import Refused, clean, quoted
from coursework.grade.intake import Submission
from coursework.grade.reach import reaches
from coursework.grade.results import Grade
from coursework.grade.similar import lines_of
from coursework.grade.splice import Answers, splice
from coursework.grade.student_code import own_comments, plain

SECONDS = 20  # of processor time
MEMORY = 4 << 30  # bytes of address space
WAIT = 120  # s on a machine that is busy
ADVICE = "look at it by hand"


def read(submission: Submission, assignments: Assignments) -> Grade:
    """Return the grade of a submission as far as it is known before any test, with its cells."""
    grade = Grade(
        submission=submission.id,
        student=submission.student,
        path=submission.path,
        handed_in=submission.time,
        late=submission.late,
    )
    try:
        entry = bounded(_read_within_limits, submission, grade, assignments)
    except Refused as refusal:
        grade.reason = str(refusal)
        return grade
    grade = Grade.from_json(entry["grade"])
    grade.cells = cells_from_json(entry["cells"])
    return grade


def _read_within_limits(
    submission: Submission, grade: Grade, assignments: Assignments
) -> dict[str, Any]:
    """Fill in what a submission holds; return it as data that can leave the process."""
    try:
        _fill(grade, submission, assignments)
    except Refused as refusal:
        grade.reason = " ".join(str(refusal).split())
    return {"grade": grade.as_json(), "cells": cells_as_json(grade.cells)}


def _fill(grade: Grade, submission: Submission, assignments: Assignments) -> None:
    notebook = read_submission(submission.read())
    metadata = mapping(notebook["metadata"].get("assignment"))
    if isinstance(metadata.get("class"), str):
        grade.made_for = metadata["class"][:60]
    assignment = assignment_of(metadata, notebook["cells"], assignments)
    if isinstance(metadata.get("masters"), str):
        masters = clean(metadata["masters"], 60)
        grade.made_from = assignment.name, masters
        check_masters(masters, assignment)
    # Without the name of its masters it is of an earlier release, or a service dropped it.

    grade.assignment = assignment.name
    grade.group = assignment.group
    if assignment.due and grade.handed_in and grade.handed_in > assignment.due:
        grade.late = True
    add_answers(grade, splice(notebook, assignment), assignment)


def add_answers(grade: Grade, answers: Answers, assignment: Assignment) -> None:
    grade.cells = answers.cells
    grade.answers = answers.texts
    grade.prose = answers.prose
    grade.findings = answers.findings
    grade.reach = reaches(answers.sources, assignment)
    for number, text in answers.texts.items():
        grade.lines[number] = dict(lines_of(text))
    for exercise in assignment.exercises:
        if exercise.by_hand:  # the task may ask for comments
            answer = answers.texts[exercise.number]
            grade.comments[exercise.number] = own_comments(answer, exercise.starter)


# --- notebooks


def read_submission(data: bytes) -> NotebookNode:
    """Return the cells of a notebook as they were handed in. Raises Refused.

    Outputs are left out: what a file says that it printed is no evidence.
    """
    try:
        return read_notebook(json.loads(data.decode("utf-8-sig")))
    except (ValueError, RecursionError) as error:
        reason = str(error) if data.strip() else "it is empty"
    except (AttributeError, LookupError, TypeError):
        reason = "its cells cannot be read"
    fault = f"the file is not a notebook or is truncated ({reason})"
    raise Refused(f"{fault}; save it and hand it in again")


def read_notebook(content: dict[str, Any]) -> NotebookNode:
    """Return a notebook, which need not follow nbformat's schema: some services' do not."""
    minor = content.get("nbformat_minor", 0)
    if content.get("nbformat") != 4 or minor not in range(6):
        fault = "the notebook is in none of the formats from 4.0 to 4.5"
        raise Refused(f"{fault}; save it in JupyterLab")
    metadata = mapping(content.get("metadata"))
    language = language_of(metadata)
    if not re.match("i?python", language):
        fault = f"the notebook is in {quoted(language)}"
        raise Refused(f"{fault}; answers must be in Python")
    notebook = {
        "nbformat": 4,
        "nbformat_minor": minor,
        "metadata": metadata,
        "cells": [read_cell(cell) for cell in content["cells"]],
    }
    return nbformat.from_dict(notebook)


def language_of(metadata: dict[str, Any]) -> str:
    kernel = mapping(metadata.get("kernelspec"))
    info = mapping(metadata.get("language_info"))
    kernel_name = str(kernel.get("name")).lower().split("-")[0]
    by_kernel = {"ir": "r", "julia": "julia"}.get(kernel_name, "python")
    language = info.get("name") or kernel.get("language") or by_kernel
    return str(language).lower()


def read_cell(cell: dict[str, Any]) -> dict[str, Any]:
    source = "".join(cell["source"])
    if cell["cell_type"] not in ("code", "markdown", "raw"):
        raise TypeError
    read = {
        "cell_type": cell["cell_type"],
        # JSON may hold half a character.
        "source": source.encode("utf-8", "replace").decode("utf-8"),
        "metadata": mapping(cell.get("metadata")),
    }
    if isinstance(cell.get("id"), str):
        read["id"] = cell["id"]
    return read


def mapping(value: object) -> dict:
    return value if isinstance(value, dict) else {}


# --- which assignment it is


def assignment_of(
    metadata: Mapping[str, Any], cells: list[dict], assignments: Assignments
) -> Assignment:
    """Return the assignment that a notebook was made for, by its metadata or else its cells.

    Raises Refused.
    """
    name = metadata.get("name")
    if not isinstance(name, str):  # a service dropped it
        return assignment_by_cells(cells, assignments)
    if name not in assignments:
        raise Refused(f"'{name[:60]}' is not among the assignments of this class")
    assignment = assignments[name]
    if metadata.get("class") != assignment.group:
        raise Refused(
            "it was made for another class; hand in the one that this class got"
        )
    numbers = [exercise.number for exercise in assignment.exercises]
    exercises = metadata.get("exercises", numbers)
    if exercises != numbers:
        fault = f"it contains the exercises {exercises}, but {numbers} are graded"
        advice = "name the file that it was released with: ASSIGNMENT=..."
        raise Refused(f"{fault}; {advice}")
    return assignment


def assignment_by_cells(cells: list[dict], assignments: Assignments) -> Assignment:
    """Return the assignment that shares the most checks with a notebook. Raises Refused."""
    sources = {plain(cell["source"]) for cell in cells}

    def shared(assignment: Assignment) -> int:
        count = 0
        for exercise in assignment.exercises:
            count += sum(plain(check) in sources for check in exercise.checks)
        return count

    best = max(assignments.values(), key=shared)
    if not shared(best):
        raise Refused("no exercise of this class is in it; hand in the student edition")
    return best


def check_masters(masters: str, assignment: Assignment) -> None:
    if masters != assignment.masters:
        raise Refused(
            f"it was released from masters {masters}, and those of this class are "
            f"{assignment.masters}; hand in the notebook that this class got"
        )


# --- limits


def bounded(function: Callable[..., dict], *arguments: object) -> dict:
    """Return what `function` returns, computed in a fork within limits. Raises Refused."""
    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)
    target = (sender, function, arguments)
    child = fork.Process(target=_answer, args=target, daemon=True)
    child.start()
    sender.close()
    reply = None
    try:
        if receiver.poll(WAIT):
            reply = json.loads(receiver.recv_bytes())
    except (EOFError, OSError):
        pass
    finally:
        child.kill()
        child.join()
    if reply is None:
        code = child.exitcode
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        fault = f"reading it took too long or too much memory ({how})"
        raise Refused(f"{fault}; {ADVICE}")
    if "reason" in reply:
        raise Refused(reply["reason"])
    return reply["value"]


def _answer(sender: Any, function: Callable[..., dict], arguments: tuple) -> None:
    """In the fork: compute, and send the value or the reason why there is none."""
    import resource  # Windows does not have it

    try:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        reply = {"value": function(*arguments)}
    except (RecursionError, MemoryError) as error:
        fault = f"its code cannot be read ({type(error).__name__})"
        reply = {"reason": f"{fault}; {ADVICE}"}
    except Exception as error:
        # The fault is probably ours. The class is graded all the same, and it is not kept quiet.
        traceback.print_exc()
        fault = f"the grader failed on it ({type(error).__name__}; see what is printed)"
        reply = {"reason": f"{fault}; {ADVICE}"}
    sender.send_bytes(json.dumps(reply).encode())
