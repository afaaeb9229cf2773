"""Figures that can be moved say what the tables above them do, and what `cudasim` does."""

import re

import pytest
import torch
from browsing import opened, script
from helpers import ROOT, read

import cudasim
from cudasim.clock.estimate import estimate
from tools.book.book import Book
from tools.book.grammar import MOVE, MOVED
from tools.book.notebooks import tags
from tools.site.models import FIGURES


def placed_figures():
    """Return the page and the text of the cell in which each figure stands, by its name."""
    figures = {}
    for name, chapter in Book(ROOT).chapters.items():
        for cell in chapter.notebook.cells:
            if cell.id.startswith(MOVE) and cell.cell_type == "markdown":
                place = (f"notebooks/{name}.html", cell.source)
                figures[cell.id.removeprefix(MOVE)] = place
    return figures


PLACED = placed_figures()


def time_of_batches(size):
    X = torch.empty(size, 256, device="meta")
    W = torch.empty(256, 256, device="meta")
    seconds = estimate(lambda: [X @ W for _ in range(10)], "T4")
    return [f"≈ {1000 * seconds:.2g} ms in all"]


def memory_of_a_block(size):
    with cudasim.simulate(gpus=1):
        tensor = torch.empty(size, dtype=torch.uint8, device="cuda")
        allocated = torch.cuda.memory_allocated()
        reserved = torch.cuda.memory_reserved()
        del tensor
    return [f"block of {allocated:,}.", f"{reserved // 2**20} MiB"]


# What `cudasim` answers for a size; the tests of the calculators compare the others.
SIMULATED = {"batch": time_of_batches, "blocks": memory_of_a_block}


def test_every_figure_has_its_place():
    assert PLACED.keys() == set(FIGURES)


@pytest.mark.parametrize("name", PLACED)
def test_a_figure_agrees_with_its_table_and_the_simulator(browser, site, name):
    document, text = PLACED[name]
    lines = re.findall(r"^\|.*\d.*$", text, re.M)
    rows = [line.strip("| ").split(" | ") for line in lines]
    assert len(rows) >= 3
    size_column = 1 if name == "roofline" else 0
    with opened(browser, site, document, uncovered=True) as (page, faults):
        box = page.locator(f"[data-figure={name}]")
        assert box.locator("svg *").count() > 3
        for row in rows:
            words = page.evaluate(script("moved"), [box.element_handle(), row])
            expected = list(row)
            if name in SIMULATED:
                size = int(row[size_column].replace(",", ""))
                expected += SIMULATED[name](size)
            for part in expected:
                assert part in words
        assert faults == []


@pytest.mark.parametrize("name", PLACED)
def test_a_figure_follows_the_choice_of_a_card(browser, site, name):
    document, _ = PLACED[name]
    with opened(browser, site, document, uncovered=True) as (page, faults):
        place = page.url
        box = page.locator(f"[data-figure={name}]")
        choice = box.locator("[name=card], [name=link]")
        # Some figures have no choice.
        for last in choice.locator("option").all_inner_texts()[-1:]:
            choice.select_option(last)
            assert f"Modelled for {last}." in box.locator("output").inner_text()
        # The theme would turn the page with an arrow key.
        box.locator("[name=size]").press("ArrowLeft")
        assert page.url == place
        assert faults == []


TABLES = [
    path.stem
    for path in sorted(ROOT.glob("notebooks/*.ipynb"))
    if any(MOVED in tags(cell) for cell in read(path).cells)
]


@pytest.mark.parametrize("name", TABLES)
def test_a_table_can_be_moved_along(browser, site, name):
    document = f"notebooks/{name}.html"
    with opened(browser, site, document, uncovered=True) as (page, faults):
        page.evaluate(
            "for (const d of document.querySelectorAll('details')) d.open = true"
        )
        box = page.locator(".tag_moved .moved:visible")
        box.locator("input").press("End")
        last_row = page.locator(".tag_moved tr:last-child:visible td")
        for cell in last_row.all_inner_texts():
            assert cell in box.inner_text()
        assert faults == []
