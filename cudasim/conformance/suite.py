"""Run PyTorch's test files one after another, and sum up their outcomes."""

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

    Outcomes are noted in the folder `outcomes` as they come, and `resume` continues from there.
    A test may take `limit` seconds. Raises ConformanceError.
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
        _print_counts(path.stem, verdicts[path.stem])

    faults = _without_reason(verdicts, listed)
    if not names:
        for name in reasons.outdated(verdicts, listed):
            faults.append(f"{name}: passes, take it out of reasons.toml")
    return summary(verdicts, listed, running.version(source)), faults


def _print_counts(file: str, verdicts: list[Verdict]) -> None:
    texts = []
    for outcome, number in count(verdicts).most_common():
        texts.append(f"{number} {outcome}")
    joined = ", ".join(texts)
    print(f"{file}: {joined}", flush=True)


def _without_reason(verdicts: Verdicts, listed: list[Reason]) -> list[str]:
    faults = []
    for file, file_verdicts in verdicts.items():
        for verdict in reasons.unexplained(file, file_verdicts, listed):
            outcome = f"{verdict.outcome}, no reason in reasons.toml: {verdict.reason}"
            faults.append(f"{file}::{verdict.test}: {outcome}")
    return faults


def summary(verdicts: Verdicts, listed: list[Reason], version: str) -> dict[str, Any]:
    """Return versions, counts for each file, and each reason with its number of tests."""
    files = []
    explained = []
    for file, file_verdicts in verdicts.items():
        files.append(_file_summary(file, file_verdicts))
        explained += _explained(file, file_verdicts, listed)
    return {
        "torch": torch.__version__,
        "tests": version,
        "python": platform.python_version(),
        "files": files,
        "reasons": explained,
    }


def _file_summary(file: str, verdicts: list[Verdict]) -> dict[str, Any]:
    counts = count(verdicts)
    row: dict[str, Any] = {"file": file, "total": len(verdicts)}
    failed = len(verdicts)
    for outcome in ("passed", "skipped", "not run"):
        row[outcome] = counts[outcome]
        failed -= counts[outcome]
    row["failed"] = failed  # or crashed, or too slow
    return row


def _explained(
    file: str, verdicts: list[Verdict], listed: list[Reason]
) -> list[dict[str, Any]]:
    """Return the reasons that explain tests of a file, each with their number."""
    numbers: Counter[Reason] = Counter()
    for verdict in verdicts:
        reason = reasons.find(f"{file}::{verdict.test}", listed)
        if verdict.outcome not in reasons.PASSED and reason is not None:
            numbers[reason] += 1

    rows = []
    for reason, number in numbers.items():
        row = {
            "file": file,
            "kind": reason.kind,
            "reason": reason.reason,
            "tests": number,
        }
        rows.append(row)
    return rows


def count(verdicts: list[Verdict]) -> Counter[str]:
    """Return how many tests had each outcome."""
    return Counter(verdict.outcome for verdict in verdicts)
