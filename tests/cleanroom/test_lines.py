"""The lines of *Getting ready* that install a framework find wheels for their system."""

import re
import shlex
import sys

import pytest
from helpers import ROOT
from rooms import Unavailable, run

SYSTEMS = {
    "Linux": "x86_64-unknown-linux-gnu",
    "macOS": "aarch64-apple-darwin",
    "Windows": "x86_64-pc-windows-msvc",
}
ASK = (
    sys.executable,
    "-m",
    "uv",
    "pip",
    "install",
    "--dry-run",
    "--only-binary",
    ":all:",
)


def lines():
    """(system, what stands behind `pip install`) of the table."""
    page = (ROOT / "book" / "getting-ready.md").read_text("utf-8")
    table = page.partition("## Install a framework")[2].partition("\n## ")[0]
    for systems, line in re.findall(
        r"^\| (\w+: .*) \| `pip install (.*)` \|$", table, re.M
    ):
        for system in sorted(SYSTEMS.keys() & {*re.findall(r"\w+", systems)}):
            yield pytest.param(SYSTEMS[system], line, id=f"{system}: {line}")


@pytest.mark.parametrize("system, line", list(lines()))
def test_a_line_finds_wheels_for_its_system(system, line, tmp_path):
    python = "3.11" if "mxnet" in line else "3.12"
    room = (
        "--target",
        tmp_path,
        "--python-platform",
        system,
        "--python-version",
        python,
    )
    try:
        assert "Would install" in run(*ASK, *room, *shlex.split(line))
    except Unavailable as reason:
        if "Failed to fetch" in str(reason):
            pytest.skip(f"an index is out of reach: {line}")
        raise
