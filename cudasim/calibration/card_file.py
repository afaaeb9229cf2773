"""The file of a measured card: its figures, fitted to what was measured, and where they are from.

The figures are those with which `timing.formulas` gives back the seconds that were measured.
"""

import json
import os
from pathlib import Path

from cudasim.timing.formulas import Work, rate
from cudasim.timing.sheets import Sheet

KINDS = (
    "matmul",
    "convolution",
    "attention",
)  # those that have an efficiency by precision
LEAST = 1e-9  # seconds: a sheet has positive figures only


def card_file(name: str, sheet: Sheet | None, measured: dict, provenance: dict) -> dict:
    """What the file of the card `name` says, in the format of `timing/cards`.

    `measured` holds what the functions of `calibration` return. Peaks and bandwidth are those
    of the data sheet `sheet`, and efficiency is the share of them that was reached; without a
    data sheet, they are what was reached.
    """
    costs = measured["overheads"]
    reached = _reached(measured)
    peak = dict(sheet.peak if sheet else reached["matmul"])
    memory = reached["memory"]["pointwise"]
    return {
        "name": name,
        "peak": peak,
        "vector": dict(sheet.vector)
        if sheet
        else _without_tensor_cores(reached["matmul"]),
        "bandwidth": sheet.bandwidth if sheet else memory,
        "processors": measured["processors"],
        **{key: max(LEAST, costs[key]) for key in ("launch", "floor", "wait")},
        "efficiency": {
            "memory": memory / (sheet.bandwidth if sheet else memory),
            **{
                kind: _shares(reached[kind], peak, sheet and sheet.efficiency[kind])
                for kind in KINDS
            },
        },
        "link": {
            **measured["link"],
            "latency": max(LEAST, measured["link"]["latency"]),
        },
        "peer": _peer(measured, sheet),
        "host": measured["host"],
        "provenance": {
            "from": "measured"
            if sheet is None
            else "measured; peaks from the data sheet",
            "validated": False,
            "words": f"measured on {provenance['hardware']}, {provenance['date']}; not validated",
            **provenance,
            "reached": reached,
            "measured": measured,
        },
        "sources": _sources(sheet, measured),
    }


def validated(about: dict, figures: dict) -> dict:
    """The file `about` a card, once the model was compared with it; `figures` as in `compare`."""
    given = about["provenance"]
    words = (
        f"measured on {given['hardware']}, {given['date']}, and validated: median error "
        f"{figures['median_error']:.0%} of {figures['workloads']} workloads"
    )
    return {**about, "provenance": {**given, "validated": True, "words": words}}


def write(path: Path, about: dict) -> None:
    """Write a file at one stroke, so that an interruption leaves the earlier one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".json.part")
    part.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    os.replace(part, path)


def _reached(measured: dict) -> dict[str, dict[str, float]]:
    """Flop/s by kind and precision, and bytes/s by kind, both beyond the floor of a kernel.

    The flop/s are those that a product would reach whose shape suits the card perfectly: what
    the formulas take to be lost by its shape is added.
    """
    floor = measured["overheads"]["floor"]
    reached = {
        kind: {
            precision: each["flops"]
            / (each["seconds"] - floor)
            / _share_left(kind, precision, each, measured["processors"])
            for precision, each in measured[kind].items()
        }
        for kind in KINDS
    }
    memory = measured["memory"].items()
    reached["memory"] = {
        kind: each["bytes"] / (each["seconds"] - floor) for kind, each in memory
    }
    return reached


def _share_left(kind: str, precision: str, each: dict, processors: int) -> float:
    """The share of the peak that the formulas leave to work of this shape, at efficiency 1."""
    ones = {precision: 1.0, "float32": 1.0}
    card = Sheet(
        **{"name": "", "peak": ones, "vector": ones, "efficiency": {kind: ones}},
        **{
            "bandwidth": 1.0,
            "processors": processors,
            "launch": 0.0,
            "floor": 0.0,
            "wait": 0.0,
        },
        **{"link": {}, "peer": {}},
    )
    shape = each["shape"] and tuple(each["shape"])
    return rate(Work(kind, each["flops"], 0.0, precision, 1, shape), card)


def _shares(
    reached: dict[str, float], peak: dict[str, float], assumed: dict[str, float] | None
) -> dict[str, float]:
    """The share of the peak by precision; where none was measured, the sheet's."""
    shares = dict(assumed or {})
    return shares | {
        name: rate / peak[name] for name, rate in reached.items() if name in peak
    }


def _without_tensor_cores(products: dict[str, float]) -> dict[str, float]:
    return {name: products[name] for name in ("float64", "float32")}


def _peer(measured: dict, sheet: Sheet | None) -> dict[str, float]:
    """The way to another card: measured, or the data sheet's, or out to the host and in again."""
    there, link = measured["peer"], measured["link"]
    staged = 1 / (1 / link["pinned_in"] + 1 / link["pinned_out"])
    if there is None and sheet:
        return dict(sheet.peer)
    if there is None:
        latency = max(LEAST, 2 * link["latency"])
        return {"bandwidth": staged, "staged": staged, "latency": latency}
    return {
        "bandwidth": there["rate"],
        "staged": staged if there["access"] else there["rate"],
        "latency": max(LEAST, there["latency"]),
    }


def _sources(sheet: Sheet | None, measured: dict) -> dict[str, str]:
    here = "measured, see provenance"
    given = f"data sheet of the {sheet.name}" if sheet else here
    rest = f"; what was not measured: as for the {sheet.name}" if sheet else ""
    alone = (
        f"as for the {sheet.name}; one card was here" if sheet else "through the host"
    )
    return {
        **dict.fromkeys(("peak", "vector", "bandwidth"), given),
        **dict.fromkeys(
            ("processors", "launch", "floor", "wait", "link", "host"), here
        ),
        "efficiency": here + rest,
        "peer": here if measured["peer"] else alone,
    }
