"""Tables in Markdown."""

from collections.abc import Collection, Iterable, Sequence


def table(
    heads: Sequence[str], rows: Iterable[Sequence], numbers: Collection[int] = ()
) -> list[str]:
    """Return the lines of a table; the columns in `numbers` are set flush right."""
    rules = []
    for column in range(len(heads)):
        rules.append("--:" if column in numbers else ":--")

    lines = [_line(heads), _line(rules)]
    for row in rows:
        cells = [str(cell).replace("|", "\\|") for cell in row]
        lines.append(_line(cells))
    return lines


def _line(cells: Iterable[str]) -> str:
    joined = " | ".join(cells)
    return f"| {joined} |"


def milliseconds(seconds: float) -> str:
    """Return a time in milliseconds, with three digits.

    It is rounded first to whole nanoseconds, as the modelled clock counts them.
    """
    rounded = round(seconds, 9)
    return f"{1e3 * rounded:#.3g}".rstrip(".")


def in_unit(value: float | None, unit: float) -> str:
    """Return a value in its unit, with three digits; a dash for None."""
    if value is None:
        return "-"
    quotient = value / unit
    if quotient < 1000:
        return f"{quotient:.3g}"
    return f"{quotient:,.0f}"
