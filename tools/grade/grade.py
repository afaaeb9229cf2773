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
    """What one submission gets by tests: a task has `cells` as `splice` gives them.

    Raises NoSandbox, and BookError where cells that were given to all students end the session.
    """
    tier = tier or strongest()
    try:
        questions, findings = judged(task, tier)
    except RuntimeError as error:
        raise BookError(f"{tier.name}: no session can be had ({error}); run it again") from None
    found = questions.values()
    return {
        "key": task.get("key"),
        "questions": questions,
        "points": sum(asked["points"] for asked in found),
        "of": sum(asked["of"] for asked in found),
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
