"""Tables of the model: its data sheets, and how near it is to published figures."""

import json
from typing import Any

from cudasim.timing.sheets import sheet_names
from facts import published, published_scaling
from facts.cards import described
from facts.markdown import in_unit, milliseconds, table
from facts.published_scaling import Row

PRECISIONS = ("float64", "float32", "tf32", "float16", "bfloat16")
USES = {"validate": "not used", "fit": "used"}


def timings() -> list[str]:
    """Draw modelled beside published times, those used to fit the model apart."""
    measurements = json.loads(published.PATH.read_text(encoding="utf-8"))
    by_id = {measurement["id"]: measurement for measurement in measurements}
    rows = published.rows()
    lines = []
    for use, words in USES.items():
        chosen = [row for row in rows if row.use == use]
        error, near = published.summary([row.ratio for row in chosen])
        summary = (
            f"{len(chosen)} published figures {words} to fit the model: median error "
            f"{error:.0%}, {near:.0%} within a factor of {published.NEAR}"
        )
        lines += ["<details>", f"<summary>{summary}</summary>", ""]
        lines += _timings(chosen, by_id)
        lines += ["", "</details>", ""]
    return lines


def _timings(rows: list[published.Row], by_id: dict[str, dict]) -> list[str]:
    cells = []
    for row in rows:
        measurement = by_id[row.id]
        source = f"[{measurement['what']}]({measurement['source']})"
        times = milliseconds(row.published), milliseconds(row.modelled)
        cells.append([row.card, source, *times, f"{row.ratio:.2f}"])
    heads = ["Card", "What was measured", "Published, ms", "Modelled, ms", "Ratio"]
    return table(heads, cells, numbers=(2, 3, 4))


def cards() -> list[str]:
    """Draw the data sheets, with two modelled times of each card."""
    rows = []
    for name in sheet_names():
        card = described(name)
        memory = in_unit(card["memory"], 2**30)
        peaks = [in_unit(card["peak"].get(kind), 1e12) for kind in PRECISIONS]
        bandwidth = in_unit(card["bandwidth"], 1e9)
        product = in_unit(card["seconds"]["product"], 1e-3)
        copy = in_unit(card["seconds"]["copy"], 1e-3)
        words = card["provenance"]["words"]
        rows.append([name, memory, *peaks, bandwidth, product, copy, words])
    heads = ["Card", "GiB", *PRECISIONS, "GB/s", "Product, ms", "Copy, ms", "Model"]
    return table(heads, rows, numbers=range(1, len(heads) - 1))


def scaling() -> list[str]:
    """Draw published training and all-reduces on several GPUs beside the model."""
    pairs = []
    for measurement in published_scaling.read():
        pairs.append((measurement, published_scaling.row_of(measurement)))
    training = [pair for pair in pairs if pair[0]["kind"] == "training"]
    reduces = [pair for pair in pairs if pair[0]["kind"] == "all_reduce"]
    lines = [*_training(training), "", *_notes(training), ""]
    return [*lines, *_all_reduces(reduces), "", *_notes(reduces)]


def _training(pairs: list[tuple[dict, Row]]) -> list[str]:
    rows = []
    for measurement, row in pairs:
        shares = row.published, row.modelled, row.ratio, row.bare / row.published
        figures = [f"{share:.2f}" for share in shares]
        rows.append([*_what_ran(measurement), f"{measurement['gpus']:,}", *figures])
    heads = ["What ran", "Hardware", "GPUs", "Published", "Modelled"]
    heads += ["Ratio", "Bare ratio"]
    return table(heads, rows, numbers=(2, 3, 4, 5, 6))


def _all_reduces(pairs: list[tuple[dict, Row]]) -> list[str]:
    rows = []
    for measurement, row in pairs:
        modelled = measurement["size"] / row.modelled
        rows.append(
            [
                *_what_ran(measurement),
                f"{1e3 * measurement['figure']:.3g}",
                f"{1e3 * modelled:.3g}",
                f"{row.ratio:.2f}",
                "yes" if measurement["use"] == "fit" else "no",
            ]
        )
    heads = ["What ran", "Hardware", "Published, ms", "Modelled, ms"]
    heads += ["Ratio", "Used to fit"]
    return table(heads, rows, numbers=(2, 3, 4))


def _what_ran(measurement: dict[str, Any]) -> list[str]:
    mark = " *" if "note" in measurement else ""
    link = f"[{measurement['what']}]({measurement['source']}){mark}"
    return [link, measurement["hardware"]]


def _notes(pairs: list[tuple[dict, Row]]) -> list[str]:
    """Return what is to be said of rows with a star, each remark once."""
    rows_by_note: dict[str, list[str]] = {}
    for measurement, _ in pairs:
        if "note" in measurement:
            row = f"{measurement['what']}, {measurement['gpus']} GPUs"
            rows_by_note.setdefault(measurement["note"], []).append(row)
    return [f"- \\* {'; '.join(rows)}: {note}." for note, rows in rows_by_note.items()]
