"""The guide for instructors: the table in it counts what the masters hold."""

import re

from helpers import ROOT

from coursework.exercises.assignment import make_drafts
from coursework.exercises.tasks import draws_of
from tools.book.book import Book
from tools.site.status import exercises_table

TOTAL = "All chapters, without the puzzles"


def counts_in_table(lines):
    counts = {}
    for line in lines:
        row = re.fullmatch(r"\| (.+) \| (\d+) \|", line)
        if row:
            counts[row[1]] = int(row[2])
    return counts


def test_the_table_counts_the_exercises_of_each_master():
    book = Book(ROOT)
    counts = {}
    for master, _ in make_drafts(ROOT, ROOT / "masters", draws_of(None)):
        counts[f"[](../notebooks/{master.name}.ipynb)"] = len(master.exercises)
    puzzles = counts["[](../notebooks/puzzles.ipynb)"]
    total = sum(counts.values()) - puzzles
    assert counts_in_table(exercises_table(book)) == counts | {TOTAL: total}
