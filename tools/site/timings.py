"""How far modelled times are from real ones, as tables: published figures, and cards at hand."""

import json
from pathlib import Path
from statistics import median

from tools.book.book import Book
from tools.files import read_text, written_by
from tools.site.table import table

PUBLISHED = "book/timings.json"  # what 'make timings' writes
MEASURED = "cudasim/timings"  # what 'make calibrate' writes beside the published figures
NEAR = 1.5  # a factor
USES = {
    "validate": "not used to fit the model",
    "fit": "used to fit the model",
}


def timings_tables(book: Book) -> list[str]:
    """The lines of the tables: a card that was measured here first, then published figures.

    Raises BookError if a file is not what the command writes that makes it.
    """
    folder = book.root / MEASURED
    paths = sorted(set(folder.glob("*.json")) - {folder / "published.json"})
    lines = [line for path in paths for line in _measured(path, book.root)]
    if not paths:
        lines = ["No card was measured yet: `make calibrate PYTHON=python3` does it on one.", ""]
    return lines + _published(book.root)


def _published(root: Path) -> list[str]:
    path = root / PUBLISHED
    if not path.is_file():
        return ["No comparison recorded yet: run `make timings`."]
    with written_by("make timings", PUBLISHED):
        rows = json.loads(read_text(path, root))["rows"]
        return [line for use in USES for line in _table_of(use, rows)]


def _table_of(use: str, rows: list[dict]) -> list[str]:
    chosen = [row for row in rows if row["use"] == use]
    cells = [
        [
            row["card"],
            f"[{row['what']}]({row['source']})",
            in_milliseconds(row["published"]),
            in_milliseconds(row["modelled"]),
            f"{row['modelled'] / row['published']:.2f}",
        ]
        for row in chosen
    ]
    said = summary([row["modelled"] / row["published"] for row in chosen])
    head = ["Card", "What was measured", "Published, ms", "Modelled, ms", "Ratio"]
    return [
        "<details>",
        f"<summary>{len(chosen)} published figures {USES[use]}: {said}</summary>",
        "",
        *table(head, cells, numbers=(2, 3, 4)),
        "",
        "</details>",
        "",
    ]


def _measured(path: Path, root: Path) -> list[str]:
    with written_by("make calibrate", path.relative_to(root).as_posix()):
        about = json.loads(read_text(path, root))
        made = about["provenance"]
        cells = [
            [
                row["name"],
                in_milliseconds(row["measured"]),
                in_milliseconds(row["modelled"]),
                f"{row['ratio']:.2f}",
            ]
            for row in about["rows"]
        ]
        said = summary([row["ratio"] for row in about["rows"] if row["counted"]])
        title = f"**{about['card']}**, measured on {made['hardware']}, {made['date']}: {said}."
    head = ["Workload", "Measured, ms", "Modelled, ms", "Ratio"]
    return [title, "", *table(head, cells, numbers=(1, 2, 3)), ""]


def in_milliseconds(seconds: float) -> str:
    """Seconds as a number of milliseconds with three digits."""
    return f"{seconds * 1e3:#.3g}".rstrip(".")


def summary(ratios: list[float]) -> str:
    """How near modelled times are to the others, in words."""
    error = median(abs(ratio - 1) for ratio in ratios)
    near = sum(1 / NEAR <= ratio <= NEAR for ratio in ratios) / len(ratios)
    return f"median error {error:.0%}, {near:.0%} within a factor of {NEAR}"
