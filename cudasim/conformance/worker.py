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
    """Writes the outcome of each test, and watches its time."""

    def __init__(self, notes: TextIO, limit: float) -> None:
        """Write outcomes to `notes`, and end the process if a test takes `limit` seconds."""
        super().__init__()
        self._notes = notes
        self._limit = limit
        self._outcome = "", ""  # of the test that runs, and the reason

    def startTest(self, test: unittest.TestCase) -> None:
        """Note that the test runs."""
        super().startTest(test)
        self._outcome = "passed", ""
        self._write(name_of(test), "running", "")
        faulthandler.dump_traceback_later(self._limit, exit=True)

    def stopTest(self, test: unittest.TestCase) -> None:
        """Note the outcome of the test."""
        faulthandler.cancel_dump_traceback_later()
        # A failed test may not have restored the settings of the garbage collector.
        gc.set_debug(0)
        if gc.garbage:
            gc.garbage.clear()
            gc.collect()
        super().stopTest(test)
        self._write(name_of(test), *self._outcome)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        """Note that the file itself skips the test."""
        self._outcome = "skipped", reason

    def addError(self, test: unittest.TestCase, error: tuple) -> None:
        """Note an exception, of a test or of anything else, such as the set-up of a class."""
        if isinstance(test, unittest.TestCase):
            self._fail(error)
        else:
            self._write(str(test), "failed", words(error))

    def addFailure(self, test: unittest.TestCase, error: tuple) -> None:
        """Note a failed assertion."""
        self._fail(error)

    def addSubTest(
        self, test: unittest.TestCase, subtest: unittest.TestCase, error: tuple
    ) -> None:
        """Note the error of a part of the test, if there is one."""
        if error is not None:
            self._fail(error)

    def addExpectedFailure(self, test: unittest.TestCase, error: tuple) -> None:
        """Keep the outcome: the test failed as its file expects."""

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        """Note that the test passed although its file expects a failure."""
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
    """Return the tests that an earlier process has begun."""
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

    # Each file ends with a call of it.
    common_utils.run_tests = lambda: None
    loaded = unittest.defaultTestLoader.loadTestsFromModule(load(path))
    done = begun(notes_path)
    tests = [test for test in every(loaded) if name_of(test) not in done]
    if int(number):
        tests = tests[: int(number)]
    suite = unittest.TestSuite(tests)
    with notes_path.open("a", encoding="utf-8") as lines:
        suite.run(Outcomes(lines, float(limit)))


def _prepare(path: Path) -> None:
    """Make this process what PyTorch's tests expect."""
    os.environ["PYTORCH_TESTING_DEVICE_ONLY_FOR"] = "cuda"
    os.environ.setdefault("PYTORCH_TEST_WITH_SLOW", "0")
    os.chdir(path.parent)
    sys.path.insert(0, str(path.parent))
    # PyTorch's tests would read our arguments.
    sys.argv = [str(path)]
    if importlib.util.find_spec("expecttest") is None:
        # PyTorch's tests of CUDA only need its base class.
        stand_in = ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase
        sys.modules["expecttest"] = stand_in
    # A torchvision for another build of torch fails when it is imported.
    sys.modules["torchvision"] = None


if __name__ == "__main__":
    main(*sys.argv[1:])
