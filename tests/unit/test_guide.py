"""The guide for instructors: the table in it counts what the masters hold."""

import re

from helpers import ROOT

from coursework.exercises.assignment import choice_of, make_drafts, worth_of
from coursework.exercises.variants import draws_of
from tools.book.book import Book
from tools.site.status import exercises_table

TOTAL = "All chapters, without the puzzles"


@pytest.fixture(scope="module")
def counts():
    """How many exercises the master of each chapter holds."""
    drafts = make_drafts(ROOT, ROOT / "masters", draws_of(None))
    return {master.name: len(master.exercises) for master, _ in drafts}


def test_a_count_that_is_typed_is_that_of_the_masters(counts):
    puzzles = counts["puzzles"]
    others = sum(counts.values()) - puzzles
    right = {"exercises": others, "puzzles": puzzles, None: others}
    typed = 0
    for path in PAGES:
        for match in TYPED.finditer(path.read_text(encoding="utf-8")):
            where = f"{path.name}: '{match[0]}'"
            assert int(match["count"]) == right[match["what"]], where
            if match["chapters"]:
                assert match["chapters"] == WORDS[len(counts) - 1], where
            typed += 1
    assert typed


def test_the_table_of_the_guide_counts_the_exercises_of_each_master(counts):
    rows = [
        re.fullmatch(r"\| (.+) \| (\d+) \|", line)
        for line in exercises_table(Book(ROOT))
    ]
    shown = {row[1]: int(row[2]) for row in rows if row}
    total = shown.pop("All chapters, without the puzzles")
    assert shown == {
        f"[](../notebooks/{name}.ipynb)": count for name, count in counts.items()
    }
    assert total == sum(counts.values()) - counts["puzzles"]
    guide = (ROOT / "book" / "teaching.md").read_text(encoding="utf-8")
    assert "```{status-exercises}" in guide


def test_the_points_of_the_walk_are_those_of_its_chapter():
    guide = (ROOT / "book" / "teaching.md").read_text(encoding="utf-8")
    [chapter] = re.findall(r"^python -m tools example (\S+)$", guide, re.M)
    draft = make_drafts(
        ROOT, ROOT / "masters", draws_of(None), choice_of(chapter, None)
    )
    [(_, assignment)] = draft
    tests, by_hand = worth_of(assignment)
    [points] = re.findall(r"^    Points Possible,+(\d+)$", guide, re.M)
    assert int(points) == tests + by_hand
    [(worth, typed)] = re.findall(r"^sed -i 's/,(\d+),,/,\d+,(\d+),/'", guide, re.M)
    assert int(worth) == by_hand >= int(typed)
    # Who solves all by tests lacks only what the walk gives less than full points by hand.
    [full] = re.findall(r'^"Adeyemi, Ada",.*,(\d+)$', guide, re.M)
    assert int(full) == tests + int(typed)
