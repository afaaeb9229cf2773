"""The first screen shows only what its cells printed."""

import pytest
from helpers import changed, copy_kernel, display, keep, refused, text
from nbformat.v4 import new_code_cell

from tools.book.book import Book
from tools.site.front import Step, scenes

TWO = """(tensor([[1., 1.],
        [1., -2.5e-01]], device='cuda:0'),
 tensor([[2, 2]], device='cuda:1'))"""
CELLS = {  # what they are and what they printed, on two GPUs
    "two": ("X, Y", [display(text_plain=TWO)]),
    "sum": ("X + Y", [text("RuntimeError: Expected all tensors to be on the same device\n")]),
    "differs": (
        "Z = Y.to('cuda:0')\nZ",
        [display(text_plain="tensor([[2, 3]], device='cuda:0')")],
    ),
    "host": ("Z", [display(text_plain="tensor([[3., 3.]])")]),
    "silent": ("Z", []),
}


@pytest.fixture
def book_root(small_book):
    copy_kernel(small_book, "simulated")
    with changed(small_book / "notebooks" / "first.ipynb") as chapter:
        chapter.cells += [new_code_cell(code, id=id) for id, (code, _) in CELLS.items()]
    keep(small_book, "first", "simulated", {id: printed for id, (_, printed) in CELLS.items()})
    return small_book


@pytest.mark.parametrize(
    ("cell", "way", "fault"),
    [
        ("gone", "made", "which is gone"),
        ("silent", "made", "which printed nothing"),
        ("two", "timeline", "which printed no timeline"),
        ("two", "refused", "in which no sum was refused"),
        ("sum", "made", "which did not print X + Y on a GPU"),
        ("host", "made", "which did not print Z on a GPU"),
        ("differs", "copied", "in which no tensor was copied to another GPU"),
    ],
)
def test_a_cell_that_does_not_show_it_is_refused(book_root, cell, way, fault):
    two = Step("Two", "Two.", "first", "two", "made")
    step = Step("A step", "It is.", "first", cell, way)
    where = f"the front page shows the cell '{cell}' of notebooks/first.ipynb, {fault}"
    with refused(where, "choose another in book/front.yml"):
        scenes(Book(book_root), [two, step])
