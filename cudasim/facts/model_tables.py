"""Tables of the model: its data sheets, and how close it comes to published figures."""

import json
from typing import Any

from cudasim.timing.sheets import sheet_names
from facts import published, published_scaling
from facts.cards import described
from facts.markdown import in_unit, milliseconds, table
from facts.published_scaling import Row

PRECISIONS = ("float64", "float32", "tf32", "float16", "bfloat16")
USES = {"validate": "not used", "fit": "used"}

Measurement = dict[str, Any]
Pairs = list[tuple[Measurement, Row]]


def timings() -> list[str]:
    """Draw modelled times next to published ones, those used to fit the model apart."""
    measurements = json.loads(published.PATH.read_text(encoding="utf-8"))
    by_id = {measurement["id"]: measurement for measurement in measurements}
    rows = published.rows()

    lines = []
    for use, words in USES.items():
        chosen = [row for row in rows if row.use == use]
        error, near = published.summary([row.ratio for row in chosen])
        subject = f"{len(chosen)} published figures {words} to fit the model"
        closeness = f"{near:.0%} within a factor of {published.NEAR}"
        summary = f"{subject}: median error {error:.0%}, {closeness}"
        lines += ["<details>", f"<summary>{summary}</summary>", ""]
        lines += _timings(chosen, by_id)
        lines += ["", "</details>", ""]
    return lines


def _timings(rows: list[published.Row], by_id: dict[str, Measurement]) -> list[str]:
    cells = []
    for row in rows:
        link = _link(by_id[row.id])
        published_time = milliseconds(row.published)
        modelled_time = milliseconds(row.modelled)
        ratio = f"{row.ratio:.2f}"
        cells.append([row.card, link, published_time, modelled_time, ratio])
    heads = ["Card", "What was measured", "Published, ms", "Modelled, ms", "Ratio"]
    return table(heads, cells, numbers=(2, 3, 4))


def _link(measurement: Measurement) -> str:
    return f"[{measurement['what']}]({measurement['source']})"


def cards() -> list[str]:
    """Draw the data sheets, with two modelled times of each card."""
    rows = []
    for name in sheet_names():
        card = described(name)
        seconds = card["seconds"]
        row = [name, in_unit(card["memory"], 2**30)]
        for precision in PRECISIONS:
            peak = card["peak"].get(precision)
            row.append(in_unit(peak, 1e12))
        row.append(in_unit(card["bandwidth"], 1e9))
        row.append(in_unit(seconds["product"], 1e-3))
        row.append(in_unit(seconds["copy"], 1e-3))
        row.append(card["provenance"]["words"])
        rows.append(row)

    heads = ["Card", "GiB", *PRECISIONS, "GB/s", "Product, ms", "Copy, ms", "Model"]
    numbers = range(1, len(heads) - 1)
    return table(heads, rows, numbers)


def scaling() -> list[str]:
    """Draw published training and all-reduces on several GPUs next to the model."""
    training: Pairs = []
    reduces: Pairs = []
    for measurement in published_scaling.read():
        pair = measurement, published_scaling.row_of(measurement)
        if measurement["kind"] == "training":
            training.append(pair)
        else:
            reduces.append(pair)

    lines = [*_training(training), "", *_notes(training), ""]
    lines += _all_reduces(reduces)
    lines += ["", *_notes(reduces)]
    return lines


def _training(pairs: Pairs) -> list[str]:
    rows = []
    for measurement, row in pairs:
        cells = _what_ran(measurement)
        cells.append(f"{measurement['gpus']:,}")
        bare_ratio = row.bare / row.published
        for share in (row.published, row.modelled, row.ratio, bare_ratio):
            cells.append(f"{share:.2f}")
        rows.append(cells)
    heads = ["What ran", "Hardware", "GPUs", "Published", "Modelled"]
    heads += ["Ratio", "Bare ratio"]
    return table(heads, rows, numbers=(2, 3, 4, 5, 6))


def _all_reduces(pairs: Pairs) -> list[str]:
    rows = []
    for measurement, row in pairs:
        cells = _what_ran(measurement)
        modelled = measurement["size"] / row.modelled
        for seconds in (measurement["figure"], modelled):
            cells.append(f"{1e3 * seconds:.3g}")
        cells.append(f"{row.ratio:.2f}")
        cells.append("yes" if measurement["use"] == "fit" else "no")
        rows.append(cells)
    heads = ["What ran", "Hardware", "Published, ms", "Modelled, ms"]
    heads += ["Ratio", "Used to fit"]
    return table(heads, rows, numbers=(2, 3, 4))


def _what_ran(measurement: Measurement) -> list[str]:
    link = _link(measurement)
    if "note" in measurement:
        link += " *"
    return [link, measurement["hardware"]]


def _notes(pairs: Pairs) -> list[str]:
    """Return the notes on rows with a star, each note once."""
    rows_by_note: dict[str, list[str]] = {}
    for measurement, _ in pairs:
        if "note" in measurement:
            rows = rows_by_note.setdefault(measurement["note"], [])
            rows.append(f"{measurement['what']}, {measurement['gpus']} GPUs")

    lines = []
    for note, rows in rows_by_note.items():
        starred = "; ".join(rows)
        lines.append(f"- \\* {starred}: {note}.")
    return lines
