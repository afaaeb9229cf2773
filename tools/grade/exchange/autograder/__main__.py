"""Grades the one submission that Gradescope has put beside us, and says so in its format.

The format: https://gradescope-autograders.readthedocs.io, "Autograder Specifications". All texts
are declared plain, so that Gradescope never takes the name of a student's file for HTML.
"""

import json
import sys
import traceback
from pathlib import Path

from tools.grade.command import read
from tools.grade.grade import grade_one
from tools.grade.intake import Refused, single_submission

FORMAT = {
    **{"output_format": "text", "test_output_format": "text", "test_name_format": "text"},
    **{"stdout_visibility": "hidden", "visibility": "visible"},
}
FAILED = (
    "The grader failed. That is no fault of your notebook: tell your instructor, who can run it "
    "again."
)


def main(root: Path) -> None:
    """Write `results/results.json` below `root`, whatever comes; details are printed."""
    try:
        results = graded(root)
    except Refused as reason:
        results = {"score": 0, "output": f"Not graded: {reason}."}
    except BaseException:  # what is printed is for the instructor alone
        traceback.print_exc()
        results = {"score": 0, "output": FAILED}
    path = root / "results" / "results.json"
    half = path.with_suffix(".part")
    half.write_text(json.dumps(results | FORMAT, indent=1), encoding="utf-8")
    half.replace(path)


def graded(root: Path) -> dict:
    """Gradescope's results for the submission. Raises Refused, BookError."""
    tests = root / "source" / "private" / "assignment.json"
    assignment = json.loads(tests.read_text(encoding="utf-8"))
    graded = read(single_submission(root / "submission"), {assignment["name"]: assignment})
    if graded.reason:
        raise Refused(graded.reason)
    task = {"assignment": assignment, "submission": "submission", "cells": graded.spliced.cells}
    result = grade_one(task)
    return gradescope_results(result, graded.spliced.findings, assignment)


def gradescope_results(result: dict, findings: list[dict], assignment: dict) -> dict:
    """A result as Gradescope has it: an entry for each hidden test."""
    text = {"output_format": "text", "name_format": "text"}
    entries = [
        text
        | {
            "number": f"{asked['number']}.{nth}",
            "name": f"{asked['title']}: {test['about']}",
            "score": test["points"],
            "max_score": test["of"],
            "status": "passed" if test["passed"] else "failed",
            "output": test["reason"] or "",
        }
        for asked in assignment["questions"]
        for nth, test in enumerate(result["questions"][str(asked["number"])]["tests"], start=1)
    ]
    if lines := [f"{each['kind']}: {each['text']}" for each in [*findings, *result["findings"]]]:
        about = {"name": "To look at", "output": "\n".join(lines), "visibility": "hidden"}
        entries.append(text | about)
    said = f"{result['points']} of {result['of']} points by tests."
    if by_hand := [each["number"] for each in assignment["questions"] if each["by_hand"]]:
        said += f" A person reads exercise {', '.join(map(str, by_hand))} besides."
    extra = {"assignment": assignment["name"], "class": assignment["class"]}
    extra["sandbox"] = result["sandbox"]
    return {"score": result["points"], "output": said, "tests": entries, "extra_data": extra}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
