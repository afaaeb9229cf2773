"""Grades the one submission that Gradescope has put beside us, and says so in its format.

The format: https://gradescope-autograders.readthedocs.io, "Autograder Specifications". All texts
are declared plain, so that Gradescope shows what a student wrote and never takes it for HTML.
"""

import json
import sys
import traceback
from pathlib import Path

from tools.errors import BookError
from tools.grade.command import read
from tools.grade.grade import grade_one, task_of
from tools.grade.intake import Refused, single_submission

HARMLESS = dict.fromkeys([*range(9), 11, 12, *range(14, 32), *range(127, 160)])  # no control
PLAIN = {"output_format": "text", "test_output_format": "text", "test_name_format": "text"}
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
    except BookError as error:
        print(error)
        results = {"score": 0, "output": FAILED}
    except BaseException:  # what is printed is for the instructor alone
        traceback.print_exc()
        results = {"score": 0, "output": FAILED}
    results |= PLAIN | {"stdout_visibility": "hidden", "visibility": "visible"}
    path = root / "results" / "results.json"
    half = path.with_suffix(".part")
    half.write_text(json.dumps(plain(results), indent=1), encoding="utf-8")
    half.replace(path)


def graded(root: Path) -> dict:
    """Gradescope's results for the submission. Raises Refused, BookError."""
    tests = root / "source" / "private" / "assignment.json"
    assignment = json.loads(tests.read_text(encoding="utf-8"))
    graded = read(single_submission(root / "submission"), {assignment["name"]: assignment})
    if graded.reason:
        raise Refused(graded.reason)
    result = grade_one(task_of(assignment, "submission", graded.spliced.cells))
    findings = [*graded.spliced.findings, *result["findings"]]
    return gradescope_results(result | {"findings": findings}, assignment)


def gradescope_results(result: dict, assignment: dict) -> dict:
    """A result as Gradescope has it: an entry for each hidden test."""
    entries = []
    for asked in assignment["questions"]:
        number = asked["number"]
        question = result["questions"][str(number)]
        for nth, test in enumerate(question["tests"], start=1):
            entries.append(
                {
                    "number": f"{number}.{nth}",
                    "name": f"{asked['title']}: {test['about']}",
                    "score": test["points"],
                    "max_score": test["of"],
                    "status": "passed" if test["passed"] else "failed",
                    "output": test["reason"] or "",
                }
            )
    if result["findings"]:
        lines = [f"{each['kind']}: {each['text']}" for each in result["findings"]]
        about = {"name": "To look at", "output": "\n".join(lines), "visibility": "hidden"}
        entries.append(about)
    said = f"{result['points']} of {result['of']} points by tests."
    if by_hand := [each["number"] for each in assignment["questions"] if each["by_hand"]]:
        said += f" A person reads exercise {', '.join(map(str, by_hand))} besides."
    entries = [{"output_format": "text", "name_format": "text"} | each for each in entries]
    extra = {"assignment": assignment["name"], "class": assignment["class"]}
    extra["sandbox"] = result["sandbox"]
    return {"score": result["points"], "output": said, "tests": entries, "extra_data": extra}


def plain(value: object) -> object:
    """The same data, its texts without control characters."""
    match value:
        case str():
            return value.translate(HARMLESS)
        case list():
            return [plain(each) for each in value]
        case dict():
            return {key: plain(each) for key, each in value.items()}
    return value


if __name__ == "__main__":
    main(Path(sys.argv[1]))
