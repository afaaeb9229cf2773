"""The net: nbval compares every output of every cell, and fails when one is wrong.

Written against nbval 0.11.0. `test_silent_pass_of_this_version` shows each way in which that
version passes over a wrong notebook; the guards keep the recorded outputs away from all of them.
"""

import importlib.metadata
import json
import re
import subprocess
from copy import deepcopy

import nbformat
import pytest
from helpers import RECORDED, ROOT, code, copy_kernel, display, notebook, outputs_path, read, text
from nbformat.v4 import new_output
from nbval_net import nbval_cells, rules_of, run_nbval

from tools.book.book import Book
from tools.book.git import untracked
from tools.book.runners import SANITIZE, SANITIZE_MODELLED

NOT_COMPARED = {"image/png", "image/jpeg"}
SILENCING = re.compile(r"raises-exception|nbval-(raises-exception|skip)")
MARKERS = re.compile(r"^\s*#+\s*NBVAL_(SKIP|RAISES_EXCEPTION)\s*$", re.M)


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


# Each guard with a cell that it must refuse and nbval does not: {why: (guard, cell)}


def executed(source, *outputs, tags=()):
    return code("a", source, tags, outputs=list(outputs), execution_count=1)


ERROR = new_output("error", ename="ValueError", evalue="no", traceback=["another line"])
PNG = "display({'image/png': 'BBBB'}, raw=True)"
HONEST = executed("print(2)", text("1\n"))
GUARDS = {
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
ALL_GUARDS = list(dict.fromkeys(guard for guard, _ in GUARDS.values()))


def test_git_tracks_every_recorded_notebook():
    """One that it does not track, or ignores, would be shown and compared here and nowhere else."""
    if not (ROOT / ".git").exists():
        pytest.skip("no git repository: these files were exported from one")
    ask = ["git", "ls-files", "-z", "outputs"]
    tracked = subprocess.run(ask, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert untracked("outputs", ROOT) == []
    assert {f"outputs/{runner}/{name}.ipynb" for runner, name in RECORDED} <= {*tracked.split("\0")}


@pytest.mark.parametrize(("runner", "name"), RECORDED)
@pytest.mark.parametrize("guard", ALL_GUARDS, ids=lambda guard: guard.__name__)
def test_recorded_outputs_pass_the_guard(guard, runner, name):
    assert guard(read(outputs_path(name, runner))) == []


@pytest.mark.parametrize("why", GUARDS)
def test_guard_refuses_what_nbval_passes_over(why):
    guard, cell = GUARDS[why]
    assert guard(notebook(cell)) != []


def test_silent_passes_are_those_of_this_version(tmp_path):
    """All doctored cells of the guards pass nbval; the honest fault behind them is seen.

    After a bump of nbval, see which guards are needed still, and which new ones.
    """
    assert importlib.metadata.version("nbval") == "0.11.0"
    command = "python -m ipykernel_launcher -f {connection_file}"
    copy_kernel(tmp_path, "cpu", "bare", argv=command.split())
    doctored = notebook(*deepcopy([*(cell for _, cell in GUARDS.values()), HONEST]))
    for number, cell in enumerate(doctored.cells):
        cell.id = f"cell-{number}"
    nbformat.write(doctored, tmp_path / "all.ipynb")
    returncode, failed, log = run_nbval(tmp_path, "--nbval-kernel-name", "bare", kernels=tmp_path)
    assert (returncode, failed) == (1, [f"all.ipynb::Cell {len(GUARDS)}"]), log
    skipped = sum(why.startswith("skipped") for why in GUARDS)
    assert f"1 failed, {len(GUARDS) - skipped} passed, {skipped} skipped" in log


@pytest.mark.parametrize(("runner", "name"), RECORDED)
def test_nbval_collects_every_recorded_cell(runner, name):
    path = outputs_path(name, runner)
    ids = [cell.id for cell in read(path).cells]
    assert ids and [item.cell.id for item in nbval_cells(path)] == ids


def changed(sign):
    """Another character of the same kind: a digit stays a digit, so formats stay as they are."""
    if sign.isdigit():
        return "1" if sign == "0" else "0"
    return "*" if sign == "#" else "#"


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


@pytest.fixture(scope="module", params=RECORDED, ids="-".join)
def cells(request):
    runner, name = request.param
    return nbval_cells(outputs_path(name, runner), rules_of(runner))


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


# What is left out of the comparison, by the file that says so, drawings left aside.
CARDS = r", (?:NVIDIA|Tesla|Quadro|GeForce)[^,\n]*, \d+ MiB"
COUNT = r"\b3(?:4[3-9]|5\d|60) of 360\b"
PROCESS = r"\d+(?= +\d+MiB  \S)|(?<=MiB  )\S+ +(?=\|)"  # in the table of the simulated nvidia-smi
CPU = r"(?<=alloc_cpu\.cpp:)\d+|(?<=\]).*?(?=you tried to allocate)"
CPU += r"|(?<=allocate 1125899906842624 bytes)[^\n]*"
LEFT_OUT = {
    SANITIZE: re.compile(rf"≈ +[\d.,e+-]*\d(?: [\wµ/]+| %)?|{CARDS}|{COUNT}|{PROCESS}|{CPU}"),
    SANITIZE_MODELLED: re.compile(rf"{COUNT}|{PROCESS}"),
}
TIMELINE = re.compile(r'<svg(?s:.)*>Timeline, |\A\{"unit":"≈ ns"')
PLOTS = {SANITIZE: r"<!-- [^>]*≈|<!-- Loss, measured", SANITIZE_MODELLED: "<!-- Loss, measured"}


def test_every_false_character_is_seen_outside_of_what_is_left_out(cells, request):
    rules = rules_of(request.node.callspec.params["cells"][0])
    left_out = LEFT_OUT[rules]
    blind = {cell.cell.id: spots for cell in cells if (spots := blind_spots(cell))}
    printed = {cell.cell.id: json.dumps(cell.cell.outputs, ensure_ascii=False) for cell in cells}
    partly = {id for id, words in printed.items() if left_out.search(words)}
    plots = {id for id, words in printed.items() if re.search(PLOTS[rules], words)}
    counts = {id for id, words in printed.items() if re.search(COUNT, words)}  # most changes show
    assert blind.keys() | counts == partly | plots
    for cell in cells:
        for before, after in blind.get(cell.cell.id, []):
            if TIMELINE.search(before):  # nothing but times
                continue
            if "<svg" in before:  # of times, compared on a modelled clock; or its data are asserted
                times = "times" in cell.cell.metadata.get("tags", [])
                assert times or "\nassert " in cell.cell.source, cell.cell.id
            else:
                assert left_out.sub("", before) == left_out.sub("", after)


TIME = [text("asked ≈ 0.123 ms, done ≈ 4.56 ms, 7 products\n")]
DRAWING = [display(image_svg_xml='<svg>\n<!-- ≈ 0.123 ms -->\n<path d="M 12 3"/>\n</svg>')]


TIMELINES = [display(**{"application/vnd.cudasim.timeline+json": '{"unit":"≈ ns","total":3}'})]


@pytest.mark.parametrize("printed", [TIME, DRAWING, TIMELINES], ids=["text", "drawing", "bars"])
def test_a_falsified_time_is_seen_on_a_modelled_clock_and_left_out_on_a_real_one(printed, tmp_path):
    path = tmp_path / "times.ipynb"
    nbformat.write(notebook(executed("", *printed)), path)
    assert [rules_of(name) for name in ("simulated", "cpu", "h100")] == [
        *(SANITIZE_MODELLED, SANITIZE, SANITIZE)
    ]
    (modelled,) = nbval_cells(path, rules_of("simulated"))
    assert not blind_spots(modelled)
    (real,) = nbval_cells(path, rules_of("cpu"))
    blind = blind_spots(real)
    assert blind
    left_out = LEFT_OUT[SANITIZE]
    for before, after in blind:
        whole = "<svg" in before or TIMELINE.search(before)
        assert whole or left_out.sub("", before) == left_out.sub("", after)
    for output in printed if printed is TIME else []:  # what is no time is seen there, too
        other = [text(output.text.replace("7", "8"))]
        assert not real.compare_outputs(other, real.cell.outputs)


def test_of_a_real_card_its_name_and_memory_are_left_out_and_its_number_is_not(tmp_path):
    listed = "index, name, memory.total [MiB]\n0, NVIDIA H100 80GB HBM3, 81559 MiB\n"
    path = tmp_path / "card.ipynb"
    nbformat.write(notebook(executed("", text(listed))), path)
    (cell,) = nbval_cells(path)
    blind, without = blind_spots(cell), LEFT_OUT[SANITIZE]
    assert blind
    for before, after in blind:
        assert without.sub("", before) == without.sub("", after) == without.sub("", listed)
    assert not cell.compare_outputs([text(listed.replace("0, N", "1, N"))], cell.cell.outputs)


def test_rule_that_swallows_too_much_is_found():
    runner, name = RECORDED[0]
    first, *_ = cells = nbval_cells(outputs_path(name, runner))
    first.parent.sanitize_patterns["[0-9]+"] = "NUMBER"
    assert any(blind_spots(cell) for cell in cells)


def falsify_a_cell(outputs, modelled):
    """Falsify one output and return its cell: a time, if they are modelled, else no time."""
    shown = [cell for cell in outputs.cells if cell.outputs]
    times = [cell for cell in shown if modelled and "times" in cell.metadata.get("tags", [])]
    steady = [cell for cell in shown if not re.search("≈|Loss, measured", str(cell.outputs))]
    cell = times[0] if times else steady[len(steady) // 2]
    for false, before, after in falsified(cell.outputs):
        in_a_time = LEFT_OUT[SANITIZE].sub("", before) == LEFT_OUT[SANITIZE].sub("", after)
        if in_a_time == bool(times):
            cell.outputs = false
            return cell
    raise AssertionError(f"no output to falsify in {cell.id}")


@pytest.mark.parametrize("runner", [each.name for each in Book(ROOT).local_runners])
def test_nbval_names_the_one_cell_of_each_chapter_that_is_false(runner, tmp_path):
    """End to end: kernels, a fresh execution, and one output a chapter that was tampered with.

    Where the clock is modelled that is a time, if the chapter shows one. What comes after that
    cell is left out: `make test` compares the whole chapters by itself.
    """
    expected = []
    for name in (name for recorded, name in RECORDED if recorded == runner):
        outputs = read(outputs_path(name, runner))
        target = falsify_a_cell(outputs, modelled=rules_of(runner) == SANITIZE_MODELLED)
        place = [cell.id for cell in outputs.cells].index(target.id)
        del outputs.cells[place + 1 :]
        nbformat.write(outputs, tmp_path / f"{name}.ipynb")
        expected.append(f"{name}.ipynb::Cell {place}")
    options = ["--nbval-kernel-name", runner]
    options += ["--nbval-sanitize-with", str(ROOT / rules_of(runner))]
    returncode, failed, log = run_nbval(tmp_path, *options)
    assert (returncode, sorted(failed)) == (1, expected), log
