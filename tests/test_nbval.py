"""The net: nbval compares every output of every cell, and fails when one is wrong.

Written against nbval 0.11.0. `test_silent_pass_of_this_version` shows each way in which that
version passes over a wrong notebook; the guards keep the recorded outputs away from all of them.
"""

import importlib.metadata
import json
import re
from copy import deepcopy

import nbformat
import pytest
from helpers import CHAPTERS, ROOT, code, notebook, read
from nbformat.v4 import new_output
from nbval_net import SANITIZE, nbval_cells, run_nbval

CPU = ROOT / "outputs" / "cpu"
NOT_COMPARED = {"image/png", "image/jpeg"}
SILENCING = re.compile(r"raises-exception|nbval-(raises-exception|skip)")
MARKERS = re.compile(r"^\s*#+\s*NBVAL_(SKIP|RAISES_EXCEPTION)\s*$", re.M)


def text(words):
    return new_output("stream", name="stdout", text=words)


def display(**data):
    return new_output("display_data", data={name.replace("_", "/"): v for name, v in data.items()})


def error(*traceback):
    return new_output("error", ename="ValueError", evalue="no", traceback=list(traceback))


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


# Each guard with cells that it must refuse and nbval does not: {why: (cell, what the kernel runs)}
PRINTED = {"outputs": [text("1\n")], "execution_count": 1}
GUARDS = {
    "never executed": (never_executed, code("a", "print(2)")),
    "PNG": (
        pictures_not_compared,
        code(
            "a",
            "display({'image/png': 'BBBB'}, raw=True)",
            outputs=[display(image_png="AAAA")],
            execution_count=1,
        ),
    ),
    "JPEG": (
        pictures_not_compared,
        code(
            "a",
            "display({'image/jpeg': 'BBBB'}, raw=True)",
            outputs=[display(image_jpeg="AAAA")],
            execution_count=1,
        ),
    ),
    "expected error that does not come": (
        silenced,
        code("a", "x = 1", tags=["raises-exception"], execution_count=1),
    ),
    "traceback": (
        errors_kept,
        code(
            "a",
            "raise ValueError('no')",
            tags=["nbval-raises-exception"],
            outputs=[error("another line")],
            execution_count=1,
        ),
    ),
    "skipped by tag": (silenced, code("a", "print(2)", tags=["nbval-skip"], **PRINTED)),
    "skipped by comment": (silenced, code("a", "# NBVAL_SKIP\nprint(2)", **PRINTED)),
    "expected error by comment": (
        silenced,
        code("a", "# NBVAL_RAISES_EXCEPTION\nx = 1", execution_count=1),
    ),
    "no output": (nothing_to_compare, code("a", "x = 1", execution_count=1)),
}
ALL_GUARDS = list(dict.fromkeys(guard for guard, _ in GUARDS.values()))


@pytest.mark.parametrize("name", CHAPTERS)
@pytest.mark.parametrize("guard", ALL_GUARDS, ids=lambda guard: guard.__name__)
def test_recorded_outputs_pass_the_guard(guard, name):
    assert guard(read(CPU / f"{name}.ipynb")) == []


@pytest.mark.parametrize("why", GUARDS)
def test_guard_refuses_what_nbval_passes_over(why):
    guard, cell = GUARDS[why]
    assert guard(notebook(cell)) != []


