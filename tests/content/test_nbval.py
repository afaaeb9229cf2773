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

from tools.book.runners import SANITIZE, SANITIZE_MODELLED

PICTURES = {"image/png", "image/jpeg"}  # nbval compares none
SILENCED = re.compile(
    r"\b(raises-exception|nbval-skip)\b|^\s*#+\s*NBVAL_(SKIP|RAISES_EXCEPTION)\s*$",
    re.M,
)


def passed_over(outputs):
    """What keeps nbval from seeing a fault in a recorded notebook, by cell."""
    for cell in outputs.cells:
        if cell.execution_count is None:
            yield cell.id, "never executed"
        if any(PICTURES & output.get("data", {}).keys() for output in cell.outputs):
            yield cell.id, "a picture of pixels; show an SVG"
        if SILENCED.search("\n".join([*cell.metadata.get("tags", []), cell.source])):
            yield cell.id, "not compared; show an error by catching it in 'attempt'"
    if sum(bool(cell.outputs) for cell in outputs.cells) < 3:
        yield "", "hardly a cell prints"


def numbered(*cells):
    """A notebook of (source, tags, recorded outputs)."""
    made = [
        code(f"cell-{number}", source, tags, outputs=outputs, execution_count=1)
        for number, (source, tags, outputs) in enumerate(cells)
    ]
    return notebook(*made)


ERROR = new_output("error", ename="ValueError", evalue="no", traceback=["another line"])
PICTURE = "display({{'image/{}': 'BBBB'}}, raw=True)"
DOCTORED = [  # what nbval passes over; the first is never executed
    ("print(2)", [], []),
    (PICTURE.format("png"), [], [display(image_png="AAAA")]),
    (PICTURE.format("jpeg"), [], [display(image_jpeg="AAAA")]),
    ("x = 1", ["raises-exception"], []),
    ("raise ValueError('no')", ["nbval-raises-exception"], [ERROR]),
    ("print(2)", ["nbval-skip"], [text("1\n")]),
    ("# NBVAL_SKIP\nprint(2)", [], [text("1\n")]),
    ("# NBVAL_RAISES_EXCEPTION\nx = 1", [], []),
]
HONEST = ("print(2)", [], [text("1\n")])


def test_the_guard_knows_what_this_version_of_nbval_passes_over(tmp_path):
    """After a bump see what it passes over then, and whether `tools.nbval_exercises` works."""
    assert importlib.metadata.version("nbval") == "0.11.0"
    doctored = numbered(*DOCTORED, HONEST)
    doctored.cells[0].execution_count = None
    ids = [id for id, _ in passed_over(doctored)]
    assert ids == [cell.id for cell in doctored.cells[:-1]]
    assert list(passed_over(numbered())) == [("", "hardly a cell prints")]
    nbformat.write(doctored, tmp_path / "all.ipynb")
    returncode, failed, log = run_nbval(tmp_path)
    assert (returncode, failed) == (1, [f"Cell {len(DOCTORED)}"]), log
    assert f"1 failed, {len(DOCTORED) - 2} passed, 2 skipped" in log


def test_nbval_passes_over_nothing_that_is_recorded(recordings):
    found = {place: [*passed_over(outputs)] for place, outputs in recordings.items()}
    assert {place: faults for place, faults in found.items() if faults} == {}


def test_git_tracks_every_recorded_notebook():
    """One that it does not track, or ignores, would be shown and compared here and nowhere else."""
    if not (ROOT / ".git").exists():
        pytest.skip("no git repository: these files were exported from one")
    ask = ["git", "ls-files", "-z", "outputs"]
    tracked = subprocess.run(
        ask, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert {f"outputs/{runner}/{name}.ipynb" for runner, name in RECORDED} <= {
        *tracked.split("\0")
    }


def timeline(total):
    drawn = f'{{"unit":"≈ ns","total":{total}}}'
    return display(**{"application_vnd.cudasim.timeline+json": drawn})


BOTH = [text("1\n"), display(text_plain="2")]
ONLY_TIMES = [  # what a cell shows, and what is recorded of it: seen where the clock is modelled
    ([text("7 of 9, ≈ 3 ms\n")], [text("7 of 9, ≈ 4 ms\n")]),
    (
        [display(image_svg_xml="<svg>≈ 1</svg>")],
        [display(image_svg_xml="<svg>≈ 2</svg>")],
    ),
    ([timeline(3)], [timeline(4)]),
]
SEEN = [
    ([text("7 of 9, ≈ 3 ms\n")], [text("8 of 9, ≈ 3 ms\n")]),
    ([display(text_plain="tensor(1)")], [display(text_plain="tensor(2)")]),
    ([display(text_html="<p>1</p>")], [display(text_html="<p>2</p>")]),
    ([display(image_svg_xml="<svg>1</svg>")], [display(image_svg_xml="<svg>2</svg>")]),
    (BOTH, []),
    (BOTH, BOTH[:1]),
    (BOTH, BOTH[1:]),
    (BOTH, [*BOTH, BOTH[1]]),
    (BOTH, [*BOTH, display(text_html="3")]),
]


def source_of(output):
    if output.output_type == "stream":
        return f"print({output.text!r}, end='')"
    return f"display({dict(output.data)!r}, raw=True)"


@pytest.mark.parametrize("rules", [SANITIZE, SANITIZE_MODELLED])
def test_nbval_sees_what_is_false_missing_or_too_much(rules, tmp_path):
    sound = [(shown, shown) for shown, _ in ONLY_TIMES + SEEN]
    every = sound + ONLY_TIMES + SEEN
    cells = [
        ("\n".join(map(source_of, shown)), [], recorded) for shown, recorded in every
    ]
    nbformat.write(numbered(*cells), tmp_path / "kinds.ipynb")
    _, failed, log = run_nbval(
        tmp_path, "--tb=no", "--nbval-sanitize-with", str(ROOT / rules)
    )
    first = len(sound) + (len(ONLY_TIMES) if rules == SANITIZE else 0)
    assert failed == [f"Cell {number}" for number in range(first, len(cells))], log
