"""The walk in the guide for instructors, run as it is written."""

import os
import re
import subprocess

from helpers import ROOT

GUIDE = ROOT / "book" / "teaching.md"
BLOCK = re.compile(r"^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.M | re.S)


def walk(text):
    """The commands of the walk, and what its last one shows."""
    told = text.partition("<!-- the walk -->")[2].partition("<!-- the end of the walk -->")[0]
    blocks = [(match["kind"], match["text"]) for match in BLOCK.finditer(told)]
    commands = "".join(each for kind, each in blocks if kind == "sh")
    [shown] = [each for kind, each in blocks if kind == "text"]
    return commands, shown


def test_the_walk_ends_in_the_canvas_file_that_the_guide_shows():
    commands, shown = walk(GUIDE.read_text(encoding="utf-8"))
    *others, last = commands.splitlines()
    script = "\n".join(["set -eu", "{", *others, "} >&2", last])
    environment = {name: each for name, each in os.environ.items() if name != "MAKEFLAGS"}
    run = subprocess.run(
        ["bash", "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert "not graded: fontaineemil (Canvas 1005)" in run.stderr
    assert run.stdout == shown
