"""A test in a world: one process a rank, as `torchrun` starts them, and one report of all."""

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
LINES = 60  # so many last lines of what a rank printed are shown


@dataclass
class Rank:
    number: int
    process: Popen
    found: Path
    printed: Path
    ended: str = ""  # why it was ended from outside

    def reports(self) -> list[dict]:
        return [
            json.loads(line)
            for line in self.found.read_text(encoding="utf-8").splitlines()
        ]

    def failures(self) -> list[str]:
        return [
            report["text"] for report in self.reports() if report["outcome"] == "failed"
        ]

    def failed(self) -> bool:
        return bool(self.process.poll() or self.failures())

    def end(self, why: str) -> None:
        self.ended = why
        if os.name == "posix":  # it prints first where each of its threads is
            self.process.send_signal(signal.SIGABRT)
            with contextlib.suppress(TimeoutExpired):
                self.process.wait(timeout=5)
        self.kill()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def said(self) -> str:
        texts, code = self.failures(), self.process.returncode
        left = f"ended with exit code {code}" if code else "passed"
        end = self.ended or ("failed" if texts else left)
        if end != "passed" and not texts:  # it had no time to tell: its last words
            words = self.printed.read_text(
                encoding="utf-8", errors="replace"
            ).splitlines()
            texts = ["\n".join(words[-LINES:])]
        return "\n".join([f"===== rank {self.number}: {end} =====", *texts])


def spread(item: pytest.Item, size: int, timeout: float) -> None:
    """Let `item` run in `size` processes, instead of in this one; its fixtures are theirs."""
    item.setup = item.teardown = lambda: None  # type: ignore[method-assign]
    item.runtest = functools.partial(run, item, size, timeout)  # type: ignore[method-assign]


def run(item: pytest.Item, size: int, timeout: float) -> None:
    """Run `item` on `size` ranks; fails if one does, is skipped if one is. After `timeout` seconds,
    or soon after a rank has failed, those that still run are ended."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]  # a free one
    with tempfile.TemporaryDirectory(prefix="ranks-") as folder:
        home = Path(folder)
        values = home / "values"  # of options, for all ranks
        values.write_bytes(pickle.dumps(_values(item.config)))
        world = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": f"{port}"}
        world |= dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), f"{size}")
        ranks = [_start(item, number, home, values, world) for number in range(size)]
        try:
            _wait(ranks, timeout)
        finally:
            for rank in ranks:
                rank.kill()
        if any(rank.ended or rank.failed() for rank in ranks):
            pytest.fail("\n".join(rank.said() for rank in ranks), pytrace=False)
        reports = [report for rank in ranks for report in rank.reports()]
        if skipped := [each for each in reports if each["outcome"] == "skipped"]:
            pytest.skip(skipped[0]["text"])
        if not all(rank.reports() for rank in ranks):
            pytest.fail(f"{item.nodeid}: a rank did not find its test", pytrace=False)


def _start(
    item: pytest.Item, number: int, home: Path, values: Path, world: dict
) -> Rank:
    config, option = item.config, item.config.option
    found, printed = home / f"found-{number}", home / f"printed-{number}"
    options = [
        f"{item.path}::{item.nodeid.partition('::')[2]}",
        "-p",
        "no:cacheprovider",
    ]
    options += ["--runxfail", "--rootdir", str(config.rootpath), "--tb", option.tbstyle]
    options += ["--import-mode", option.importmode]
    options += ["-c", str(config.inipath)] if config.inipath is not None else []
    settings = [*(option.override_ini or ()), "addopts="]
    lists = {"-p": option.plugins, "-W": option.pythonwarnings or (), "-o": settings}
    for name, words in lists.items():
        options += [each for word in words for each in (name, word)]
    program = (
        f"import sys; sys.path[:] = {sys.path!r}; from cudasim.testing.world import main; "
        f"sys.exit(main({str(found)!r}, {str(values)!r}, {options!r}))"
    )
    env = {"OMP_NUM_THREADS": "1", **os.environ}  # as torchrun does
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        env.pop(name, None)
    env |= world | dict.fromkeys(("RANK", "LOCAL_RANK"), f"{number}") | {IN_RANK: "1"}
    found.touch()
    with printed.open("wb") as output:
        command = [sys.executable, "-X", "faulthandler", "-c", program]
        folder = config.invocation_params.dir
        process = Popen(
            command, cwd=folder, env=env, stdin=DEVNULL, stdout=output, stderr=STDOUT
        )
    return Rank(number, process, found, printed)


def _values(config: pytest.Config) -> dict[str, bytes]:
    """The values of pytest's options, each pickled; what cannot be is left out."""
    values = {}
    for name, value in vars(config.option).items():
        with contextlib.suppress(
            Exception
        ):  # pickling raises what it likes; a rank that
            values[name] = pickle.dumps(
                value
            )  # needs the value says that it is not there
    return values


def _wait(ranks: list[Rank], timeout: float) -> None:
    deadline, why = time.monotonic() + timeout, f"ended after its {timeout:g} seconds"
    hurried = False
    while running := [rank for rank in ranks if rank.process.poll() is None]:
        if not hurried and any(rank.failed() for rank in ranks):
            hurried, soon = True, time.monotonic() + GRACE
            if soon < deadline:
                deadline, why = (
                    soon,
                    f"waited {GRACE} seconds longer than a rank that failed",
                )
        if time.monotonic() > deadline:
            for rank in running:
                rank.end(why)
        time.sleep(0.05)


class Recorder:
    """In the process of a rank: writes each report to a file at once, as it may not live long."""

    def __init__(self, path: Path, values: dict[str, bytes]) -> None:
        self.path, self.values = path, values

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        for name in (
            vars(config.option).keys() - vars(config.known_args_namespace).keys()
        ):
            if name not in self.values:
                raise pytest.UsageError(
                    f"the option {name!r} has a value that no rank can have"
                )
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
