"""What is in the file of a notebook: read as it was handed in, or refused in one line."""

import json
import sys

import pytest

from coursework.grade.download import Refused
from coursework.grade.reading import read_submission

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="grading needs Linux")


def notebook(**changes):
    content = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}
    return json.dumps(content | changes).encode()


def in_kernel(**kernel):
    """Return a notebook of another language's kernel."""
    return notebook(metadata={"kernelspec": kernel})


def of_cell(**cell):
    """Return a notebook of one cell."""
    return notebook(cells=[cell])


CUT_SHORT = "the file is not a notebook or is truncated"
NO_CELLS = "its cells cannot be read"
TOO_DEEP = "maximum recursion depth"
NESTED = json.loads("[" * 900 + "]" * 900)
ODD_LANGUAGE = {"name": "\u202e\n" * 90}
# The bytes of a file, and words of the refusal.
REFUSED = {
    "empty": (b"", "(it is empty); save it and hand it in again"),
    "cut short": (notebook()[:-1], f"{CUT_SHORT} (Expecting ',' delimiter: line 1"),
    "no text": (b"\x80abc", "'utf-8' codec can't decode"),
    "a list": (b"[]", CUT_SHORT),
    "deep JSON": (b"[" * 100_000, f"{TOO_DEEP} exceeded"),
    "a long number": (b'{"nbformat": ' + b"9" * 5000 + b"}", "Exceeds the limit"),
    "deep metadata": (notebook(metadata={"a": NESTED}), TOO_DEEP),
    "an old format": (
        notebook(nbformat=3),
        "in none of the formats from 4.0 to 4.5; save it in JupyterLab",
    ),
    "no cells": (notebook(cells=None), NO_CELLS),
    "a cell without source": (of_cell(cell_type="code", source=[None]), NO_CELLS),
    "a cell of no kind": (of_cell(cell_type="heading", source="x"), NO_CELLS),
    "R": (in_kernel(language="R"), "in 'r'; answers must be in"),
    "Julia": (in_kernel(name="julia-1.10"), "in 'julia'"),
    "an odd language": (
        notebook(metadata={"language_info": ODD_LANGUAGE}),
        "answers must be in Python",
    ),
}


@pytest.mark.parametrize(("data", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_a_file_that_is_no_notebook_is_refused_in_one_line(data, words):
    with pytest.raises(Refused) as refusal:
        read_submission(data)
    text = str(refusal.value)
    assert words in text
    assert text.isprintable()


SERVICES = [
    {"kernelspec": {"name": "conda-env-r-py"}, "language_info": {"name": "python"}},
    {"kernelspec": None, "language_info": [], "accelerator": "GPU"},
]


@pytest.mark.parametrize("metadata", SERVICES)
@pytest.mark.parametrize("minor", range(6))
def test_notebooks_of_every_service_are_read(metadata, minor):
    byte_order_mark = b"\xef\xbb\xbf"
    data = byte_order_mark + notebook(metadata=metadata, nbformat_minor=minor)
    submission = read_submission(data)
    assert submission.nbformat == 4
    assert submission.nbformat_minor == minor


def cell_of(data):
    [cell] = read_submission(data).cells
    return cell


def test_outputs_of_a_cell_are_left_out():
    cell = cell_of(of_cell(cell_type="code", id="a", source="1", outputs=[{"x": 1}]))
    assert cell == {"cell_type": "code", "id": "a", "source": "1", "metadata": {}}


def test_half_a_character_is_replaced():
    assert cell_of(of_cell(cell_type="code", source="a\ud800")).source == "a?"


def test_a_source_may_be_a_list_of_lines():
    cell = cell_of(of_cell(cell_type="code", source=["b\n", "c"]))
    assert cell.source == "b\nc"


def test_metadata_are_kept():
    cell = cell_of(of_cell(cell_type="code", source="", metadata={"tags": []}))
    assert cell.metadata == {"tags": []}


def test_fields_of_another_kind_are_dropped():
    cell = cell_of(of_cell(cell_type="raw", id=7, source="", metadata=None))
    assert cell == {"cell_type": "raw", "source": "", "metadata": {}}


def test_cells_of_one_id_keep_it():
    cell = {"cell_type": "code", "id": "answer-1", "source": ""}
    first, second = read_submission(notebook(cells=[cell, cell])).cells
    assert first.id == "answer-1"
    assert second.id == "answer-1"
