"""The walk in the guide for instructors, run as it is written."""

import os
import re
import subprocess

import pytest
from helpers import ROOT

GUIDE = ROOT / "book" / "teaching.md"
BLOCK = re.compile(r"^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.M | re.S)


@pytest.mark.full
def test_the_walk_ends_in_the_canvas_file_that_the_guide_shows():
    told = GUIDE.read_text(encoding="utf-8").partition("<!-- the walk -->")[2]
    told = told.partition("<!-- the end of the walk -->")[0]
    blocks = [(match["kind"], match["text"]) for match in BLOCK.finditer(told)]
    *others, last = "".join(text for kind, text in blocks if kind == "sh").splitlines()
    [shown] = [text for kind, text in blocks if kind == "text"]
    script = "\n".join(["set -eu", "{", *others, "} >&2", last])
    environment = {name: value for name, value in os.environ.items() if name != "MAKEFLAGS"}
    run = subprocess.run(
        ["bash", "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert "not graded: fontaineemil (Canvas 1005)" in run.stderr
    assert run.stdout == shown
