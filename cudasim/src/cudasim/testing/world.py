"""A test in a world: one process for each rank, as `torchrun` has it, and one report."""

import contextlib
import functools
import json
import os
import pickle
import signal
import socket
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen, TimeoutExpired

import pytest

from cudasim.testing import IN_RANK

GRACE = 20  # seconds that the others have once a rank has failed
LINES = 60  # how many of the last lines that a rank printed are shown


@dataclass
class Rank:
    """One process that runs the test, and the files that it writes."""

    number: int
    process: Popen
    reports_path: Path  # a report of the test's set-up, call or teardown on each line
    output_path: Path
    ended: str = ""  # why it was ended from outside

    def reports(self) -> list[dict]:
        lines = self.reports_path.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def failures(self) -> list[str]:
        reports = self.reports()
        return [each["text"] for each in reports if each["outcome"] == "failed"]

    def failed(self) -> bool:
        return bool(self.process.poll() or self.failures())

    def end(self, reason: str) -> None:
        """End the process. Where the system can, it prints first where its threads are."""
        self.ended = reason
        if os.name == "posix":
            self.process.send_signal(signal.SIGABRT)
            with contextlib.suppress(TimeoutExpired):
                self.process.wait(timeout=5)
        self.kill()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def summary(self) -> str:
        """Say how the rank ended, with its failures or the last lines of its output."""
        texts = self.failures()
        if self.ended:
            outcome = self.ended
        elif texts:
            outcome = "failed"
        elif self.process.returncode:
            outcome = f"ended with exit code {self.process.returncode}"
        else:
            outcome = "passed"
        if outcome != "passed" and not texts:  # it had no time for a report
            output = self.output_path.read_text(encoding="utf-8", errors="replace")
            texts = ["\n".join(output.splitlines()[-LINES:])]
        return "\n".join([f"===== rank {self.number}: {outcome} =====", *texts])


def spread(item: pytest.Item, size: int, timeout: float) -> None:
    """Let `item`, with its fixtures, run in `size` processes instead of in this one."""
    item.setup = item.teardown = lambda: None  # type: ignore[method-assign]
    item.runtest = functools.partial(run, item, size, timeout)  # type: ignore[method-assign]


def run(item: pytest.Item, size: int, timeout: float) -> None:
    """Run `item` on `size` ranks; fail if one of them fails, skip if one is skipped.

    After `timeout` seconds, or soon after a rank has failed, those that still run are
    ended.
    """
    with tempfile.TemporaryDirectory(prefix="ranks-") as folder:
        home = Path(folder)
        values = home / "values"  # of options, for all ranks
        values.write_bytes(pickle.dumps(_pickle_options(item.config)))
        port = _free_port()
        ranks = []
        try:
            for number in range(size):
                env = _environment(number, size, port)
                ranks.append(_start(item, number, home, values, env))
            _wait(ranks, timeout)
        finally:
            for rank in ranks:
                rank.kill()
        _report(item, ranks)


def _report(item: pytest.Item, ranks: list[Rank]) -> None:
    if any(rank.ended or rank.failed() for rank in ranks):
        pytest.fail("\n".join(rank.summary() for rank in ranks), pytrace=False)
    for rank in ranks:
        for report in rank.reports():
            if report["outcome"] == "skipped":
                pytest.skip(report["text"])
    if not all(rank.reports() for rank in ranks):
        pytest.fail(f"{item.nodeid}: a rank did not find its test", pytrace=False)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def _environment(number: int, size: int, port: int) -> dict[str, str]:
    """Return the variables of a rank, as torchrun sets them."""
    env = {"OMP_NUM_THREADS": "1", **os.environ}
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        env.pop(name, None)
    return env | {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
        "RANK": str(number),
        "LOCAL_RANK": str(number),
        IN_RANK: "1",
    }


def _start(
    item: pytest.Item, number: int, home: Path, values: Path, env: dict[str, str]
) -> Rank:
    reports = home / f"reports-{number}"
    reports.touch()
    arguments = f"{str(reports)!r}, {str(values)!r}, {_options(item)!r}"
    program = (
        f"import sys; sys.path[:] = {sys.path!r}; "
        f"from cudasim.testing.world import main; sys.exit(main({arguments}))"
    )
    output_path = home / f"output-{number}"
    with output_path.open("wb") as output:
        process = Popen(
            [sys.executable, "-X", "faulthandler", "-c", program],
            cwd=item.config.invocation_params.dir,
            env=env,
            stdin=DEVNULL,
            stdout=output,
            stderr=STDOUT,
        )
    return Rank(number, process, reports, output_path)


def _options(item: pytest.Item) -> list[str]:
    """Return pytest's command line for a rank: the test, and what this process was told."""
    config = item.config
    option = config.option
    options = [f"{item.path}::{item.nodeid.partition('::')[2]}"]
    options += ["-p", "no:cacheprovider", "--runxfail"]
    options += ["--rootdir", str(config.rootpath)]
    options += ["--tb", option.tbstyle]
    options += ["--import-mode", option.importmode]
    if config.inipath is not None:
        options += ["-c", str(config.inipath)]
    for plugin in option.plugins:
        options += ["-p", plugin]
    for warning in option.pythonwarnings or ():
        options += ["-W", warning]
    for setting in (*(option.override_ini or ()), "addopts="):
        options += ["-o", setting]
    return options


def _pickle_options(config: pytest.Config) -> dict[str, bytes]:
    """Return the values of pytest's options, each pickled.

    Values that cannot be pickled are left out; a rank that needs one says so.
    """
    values = {}
    for name, value in vars(config.option).items():
        with contextlib.suppress(Exception):  # pickling may raise any
            values[name] = pickle.dumps(value)
    return values


def _wait(ranks: list[Rank], timeout: float) -> None:
    """Wait until all ranks have ended, and end those that take too long."""
    deadline = time.monotonic() + timeout
    reason = f"ended after its {timeout:g} seconds"
    has_failed = False
    while running := [rank for rank in ranks if rank.process.poll() is None]:
        if not has_failed and any(rank.failed() for rank in ranks):
            has_failed = True
            soon = time.monotonic() + GRACE
            if soon < deadline:
                deadline = soon
                reason = f"waited {GRACE} seconds longer than a rank that failed"
        if time.monotonic() > deadline:
            for rank in running:
                rank.end(reason)
        time.sleep(0.05)


class Recorder:
    """Write each report to a file at once, as the process of a rank may not live long."""

    def __init__(self, path: Path, values: dict[str, bytes]) -> None:
        self.path = path
        self.values = values

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Take over the options that the command line of a rank does not have."""
        known = vars(config.known_args_namespace)
        for name in vars(config.option).keys() - known.keys():
            if name not in self.values:
                problem = f"the option {name!r} has a value that no rank can have"
                raise pytest.UsageError(problem)
            setattr(config.option, name, pickle.loads(self.values[name]))

    def pytest_runtest_logreport(
        self, report: pytest.TestReport | pytest.CollectReport
    ) -> None:
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
