"""All of PyTorch's test files, one after another, and what is kept of what came of them."""

import platform
from collections import Counter
from pathlib import Path

import torch

from conformance import reasons, running


def run(
    source: Path, names: list[str], outcomes: Path, resume: bool, limit: float
) -> tuple[dict, list[str]]:
    """(what was found, for the tables; what is wrong with it, a line each) of the files `names`.

    All of them if none is named. Outcomes are noted in the folder `outcomes` as they come, and
    `resume` goes on from those. A test has `limit` seconds. Raises BadSource and BadReasons.
    """
    listed = reasons.read()
    paths = running.find(source, names)
    outcomes.mkdir(parents=True, exist_ok=True)
    found = {}
    for path in paths:
        print(f"{path.stem} ...", flush=True)
        notes = outcomes / f"{path.stem}.jsonl"
        if not resume:
            notes.unlink(missing_ok=True)
        left_out = reasons.left_out(path.stem, listed)
        found[path.stem] = running.run(path, notes, limit, print, left_out)
        counts = running.counts(found[path.stem]).most_common()
        words = ", ".join(f"{number} {outcome}" for outcome, number in counts)
        print(f"{path.stem}: {words}", flush=True)
    faults = [
        f"{file}::{verdict.test}: {verdict.outcome}, no reason in reasons.toml: {verdict.reason}"
        for file, verdicts in found.items()
        for verdict in reasons.unexplained(file, verdicts, listed)
    ]
    if not names:
        gone = reasons.outdated(found, listed)
        faults += [f"{name}: passes, take it out of reasons.toml" for name in gone]
    return summary(found, listed, running.version(source)), faults


def summary(found: dict, listed: list, version: str) -> dict:
    """Versions, counts for each file, and every reason with how many tests it explains."""
    files, explained = [], Counter()
    for file, verdicts in found.items():
        counts = running.counts(verdicts)
        kept = {name: counts[name] for name in ("passed", "skipped", "not run")}
        total = len(verdicts)
        failed = total - sum(kept.values())
        files.append({"file": file, "total": total, **kept, "failed": failed})
        for verdict in verdicts:
            reason = reasons.find(f"{file}::{verdict.test}", listed)
            if verdict.outcome not in reasons.PASSED and reason is not None:
                explained[reason, file] += 1
    return {
        "torch": torch.__version__,
        "tests": version,
        "python": platform.python_version(),
        "files": files,
        "reasons": [
            {
                "file": file,
                "kind": reason.kind,
                "reason": reason.reason,
                "tests": number,
            }
            for (reason, file), number in explained.items()
        ],
    }
