"""How far modelled times are from published ones, and from cards that were measured."""

import json
import subprocess
import sys

import pytest
from helpers import ROOT, refused

from tools import timings as recording
from tools.book.book import Book
from tools.site.timings import MEASURED, PUBLISHED, summary, timings_tables

ROW = {"card": "T4", "what": "a sum", "source": "https://example.org", "use": "validate"}
ROW |= {"published": 2e-3, "modelled": 1e-3}
CARD = {
    "card": "H100",
    "provenance": {"hardware": "NVIDIA H100", "date": "2026-11-21"},
    "rows": [
        {"name": "a sum", "measured": 1e-3, "modelled": 2e-3, "ratio": 2.0, "counted": True},
        {"name": "on the host", "measured": 1e-3, "modelled": 9.0, "ratio": 9e3, "counted": False},
    ],
}


@pytest.fixture
def root(tmp_path):
    (tmp_path / "book").mkdir()
    (tmp_path / MEASURED).mkdir(parents=True)
    rows = [ROW, ROW | {"use": "fit", "modelled": 2e-3}]
    (tmp_path / PUBLISHED).write_text(json.dumps({"rows": rows}))
    return tmp_path


def test_what_the_page_shows_is_what_the_model_says_today():
    rows = json.loads((ROOT / PUBLISHED).read_text())["rows"]
    assert rows == recording.compared(ROOT)
    assert sum(row["use"] == "validate" for row in rows) >= 15


def test_each_published_figure_has_a_row_with_its_source_and_the_ratio(root):
    lines = timings_tables(Book(root))
    assert "No card was measured yet" in lines[0]
    assert "| T4 | [a sum](https://example.org) | 2.00 | 1.00 | 0.50 |" in lines
    assert any("not used to fit the model: median error 50%, 0% within" in line for line in lines)
    assert any("figures used to fit the model: median error 0%" in line for line in lines)


def test_a_card_that_was_measured_comes_first(root):
    (root / MEASURED / "h100.json").write_text(json.dumps(CARD))
    lines = timings_tables(Book(root))
    assert lines[0].startswith("**H100**, measured on NVIDIA H100, 2026-11-21: median error 100%")
    assert "| a sum | 1.00 | 2.00 | 2.00 |" in lines


@pytest.mark.parametrize(
    ("name", "mend"), [(PUBLISHED, "make timings"), (f"{MEASURED}/h100.json", "make calibrate")]
)
def test_a_broken_file_is_one_line(root, name, mend):
    (root / name).write_text("{}")
    with refused(name, mend):
        timings_tables(Book(root))


def test_without_the_file_it_says_how_to_make_it(root):
    (root / PUBLISHED).unlink()
    assert timings_tables(Book(root))[-1] == "No comparison recorded yet: run `make timings`."


def test_the_summary_counts_both_sides_of_the_factor():
    assert (
        summary([1.0, 1.5, 1 / 1.5, 1.51, 0.66]) == "median error 34%, 60% within a factor of 1.5"
    )


def test_make_calibrate_says_that_there_is_no_gpu():
    make = ["make", "--no-print-directory", "calibrate", f"PYTHON={sys.executable}"]
    done = subprocess.run(make, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode != 0
    assert done.stderr.splitlines()[0].startswith("calibrate: no GPU to measure: torch ")


def test_make_takes_another_python_as_it_is():
    make = ["make", "-n", "--no-print-directory", "calibrate", "PYTHON=another-python", "FORCE=1"]
    done = subprocess.run(make, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == 'PYTHONPATH=cudasim/src "another-python" -m cudasim.calibrate --force\n'