@pytest.fixture(scope="module")
def silent_passes(tmp_path_factory):
    """All doctored notebooks of the guards through nbval, and one honest fault beside them."""
    folder = tmp_path_factory.mktemp("silent")
    kernel = folder / "kernels" / "bare" / "kernel.json"
    kernel.parent.mkdir(parents=True)
    argv = ["python", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    about = {"argv": argv, "display_name": "bare", "language": "python"}
    kernel.write_text(json.dumps(about))
    for why, (_, cell) in GUARDS.items():
        nbformat.write(notebook(cell), folder / f"{why.replace(' ', '-')}.ipynb")
    nbformat.write(notebook(code("a", "print(2)", **PRINTED)), folder / "seen.ipynb")
    options = ["--nbval-kernel-name", "bare", "-n", "2", "--dist", "loadfile"]
    return run_nbval(folder, *options, kernels=folder)


def test_silent_passes_are_those_of_this_version(silent_passes):
    """After a bump of nbval, see which guards are needed still, and which new ones."""
    assert importlib.metadata.version("nbval") == "0.11.0"
    returncode, failed, log = silent_passes
    assert (returncode, failed) == (1, ["seen.ipynb::Cell 0"]), log
    skipped = sum(why.startswith("skipped") for why in GUARDS)
    assert f"1 failed, {len(GUARDS) - skipped} passed, {skipped} skipped" in log


@pytest.mark.parametrize("name", CHAPTERS)
def test_nbval_collects_every_code_cell(name):
    chapter = read(ROOT / "notebooks" / f"{name}.ipynb")
    ids = [cell.id for cell in chapter.cells if cell.cell_type == "code"]
    assert [item.cell.id for item in nbval_cells(CPU / f"{name}.ipynb")] == ids


def changed(sign):
    """Another character of the same kind: a digit stays a digit, so formats stay as they are."""
    return "1" if sign == "0" else "0" if sign.isdigit() else "#"


def places(kind, value):
    """Where to falsify an output: each character of a text, some twenty numbers of a drawing."""
    if kind != "image/svg+xml":
        return range(len(value))
    numbers = [m.start(1) for m in re.finditer(r'(?: d="M |<use [^>]*? y=")-?(\d)', value)]
    return numbers[:: max(1, len(numbers) // 20)]


def falsified(outputs):
    """Every way to change one compared character: (the false outputs, text before, text after)."""
    for number, output in enumerate(outputs):
        field = output if output.output_type == "stream" else output.data
        for kind in ["text"] if output.output_type == "stream" else field:
            assert places(kind, field[kind]), f"nothing to compare in {kind}"
            for at in places(kind, field[kind]):
                false = deepcopy(outputs)
                where = false[number] if output.output_type == "stream" else false[number].data
                where[kind] = field[kind][:at] + changed(field[kind][at]) + field[kind][at + 1 :]
                yield false, field[kind], where[kind]


def blind_spots(cell):
    """The changes to the outputs of one cell that nbval does not see: [(before, after)]."""
    return [
        (before, after)
        for false, before, after in falsified(cell.cell.outputs)
        if cell.compare_outputs(false, cell.cell.outputs)
    ]


@pytest.fixture(scope="module", params=CHAPTERS)
def cells(request):
    return nbval_cells(CPU / f"{request.param}.ipynb")


def test_true_outputs_compare_equal(cells):
    same = [c.compare_outputs(deepcopy(c.cell.outputs), c.cell.outputs) for c in cells]
    assert same and all(same)


def test_removed_and_added_outputs_are_seen(cells):
    for cell in cells:
        true = cell.cell.outputs
        for number in range(len(true)):
            assert not cell.compare_outputs(true[:number] + true[number + 1 :], true), cell.cell.id
        for extra in [text("more"), display(text_plain="1"), *true[-1:]]:
            assert not cell.compare_outputs([*true, extra], true), cell.cell.id


def test_every_false_character_is_seen_outside_of_measurements(cells):
    blind = {cell.cell.id: spots for cell in cells if (spots := blind_spots(cell))}
    measured = {c.cell.id for c in cells if "measured" in json.dumps(c.cell.outputs)}
    assert blind.keys() == measured
    for cell in cells:
        for before, after in blind.get(cell.cell.id, []):
            if "<svg" in before:  # a plot of measured floats: then its data are asserted
                assert "\nassert " in cell.cell.source, cell.cell.id
            else:
                rest = [re.sub(r"measured \S+ s\b", "", words) for words in (before, after)]
                assert rest[0] == rest[1]


def test_rule_that_swallows_too_much_is_found():
    first, *_ = cells = nbval_cells(CPU / f"{CHAPTERS[0]}.ipynb")
    first.parent.sanitize_patterns["[0-9]+"] = "NUMBER"
    assert any(blind_spots(cell) for cell in cells)


@pytest.mark.parametrize("name", CHAPTERS)
def test_nbval_names_the_one_cell_that_is_false(name, tmp_path):
    """End to end: a kernel, a fresh execution, and one output that was tampered with."""
    outputs = read(CPU / f"{name}.ipynb")
    steady = [c for c in outputs.cells if c.outputs and "measured" not in json.dumps(c.outputs)]
    target = steady[len(steady) // 2]
    target.outputs, *_ = next(falsified(target.outputs))
    nbformat.write(outputs, tmp_path / f"{name}.ipynb")
    options = ["--nbval-kernel-name", "cpu", "--nbval-sanitize-with", SANITIZE]
    returncode, failed, log = run_nbval(tmp_path, *options)
    place = [cell.id for cell in outputs.cells].index(target.id)
    assert (returncode, failed) == (1, [f"{name}.ipynb::Cell {place}"]), log
