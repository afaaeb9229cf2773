"""What a late hand-in costs, by the rule that the instructor's assignment sets.

Days are counted from the end of the grace period, and a day that has begun counts. Where the
download says "late" without a time, as Canvas' does, nothing is taken.
"""

from datetime import datetime, timedelta
from decimal import Decimal

from coursework.grade.points import rounded

DAY = timedelta(days=1)


def add_penalty(result: dict, assignment: dict) -> None:
    """Add `late`, `penalty` and `points_after` to a result whose points are known.

    The penalty is None where no rule applies, else its `days` (None if the time of the hand-in is
    not known), its `percent`, and the `points` that it takes.
    """
    due = assignment.get("due") and datetime.fromisoformat(assignment["due"])
    time = result.get("handed_in") and datetime.fromisoformat(result["handed_in"])
    if due and time:
        result["late"] = time > due
    rule = assignment.get("late")
    if not (rule and result["late"]):
        result["penalty"] = None
        result["points_after"] = result["points"]
        return

    days = (
        days_late(time - due - timedelta(seconds=rule["grace"]))
        if due and time
        else None
    )
    percent = min(
        Decimal(str(rule["percent"])) * (days or 0), Decimal(str(rule["most"]))
    )
    after = rounded(Decimal(str(result["points"])) * (100 - percent) / 100)
    taken = rounded(Decimal(str(result["points"])) - Decimal(str(after)))
    result["penalty"] = {"days": days, "percent": rounded(percent), "points": taken}
    result["points_after"] = after


def days_late(delay: timedelta) -> int:
    """The days that have begun; 0 within the grace period."""
    return max(0, -(-delay // DAY))


def is_undated(result: dict) -> bool:
    """Would the rule apply if the download had said when the notebook was handed in?"""
    penalty = result.get("penalty")
    return penalty is not None and penalty["days"] is None
