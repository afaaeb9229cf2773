"""Figures that can be moved say what the tables above them do, and what `cudasim` does."""

import re

import torch
from browsing import opened, script
from helpers import ROOT

import cudasim
from cudasim.clock.estimate import estimate
from tools.book.book import Book
from tools.book.grammar import MOVE
from tools.site.models import FIGURES

PLACED = {
    cell.id.removeprefix(MOVE): (f"notebooks/{name}.html", cell.source)
    for name, chapter in Book(ROOT).chapters.items()
    for cell in chapter.notebook.cells
    if cell.id.startswith(MOVE) and cell.cell_type == "markdown"
}


def said_by_cudasim(name, size):
    if name == "batch":
        X, W = (
            torch.empty(size, 256, device="meta"),
            torch.empty(256, 256, device="meta"),
        )
        return [
            f"≈ {1000 * estimate(lambda: [X @ W for _ in range(10)], 'T4'):.2g} ms in all"
        ]
    if name != "blocks":
        return []  # as the calculators, whose tests compare
    with cudasim.simulate(gpus=1):
        tensor = torch.empty(size, dtype=torch.uint8, device="cuda")
        taken, held = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
        del tensor
    return [f"block of {taken:,}.", f"{held // 2**20} MiB"]


def test_a_figure_says_what_the_rows_of_its_table_and_the_simulator_do(browser, site):
    assert PLACED.keys() == set(FIGURES)
    for name, (document, text) in PLACED.items():
        with opened(browser, site, document) as (page, faults):
            box, place = page.locator(f"[data-figure={name}]"), page.url
            rows = [
                row.strip("| ").split(" | ")
                for row in re.findall(r"^\|.*\d.*$", text, re.M)
            ]
            for row in rows:
                said = page.evaluate(script("moved"), [box.element_handle(), row])
                size = int(row[name == "roofline"].replace(",", ""))
                wanted = (*row, *said_by_cudasim(name, size))
                assert [part for part in wanted if part not in said] == []
            assert len(rows) >= 3 and box.locator("svg *").count() > 3
            choice = box.locator("[name=card], [name=link]")
            for last in choice.locator("option").all_inner_texts()[-1:]:
                choice.select_option(last)
                assert f"Modelled for {last}." in box.locator("output").inner_text()
            box.locator("[name=size]").press("ArrowLeft")
            assert (
                page.url == place and faults == []
            )  # the theme turns pages with arrow keys


def test_a_table_can_be_moved_along_and_says_its_rows(browser, site):
    tables = [
        n.stem
        for n in ROOT.glob("notebooks/*.ipynb")
        if '"moved"' in n.read_text("utf-8")
    ]
    assert len(tables) == 7
    for name in tables:
        with opened(browser, site, f"notebooks/{name}.html") as (page, faults):
            box = page.locator(".tag_moved .moved:visible")
            box.locator("input").press("End")
            cells = page.locator(
                ".tag_moved tr:last-child:visible td"
            ).all_inner_texts()
            assert all(cell in box.inner_text() for cell in cells) and faults == []
