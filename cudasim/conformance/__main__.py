"""Run PyTorch's own tests of CUDA, unmodified, on two simulated GPUs.

The sources of PyTorch are no part of this project. Take the tag of the torch in use, or what a
distribution has: Debian's source package of PyTorch holds an older, whole `test` folder (with a
`deb-src` line, `apt-get source --download-only pytorch`, then unpack the `orig` archive).
"""

import argparse
import json
import platform
import signal
import sys
from collections import Counter
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path[0] = str(PROJECT)  # where the package `conformance` is

LIMIT = 600  # seconds for one test: those that end take a tenth of it on two slow cores
RECORDS = Path("_build/conformance")
ENDINGS = (signal.SIGINT, signal.SIGTERM)


def stop(number: int, _: object) -> None:
    """Leave, once, at Ctrl-C or `kill`; on the way out the worker is ended."""
    for each in ENDINGS:
        signal.signal(each, signal.SIG_IGN)  # a second one would leave the worker behind
    sys.exit(128 + number)


def main() -> str | None:
    """Run the files, and write what came of them; returns what is wrong, in one text."""
    for each in ENDINGS:
        signal.signal(each, stop)
    parser = argparse.ArgumentParser(
        prog="python cudasim/conformance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", type=Path, help="the folder of PyTorch's sources")
    parser.add_argument("files", nargs="*", metavar="FILE", help="test_cuda, ...; all if none")
    parser.add_argument("--resume", action="store_true", help="go on where a run was stopped")
    parser.add_argument("--records", type=Path, default=RECORDS, help=f"its outcomes ({RECORDS})")
    parser.add_argument("--json", type=Path, help="write counts and reasons to this file")
    parser.add_argument("--limit", type=float, default=LIMIT, help=f"seconds a test ({LIMIT})")
    options = parser.parse_args()
    from conformance import reasons, running

    try:
        listed = reasons.read()
        paths = running.find(options.source, options.files)
    except (reasons.BadReasons, running.BadSource) as error:
        return str(error)
    options.records.mkdir(parents=True, exist_ok=True)
    found = {}
    for path in paths:
        print(f"{path.stem} ...", flush=True)
        notes = options.records / f"{path.stem}.jsonl"
        if not options.resume:
            notes.unlink(missing_ok=True)
        found[path.stem] = running.run(
            path, notes, options.limit, print, reasons.left_out(path.stem, listed)
        )
        print(f"{path.stem}: {_words(running.counts(found[path.stem]))}", flush=True)
    if options.json:
        summary = _summary(found, listed, running.version(options.source))
        options.json.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    faults = [
        f"{file}::{each.test}: {each.outcome}, no reason in reasons.toml: {each.reason}"
        for file, verdicts in found.items()
        for each in reasons.unexplained(file, verdicts, listed)
    ]
    if not options.files:
        gone = reasons.outdated(found, listed)
        faults += [f"{name}: passes, take it out of reasons.toml" for name in gone]
    return "\n".join(faults) or None


def _words(counts: Counter) -> str:
    return ", ".join(f"{number} {outcome}" for outcome, number in counts.most_common())


def _summary(found: dict, listed: list, version: str) -> dict:
    """Versions, counts for each file, and every reason with how many tests it explains."""
    import torch

    from conformance import reasons, running

    files, explained = [], Counter()
    for file, verdicts in found.items():
        counts = running.counts(verdicts)
        kept = {name: counts[name] for name in ("passed", "skipped", "not run")}
        total = len(verdicts)
        failed = total - sum(kept.values())
        files.append({"file": file, "total": total, **kept, "failed": failed})
        for each in verdicts:
            reason = reasons.find(f"{file}::{each.test}", listed)
            if each.outcome not in reasons.PASSED and reason is not None:
                explained[reason, file] += 1
    return {
        "torch": torch.__version__,
        "tests": version,
        "python": platform.python_version(),
        "files": files,
        "reasons": [
            {"file": file, "kind": each.kind, "reason": each.reason, "tests": number}
            for (each, file), number in explained.items()
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
