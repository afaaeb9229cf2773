"""The net: nbval compares every output of every cell, and fails when one is wrong.

Written against nbval 0.11.0. One notebook holds each way in which that version passes over what is
wrong, and the guards keep the recorded outputs away from all of them; another holds each kind of
output, with every character falsified in turn.
"""

import importlib.metadata
import re
import subprocess
from copy import deepcopy

import nbformat
import pytest
from helpers import RECORDED, ROOT, code, display, notebook, text
from nbformat.v4 import new_output
from nbval.plugin import get_sanitize_patterns
from nbval_net import run_nbval

from tools.book.book import Book
from tools.book.git import untracked
from tools.book.runners import GPU, SANITIZE, SANITIZE_MODELLED

NOT_COMPARED = {"image/png", "image/jpeg"}
SILENCING = re.compile(r"raises-exception|nbval-(raises-exception|skip)")
MARKERS = re.compile(r"^\s*#+\s*NBVAL_(SKIP|RAISES_EXCEPTION)\s*$", re.M)


# The guards: the cells of a recorded notebook whose faults nbval would pass over.


def never_executed(outputs):
    return [cell.id for cell in outputs.cells if cell.execution_count is None]


def pictures_not_compared(outputs):
    shown = [(cell.id, output.get("data", {})) for cell in outputs.cells for output in cell.outputs]
    return [id for id, data in shown if NOT_COMPARED & data.keys()]


def silenced(outputs):
    tagged = ((c, " ".join(c.metadata.get("tags", []))) for c in outputs.cells)
    return [c.id for c, tags in tagged if SILENCING.search(tags) or MARKERS.search(c.source)]


def errors_kept(outputs):
    kinds = [(cell.id, output.output_type) for cell in outputs.cells for output in cell.outputs]
    return [id for id, kind in kinds if kind == "error"]


def nothing_to_compare(outputs):
    """A notebook whose cells print nothing passes whatever happens in them."""
    printing = [cell.id for cell in outputs.cells if cell.cell_type == "code" and cell.outputs]
    return [] if len(printing) > 2 else [f"only {len(printing)} cells print"]


def executed(source, *outputs, tags=()):
    return code("a", source, tags, outputs=list(outputs), execution_count=1)


ERROR = new_output("error", ename="ValueError", evalue="no", traceback=["another line"])
PNG = "display({'image/png': 'BBBB'}, raw=True)"
HONEST = executed("print(2)", text("1\n"))
GUARDS = {  # each with a cell that it must refuse and nbval does not
    "never executed": (never_executed, code("a", "print(2)")),
    "PNG": (pictures_not_compared, executed(PNG, display(image_png="AAAA"))),
    "JPEG": (
        pictures_not_compared,
        executed(PNG.replace("png", "jpeg"), display(image_jpeg="AAAA")),
    ),
    "expected error that does not come": (silenced, executed("x = 1", tags=["raises-exception"])),
    "traceback": (
        errors_kept,
        executed("raise ValueError('no')", ERROR, tags=["nbval-raises-exception"]),
    ),
    "skipped by tag": (silenced, executed("print(2)", text("1\n"), tags=["nbval-skip"])),
    "skipped by comment": (silenced, executed("# NBVAL_SKIP\nprint(2)", text("1\n"))),
    "expected error by comment": (silenced, executed("# NBVAL_RAISES_EXCEPTION\nx = 1")),
    "no output": (nothing_to_compare, executed("x = 1")),
}


def numbered(cells):
    """A notebook of these cells, their ids made different."""
    made = notebook(*deepcopy(list(cells)))
    for number, cell in enumerate(made.cells):
        cell.id = f"cell-{number}"
    return made


