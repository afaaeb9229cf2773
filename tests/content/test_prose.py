"""What chapters say in words and figures is what their code has."""

import ast
import re
from datetime import timedelta

from helpers import ROOT, cell, read

from tools.book.book import Book
from tools.book.grammar import HOW_LONG
from tools.book.length import length


def chapter(name):
    return read(ROOT / "notebooks" / f"{name}.ipynb")


HARDWARE = (ROOT / "book" / "hardware.md").read_text("utf-8")


def factors(words):
    """The factors that a text names, as they stand there: 7.1 of '7.1 times', 212 of '212-fold'."""
    return re.findall(r"([\d.]+)(?: times|-fold)", words)


def test_factors_that_cards_grew_by_are_those_of_the_data_sheets():
    sheets = dict(
        re.findall(r"^\| \[([^]]+).*?\) \| \d{4} \| (.*) \|$", HARDWARE, re.M)
    )
    named = ("GeForce 8800 GTX", "Tesla P100", "B200", "Tesla T4")
    oldest, pascal, newest, t4 = (sheets[name].split(" | ") for name in named)
    steps, columns = (
        [(oldest, pascal), (pascal, newest)],
        (1, 4, 5),
    )  # FP32, memory, bandwidth
    found = [float(new[i]) / float(old[i]) for old, new in steps for i in columns]
    # The printed figure of the oldest card counts three operations a cycle; the text names both.
    found.append(1.5 * found[0])
    spelled = [{f"{growth:.{digits}f}" for digits in range(3)} for growth in found]
    grew, best = re.findall(r"^.*(?:From the P100|-fold).*$", HARDWARE, re.M)
    said = {*factors(grew)}
    assert all(said & forms for forms in spelled) and said <= set().union(*spelled)
    assert factors(best) == [
        f"{float(newest[3]) / float(pascal[2]):.0f}"
    ]  # FP8 and FP16
    assert (
        factors(best)
        == factors(cell(chapter("gpus-in-twenty-minutes"), "lead").source)[-1:]
    )
    wide = f"its peak is a {float(t4[1]) / float(t4[0]):.0f}nd"
    assert wide in cell(chapter("tensors-on-gpus"), "clinic-double-finding").source
    balance = float(t4[1]) * 1000 / float(t4[5])
    assert f": {balance:.0f} operations for each byte" in HARDWARE


def test_how_much_faster_memory_is_than_a_bus_is_what_the_table_has():
    rates = dict(re.findall(r"^\| ([^|]+) \| [^|]+ \| ([\d.]+) \|$", HARDWARE, re.M))
    pairs = {"T4": ("memory of a T4", "PCI Express 3, 16 lanes")}
    pairs["H100"] = "memory of an H100", "PCI Express 5, 16 lanes"
    said = {
        card: times
        for times, card in re.findall(r"(\d+ times) for an? (T4|H100)", HARDWARE)
    }
    for card, (memory, bus) in pairs.items():
        assert said[card] == f"{float(rates[memory]) / float(rates[bus]):.0f} times"
    assert (
        f"{said['T4']} for a T4"
        in cell(chapter("computing-devices"), "device-bandwidth").source
    )


def test_the_host_of_an_h100_is_a_server_as_the_simulator_has_it():
    from cudasim.timing.sheets import find_sheet, host_sheet

    host, memory = host_sheet(find_sheet("H100")), "eight channels of DDR5-4800"
    (rate,) = re.findall(rf"{memory} \| [^|]+ \| ([\d.]+)", HARDWARE)
    assert memory in host.sources["bandwidth"] and host.bandwidth == 1e9 * round(
        0.75 * float(rate)
    )
    assert re.search(
        "The host of an H100 is a server.*DDR5-4800.*has eight channels", HARDWARE
    )


def test_how_long_a_collective_waits_is_what_torch_has():
    from torch.distributed.constants import default_pg_nccl_timeout, default_pg_timeout

    text = cell(chapter("when-a-process-dies"), "server-note").source
    said = re.search(r"is (\d+) minutes for NCCL and (\d+) for gloo", text).groups()
    nccl, gloo = (timedelta(minutes=int(minutes)) for minutes in said)
    assert gloo == default_pg_timeout
    assert default_pg_nccl_timeout in (nccl, None)  # builds without CUDA have none
    assert f"Timeout(ms)={nccl // timedelta(milliseconds=1)}" in text


def test_memory_that_a_first_tensor_takes_is_what_the_simulator_books():
    from cudasim.device.sizes import SMALL_SEGMENT
    from cudasim.device.specs import CARDS
    from cudasim.device.types.cuda import CUDA

    text = cell(chapter("computing-devices"), "answer-first").source
    shown = re.search(r"It took \[(\d+) MiB\].* PyTorch adds (\d+) MiB", text)
    assert [int(size) * 2**20 for size in shown.groups()] == [
        CUDA.context,
        SMALL_SEGMENT,
    ]
    card = CARDS["T4"]
    for seen in f"[{card.board >> 20} MiB]", f"[{card.memory / 2**30:.2f} GiB]":
        assert seen in HARDWARE


def test_every_line_in_the_table_of_hidden_copies_is_run():
    notebook = chapter("copying-between-devices")
    rows = [
        line.split(" | ") for line in cell(notebook, "masks-note").source.splitlines()
    ]
    said = {
        line
        for row in rows[1:]
        if len(row) > 1
        for line in re.findall(r"`([^`]+)`", row[1])
    }
    sources = "\n".join(cell(notebook, id).source for id in ("to-show", "to-compute"))
    run = {
        node.value
        for node in ast.walk(ast.parse(sources))
        if isinstance(node, ast.Constant)
    }
    assert len(said) > 20
    assert said - run == {"print(Y)", "Y"}  # named beside `str(Y)`, which they call


def test_the_page_of_twenty_minutes_takes_no_longer_in_any_framework():
    for chapter in Book(ROOT).editions("gpus-in-twenty-minutes"):
        (said,) = HOW_LONG.findall(chapter.notebook.cells[0].source)
        assert length(chapter).minutes <= int(said), (
            f"{chapter.where}: {length(chapter)}"
        )
