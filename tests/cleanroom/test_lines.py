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
UV = (sys.executable, "-m", "uv")
ROW = re.compile(r"^\| (\w+: .*) \| `pip install (.*)` \|$", re.M)


def cases():
    """Yield (system, what stands behind `pip install`) for the rows of the table."""
    page = (ROOT / "book" / "getting-ready.md").read_text("utf-8")
    _, _, section = page.partition("## Install a framework")
    table, _, _ = section.partition("\n## ")
    for systems, line in ROW.findall(table):
        for system in SYSTEMS:
            if re.search(rf"\b{system}\b", systems):
                yield pytest.param(SYSTEMS[system], line, id=f"{system}: {line}")


@pytest.mark.parametrize(("system", "line"), list(cases()))
def test_a_line_finds_wheels_for_its_system(system, line, tmp_path):
    python = "3.11" if "mxnet" in line else "3.12"
    install = [*UV, "pip", "install", "--dry-run", "--only-binary", ":all:"]
    install += ["--target", tmp_path]
    install += ["--python-platform", system, "--python-version", python]
    try:
        assert "Would install" in run(*install, *shlex.split(line))
    except Unavailable as error:
        if "Failed to fetch" in str(error):
            pytest.skip(f"an index is out of reach: {line}")
        raise