def test_git_tracks_every_recorded_notebook():
    """One that it does not track, or ignores, would be shown and compared here and nowhere else."""
    if not (ROOT / ".git").exists():
        pytest.skip("no git repository: these files were exported from one")
    ask = ["git", "ls-files", "-z", "outputs"]
    tracked = subprocess.run(ask, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert untracked("outputs", ROOT) == []
    assert {f"outputs/{runner}/{name}.ipynb" for runner, name in RECORDED} <= {*tracked.split("\0")}


@pytest.mark.parametrize("why", GUARDS)
def test_guard_refuses_what_nbval_passes_over(why):
    guard, cell = GUARDS[why]
    assert guard(notebook(cell)) != []


def test_recorded_outputs_pass_every_guard(recordings):
    guards = {guard for guard, _ in GUARDS.values()}
    refused = {
        (place, guard.__name__): found
        for place, outputs in recordings.items()
        for guard in guards
        if (found := guard(outputs))
    }
    assert refused == {}


def test_silent_passes_are_those_of_this_version(tmp_path):
    """All doctored cells of the guards pass nbval; the honest fault behind them is seen.

    After a bump of nbval, see which guards are needed still, and which new ones; and whether
    `tools.nbval_exercises` works as it does now.
    """
    assert importlib.metadata.version("nbval") == "0.11.0"
    doctored = numbered([*(cell for _, cell in GUARDS.values()), HONEST])
    nbformat.write(doctored, tmp_path / "all.ipynb")
    returncode, failed, log = run_nbval(tmp_path)
    assert (returncode, failed) == (1, [f"Cell {len(GUARDS)}"]), log
    skipped = sum(why.startswith("skipped") for why in GUARDS)
    assert f"1 failed, {len(GUARDS) - skipped} passed, {skipped} skipped" in log


# Every false character is seen, outside of what is left out of the comparison.

CARDS = r", (?:NVIDIA|Tesla|Quadro|GeForce)[^,\n]*, \d+ MiB"
COUNT = r"\b3(?:4[3-9]|5\d|60) of 360\b"
PROCESS = r"\d+(?= +\d+MiB  \S)|(?<=MiB  )\S+ +(?=\|)"  # in the table of the simulated nvidia-smi
CPU = r"(?<=alloc_cpu\.cpp:)\d+|(?<=\]).*?(?=you tried to allocate)"
CPU += r"|(?<=allocate 1125899906842624 bytes)[^\n]*"
PLOT = r"(?s:<svg.*<!-- Loss, measured -->.*)"
DRAWING = r"(?s:<svg.*≈.*)"
BARS = r'(?s:\A\{"unit":"≈ ns".*)'
TIME = r"≈ +[\d.,e+-]*\d(?: [\wµ/]+| %)?"
LEFT_OUT = {
    SANITIZE: re.compile("|".join([PLOT, DRAWING, BARS, TIME, CARDS, COUNT, PROCESS, CPU])),
    SANITIZE_MODELLED: re.compile("|".join([PLOT, COUNT, PROCESS])),
}
PATTERNS = {
    rules: get_sanitize_patterns((ROOT / rules).read_text(encoding="ascii")) for rules in LEFT_OUT
}
KINDS = [  # of output, each with one
    ("stream", "asked ≈ 0.123 ms, 7 products\n355 of 360, cuda:1\n"),
    ("stream", "index, name, memory\n0, NVIDIA H100 80GB HBM3, 81559 MiB\n"),
    ("stream", "Traceback (most recent call last):\nRuntimeError: No way\n"),
    ("text/plain", "tensor([1, 2], device='cuda:0')"),
    ("text/html", "<table><tr><td>12</td></tr></table>"),
    ("image/svg+xml", '<svg>\n<!-- ≈ 3 ms -->\n<path d="M 12 3"/>\n</svg>'),
    ("image/svg+xml", '<svg>\n<path d="M 12 3"/>\n</svg>'),
    ("application/vnd.cudasim.timeline+json", '{"unit":"≈ ns","total":3}'),
]


def falsified(value, places=None):
    """With one character changed to another of its kind: a digit stays one, as formats do."""
    for at in range(len(value)) if places is None else places:
        sign = value[at]
        other = ("1" if sign == "0" else "0") if sign.isdigit() else "*" if sign == "#" else "#"
        yield value[:at] + other + value[at + 1 :]


def belongs_to_what_is_left_out(before, after, rules):
    return LEFT_OUT[rules].sub("", before) == LEFT_OUT[rules].sub("", after)


def printing(kind, true, recorded):
    """A cell that prints one thing and is recorded to have printed another."""
    if kind == "stream":
        return executed(f"print({true!r}, end='')", text(recorded))
    shown = display(**{kind.replace("/", "_"): recorded})
    return executed(f"display({{{kind!r}: {true!r}}}, raw=True)", shown)


@pytest.mark.parametrize("rules", LEFT_OUT)
def test_nbval_sees_every_false_character_outside_of_what_is_left_out(rules, tmp_path):
    """The one that is false in each cell; on a modelled clock, that of a time is seen, too."""
    changes = [(kind, true, false) for kind, true in KINDS for false in [true, *falsified(true)]]
    nbformat.write(numbered(printing(*change) for change in changes), tmp_path / "kinds.ipynb")
    _, failed, log = run_nbval(tmp_path, "--tb=no", "--nbval-sanitize-with", str(ROOT / rules))
    assert "passed" in log
    seen = [changes[int(name.removeprefix("Cell "))] for name in failed]
    assert seen and all(true != false for _, true, false in seen)
    overlooked = [change for change in changes if change not in seen and change[1] != change[2]]
    for kind, true, false in overlooked:
        assert belongs_to_what_is_left_out(true, false, rules), (kind, true, false)
    times_are_hidden = any("≈" in true for _, true, _ in overlooked if "of 360" not in true)
    assert times_are_hidden == (rules == SANITIZE)


def test_an_output_that_is_missing_and_one_too_many_are_seen(tmp_path):
    both = "print(1)\ndisplay({'text/plain': '2'}, raw=True)"
    one, two, three = text("1\n"), display(text_plain="2"), display(text_html="3")
    recorded = [[one, two], [one], [two], [], [one, two, two], [one, two, three]]
    nbformat.write(numbered(executed(both, *kept) for kept in recorded), tmp_path / "some.ipynb")
    _, failed, log = run_nbval(tmp_path, "--tb=no")
    assert failed == [f"Cell {number}" for number in range(1, len(recorded))], log


def texts_of(outputs):
    """(cell, text) of all that is compared in a recorded notebook."""
    for cell in outputs.cells:
        for output in cell.outputs:
            for value in [output.text] if output.output_type == "stream" else output.data.values():
                yield cell, value


def sanitized(value, rules):
    for pattern, replacement in PATTERNS[rules]:
        value = re.sub(pattern, replacement, value)
    return value


def matched(value, rules):
    """The places in a text that a rule may swallow; of a long stretch, some."""
    for pattern, _ in PATTERNS[rules]:
        for match in re.finditer(pattern, value):
            yield from range(match.start(), match.end(), len(match[0]) // 50 + 1)


def test_no_rule_swallows_more_of_what_is_recorded_than_is_to_be_left_out(recordings):
    runners = Book(ROOT).runners
    for (runner, name), outputs in recordings.items():
        rules = runners.get(runner, runners[GPU]).sanitize
        for cell, value in texts_of(outputs):
            whole = sanitized(value, rules)
            for false in falsified(value, matched(value, rules)):
                if sanitized(false, rules) == whole:
                    place = (runner, name, cell.id)
                    assert belongs_to_what_is_left_out(value, false, rules), place


def test_a_drawing_that_is_not_compared_shows_times_or_data_that_are_asserted(recordings):
    for place, outputs in recordings.items():
        for cell, value in texts_of(outputs):
            if "<svg" in value and "<svg" not in sanitized(value, SANITIZE):
                times = "times" in cell.metadata.get("tags", [])
                assert times or "\nassert " in cell.source, (place, cell.id)
