"""What runs in the process of one rank: its test alone, and a file that says how it went."""

import json
import pickle
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


class Options:
    """Gives the options that a project's `conftest.py` adds the values that they have outside."""

    def __init__(self, values: dict[str, bytes]) -> None:
        """`values` of options by name, each pickled."""
        self.values = values

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Before the project reads them."""
        for name in vars(config.option).keys() - vars(config.known_args_namespace).keys():
            if name not in self.values:
                raise pytest.UsageError(f"the option {name!r} has a value that no rank can have")
            setattr(config.option, name, pickle.loads(self.values[name]))


def main(path: str, values: str, options: list[str]) -> int:
    """Run pytest with `options`, reports to the file `path`; returns pytest's exit code.

    `values` is the file with what the options of the project's own are.
    """
    own = Options(pickle.loads(Path(values).read_bytes()))
    return int(pytest.main(options, plugins=[Recorder(Path(path)), own]))
