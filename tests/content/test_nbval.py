"""The net: nbval compares every output of every cell, and fails when one is wrong.

Written against nbval 0.11.0. One notebook holds each way in which that version passes over what is
wrong, and a guard keeps the recorded outputs away from all of them; another holds what it sees.
"""

import importlib.metadata
import re
import subprocess

import nbformat
import pytest
from helpers import ROOT, code, notebook
from making import RECORDED, display, text
from nbformat.v4 import new_output
from nbval_net import run_nbval

from tools.book.grammar import TIMELINE
from tools.book.runners import SANITIZE, SANITIZE_MODELLED

PICTURES = {"image/png", "image/jpeg"}  # nbval compares none
SILENCED = re.compile(
    r"\b(raises-exception|nbval-skip)\b|^\s*#+\s*NBVAL_(SKIP|RAISES_EXCEPTION)\s*$",
    re.M,
)


def passed_over(outputs):
    """Yield (cell, reason) for what keeps nbval from seeing a fault in a recording."""
    printing = 0
    for cell in outputs.cells:
        if cell.execution_count is None:
            yield cell.id, "never executed"
        if any(has_picture(output) for output in cell.outputs):
            yield cell.id, "a picture of pixels; show an SVG"
        tags = cell.metadata.get("tags", [])
        if SILENCED.search("\n".join([*tags, cell.source])):
            yield cell.id, "not compared; show an error by catching it in 'attempt'"
        if cell.outputs:
            printing += 1
    if printing < 3:
        yield "", "hardly a cell prints"


def has_picture(output):
    return PICTURES & output.get("data", {}).keys()


def numbered(*rows):
    """Make a recorded notebook of (source, tags, outputs)."""
    cells = []
    for number, (source, tags, outputs) in enumerate(rows):
        id = f"cell-{number}"
        cells.append(code(id, source, tags, outputs=outputs, execution_count=1))
    return notebook(*cells)


ERROR = new_output("error", ename="ValueError", evalue="no", traceback=["another line"])
PICTURE = "display({{'image/{}': 'BBBB'}}, raw=True)"
# What nbval passes over; the first is never executed.
DOCTORED = [
    ("print(2)", [], []),
    (PICTURE.format("png"), [], [display("AAAA", "image/png")]),
    (PICTURE.format("jpeg"), [], [display("AAAA", "image/jpeg")]),
    ("x = 1", ["raises-exception"], []),
    ("raise ValueError('no')", ["nbval-raises-exception"], [ERROR]),
    ("print(2)", ["nbval-skip"], [text("1\n")]),
    ("# NBVAL_SKIP\nprint(2)", [], [text("1\n")]),
    ("# NBVAL_RAISES_EXCEPTION\nx = 1", [], []),
]
HONEST = ("print(2)", [], [text("1\n")])


def test_the_guard_knows_what_nbval_passes_over(tmp_path):
    """After an upgrade, see what it passes over, and whether `tools.nbval_exercises` works."""
    assert importlib.metadata.version("nbval") == "0.11.0"
    doctored = numbered(*DOCTORED, HONEST)
    doctored.cells[0].execution_count = None
    ids = [id for id, _ in passed_over(doctored)]
    assert ids == [cell.id for cell in doctored.cells[:-1]]
    assert list(passed_over(numbered())) == [("", "hardly a cell prints")]
    nbformat.write(doctored, tmp_path / "all.ipynb")
    returncode, failed, log = run_nbval(tmp_path)
    assert returncode == 1, log
    assert failed == [f"Cell {len(DOCTORED)}"], log
    assert f"1 failed, {len(DOCTORED) - 2} passed, 2 skipped" in log


def test_nbval_passes_over_nothing_that_is_recorded(recordings):
    for place, outputs in recordings.items():
        assert list(passed_over(outputs)) == [], place


def test_git_tracks_every_recorded_notebook():
    """One that it does not track, or ignores, would be shown and compared here and nowhere else."""
    if not (ROOT / ".git").exists():
        pytest.skip("no git repository: these files were exported from one")
    git = ["git", "ls-files", "-z", "outputs"]
    listed = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=True)
    tracked = listed.stdout.split("\0")
    for runner, name in RECORDED:
        assert f"outputs/{runner}/{name}.ipynb" in tracked


def timeline(total):
    drawn = f'{{"unit":"≈ ns","total":{total}}}'
    return display(drawn, TIMELINE)


BOTH = [text("1\n"), display("2")]


def html(words):
    return display(f"<p>{words}</p>", "text/html")


def svg(words):
    return display(f"<svg>{words}</svg>", "image/svg+xml")


# What a cell shows, and what is recorded of it. These are seen where the clock is modelled.
ONLY_TIMES = [
    ([text("7 of 9, ≈ 3 ms\n")], [text("7 of 9, ≈ 4 ms\n")]),
    ([svg("≈ 1")], [svg("≈ 2")]),
    ([timeline(3)], [timeline(4)]),
]
# These are seen everywhere.
SEEN = [
    ([text("7 of 9, ≈ 3 ms\n")], [text("8 of 9, ≈ 3 ms\n")]),
    ([display("tensor(1)")], [display("tensor(2)")]),
    ([html("1")], [html("2")]),
    ([svg("1")], [svg("2")]),
    (BOTH, []),
    (BOTH, BOTH[:1]),
    (BOTH, BOTH[1:]),
    (BOTH, [*BOTH, BOTH[1]]),
    (BOTH, [*BOTH, html("3")]),
]


def source_of(output):
    if output.output_type == "stream":
        return f"print({output.text!r}, end='')"
    return f"display({dict(output.data)!r}, raw=True)"


@pytest.mark.parametrize("rules", [SANITIZE, SANITIZE_MODELLED])
def test_nbval_sees_what_is_false_missing_or_too_much(rules, tmp_path):
    sound = [(shown, shown) for shown, _ in ONLY_TIMES + SEEN]
    rows = []
    for shown, recorded in sound + ONLY_TIMES + SEEN:
        source = "\n".join(map(source_of, shown))
        rows.append((source, [], recorded))
    nbformat.write(numbered(*rows), tmp_path / "kinds.ipynb")

    sanitize = ("--nbval-sanitize-with", str(ROOT / rules))
    _, failed, log = run_nbval(tmp_path, "--tb=no", *sanitize)
    first_false = len(sound)
    if rules == SANITIZE:
        first_false += len(ONLY_TIMES)
    assert failed == [f"Cell {number}" for number in range(first_false, len(rows))], log
