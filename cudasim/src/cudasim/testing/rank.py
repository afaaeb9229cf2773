"""What runs in the process of one rank: its test alone, and a file that says how it went."""

import json
import pickle
from pathlib import Path

import pytest


class Recorder:
    """Writes each report to a file, at once: the process may not live long."""

    def __init__(self, path: Path, values: dict[str, bytes]) -> None:
        self.path, self.values = path, values

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        for name in vars(config.option).keys() - vars(config.known_args_namespace).keys():
            if name not in self.values:
                raise pytest.UsageError(f"the option {name!r} has a value that no rank can have")
            setattr(config.option, name, pickle.loads(self.values[name]))

    def pytest_runtest_logreport(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        text = report.longreprtext
        if report.skipped and isinstance(report.longrepr, tuple):
            text = str(report.longrepr[2]).removeprefix("Skipped: ")
        for title, printed in report.sections:
            text += f"\n----- {title} -----\n{printed}"
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"outcome": report.outcome, "text": text}) + "\n")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:  # a file that could not be imported
            self.pytest_runtest_logreport(report)


def main(path: str, values: str, options: list[str]) -> int:
    recorder = Recorder(Path(path), pickle.loads(Path(values).read_bytes()))
    return int(pytest.main(options, plugins=[recorder]))
