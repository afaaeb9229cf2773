"""The file of a measured card: its figures, fitted to what was measured, and where they are from.

The figures are those with which `timing.formulas` gives back the seconds that were measured.
"""

import json
import os
from pathlib import Path

from cudasim.timing.formulas import utilisation
from cudasim.timing.sheets import Sheet

LEAST = 1e-9  # seconds: a sheet has positive figures only


def card_file(name: str, sheet: Sheet | None, measured: dict, provenance: dict) -> dict:
    """What the file of the card `name` says, in the format of `timing/cards`.

    `measured` holds what the functions of `calibration` return. Peaks and bandwidth are those
    of the data sheet `sheet`, and efficiency is the share of them that was reached; without a
    data sheet, they are what was reached.
    """
    costs = measured["overheads"]
    reached = _reached(measured, costs["floor"])
    peak = dict(sheet.peak if sheet else reached["matmul"])
    memory = reached["memory"]["pointwise"]
    return {
        "name": name,
        "peak": peak,
        "vector": dict(sheet.vector) if sheet else _without_tensor_cores(reached["matmul"]),
        "bandwidth": sheet.bandwidth if sheet else memory,
        "processors": measured["processors"],
        **{key: max(LEAST, costs[key]) for key in ("launch", "floor", "wait")},
        "efficiency": {
            "memory": memory / (sheet.bandwidth if sheet else memory),
            **{
                kind: _shares(reached[kind], peak, sheet and sheet.efficiency[kind])
                for kind in ("matmul", "convolution", "attention")
            },
        },
        "link": {**measured["link"], "latency": max(LEAST, measured["link"]["latency"])},
        "peer": _peer(measured, sheet),
        "provenance": {
            "from": "measured" if sheet is None else "measured; peaks from the data sheet",
            **provenance,
            "reached": reached,
            "measured": measured,
        },
        "sources": _sources(sheet, measured),
    }


def write(path: Path, about: dict) -> None:
    """Write a file at one stroke, so that an interruption leaves the earlier one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".json.part")
    part.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    os.replace(part, path)


def _reached(measured: dict, floor: float) -> dict[str, dict[str, float]]:
    """Flop/s by precision and kind, bytes/s by kind, both beyond the floor of a kernel.

    Of products, what a size would reach that fills every processor.
    """

    def rate(each: dict, what: str) -> float:
        return each[what] / (each["seconds"] - floor)

    products = {}
    for precision, each in measured["products"].items():
        size, shape = each["size"], (1, *3 * (each["size"],))
        full = {"flops": 2 * size**3 / utilisation(shape, measured["processors"])}
        products[precision] = rate({**each, **full}, "flops")
    kinds = {"convolution": measured["convolutions"], "attention": measured["attentions"]}
    return {
        "matmul": products,
        **{
            kind: {name: rate(each, "flops") for name, each in found.items()}
            for kind, found in kinds.items()
        },
        "memory": {name: rate(each, "bytes") for name, each in measured["memory"].items()},
    }


def _shares(
    reached: dict[str, float], peak: dict[str, float], assumed: dict[str, float] | None
) -> dict[str, float]:
    """The share of the peak by precision; where none was measured, the sheet's."""
    shares = dict(assumed or {})
    return shares | {name: rate / peak[name] for name, rate in reached.items() if name in peak}


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
    alone = f"as for the {sheet.name}; one card was here" if sheet else "through the host"
    return {
        **dict.fromkeys(("peak", "vector", "bandwidth"), given),
        **dict.fromkeys(("processors", "launch", "floor", "wait", "link"), here),
        "efficiency": here + rest,
        "peer": here if measured["peer"] else alone,
    }
