"""Figures that can be moved compute what `cudasim` does, and are read without JavaScript."""

from functools import partial

import torch
from browsing import opened
from helpers import ROOT

import cudasim
from cudasim.clock.estimate import estimate
from tools.book.book import Book
from tools.site.calculators import ask
from tools.site.merge import MOVE
from tools.site.moved import BATCHES, CALLS, FIGURES, WIDTH, batch_rows, block_rows, seconds

PLACED = {
    cell.id.removeprefix(MOVE): f"notebooks/{name}.html"
    for name, chapter in Book(ROOT).chapters.items()
    for cell in chapter.notebook.cells
    if cell.id.startswith(MOVE)
}
SET = """([box, cells]) => {
  const { size, operation } = box.querySelector("form").elements;
  if (operation) operation.value = cells.shift();
  size.value = size.dataset.sizes.split(" ").indexOf(cells[0].replaceAll(",", ""));
  size.dispatchEvent(new Event("input", { bubbles: true }));
}"""


def test_a_figure_says_what_the_rows_of_its_table_do(browser, site):
    assert PLACED.keys() == FIGURES.keys()
    for name, document in PLACED.items():
        with opened(browser, site, document) as (page, faults):
            box = page.locator(f"[data-figure={name}]")
            drawings = set()
            for row in box.locator("tbody tr").all():
                cells = row.locator("td").all_text_contents()
                page.evaluate(SET, [box.element_handle(), cells])
                said = box.locator("output").inner_text().lower()
                assert [cell for cell in cells if cell.lower() not in said] == []
                drawings.add(box.locator("svg").inner_html())
            assert len(drawings) > 3  # of few rows Python is the limit, whatever their number
            choice = box.locator("[name=card], [name=link]")
            if choice.count():
                last = choice.locator("option").last.inner_text()
                choice.select_option(last)
                assert f"Modelled for {last}." in box.locator("output").inner_text()
            place = page.url
            box.locator("[name=size]").focus()
            page.keyboard.press("ArrowLeft")
            assert page.url == place and faults == []  # the theme turns pages with arrow keys
        with opened(browser, site, document, java_script_enabled=False) as (page, _):
            box = page.locator(f"[data-figure={name}]")
            assert box.locator("table").is_visible() and not box.locator("form").is_visible()


def test_tables_hold_what_the_simulator_does():
    know, weights = partial(ask, ROOT), torch.empty(WIDTH, WIDTH, device="meta")
    for size, row in zip(BATCHES[::3], batch_rows(know), strict=True):
        batch = torch.empty(size, WIDTH, device="meta")
        taken = estimate(lambda batch=batch: [batch @ weights for _ in range(CALLS)], "T4")
        assert row[3] == seconds(taken)
    for size, block, segment, _ in block_rows(know):
        with cudasim.simulate(gpus=1):
            tensor = torch.empty(int(size.replace(",", "")), dtype=torch.uint8, device="cuda")
            assert block == f"{torch.cuda.memory_allocated():,}"
            assert segment == f"{torch.cuda.memory_reserved() // 2**20} MiB"
            del tensor
