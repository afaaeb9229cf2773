"""Points as people read them: hundredths at most, and no noise of binary fractions."""

from decimal import ROUND_HALF_UP, Decimal

HUNDREDTH = Decimal("0.01")


def rounded(points: float | Decimal) -> int | float:
    """Round to hundredths, halves up; whole points come back as an `int`."""
    exact = Decimal(str(points)).quantize(HUNDREDTH, ROUND_HALF_UP)
    return int(exact) if exact == exact.to_integral_value() else float(exact)


def shown(points: float | None, decimal: str = ".") -> str:
    """Return points as text, with the given decimal sign; None is empty."""
    if points is None:
        return ""
    return f"{rounded(points):.2f}".rstrip("0").rstrip(".").replace(".", decimal)
