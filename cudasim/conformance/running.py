"""Run PyTorch's test files, each in processes of its own."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent / "src"  # where `cudasim` is
FILES = (
    *("test_cuda", "test_cuda_multigpu", "test_cuda_trace", "test_cuda_primary_ctx"),
    *(
        "test_autocast",
        "test_indexing",
        "test_view_ops",
        "test_serialization",
        "test_torch",
    ),
    *("test_segment_reductions", "test_scatter_gather_ops", "test_sort_and_select"),
    *(
        "test_type_promotion",
        "test_shape_ops",
        "test_tensor_creation_ops",
        "test_reductions",
    ),
    "test_binary_ufuncs",
)
ALONE = (
    "test_cuda_primary_ctx",
)  # each test in a process of its own, as PyTorch does it
LOADING = "(loading)"  # what stands for a test where a file cannot even be loaded
TAIL = 300  # characters of an error that are kept


class BadSource(Exception):
    """The folder holds no tests of PyTorch: one line that says what to give."""


@dataclass(frozen=True)
class Verdict:
    """What came of one test: passed, failed, skipped, crashed, too slow or not run, and why."""

    test: str
    outcome: str
    reason: str


def find(source: Path, names: list[str]) -> list[Path]:
    """The test files `names` of PyTorch's sources, all of FILES if none is named."""
    tests = source / "test"
    unknown = sorted(set(names) - set(FILES))
    if unknown:
        raise BadSource(
            f"no file of the list: {', '.join(unknown)}; choose from {', '.join(FILES)}"
        )
    paths = [tests / f"{name}.py" for name in names or FILES]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise BadSource(
            f"{tests} has no {', '.join(missing)}: give the folder of PyTorch's sources, the tag "
            "of the torch in use or what 'apt-get source pytorch' unpacks"
        )
    return paths


def version(source: Path) -> str:
    """The version of PyTorch's sources, from their `version.txt`; `unknown` if there is none."""
    path = source / "version.txt"
    return path.read_text(encoding="utf-8").strip() if path.is_file() else "unknown"


def run(
    path: Path,
    records: Path,
    limit: float,
    told: Callable[[str], None],
    left_out: Sequence[str] = (),
) -> list[Verdict]:
    """What came of each test of the file `path`; `records` is where an earlier run got to.

    Those of `left_out` are noted as not run.
    A process that dies is started again for the tests that are left. `told` gets a line of
    progress at each death.
    """
    _forget_interrupted(records)
    for test in left_out:
        if test not in {line["test"] for line in _lines(records)}:
            _append(records, {"test": test, "outcome": "not run", "reason": ""})
    while True:
        before = len(_lines(records))
        code, tail = _work(path, records, limit)
        lines = _lines(records)
        running = (
            lines[-1]["test"] if lines and lines[-1]["outcome"] == "running" else None
        )
        if running is not None:
            outcome = "too slow" if "Timeout" in tail else "crashed"
            why = (
                f"more than {limit:g} s"
                if outcome == "too slow"
                else f"exit status {code}"
            )
            _append(records, {"test": running, "outcome": outcome, "reason": why})
            told(f"{path.stem}: {running}: {outcome}, {why}")
        elif code:
            if len(lines) == before:  # it died outside of a test, and would again
                _append(
                    records,
                    {"test": LOADING, "outcome": "failed", "reason": tail[-TAIL:]},
                )
                break
        elif path.stem not in ALONE or len(lines) == before:
            break
    lines = [line for line in _lines(records) if line["outcome"] != "running"]
    return [Verdict(**each) for each in {line["test"]: line for line in lines}.values()]


def _work(path: Path, records: Path, limit: float) -> tuple[int, str]:
    """The exit status of one worker, and the last that it said."""
    command = [
        sys.executable,
        str(HERE / "worker.py"),
        str(path),
        str(records),
        str(limit),
    ]
    command.append("1" if path.stem in ALONE else "0")
    before = os.environ.get("PYTHONPATH")
    paths = os.pathsep.join([str(SOURCE), *([before] if before else [])])
    worker = subprocess.Popen(
        command,
        env=os.environ | {"PYTHONPATH": paths, "CUDASIM_QUIET": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        _, said = worker.communicate()
    finally:
        try:
            os.killpg(worker.pid, signal.SIGKILL)  # and what its tests have started
        except ProcessLookupError:
            pass
        worker.wait()
    return worker.returncode, " ".join(said.split()[-200:]) if said else ""


def _lines(records: Path) -> list[dict]:
    if not records.exists():
        return []
    return [
        json.loads(line) for line in records.read_text(encoding="utf-8").splitlines()
    ]


def _forget_interrupted(records: Path) -> None:
    """Take out the test in which an earlier run was stopped, so that it runs again."""
    lines = _lines(records)
    if lines and lines[-1]["outcome"] == "running":
        kept = "".join(json.dumps(line) + "\n" for line in lines[:-1])
        records.write_text(kept, encoding="utf-8")


def _append(records: Path, line: dict) -> None:
    with records.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(line) + "\n")


def counts(verdicts: list[Verdict]) -> Counter:
    """How many tests had each outcome."""
    return Counter(each.outcome for each in verdicts)
