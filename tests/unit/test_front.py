"""The first screen: what is read of the recordings, and what it does not accept."""

import pytest
from helpers import changed, copy_kernel, display, keep, refused, text
from nbformat.v4 import new_code_cell

from tools.book.book import Book
from tools.site.front import Step, scenes
from tools.site.timeline import MIME

ERROR = "RuntimeError: Expected all tensors to be on the same device, but found two"
PRINTED = {
    "two": [
        display(
            text_plain="(tensor([[1., 1.],\n        [1., -2.5e-01]], device='cuda:0'),\n"
            " tensor([[2, 2]], device='cuda:1'))"
        )
    ],
    "sum": [text(f"{ERROR}\n")],
    "copied": [display(text_plain="tensor([[2, 2]], device='cuda:0', grad_fn=<AddBackward0>)")],
    "differs": [display(text_plain="tensor([[2, 3]], device='cuda:0')")],
    "bars": [display(**{MIME.replace("/", "_", 1): "{}"})],
    "host": [display(text_plain="tensor([[3., 3.]])")],
    "silent": [],
}
CODE = {"two": "X, Y", "sum": "X + Y", "copied": "Z = Y.to('cuda:0')\nZ", "bars": "lanes"}
CODE |= {"host": "Z", "silent": "Z"}
CODE |= {"differs": "Z = Y.to('cuda:0')\nZ"}
STEPS = (
    Step("Two", "Two.", "first", "two", "made"),
    Step("No", "No.", "first", "sum", "refused"),
    Step("Copy", "Copy.", "first", "copied", "copied"),
    Step("Bars", "Bars.", "first", "bars", "timeline"),
)


@pytest.fixture
def book_root(small_book):
    """A book whose first chapter has these cells, with what they printed on two GPUs."""
    copy_kernel(small_book, "simulated")
    with changed(small_book / "notebooks" / "first.ipynb") as chapter:
        chapter.cells += [new_code_cell(CODE[id], id=id) for id in PRINTED]
    keep(small_book, "first", "simulated", PRINTED)
    return small_book


def test_steps_show_what_was_printed(book_root):
    two, no, copied, bars = scenes(Book(book_root), STEPS)
    assert two.tensors["X"] == ([["1.", "1."], ["1.", "-2.5e-01"]], 0)
    assert two.tensors["Y"] == ([["2", "2"]], 1)
    assert no.tensors == two.tensors and no.printed == ERROR
    assert copied.tensors == two.tensors | {"Z": ([["2", "2"]], 0)}
    assert (two.new, copied.new) == (("X", "Y"), ("Z",))
    assert copied.told == "GPU 0 holds X, Z. GPU 1 holds Y. Z is a copy of Y."
    assert (bars.printed, bars.code, bars.title) == ("{}", "lanes", "First")
    assert bars.times == "modelled for a T4"


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
    step = Step("A step", "It is.", "first", cell, way)
    where = f"the front page shows the cell '{cell}' of notebooks/first.ipynb, {fault}"
    with refused(where, "choose another in PICTURE, tools/site/front.py"):
        scenes(Book(book_root), (STEPS[0], step))
