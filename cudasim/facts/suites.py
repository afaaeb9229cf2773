"""Other projects' own tests, run from their sources without a GPU and on two simulated ones.

`suites.toml` lists the test files of each project, and the reasons why some tests fail.
"""

import fnmatch
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import cudasim
from facts import FactsError

LISTED = Path(__file__).with_name("suites.toml")
PACKAGE = Path(cudasim.__file__).resolve().parent
GPUS = 2
PYTEST_OPTIONS = ("-q", "-p", "no:cacheprovider", "-o", "addopts=")
# Exit codes with which pytest says that all tests ran, whether they passed or not.
ALL_RAN = (0, 1)

Outcomes = dict[str, str]  # of tests by name: passed, failed or skipped


def run(argument: str) -> dict[str, Any]:
    """Return the outcome of a project's tests, given as `project=folder of its sources`.

    Raises FactsError if the project is not listed, not in that folder or not installed, if
    pytest could not begin, and if a test fails on simulated GPUs alone without a listed reason.
    """
    project, _, folder = argument.partition("=")
    suite = _listed(project)
    sources = Path(folder or project)
    first = suite["tests"][0]
    if not (sources / first).exists():
        text = f"{argument}: no {first} there; name the folder of its sources"
        raise FactsError(text)

    try:
        installed = version(suite.get("package", project))
    except PackageNotFoundError:
        raise FactsError(f"{project}: not installed; {suite['install']}") from None

    plain = run_tests(sources, suite, gpus=0)
    simulated = run_tests(sources, suite, gpus=GPUS)
    counts = count(plain, simulated, suite.get("reasons", {}))
    return {"project": project, "version": installed, **counts}


def _listed(project: str) -> dict[str, Any]:
    """Return what the list says of a project. Raises FactsError."""
    listed = tomllib.loads(LISTED.read_text(encoding="utf-8"))
    if project not in listed:
        raise FactsError(f"{project}: not a project of {LISTED.name}; add it there")
    return listed[project]


def count(
    plain: Outcomes, simulated: Outcomes, reasons: dict[str, list[str]]
) -> dict[str, Any]:
    """Return the figures of a project: its tests without a GPU, and on simulated ones.

    `reasons` holds the patterns of test names that each reason covers. Raises FactsError for
    a test that fails on simulated GPUs alone and has no reason.
    """
    failed = _with_outcome(simulated, "failed")
    failed_anyway = failed & _with_outcome(plain, "failed")
    failed_on_gpus = failed - failed_anyway
    explained = _explain(failed_on_gpus, reasons)

    passed = _with_outcome(simulated, "passed")
    passed_alone = _with_outcome(plain, "passed")
    ran_thanks_to_gpus = _ran(simulated) - _ran(plain)
    return {
        "alone": len(passed_alone),
        "passed": len(passed),
        "thanks": len(ran_thanks_to_gpus),
        "failed": len(failed_on_gpus),
        "anyway": len(failed_anyway),
        "reasons": explained,
    }


def _ran(outcomes: Outcomes) -> set[str]:
    return set(outcomes) - _with_outcome(outcomes, "skipped")


def _explain(failed: set[str], reasons: dict[str, list[str]]) -> list[list]:
    """Return [number of tests, reason] for each reason that covers some of the tests.

    A test counts for the first reason only. Raises FactsError if one has no reason.
    """
    explained = []
    for reason, patterns in reasons.items():
        tests = {name for name in failed if _matches(name, patterns)}
        failed = failed - tests
        if tests:
            explained.append([len(tests), reason])

    if failed:
        names = sorted(failed)
        lines = [f"{name}: failed, no reason in {LISTED.name}" for name in names]
        raise FactsError("\n".join(lines))
    return explained


def _with_outcome(outcomes: Outcomes, wanted: str) -> set[str]:
    return {name for name, outcome in outcomes.items() if outcome == wanted}


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def run_tests(folder: Path, suite: dict[str, Any], gpus: int) -> Outcomes:
    """Run a project's tests on `gpus` simulated GPUs. Raises FactsError if pytest cannot."""
    variables = os.environ | _environment()
    variables |= suite.get("environment", {})
    with tempfile.TemporaryDirectory() as temporary:
        report = Path(temporary, "report.xml")
        command = _command(suite, gpus, report)
        done = subprocess.run(command, cwd=folder, env=variables, check=False)
        if done.returncode not in ALL_RAN:
            text = f"{folder}: pytest ended with {done.returncode}; see above"
            raise FactsError(text)
        return _read_report(report)


def _command(suite: dict[str, Any], gpus: int, report: Path) -> list[str]:
    """Return the command line that runs a suite and writes a report."""
    command = [sys.executable, "-m"]
    if gpus:
        command += ["cudasim", "--gpus", str(gpus), "-m"]
    command += ["pytest", *suite["tests"], *PYTEST_OPTIONS]
    command += suite.get("options", [])
    for name in suite.get("without", {}):
        command.append(f"--ignore={name}")
    command.append(f"--junitxml={report}")
    return command


def _environment() -> dict[str, str]:
    """Return variables that let the processes of a suite see this Python and the GPUs."""
    # The first folder has a `sitecustomize` that enables cudasim in every new Python.
    paths = [str(PACKAGE / "inherit"), str(PACKAGE.parent)]
    if os.environ.get("PYTHONPATH"):
        paths.append(os.environ["PYTHONPATH"])
    programs = [os.path.dirname(sys.executable), os.environ["PATH"]]
    return {
        "PYTHONPATH": os.pathsep.join(paths),
        "PATH": os.pathsep.join(programs),
        "HF_HUB_OFFLINE": "1",
    }


def _read_report(path: Path) -> Outcomes:
    """Return the outcomes in a JUnit report."""
    outcomes = {}
    root = ElementTree.parse(path).getroot()
    for case in root.iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        tags = {child.tag for child in case}
        if tags & {"failure", "error"}:
            outcomes[name] = "failed"
        elif "skipped" in tags:
            outcomes[name] = "skipped"
        else:
            outcomes[name] = "passed"
    return outcomes
