"""Grades the one submission that Gradescope puts beside this code, and reports in its format.

See https://gradescope-autograders.readthedocs.io, "Autograder Specifications". All texts are
declared plain: the name of a student's file is never taken for HTML.
"""

import json
import sys
import traceback
from pathlib import Path
from typing import Any

from coursework.exercises.tasks import Assignment, Task
from coursework.grade.download import Refused
from coursework.grade.intake import single_submission
from coursework.grade.judge import judge
from coursework.grade.reading import read
from coursework.grade.results import Grade, Judgement, ReachEntry, shown
from tools.files import write_json

FORMAT = {
    "output_format": "text",
    "test_output_format": "text",
    "test_name_format": "text",
    "stdout_visibility": "hidden",
    "visibility": "visible",
}
FAILED = "The grader failed. That is no fault of your notebook: your instructor can run it again."


def main(root: Path) -> None:
    """Write `results/results.json` below `root`, whatever comes; details are printed."""
    try:
        results = graded(root)
    except Refused as reason:
        results = {"score": 0, "output": f"Not graded: {reason}."}
    except BaseException:  # what is printed is for the instructor alone
        traceback.print_exc()
        results = {"score": 0, "output": FAILED}
    write_json(root / "results" / "results.json", results | FORMAT, root)


def graded(root: Path) -> dict[str, Any]:
    """Return Gradescope's results for the submission. Raises Refused."""
    path = root / "source" / "private" / "assignment.json"
    entry = json.loads(path.read_text(encoding="utf-8"))
    assignment = Assignment.from_json(entry)
    submission = single_submission(root / "submission")
    grade = read(submission, {assignment.name: assignment})
    if grade.reason:
        raise Refused(grade.reason)
    judgement = judge(Task(assignment, grade.cells))
    grade.take(judgement)
    return {
        "score": judgement.points,
        "output": output_text(assignment, judgement),
        "tests": entries(assignment, grade),
        "extra_data": {
            "name": assignment.name,
            "class": assignment.group,
            "sandbox": judgement.sandbox,
        },
    }


def output_text(assignment: Assignment, judgement: Judgement) -> str:
    points = f"{shown(judgement.points)} of {shown(judgement.of)} points by tests."
    by_hand = []
    for exercise in assignment.exercises:
        if exercise.by_hand:
            by_hand.append(str(exercise.number))
    if not by_hand:
        return points
    return f"{points} A person reads exercise {', '.join(by_hand)} besides."


def entries(assignment: Assignment, grade: Grade) -> list[dict[str, Any]]:
    """Return an entry for each hidden test, and a hidden one for what a person should see."""
    test_entries = []
    for exercise in assignment.exercises:
        tests = grade.results[exercise.number].tests
        for place, test in enumerate(tests, start=1):
            entry = {
                "number": f"{exercise.number}.{place}",
                "name": f"{exercise.title}: {test.about}",
                "score": test.points,
                "max_score": test.of,
                "status": "passed" if test.passed else "failed",
                "output": test.failure,
            }
            test_entries.append(entry)
    lines = [f"{finding.kind}: {finding.text}" for finding in grade.findings]
    lines += [line_of(entry) for entry in grade.reach]
    if lines:
        text = "\n".join(lines)
        entry = {"name": "To look at", "output": text, "visibility": "hidden"}
        test_entries.append(entry)
    return test_entries


def line_of(entry: ReachEntry) -> str:
    """Return a line that reaches where answers have no business, as `review.html` shows it."""
    place = "above the exercises"
    if entry.exercise:
        place = f"exercise {entry.exercise}"
    return f"{place}, line {entry.line}: {entry.text}: {entry.code}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
