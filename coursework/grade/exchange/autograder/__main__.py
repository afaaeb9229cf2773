"""Grades the one submission that Gradescope has put beside us, and says so in its format.

See https://gradescope-autograders.readthedocs.io, "Autograder Specifications". All texts are
declared plain: the name of a student's file is never taken for HTML.
"""

import json
import sys
import traceback
from pathlib import Path

from coursework.grade.command import read
from coursework.grade.intake import Refused, single_submission
from coursework.grade.judge import grade_one
from coursework.grade.points import shown
from coursework.grade.report import failure_text
from tools.files import write_json

FORMAT = dict.fromkeys(
    ["output_format", "test_output_format", "test_name_format"], "text"
)
FORMAT |= {"stdout_visibility": "hidden", "visibility": "visible"}
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


def line_of(entry: dict) -> str:
    """A line that reaches where answers have no business, in the words of `review.html`."""
    exercise = (
        f"exercise {entry['exercise']}" if entry["exercise"] else "above the exercises"
    )
    return f"{exercise}, line {entry['line']}: {entry['text']}: {entry['code']}"


def graded(root: Path) -> dict:
    """Gradescope's results for the submission, an entry for each hidden test. Raises Refused."""
    tests = root / "source" / "private" / "assignment.json"
    assignment = json.loads(tests.read_text(encoding="utf-8"))
    found = read(
        single_submission(root / "submission"), {assignment["name"]: assignment}
    )
    if found["reason"]:
        raise Refused(found["reason"])
    result = grade_one({"assignment": assignment, "cells": found["cells"]})
    findings, entries = found["findings"] + result["findings"], []
    for asked in assignment["questions"]:
        tests = result["questions"][str(asked["number"])]["tests"]
        for nth, test in enumerate(tests, start=1):
            name = f"{asked['title']}: {test['about']}"
            entry = {
                "number": f"{asked['number']}.{nth}",
                "name": name,
                "score": test["points"],
            }
            entry |= {
                "max_score": test["of"],
                "status": "passed" if test["passed"] else "failed",
            }
            entries.append(entry | {"output": failure_text(test)})
    lines = [f"{finding['kind']}: {finding['text']}" for finding in findings]
    lines += [line_of(entry) for entry in found["reach"]]
    if lines:
        entries += [
            {"name": "To look at", "output": "\n".join(lines), "visibility": "hidden"}
        ]
    said = f"{shown(result['points'])} of {shown(result['of'])} points by tests."
    if by_hand := [
        str(asked["number"]) for asked in assignment["questions"] if asked["by_hand"]
    ]:
        said += f" A person reads exercise {', '.join(by_hand)} besides."
    extra = {name: assignment[name] for name in ("name", "class")} | {
        "sandbox": result["sandbox"]
    }
    return {
        "score": result["points"],
        "output": said,
        "tests": entries,
        "extra_data": extra,
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
