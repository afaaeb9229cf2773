"""Other projects' own tests, from their sources, without a GPU and on two simulated ones.

`suites.toml` names the files of each project, and says why a test fails that a card might pass.
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
OPTIONS = ("-q", "-p", "no:cacheprovider", "-o", "addopts=")  # of pytest
ENDED = (0, 1)  # codes of pytest: all tests ran, whether they passed or not

Outcomes = dict[str, str]  # of tests by name: passed, failed or skipped


def run(argument: str) -> dict[str, Any]:
    """Return the outcome of a project's tests, given as `project=folder of its sources`.

    Raises FactsError for another project or folder, where pytest could not begin, and for a
    test that fails on simulated GPUs alone and has no reason in the list.
    """
    project, _, folder = argument.partition("=")
    suite = tomllib.loads(LISTED.read_text(encoding="utf-8")).get(project)
    if suite is None:
        raise FactsError(f"{project}: not a project of {LISTED.name}; add it there")
    sources = Path(folder or project)
    first = suite["tests"][0]
    if not (sources / first).exists():
        raise FactsError(
            f"{argument}: no {first} there; name the folder of its sources"
        )
    try:
        installed = version(suite.get("package", project))
    except PackageNotFoundError:
        raise FactsError(f"{project}: not installed; {suite['install']}") from None

    plain = run_tests(sources, suite, gpus=0)
    simulated = run_tests(sources, suite, gpus=GPUS)
    counts = count(plain, simulated, suite.get("reasons", {}))
    return {"project": project, "version": installed, **counts}


def count(
    plain: Outcomes, simulated: Outcomes, reasons: dict[str, list[str]]
) -> dict[str, Any]:
    """Return the figures of a project: its tests without a GPU, and on simulated ones.

    `reasons` has patterns of names of tests by reason. Raises FactsError for a test that
    fails on simulated GPUs alone and has none.
    """
    failed = _named(simulated, "failed")
    anyway = failed & _named(plain, "failed")

    explained = []
    without_reason = failed - anyway
    for reason, patterns in reasons.items():
        tests = {name for name in without_reason if _matches(name, patterns)}
        without_reason -= tests
        if tests:
            explained.append([len(tests), reason])
    if without_reason:
        lines = [
            f"{name}: failed, no reason in {LISTED.name}"
            for name in sorted(without_reason)
        ]
        raise FactsError("\n".join(lines))

    ran = set(simulated) - _named(simulated, "skipped")
    ran_before = set(plain) - _named(plain, "skipped")
    return {
        "alone": len(_named(plain, "passed")),
        "passed": len(_named(simulated, "passed")),
        "thanks": len(ran - ran_before),
        "failed": sum(number for number, _ in explained),
        "anyway": len(anyway),
        "reasons": explained,
    }


def _named(outcomes: Outcomes, wanted: str) -> set[str]:
    return {name for name, outcome in outcomes.items() if outcome == wanted}


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def run_tests(folder: Path, suite: dict[str, Any], gpus: int) -> Outcomes:
    """Run a project's tests with so many simulated GPUs."""
    simulating = ["cudasim", "--gpus", str(gpus), "-m"] if gpus else []
    ignored = [f"--ignore={name}" for name in suite.get("without", {})]
    with tempfile.TemporaryDirectory() as place:
        report = Path(place, "report.xml")
        command = [sys.executable, "-m", *simulating, "pytest", *suite["tests"]]
        command += [*OPTIONS, *suite.get("options", []), *ignored]
        command.append(f"--junitxml={report}")
        variables = os.environ | _environment() | suite.get("environment", {})
        done = subprocess.run(command, cwd=folder, env=variables, check=False)
        if done.returncode not in ENDED:
            raise FactsError(
                f"{folder}: pytest ended with {done.returncode}; see above"
            )
        return _read_report(report)


def _environment() -> dict[str, str]:
    """Return the variables with which what a suite starts sees this Python and the GPUs."""
    # A `sitecustomize` in the first enables cudasim in every Python that is started.
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
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            outcome = "failed"
        elif "skipped" in kinds:
            outcome = "skipped"
        else:
            outcome = "passed"
        outcomes[f"{case.get('classname')}::{case.get('name')}"] = outcome
    return outcomes
