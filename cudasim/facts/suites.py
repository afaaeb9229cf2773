"""Other projects' own tests, from their sources, without a GPU and on two simulated ones.

`suites.toml` names the files of each project, and says why a test fails that a card might pass.
"""

import fnmatch
import os
import subprocess
import sys
import tempfile
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import cudasim
from facts.errors import CannotRun

LISTED = Path(__file__).with_name("suites.toml")
PACKAGE = Path(cudasim.__file__).resolve().parent
ENDED = (0, 1)  # codes of pytest: all tests ran, whether they passed or not


def run(given: str) -> dict[str, Any]:
    """What came of a project's tests: `project=folder of its sources`.

    Raises CannotRun for another project or folder, where pytest could not begin, and for a test
    that fails on simulated GPUs alone and has no reason in the list.
    """
    project, _, folder = given.partition("=")
    about = tomllib.loads(LISTED.read_text(encoding="utf-8")).get(project)
    if about is None:
        raise CannotRun(f"{project}: not a project of {LISTED.name}; add it there")
    if not Path(folder or project, about["tests"][0]).exists():
        raise CannotRun(
            f"{given}: no {about['tests'][0]} there; name the folder of its sources"
        )
    try:
        found = {"project": project, "version": version(about.get("package", project))}
    except PackageNotFoundError:
        raise CannotRun(f"{project}: not installed; {about['install']}") from None
    plain, simulated = (
        _verdicts(Path(folder or project), about, gpus) for gpus in (0, 2)
    )
    failed = {name for name, outcome in simulated.items() if outcome == "failed"}
    anyway = {name for name in failed if plain.get(name) == "failed"}
    reasons = []
    for reason, patterns in about.get("reasons", {}).items():
        named = {
            name
            for name in failed
            if any(fnmatch.fnmatch(name, each) for each in patterns)
        }
        reasons.append([len(named - anyway), reason])
        failed -= named
    if failed := sorted(failed - anyway):
        raise CannotRun(
            "\n".join(f"{name}: failed, no reason in {LISTED.name}" for name in failed)
        )
    ran = {name for name, outcome in simulated.items() if outcome != "skipped"}
    return found | {
        "alone": sum(outcome == "passed" for outcome in plain.values()),
        "passed": sum(outcome == "passed" for outcome in simulated.values()),
        "thanks": sum(plain.get(name, "skipped") == "skipped" for name in ran),
        "failed": sum(count for count, _ in reasons),
        "anyway": len(anyway),
        "reasons": [each for each in reasons if each[0]],
    }


def _verdicts(folder: Path, about: dict[str, Any], gpus: int) -> dict[str, str]:
    """Test -> passed, failed or skipped, with so many simulated GPUs."""
    out = [f"--ignore={name}" for name in about.get("without", {})]
    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-o",
        "addopts=",
        *about.get("options", []),
        *out,
    ]
    simulating = ["cudasim", "--gpus", str(gpus), "-m"] if gpus else []
    # What a suite starts, it finds beside this Python; a `sitecustomize` lets it see the GPUs.
    paths = [
        str(PACKAGE / "inherit"),
        str(PACKAGE.parent),
        os.environ.get("PYTHONPATH", ""),
    ]
    variables = {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]),
        "HF_HUB_OFFLINE": "1",
    }
    variables |= about.get("environment", {})
    with tempfile.TemporaryDirectory() as place:
        report = Path(place, "report.xml")
        command = [
            sys.executable,
            "-m",
            *simulating,
            "pytest",
            *about["tests"],
            *options,
        ]
        done = subprocess.run(
            [*command, f"--junitxml={report}"],
            cwd=folder,
            env=os.environ | variables,
            check=False,
        )
        if done.returncode not in ENDED:
            raise CannotRun(f"{folder}: pytest ended with {done.returncode}; see above")
        return {
            f"{case.get('classname')}::{case.get('name')}": _outcome(case)
            for case in ElementTree.parse(report).getroot().iter("testcase")
        }


def _outcome(case: ElementTree.Element) -> str:
    """The outcome of a test of a JUnit report."""
    kinds = {child.tag for child in case}
    if kinds & {"failure", "error"}:
        return "failed"
    return "skipped" if "skipped" in kinds else "passed"
