"""Run PyTorch's test files, each in processes of its own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from conformance import ConformanceError

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent / "src"  # where `cudasim` is
# The names of PyTorch's test files, in the order in which they run.
FILES = (
    "test_cuda",
    "test_cuda_multigpu",
    "test_cuda_trace",
    "test_cuda_primary_ctx",
    "test_autocast",
    "test_indexing",
    "test_view_ops",
    "test_serialization",
    "test_torch",
    "test_segment_reductions",
    "test_scatter_gather_ops",
    "test_sort_and_select",
    "test_type_promotion",
    "test_shape_ops",
    "test_tensor_creation_ops",
    "test_reductions",
    "test_binary_ufuncs",
)
# Each test of these files runs in a new process, as PyTorch does it.
ALONE = ("test_cuda_primary_ctx",)
LOADING = "(loading)"  # the name of the test if a file cannot be loaded
RUNNING = "running"  # the outcome of a test that has begun and not ended
TAIL = 300  # characters of an error that are kept
WORDS = 200  # words of a worker's last output that are kept


@dataclass(frozen=True)
class Verdict:
    """The outcome of a test: passed, failed, skipped, crashed, too slow or not run."""

    test: str
    outcome: str
    reason: str


class Records:
    """The file that holds the outcomes of a file's tests, a line of JSON each."""

    def __init__(self, path: Path) -> None:
        """Keep the outcomes of an earlier run, except for the test in which it was stopped."""
        self.path = path
        verdicts = self.read()
        if verdicts and verdicts[-1].outcome == RUNNING:
            path.write_text("", encoding="utf-8")
            for verdict in verdicts[:-1]:
                self.append(verdict)

    def read(self) -> list[Verdict]:
        """Return all lines."""
        if not self.path.exists():
            return []
        lines = self.path.read_text(encoding="utf-8").splitlines()
        return [Verdict(**json.loads(line)) for line in lines]

    def append(self, verdict: Verdict) -> None:
        """Add a line."""
        with self.path.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(asdict(verdict)) + "\n")

    def outcomes(self) -> list[Verdict]:
        """Return the last outcome of each test."""
        last = {}
        for verdict in self.read():
            if verdict.outcome != RUNNING:
                last[verdict.test] = verdict
        return list(last.values())


def find(source: Path, names: list[str]) -> list[Path]:
    """Return the test files `names` of PyTorch's sources, all of FILES if none is named.

    Raises ConformanceError if a name or a file is unknown.
    """
    unknown = ", ".join(sorted(set(names) - set(FILES)))
    if unknown:
        known = ", ".join(FILES)
        raise ConformanceError(f"no file of the list: {unknown}; choose from {known}")

    tests = source / "test"
    paths = [tests / f"{name}.py" for name in names or FILES]
    missing = ", ".join(path.name for path in paths if not path.is_file())
    if missing:
        raise ConformanceError(
            f"{tests} has no {missing}: give the folder of PyTorch's sources, "
            "the tag of the torch in use or what 'apt-get source pytorch' unpacks"
        )
    return paths


def version(source: Path) -> str:
    """Return the version of PyTorch's sources, `unknown` without `version.txt`."""
    path = source / "version.txt"
    if not path.is_file():
        return "unknown"
    return path.read_text(encoding="utf-8").strip()


def run(
    path: Path,
    notes: Path,
    limit: float,
    report: Callable[[str], None],
    left_out: Sequence[str] = (),
) -> list[Verdict]:
    """Return the outcome of each test of the file `path`.

    Outcomes are noted in the file `notes`, and tests that an earlier run has noted there are
    not run again. The tests `left_out` are noted as not run. If a process dies, a new one runs
    the remaining tests, and `report` gets a line about it.
    """
    records = Records(notes)
    noted = {verdict.test for verdict in records.read()}
    for test in left_out:
        if test not in noted:
            records.append(Verdict(test, "not run", ""))

    while True:
        before = len(records.read())
        code, tail = _work(path, notes, limit)
        verdicts = records.read()
        nothing_new = len(verdicts) == before
        if verdicts and verdicts[-1].outcome == RUNNING:
            verdict = _death(verdicts[-1].test, code, tail, limit)
            records.append(verdict)
            report(f"{path.stem}: {verdict.test}: {verdict.outcome}, {verdict.reason}")
        elif code and nothing_new:
            # It died outside of a test, and would do so again.
            records.append(Verdict(LOADING, "failed", tail[-TAIL:]))
            break
        elif not code and (nothing_new or path.stem not in ALONE):
            break
    return records.outcomes()


def _death(test: str, code: int, tail: str, limit: float) -> Verdict:
    if "Timeout" in tail:
        return Verdict(test, "too slow", f"more than {limit:g} s")
    return Verdict(test, "crashed", f"exit status {code}")


def _work(path: Path, notes: Path, limit: float) -> tuple[int, str]:
    """Run a worker; return its exit status and its last output."""
    number = "1" if path.stem in ALONE else "0"
    command = [sys.executable, HERE / "worker.py", path, notes, str(limit), number]
    worker = subprocess.Popen(
        command,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        _, errors = worker.communicate()
    finally:
        # The processes that its tests have started end with it.
        with suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
    words = errors.split()
    return worker.returncode, " ".join(words[-WORDS:])


def _environment() -> dict[str, str]:
    paths = [str(SOURCE)]
    if "PYTHONPATH" in os.environ:
        paths.append(os.environ["PYTHONPATH"])
    variables = {"PYTHONPATH": os.pathsep.join(paths), "CUDASIM_QUIET": "1"}
    return os.environ | variables
