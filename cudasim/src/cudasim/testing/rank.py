"""What runs in the process of one rank: its test alone, and a file that says how it went."""

import json
from pathlib import Path

import pytest


class Recorder:
    """Writes each report to a file as soon as it is there: the process may not live long."""

    def __init__(self, path: Path) -> None:
        """Write to `path`, a line of JSON for each report."""
        self.path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Of set-up, call and tear-down."""
        text = report.longreprtext
        if report.skipped and isinstance(report.longrepr, tuple):
            text = str(report.longrepr[2]).removeprefix("Skipped: ")
        for title, printed in report.sections:
            text += f"\n----- {title} -----\n{printed}"
        self.write(report.outcome, text)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Of a file that could not be imported."""
        if report.failed:
            self.write(report.outcome, report.longreprtext)

    def write(self, outcome: str, text: str) -> None:
        """Add a line to the file."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"outcome": outcome, "text": text}) + "\n")


def main(path: str, options: list[str]) -> int:
    """Run pytest with `options`, reports to `path`; returns pytest's exit code."""
    return int(pytest.main(options, plugins=[Recorder(Path(path))]))
