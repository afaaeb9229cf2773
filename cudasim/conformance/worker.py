"""Run one of PyTorch's test files on simulated GPUs, and note each test's outcome at once.

`python worker.py FILE NOTES LIMIT NUMBER` appends two lines of JSON to NOTES for each test,
before and after it. Tests that NOTES names are not run again, so a process that dies can be
started again, and only the test in which it died is lost. A test that takes more than LIMIT
seconds ends the process. NUMBER is how many tests are run at most; 0 is all.
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

    def __init__(self, notes: TextIO, limit: float) -> None:
        """Outcomes go to `notes`; a test has `limit` seconds."""
        super().__init__()
        self._notes = notes
        self._limit = limit
        self._outcome = "", ""  # of the test that runs, and the reason

    def startTest(self, test: unittest.TestCase) -> None:
        """Note that it runs."""
        super().startTest(test)
        self._outcome = "passed", ""
        self._write(name_of(test), "running", "")
        faulthandler.dump_traceback_later(self._limit, exit=True)

    def stopTest(self, test: unittest.TestCase) -> None:
        """Note its outcome."""
        faulthandler.cancel_dump_traceback_later()
        gc.set_debug(0)  # a test that failed may have left the collector as it set it
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
        self._notes.write(json.dumps(line) + "\n")
        self._notes.flush()


def words(error: tuple) -> str:
    """Return the class and the message of an exception, in one line."""
    kind, exception, _ = error
    return f"{kind.__name__}: {' '.join(str(exception).split())}"


def name_of(test: unittest.TestCase) -> str:
    """Return `Class.method`."""
    return ".".join(test.id().split(".")[-2:])


def every(tests: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    """Yield the tests of a suite of suites."""
    for test in tests:
        if isinstance(test, unittest.TestSuite):
            yield from every(test)
        else:
            yield test


def begun(notes: Path) -> set[str]:
    """Return the tests that have begun before."""
    if not notes.exists():
        return set()
    lines = notes.read_text(encoding="utf-8").splitlines()
    return {json.loads(line)["test"] for line in lines}


def load(path: Path) -> ModuleType:
    """Load the test file as the main module, which PyTorch's tests expect to be."""
    spec = importlib.util.spec_from_file_location("__main__", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["__main__"] = module
    module.__spec__ = None  # so that processes it spawns find it by its path
    spec.loader.exec_module(module)
    return module


def main(file: str, notes: str, limit: str, number: str) -> None:
    """Run the tests of `file` that `notes` does not name."""
    path = Path(file).resolve()
    notes_path = Path(notes).resolve()
    _prepare(path)

    import cudasim

    cudasim.enable(gpus=GPUS, force=True)
    from torch.testing._internal import common_utils

    common_utils.run_tests = lambda: None  # what ends each file
    tests = every(unittest.defaultTestLoader.loadTestsFromModule(load(path)))
    done = begun(notes_path)
    left = [test for test in tests if name_of(test) not in done]
    suite = unittest.TestSuite(left[: int(number) or None])
    with notes_path.open("a", encoding="utf-8") as lines:
        suite.run(Outcomes(lines, float(limit)))


def _prepare(path: Path) -> None:
    """Make this process what PyTorch's tests expect."""
    os.environ["PYTORCH_TESTING_DEVICE_ONLY_FOR"] = "cuda"
    os.environ.setdefault("PYTORCH_TEST_WITH_SLOW", "0")
    os.chdir(path.parent)
    sys.path.insert(0, str(path.parent))
    sys.argv = [str(path)]  # PyTorch's tests read the rest
    if importlib.util.find_spec("expecttest") is None:
        # All that PyTorch's tests of CUDA need of it is a base class.
        stand_in = ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase
        sys.modules["expecttest"] = stand_in
    # One beside another build of torch fails as it is loaded.
    sys.modules["torchvision"] = None


if __name__ == "__main__":
    main(*sys.argv[1:])
