"""Why tests of PyTorch do not pass: the list of reasons, and what it lacks or has too much."""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from conformance.running import Verdict

LISTED = Path(__file__).resolve().parent / "reasons.toml"
KINDS = ("hardware", "test version", "difference")
PASSED = ("passed", "skipped")


class BadReasons(Exception):
    """A fault in the list, in one line that names the entry and the mend."""


@dataclass(frozen=True)
class Reason:
    """Why some tests do not pass; each is named as `file::Class.test`, `*` for any letters.

    Those with `run` False, named in full, are not even started: they would use up their time.
    """

    kind: str
    reason: str
    tests: tuple[str, ...]
    run: bool = True

    def covers(self, name: str) -> bool:
        """Whether the test with that name is one of them."""
        return any(fnmatchcase(name, pattern) for pattern in self.tests)


def read(path: Path = LISTED) -> list[Reason]:
    """The list. Raises BadReasons for another form."""
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8")).get("reason", [])
    except tomllib.TOMLDecodeError as error:
        raise BadReasons(f"{path.name}: no TOML: {error}") from None
    found = []
    for number, each in enumerate(entries, 1):
        if not isinstance(each, dict) or set(each) - {"run"} != {
            "kind",
            "reason",
            "tests",
        }:
            raise BadReasons(
                f"{path.name}: entry {number}: say kind, reason and tests, no more"
            )
        if not isinstance(each.get("run", True), bool) or (
            not each.get("run", True) and any("*" in name for name in each["tests"])
        ):
            raise BadReasons(
                f"{path.name}: entry {number}: run is true, or false for full names"
            )
        if each["kind"] not in KINDS:
            raise BadReasons(
                f"{path.name}: entry {number}: kind is one of {', '.join(KINDS)}"
            )
        if not str(each["reason"]).strip() or not each["tests"]:
            raise BadReasons(
                f"{path.name}: entry {number}: give the reason, and the tests"
            )
        found.append(Reason(**each | {"tests": tuple(each["tests"])}))
    return found


def find(name: str, listed: Iterable[Reason]) -> Reason | None:
    """The reason for the test `file::Class.test`, if there is one."""
    return next((each for each in listed if each.covers(name)), None)


def left_out(file: str, listed: Iterable[Reason]) -> list[str]:
    """The tests of `file` that are not run."""
    names = [name.split("::") for each in listed if not each.run for name in each.tests]
    return [test for where, test in names if where == file]


def unexplained(
    file: str, verdicts: Iterable[Verdict], listed: list[Reason]
) -> list[Verdict]:
    """The tests of `file` that do not pass and have no reason."""
    return [
        each
        for each in verdicts
        if each.outcome not in PASSED and find(f"{file}::{each.test}", listed) is None
    ]


def outdated(found: dict[str, list[Verdict]], listed: list[Reason]) -> list[str]:
    """Names in the list under which every test passes, of the files that were run."""
    failed = [
        f"{file}::{each.test}"
        for file, verdicts in found.items()
        for each in verdicts
        if each.outcome not in PASSED
    ]
    return [
        pattern
        for reason in listed
        for pattern in reason.tests
        if pattern.partition("::")[0] in found
        and not any(fnmatchcase(name, pattern) for name in failed)
    ]
