"""Tables in Markdown."""

from collections.abc import Iterable, Sequence


def table(
    heads: Sequence[str], rows: Iterable[Sequence], numbers: Iterable[int] = ()
) -> list[str]:
    """Return the lines of a table; the columns in `numbers` are set flush right."""
    rules = ["--:" if column in numbers else ":--" for column in range(len(heads))]
    lines = [_line(heads), _line(rules)]
    for row in rows:
        lines.append(_line([str(cell).replace("|", "\\|") for cell in row]))
    return lines


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def milliseconds(seconds: float) -> str:
    """Return a time to whole nanoseconds, the modelled clock's, in three digits."""
    return f"{round(seconds, 9) * 1e3:#.3g}".rstrip(".")


def in_unit(value: float | None, unit: float) -> str:
    """Return a value in its unit, in three digits; a dash for None."""
    if value is None:
        return "-"
    if value < 1000 * unit:
        return f"{value / unit:.3g}"
    return f"{value / unit:,.0f}"
