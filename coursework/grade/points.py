"""Points: rounded and shown as people read them, and what a late hand-in costs.

The rule for late work is set by the instructor's assignment. Days are counted from the end of the
grace period, and a day that has begun counts. Where the download says "late" without a time, as
Canvas' does, nothing is taken.
"""

from datetime import timedelta
from decimal import ROUND_HALF_UP, Decimal

from coursework.exercises.tasks import Assignment, LateRule
from coursework.grade.results import Grade, Penalty

HUNDREDTH = Decimal("0.01")
DAY = timedelta(days=1)


def rounded(points: float | Decimal) -> int | float:
    """Round to hundredths, halves up; whole points come back as an `int`."""
    exact = Decimal(str(points)).quantize(HUNDREDTH, ROUND_HALF_UP)
    return int(exact) if exact == exact.to_integral_value() else float(exact)


def shown(points: float | None, decimal: str = ".") -> str:
    """Return points as text, with the given decimal sign; None is empty."""
    if points is None:
        return ""
    text = f"{rounded(points):.2f}".rstrip("0").rstrip(".")
    return text.replace(".", decimal)


# --- late work


def add_penalty(grade: Grade, assignment: Assignment) -> None:
    """Add what being late costs to a grade whose points are known."""
    delay = None
    if assignment.due and grade.handed_in:
        delay = grade.handed_in - assignment.due
        grade.late = delay > timedelta(0)
    grade.penalty = None
    grade.points_after = grade.points
    if assignment.late and grade.late:
        grade.penalty = penalty(grade.points, assignment.late, delay)
        left = Decimal(str(grade.points)) - Decimal(str(grade.penalty.points))
        grade.points_after = rounded(left)


def penalty(points: float, rule: LateRule, delay: timedelta | None) -> Penalty:
    """Return the penalty for a delay; None is a delay that is not known."""
    days = None if delay is None else days_late(delay - rule.grace)
    percent = Decimal(str(rule.percent)) * (days or 0)
    percent = min(percent, Decimal(str(rule.most)))
    full = Decimal(str(points))
    left = rounded(full * (100 - percent) / 100)
    taken = rounded(full - Decimal(str(left)))
    return Penalty(days, rounded(percent), taken)


def days_late(delay: timedelta) -> int:
    """Return the days that have begun; 0 within the grace period."""
    return max(0, -(-delay // DAY))
