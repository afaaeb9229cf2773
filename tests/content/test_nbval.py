"""The net: nbval compares every output of every cell, and fails when one is wrong.

Written against nbval 0.11.0. One notebook holds each way in which that version passes over what is
wrong, and a guard keeps the recorded outputs away from all of them; another holds what it sees.
"""

import importlib.metadata
import re
import subprocess
from collections.abc import Sequence
from typing import NamedTuple

import nbformat
import pytest
from helpers import ROOT, code, notebook
from making import RECORDED, display, text
from nbformat import NotebookNode
from nbformat.v4 import new_output
from nbval_net import run_nbval

from tools.book.grammar import TIMELINE
from tools.book.runners import SANITIZE, SANITIZE_MODELLED

# nbval compares none of these.
PICTURES = {"image/png", "image/jpeg"}
# Tags, and comments in a cell's code, by which nbval compares less.
SILENCING_TAG = re.compile(r"\b(raises-exception|nbval-skip)\b")
SILENCING_COMMENT = re.compile(r"^\s*#+\s*NBVAL_(SKIP|RAISES_EXCEPTION)\s*$", re.M)


def passed_over(outputs):
    """Yield (cell, reason) for what keeps nbval from seeing a fault in a recording."""
    printing = 0
    for cell in outputs.cells:
        if cell.execution_count is None:
            yield cell.id, "never executed"
        if any(has_picture(output) for output in cell.outputs):
            yield cell.id, "a picture of pixels; show an SVG"
        if is_silenced(cell):
            yield cell.id, "not compared; show an error by catching it in 'attempt'"
        if cell.outputs:
            printing += 1
    if printing < 3:
        yield "", "hardly a cell prints"


def is_silenced(cell):
    tags = " ".join(cell.metadata.get("tags", []))
    return SILENCING_TAG.search(tags) or SILENCING_COMMENT.search(cell.source)


def has_picture(output):
    return PICTURES & output.get("data", {}).keys()


class Recorded(NamedTuple):
    """A code cell and the outputs that are recorded of it."""

    source: str
    outputs: Sequence[NotebookNode] = ()
    tags: Sequence[str] = ()


def recorded_notebook(rows):
    cells = []
    for number, row in enumerate(rows):
        id = f"cell-{number}"
        outputs = list(row.outputs)
        cells.append(code(id, row.source, row.tags, outputs=outputs, execution_count=1))
    return notebook(*cells)


ERROR = new_output("error", ename="ValueError", evalue="no", traceback=["another line"])
NEVER_EXECUTED = Recorded("print(2)")
# What nbval passes over besides.
FALSE_PICTURES = [
    Recorded(
        "display({'image/png': 'BBBB'}, raw=True)", [display("AAAA", "image/png")]
    ),
    Recorded(
        "display({'image/jpeg': 'BBBB'}, raw=True)", [display("AAAA", "image/jpeg")]
    ),
]
SILENCED = [
    Recorded("x = 1", tags=["raises-exception"]),
    Recorded("raise ValueError('no')", [ERROR], ["nbval-raises-exception"]),
    Recorded("print(2)", [text("1\n")], ["nbval-skip"]),
    Recorded("# NBVAL_SKIP\nprint(2)", [text("1\n")]),
    Recorded("# NBVAL_RAISES_EXCEPTION\nx = 1"),
]
DOCTORED = [NEVER_EXECUTED, *FALSE_PICTURES, *SILENCED]
SEEN_AS_FALSE = Recorded("print(2)", [text("1\n")])


def test_the_guard_knows_what_nbval_passes_over(tmp_path):
    """After an upgrade, see what it passes over, and whether `tools.nbval_exercises` works."""
    assert importlib.metadata.version("nbval") == "0.11.0"
    doctored = recorded_notebook([*DOCTORED, SEEN_AS_FALSE])
    doctored.cells[0].execution_count = None
    ids = [id for id, _ in passed_over(doctored)]
    assert ids == [cell.id for cell in doctored.cells[:-1]]
    assert list(passed_over(notebook())) == [("", "hardly a cell prints")]
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
    payload = f'{{"unit":"≈ ns","total":{total}}}'
    return display(payload, TIMELINE)


def html(words):
    return display(f"<p>{words}</p>", "text/html")


def svg(words):
    return display(f"<svg>{words}</svg>", "image/svg+xml")


# What a cell shows, and what is recorded of it.
FALSE_TIMES = [
    (text("7 of 9, ≈ 3 ms\n"), text("7 of 9, ≈ 4 ms\n")),
    (svg("≈ 1"), svg("≈ 2")),
    (timeline(3), timeline(4)),
]
FALSE = [
    (text("7 of 9, ≈ 3 ms\n"), text("8 of 9, ≈ 3 ms\n")),
    (display("tensor(1)"), display("tensor(2)")),
    (html("1"), html("2")),
    (svg("1"), svg("2")),
]
# What is recorded of a cell that shows both of these.
PRINTED = text("1\n")
DISPLAYED = display("2")
FALSE_NUMBERS = [
    [],
    [PRINTED],
    [DISPLAYED],
    [PRINTED, DISPLAYED, DISPLAYED],
    [PRINTED, DISPLAYED, html("3")],
]


def source_of(output):
    """Return the code that shows an output."""
    if output.output_type == "stream":
        return f"print({output.text!r}, end='')"
    return f"display({dict(output.data)!r}, raw=True)"


@pytest.mark.parametrize(
    ("rules", "are_times_compared"), [(SANITIZE, False), (SANITIZE_MODELLED, True)]
)
def test_nbval_sees_what_is_false(rules, are_times_compared, tmp_path):
    sound = []
    for shown, _ in FALSE_TIMES + FALSE:
        sound.append(Recorded(source_of(shown), [shown]))
    false_times = []
    for shown, recorded in FALSE_TIMES:
        false_times.append(Recorded(source_of(shown), [recorded]))
    false = []
    for shown, recorded in FALSE:
        false.append(Recorded(source_of(shown), [recorded]))

    passed = sound
    failed = false_times + false
    if not are_times_compared:
        passed = sound + false_times
        failed = false
    assert_fail(failed, passed, rules, tmp_path)


@pytest.mark.parametrize("rules", [SANITIZE, SANITIZE_MODELLED])
def test_nbval_sees_what_is_missing_or_too_much(rules, tmp_path):
    source = f"{source_of(PRINTED)}\n{source_of(DISPLAYED)}"
    sound = [Recorded(source, [PRINTED, DISPLAYED])]
    false = [Recorded(source, recorded) for recorded in FALSE_NUMBERS]
    assert_fail(false, sound, rules, tmp_path)


def assert_fail(failing, passing, rules, folder):
    """Assert that nbval fails these cells, and passes those before them."""
    path = folder / "kinds.ipynb"
    nbformat.write(recorded_notebook(passing + failing), path)
    sanitize = ("--nbval-sanitize-with", str(ROOT / rules))
    _, failed, log = run_nbval(folder, "--tb=no", *sanitize)
    first = len(passing)
    expected = [f"Cell {first + number}" for number in range(len(failing))]
    assert failed == expected, log
