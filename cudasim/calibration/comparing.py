"""What the model says beside what a card took: rows, pairs, figures."""

import json
import statistics
from pathlib import Path

from calibration.workloads import PAIRS, WORKLOADS

NEAR = 1.5  # a factor


def compare(modelled: dict[str, float], measured: dict[str, float]) -> dict:
    """The rows of all workloads that were timed, the pairs, and the figures of both.

    A row has name, group, unit, seconds `modelled` and `measured`, their ratio, and whether it
    counts: the host that is modelled is not this one, so the group `host` does not. A pair is
    right if the model and the card put the two in the same order.
    """
    rows = [
        {
            "name": name,
            "group": WORKLOADS[name].group,
            "unit": WORKLOADS[name].unit,
            "modelled": modelled[name],
            "measured": measured[name],
            "ratio": modelled[name] / measured[name],
            "counted": WORKLOADS[name].group != "host",
        }
        for name in measured
    ]
    pairs = [
        {"faster": faster, "slower": slower, "right": both[0] == both[1]}
        for faster, slower in PAIRS
        if faster in measured and slower in measured
        for both in [[times[faster] < times[slower] for times in (modelled, measured)]]
    ]
    ratios = [row["ratio"] for row in rows if row["counted"]]
    figures = {
        "workloads": len(ratios),
        "median_error": statistics.median(abs(ratio - 1) for ratio in ratios),
        "near": sum(1 / NEAR <= ratio <= NEAR for ratio in ratios) / len(ratios),
        "pairs": len(pairs),
        "pairs_right": sum(pair["right"] for pair in pairs),
    }
    return {"figures": figures, "rows": rows, "pairs": pairs}


def rows(path: Path) -> list[dict]:
    """The rows of a file that `validate` wrote, as `compare` gives them."""
    return json.loads(path.read_text(encoding="utf-8"))["rows"]


def table(about: dict) -> str:
    """What `validate` prints: a line for each workload, the pairs that are wrong, the figures."""
    width = max(len(row["name"]) for row in about["rows"])
    lines = [f"{'':{width}}  modelled  measured  ratio"]
    for row in about["rows"]:
        both = f"{_short(row['modelled'])}  {_short(row['measured'])}"
        mark = "" if row["counted"] else "  not counted: the host modelled is another"
        lines.append(f"{row['name']:{width}}  {both}  {row['ratio']:5.2f}{mark}")
    lines += [
        f"in another order than on the card: {pair['faster']}; {pair['slower']}"
        for pair in about["pairs"]
        if not pair["right"]
    ]
    figures = about["figures"]
    lines += [
        f"{figures['workloads']} workloads: median error {figures['median_error']:.0%}, "
        f"{figures['near']:.0%} within a factor of {NEAR}, "
        f"{figures['pairs_right']} of {figures['pairs']} pairs in the right order"
    ]
    return "\n".join(lines)


def _short(seconds: float) -> str:
    """A time in 8 characters: `12.3 ms`."""
    for unit, size in (("s", 1), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size or unit == "us":
            return f"{f'{seconds / size:.3g} {unit}':>8}"
    raise ValueError(f"no time: {seconds}")
