"""Grades one submission: pure data in, pure data out, on this machine or on another.

No date and no duration is in a result, so that grading again gives the same bytes.
"""

import os
from functools import cache
from typing import Any

from tools.errors import BookError
from tools.grade.judge import judged
from tools.grade.sandbox import TIERS, Tier, try_out
from tools.grade.splice import finding

TRIED = "GRADE_TIER"  # the variable that names a sandbox which this machine offers


class NoSandbox(BookError):
    """This machine offers no sandbox; the message says why."""


@cache
def strongest() -> Tier:
    """The strongest sandbox of this machine. Raises NoSandbox where there is none.

    GRADE_TIER names one that was tried already: workers need not try it again.
    """
    if name := os.environ.get(TRIED):
        return Tier(name)
    reasons = []
    for name in TIERS:
        reason = try_out(name)
        if reason is None:
            return Tier(name)
        reasons.append(reason)
    raise NoSandbox(f"no sandbox on this machine, so nothing is graded ({'; '.join(reasons)})")


def grade_one(task: dict, tier: Any = None) -> dict:
    """The result of one submission: a task has `cells` as `splice` gives them.

    Raises NoSandbox, and BookError where cells that were given to all students end the session.
    """
    tier = tier or strongest()
    try:
        questions, findings = judged(task, tier)
    except RuntimeError as error:
        raise BookError(f"{tier.name}: no session can be had ({error}); run it again") from None
    return {
        "key": task.get("key"),
        "submission": task["submission"],
        "student": task.get("student", task["submission"]),
        "assignment": task["assignment"]["name"],
        "class": task["assignment"]["class"],
        "status": "graded",
        "reason": None,
        "questions": questions,
        "points": sum(question["points"] for question in questions.values()),
        "of": sum(question["of"] for question in questions.values()),
        "sandbox": tier.about,
        "findings": [*findings, *ended(questions)],
    }


def ended(questions: dict) -> list[dict]:
    """A finding for each exercise that ended a session."""
    return [
        finding(question["ended"], int(number), f"ended its session: {question['ended']}")
        for number, question in sorted(questions.items(), key=lambda pair: int(pair[0]))
        if question["ended"]
    ]


def refused(submission: str, student: str, reason: str, assignment: dict | None = None) -> dict:
    """The result of a submission that is not graded, with its reason in one line."""
    return {
        "submission": submission,
        "student": student,
        "assignment": assignment["name"] if assignment else None,
        "class": assignment["class"] if assignment else None,
        "status": "refused",
        "reason": " ".join(reason.split()),
        "questions": {},
        "points": 0,
        "of": sum(asked["points"] for asked in assignment["questions"]) if assignment else 0,
        "sandbox": None,
        "findings": [],
    }
