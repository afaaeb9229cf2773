"""All of PyTorch's test files, one after another, and what is kept of their outcomes."""

import platform
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from conformance import reasons, running
from conformance.reasons import Reason
from conformance.running import Verdict

Verdicts = dict[str, list[Verdict]]  # by file


def run(
    source: Path, names: list[str], outcomes: Path, resume: bool, limit: float
) -> tuple[dict[str, Any], list[str]]:
    """Run the files `names`, or all of them; return the summary, and a line for each fault.

    Outcomes are noted in the folder `outcomes` as they come, and `resume` goes on from those.
    A test has `limit` seconds. Raises ConformanceError.
    """
    listed = reasons.read()
    paths = running.find(source, names)
    outcomes.mkdir(parents=True, exist_ok=True)

    verdicts: Verdicts = {}
    for path in paths:
        print(f"{path.stem} ...", flush=True)
        notes = outcomes / f"{path.stem}.jsonl"
        if not resume:
            notes.unlink(missing_ok=True)
        left_out = reasons.left_out(path.stem, listed)
        verdicts[path.stem] = running.run(path, notes, limit, print, left_out)
        counts = count(verdicts[path.stem]).most_common()
        words = ", ".join(f"{number} {outcome}" for outcome, number in counts)
        print(f"{path.stem}: {words}", flush=True)

    faults = _without_reason(verdicts, listed)
    if not names:
        for name in reasons.outdated(verdicts, listed):
            faults.append(f"{name}: passes, take it out of reasons.toml")
    return summary(verdicts, listed, running.version(source)), faults


def _without_reason(verdicts: Verdicts, listed: list[Reason]) -> list[str]:
    faults = []
    for file, of_file in verdicts.items():
        for verdict in reasons.unexplained(file, of_file, listed):
            faults.append(
                f"{file}::{verdict.test}: {verdict.outcome}, no reason in reasons.toml: "
                f"{verdict.reason}"
            )
    return faults


def summary(verdicts: Verdicts, listed: list[Reason], version: str) -> dict[str, Any]:
    """Return versions, counts for each file, and each reason with its number of tests."""
    files = []
    explained: Counter[tuple[Reason, str]] = Counter()
    for file, of_file in verdicts.items():
        counts = count(of_file)
        total = len(of_file)
        kept = {name: counts[name] for name in ("passed", "skipped", "not run")}
        failed = total - sum(kept.values())
        files.append({"file": file, "total": total, **kept, "failed": failed})
        for verdict in of_file:
            reason = reasons.find(f"{file}::{verdict.test}", listed)
            if verdict.outcome not in reasons.PASSED and reason is not None:
                explained[reason, file] += 1

    rows = []
    for (reason, file), number in explained.items():
        words = {"kind": reason.kind, "reason": reason.reason}
        rows.append({"file": file, **words, "tests": number})
    return {
        "torch": torch.__version__,
        "tests": version,
        "python": platform.python_version(),
        "files": files,
        "reasons": rows,
    }


def count(verdicts: list[Verdict]) -> Counter[str]:
    """Return how many tests had each outcome."""
    return Counter(verdict.outcome for verdict in verdicts)
