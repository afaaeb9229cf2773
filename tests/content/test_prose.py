"""What chapters say in words and figures is what their code has."""

import ast
import re

from helpers import ROOT, cell, read


def chapter(name):
    return read(ROOT / "notebooks" / f"{name}.ipynb")


def names_of(notebook, *ids):
    names = {}
    for id in ids:
        exec(cell(notebook, id).source, names)
    return names


def factors(words):
    """The factors that a text names, as they stand there: 7.1 of '7.1 times', 212 of '212-fold'."""
    return re.findall(r"([\d.]+)(?: times|-fold)", words)


def test_factors_that_cards_grew_by_are_those_of_the_data_sheets():
    notebook = chapter("computing-devices")
    table = names_of(notebook, "cards", "by-name", "growth-best")
    steps = [("GeForce 8800 GTX", "Tesla P100"), ("Tesla P100", "B200")]
    columns = ("fp32", "memory", "bandwidth")
    found = [table["growth"](*step, column) for step in steps for column in columns]
    # The printed figure of the oldest card counts three operations a cycle; the text names both.
    found.append(1.5 * found[0])
    spelled = [{f"{growth:.{digits}f}" for digits in range(3)} for growth in found]
    said = {*factors(cell(notebook, "growth-first-meaning").source)}
    assert all(said & forms for forms in spelled) and said <= set().union(*spelled)
    step = table["best"]("B200") / table["best"]("Tesla P100")
    assert {*factors(cell(notebook, "growth-best-meaning").source)} == {f"{step:.0f}"}
    card = table["cards"]["Tesla T4"]
    operations = round(card["fp32"] * 1000 / card["bandwidth"])
    assert f": {operations} operations for each byte" in cell(notebook, "intensity-meaning").source


def test_how_much_faster_memory_is_than_a_bus_is_what_the_cell_has():
    notebook = chapter("computing-devices")
    rates = names_of(notebook, "bandwidth")["GB_S"]
    ratios = {
        "T4": rates["memory of a T4"] / rates["PCI Express 3, 16 lanes"],
        "H100": rates["memory of an H100"] / rates["PCI Express 5, 16 lanes"],
    }
    words = cell(notebook, "bandwidth-meaning").source
    said = re.findall(r"(\d+)(?: times)? for an? (T4|H100)", words)
    assert said == [(str(round(ratio)), card) for card, ratio in ratios.items()]


def test_memory_that_a_first_tensor_takes_is_what_the_simulator_books():
    from cudasim.device.sizes import SMALL_SEGMENT
    from cudasim.device.types.cuda import CUDA

    text = "\n".join(part.source for part in chapter("tensors-on-gpus").cells)
    shown = re.search(r"was seen with (\d+) MiB beside its tensors\..*; (\d+) MiB more are", text)
    assert [int(size) * 2**20 for size in shown.groups()] == [CUDA.context, SMALL_SEGMENT]


def test_every_line_in_the_table_of_hidden_copies_is_run():
    notebook = chapter("copying-between-devices")
    rows = [line.split(" | ") for line in cell(notebook, "masks-note").source.splitlines()]
    said = {line for row in rows[1:] if len(row) > 1 for line in re.findall(r"`([^`]+)`", row[1])}
    run = {
        node.value
        for id in ("to-show", "to-compute")
        for node in ast.walk(ast.parse(cell(notebook, id).source))
        if isinstance(node, ast.Constant)
    }
    assert len(said) > 20
    assert said - run == {"print(Y)", "Y"}  # named beside `str(Y)`, which they call
