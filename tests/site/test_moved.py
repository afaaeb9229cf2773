"""Figures that can be moved compute what `cudasim` does, and are read without JavaScript."""

import torch
from browsing import opened
from helpers import ROOT

from cudasim.clock.estimate import estimate
from tools.book.book import Book
from tools.site.merge import MOVE
from tools.site.moved import BATCHES, CALLS, FIGURES, WIDTH, seconds

PLACED = {
    cell.id.removeprefix(MOVE): f"notebooks/{name}.html"
    for name, chapter in Book(ROOT).chapters.items()
    for cell in chapter.notebook.cells
    if cell.id.startswith(MOVE)
}
SET = """([box, cells]) => {
  const { size, operation } = box.querySelector("form").elements;
  if (operation) operation.value = cells.shift();
  size.value = size.dataset.sizes.split(" ").indexOf(cells[0].replace(",", ""));
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
            box.locator("[name=card]").select_option("H100")
            assert "Modelled for the H100" in box.locator("output").inner_text()
            place = page.url
            box.locator("[name=size]").focus()
            page.keyboard.press("ArrowLeft")
            assert page.url == place and faults == []  # the theme turns pages with arrow keys
        with opened(browser, site, document, java_script_enabled=False) as (page, _):
            box = page.locator(f"[data-figure={name}]")
            assert box.locator("table").is_visible() and not box.locator("form").is_visible()


def test_ten_products_take_what_the_simulator_says(browser, site):
    weights = torch.empty(WIDTH, WIDTH, device="meta")
    with opened(browser, site, PLACED["batch"], java_script_enabled=False) as (page, _):
        rows = page.locator("[data-figure=batch] tbody tr").all_text_contents()
    for rows_of_batch, row in zip(BATCHES[::3], rows, strict=True):
        batch = torch.empty(rows_of_batch, WIDTH, device="meta")
        taken = estimate(lambda batch=batch: [batch @ weights for _ in range(CALLS)], "T4")
        assert seconds(taken) in row
