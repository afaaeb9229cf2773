"""Run one of PyTorch's test files on simulated GPUs, and note each test's outcome at once.

`python worker.py FILE RECORDS LIMIT NUMBER`: appends two lines of JSON to RECORDS for each
test, before and after it. Tests that RECORDS names are not run again; so whoever sees this
process die starts it again, and loses the one test in which it died. A test that takes more
than LIMIT seconds ends the process. NUMBER is how many tests are run at most; 0 is all.
"""

import faulthandler
import gc
import importlib.util
import json
import os
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TextIO

GPUS = 2
LENGTH = 300  # characters of a reason that are kept


class Outcomes(unittest.TestResult):
    """Writes what comes of each test, and watches its time."""

    def __init__(self, records: TextIO, limit: float) -> None:
        """Outcomes go to `records`; a test has `limit` seconds."""
        super().__init__()
        self._records, self._limit, self._outcome = records, limit, ("", "")

    def startTest(self, test: unittest.TestCase) -> None:
        """Note that it runs."""
        super().startTest(test)
        self._outcome = "passed", ""
        self._write(name_of(test), "running", "")
        faulthandler.dump_traceback_later(self._limit, exit=True)

    def stopTest(self, test: unittest.TestCase) -> None:
        """Note what came of it."""
        faulthandler.cancel_dump_traceback_later()
        gc.set_debug(0)  # one that failed may have left the collector as it set it
        if gc.garbage:
            gc.garbage.clear()
            gc.collect()
        super().stopTest(test)
        self._write(name_of(test), *self._outcome)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        """The file itself leaves it out."""
        self._outcome = "skipped", reason

    def addError(self, test: unittest.TestCase, error: tuple) -> None:
        """It raised. What is no test, such as a class that cannot be set up, has a line too."""
        if isinstance(test, unittest.TestCase):
            self._fail(error)
        else:
            self._write(str(test), "failed", words(error))

    def addFailure(self, test: unittest.TestCase, error: tuple) -> None:
        """It found another result than it expects."""
        self._fail(error)

    def addSubTest(
        self, test: unittest.TestCase, subtest: unittest.TestCase, error: tuple
    ) -> None:
        """A part of it failed, if there is an error."""
        if error is not None:
            self._fail(error)

    def addExpectedFailure(self, test: unittest.TestCase, error: tuple) -> None:
        """It failed, as the file says that it does."""

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        """It passed where the file says that it fails."""
        self._outcome = "failed", "passed where the file expects a failure"

    def _fail(self, error: tuple) -> None:
        self._outcome = "failed", words(error)

    def _write(self, test: str, outcome: str, reason: str) -> None:
        line = {"test": test, "outcome": outcome, "reason": reason[:LENGTH]}
        self._records.write(json.dumps(line) + "\n")
        self._records.flush()


def words(error: tuple) -> str:
    """The kind of an exception, and the first lines that it says."""
    return f"{error[0].__name__}: {' '.join(str(error[1]).split())}"


def name_of(test: unittest.TestCase) -> str:
    """`Class.method`."""
    return ".".join(test.id().split(".")[-2:])


def every(tests: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    """The tests of a suite of suites."""
    for test in tests:
        if isinstance(test, unittest.TestSuite):
            yield from every(test)
        else:
            yield test


def known(records: Path) -> set[str]:
    """The tests that have begun before."""
    if not records.exists():
        return set()
    return {
        json.loads(line)["test"]
        for line in records.read_text(encoding="utf-8").splitlines()
    }


def load(path: Path) -> ModuleType:
    """The test file as the main module, which PyTorch's tests expect to be."""
    spec = importlib.util.spec_from_file_location("__main__", path)
    module = sys.modules["__main__"] = importlib.util.module_from_spec(spec)
    module.__spec__ = None  # so that processes it spawns find it by its path
    spec.loader.exec_module(module)
    return module


def main(file: str, records: str, limit: str, number: str) -> None:
    """Run the tests of `file` that `records` does not name."""
    path, notes = Path(file).resolve(), Path(records).resolve()
    os.environ["PYTORCH_TESTING_DEVICE_ONLY_FOR"] = "cuda"
    os.environ.setdefault("PYTORCH_TEST_WITH_SLOW", "0")
    os.chdir(path.parent)
    sys.path.insert(0, str(path.parent))
    sys.argv = [str(path)]  # PyTorch's tests read the rest
    if importlib.util.find_spec("expecttest") is None:
        stand_in = sys.modules["expecttest"] = ModuleType("expecttest")
        stand_in.TestCase = (
            unittest.TestCase
        )  # all that PyTorch's tests of CUDA need of it
    sys.modules["torchvision"] = (
        None  # one beside another build of torch fails as it is loaded
    )
    import cudasim

    cudasim.enable(gpus=GPUS, force=True)
    from torch.testing._internal import common_utils

    common_utils.run_tests = lambda: None  # what ends each file
    tests = every(unittest.defaultTestLoader.loadTestsFromModule(load(path)))
    done = known(notes)
    left = [test for test in tests if name_of(test) not in done]
    suite = unittest.TestSuite(left[: int(number) or None])
    with notes.open("a", encoding="utf-8") as lines:
        suite.run(Outcomes(lines, float(limit)))


if __name__ == "__main__":
    main(*sys.argv[1:])
