"""The list of reasons why tests of PyTorch do not pass, and the check that it is up to date."""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from conformance import ConformanceError
from conformance.running import Verdict

LISTED = Path(__file__).resolve().parent / "reasons.toml"
KEYS = {"kind", "reason", "tests"}
KINDS = ("hardware", "test version", "difference")
PASSED = ("passed", "skipped")


@dataclass(frozen=True)
class Reason:
    """Why some tests do not pass. A test is named `file::Class.test`, where `*` is a wildcard.

    With `run` False the tests are not started, because they would only run into the time limit.
    Their names have no wildcards.
    """

    kind: str
    reason: str
    tests: tuple[str, ...]
    run: bool = True

    def covers(self, name: str) -> bool:
        """Return whether the test with that name is one of them."""
        return any(fnmatchcase(name, pattern) for pattern in self.tests)


def read(path: Path = LISTED) -> list[Reason]:
    """Read the list. Raises ConformanceError where its form is wrong."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ConformanceError(f"{path.name}: no TOML: {error}") from None

    reasons = []
    for number, entry in enumerate(content.get("reason", []), 1):
        fault = _fault(entry)
        if fault:
            raise ConformanceError(f"{path.name}: entry {number}: {fault}")
        fields = entry | {"tests": tuple(entry["tests"])}
        reasons.append(Reason(**fields))
    return reasons


def _fault(entry: Any) -> str | None:
    """Return what is wrong with an entry of the list, None if nothing is."""
    if not isinstance(entry, dict) or set(entry) - {"run"} != KEYS:
        return "say kind, reason and tests, no more"
    run = entry.get("run", True)
    patterns = any("*" in name for name in entry["tests"])
    if not isinstance(run, bool) or (not run and patterns):
        return "run is true, or false for full names"
    if entry["kind"] not in KINDS:
        return f"kind is one of {', '.join(KINDS)}"
    if not str(entry["reason"]).strip() or not entry["tests"]:
        return "give the reason, and the tests"
    return None


def find(name: str, reasons: Iterable[Reason]) -> Reason | None:
    """Return the reason for the test `file::Class.test`, if there is one."""
    for reason in reasons:
        if reason.covers(name):
            return reason
    return None


def left_out(file: str, reasons: Iterable[Reason]) -> list[str]:
    """Return the tests of `file` that are not run."""
    tests = []
    for reason in reasons:
        if reason.run:
            continue
        for name in reason.tests:
            where, test = name.split("::")
            if where == file:
                tests.append(test)
    return tests


def unexplained(
    file: str, verdicts: Iterable[Verdict], reasons: list[Reason]
) -> list[Verdict]:
    """Return the tests of `file` that do not pass and have no reason."""
    failures = []
    for verdict in verdicts:
        name = f"{file}::{verdict.test}"
        if verdict.outcome not in PASSED and find(name, reasons) is None:
            failures.append(verdict)
    return failures


def outdated(verdicts: dict[str, list[Verdict]], reasons: list[Reason]) -> list[str]:
    """Return names in the list under which every test passes, of the files that ran."""
    failures = []
    for file, file_verdicts in verdicts.items():
        for verdict in file_verdicts:
            if verdict.outcome not in PASSED:
                failures.append(f"{file}::{verdict.test}")

    patterns = []
    for reason in reasons:
        for pattern in reason.tests:
            file, _, _ = pattern.partition("::")
            if file in verdicts and not any(
                fnmatchcase(name, pattern) for name in failures
            ):
                patterns.append(pattern)
    return patterns
