"""Where the simulator's tests ran: the rows that runs write, and the table of them."""

import json

import pytest
from helpers import refused

from tools.book.book import Book
from tools.site.support import SUPPORT, support_table
from tools.support import record_support

ROW = {"date": "2026-11-22", "python": "3.11.7", "torch": "2.13.0+cpu", "system": "Linux x86_64"}
ROW |= {"passed": 7, "failed": 0, "skipped": 1}


def keep(folder, **changes):
    folder.mkdir(exist_ok=True)
    path = folder / f"{len(list(folder.iterdir()))}.json"
    path.write_text(json.dumps(ROW | changes))


def test_rows_are_gathered_and_a_newer_one_takes_the_place_of_an_older(tmp_path):
    (tmp_path / "book").mkdir()
    keep(tmp_path / "first")
    keep(tmp_path / "first", python="3.12.1")
    assert record_support(tmp_path / "first", tmp_path) == 2
    keep(tmp_path / "second", python="3.11.9", passed=8, date="2026-11-23")
    assert record_support(tmp_path / "second", tmp_path) == 2
    assert support_table(Book(tmp_path)) == [
        "| Python | PyTorch | System | Passed | Failed | Skipped | Date |",
        "| :-- | :-- | :-- | --: | --: | --: | :-- |",
        "| 3.11.9 | 2.13.0+cpu | Linux x86_64 | 8 | 0 | 1 | 2026-11-23 |",
        "| 3.12.1 | 2.13.0+cpu | Linux x86_64 | 7 | 0 | 1 | 2026-11-22 |",
    ]


def test_without_rows_it_says_how_to_make_them(tmp_path):
    assert support_table(Book(tmp_path)) == ["No run recorded yet: `make support` gathers them."]
    with refused("RECORDS", "CUDASIM_SUPPORT=row.json make test"):
        record_support(tmp_path / "none", tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", '{"python": "3.11"}'])
def test_what_is_no_row_is_named(tmp_path, text):
    (tmp_path / "bad.json").write_text(text)
    with refused("bad.json", "CUDASIM_SUPPORT"):
        record_support(tmp_path, tmp_path)


def test_a_broken_file_is_one_line(tmp_path):
    (tmp_path / "book").mkdir()
    (tmp_path / SUPPORT).write_text("{}")
    with refused(SUPPORT, "make support"):
        support_table(Book(tmp_path))
