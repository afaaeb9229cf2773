"""Puzzles: enough of them, from easy to hard, each shown, checked and explained somewhere.

That each takes its solution and refuses its wrong answer is tested in `test_solutions.py`.
"""

import re

import pytest
from helpers import ROOT, code, notebook, prose
from test_rules import ASKED_WELL, HINTS, HOLDS, SOLUTION, WRONG, exercise

from tools.book.book import Book
from tools.book.chapters import Chapter
from tools.book.code import bound_names, syntax_tree
from tools.rules.exercises import ASKED, EXERCISE_RULES, LEVELS, answer_name, exercises
from tools.rules.rules import broken_rules, dead_links

BOOK = Book(ROOT)
PAGES = [chapter for chapter in BOOK.chapters.values() if chapter.holds_puzzles]
SECTION = re.compile(r" Section: \[[^]]+\]\((?P<chapter>[\w-]+)\.ipynb#[\w-]+\)\.\n")
OPENING = prose("title", "# P\n\n**What you will do.** **What you will learn.** **What you need.**")


def test_there_is_one_page_with_fifteen_puzzles_or_more():
    (page,) = PAGES
    assert len(exercises(page)) >= 15


def test_puzzles_go_from_easy_to_hard():
    levels = [ASKED.match(each.asked.source)["level"] for each in exercises(PAGES[0])]
    assert levels == sorted(levels, key=LEVELS.index) and set(levels) == set(LEVELS)


def test_every_puzzle_shows_what_its_answer_does():
    for each in exercises(PAGES[0]):
        assert each.cell("shows") is not None, each.number


def test_every_puzzle_names_a_section_that_exists_and_the_chapters_all_have_some():
    named = [SECTION.search(each.asked.source)["chapter"] for each in exercises(PAGES[0])]
    needed = {"tensors-on-gpus", "copying-between-devices", "neural-networks-on-gpus"}
    assert needed | {"what-costs-time", "what-takes-memory"} <= set(named)
    text = "\n".join(each.asked.source for each in exercises(PAGES[0]))
    assert dead_links(text, ROOT / "notebooks") == []
    assert len(dead_links(text.replace("#", "#no-"), ROOT / "notebooks")) >= len(named)


def test_every_puzzle_has_a_heading_that_one_can_link_to():
    for each in exercises(PAGES[0]):
        assert each.asked.source.startswith(f"### {each.number}. ")


def test_no_puzzle_changes_what_another_one_uses():
    """A reader solves them in any order, and comes back to one after others."""
    page, owners = PAGES[0], {}
    for each in exercises(page):
        cells = [each.cell("answer"), each.cell("shows")]
        for name in set().union(*(bound_names(syntax_tree(page, cell)) for cell in cells)):
            assert owners.setdefault(name, each.number) == each.number, name
        assert answer_name(page, each) in owners


def test_only_runners_with_a_modelled_clock_execute_them():
    page = PAGES[0]
    executing = [runner.name for runner in BOOK.runners.values() if runner.executes(page)]
    assert executing == [runner.name for runner in BOOK.runners.values() if runner.times]
    other = Chapter(page.name, notebook(*page.notebook.cells, hardware={"gpus": [2]}))
    assert BOOK.runners["gpu"].executes(other)  # the same cells, were they no puzzles


# The rules on a page of puzzles.


def puzzles(*cells, **metadata):
    return Chapter("first", notebook(OPENING, *cells, **{"kind": "puzzles"} | metadata))


def puzzle(number, level, show="double"):
    """A sound puzzle, with a cell that shows its answer."""

    def numbered(text):
        text = text.replace("**1. Twice.** ", "### 1. Twice\n\n")
        return text.replace("1", str(number)).replace("Recall", level)

    cells = exercise(
        number,
        asked=numbered(ASKED_WELL),
        hints=HINTS,
        holds=numbered(HOLDS).replace("Exercise", "Puzzle"),
        solved=(SOLUTION, WRONG),
    )
    return [*cells[:2], code(f"shows-{number}", show), *cells[2:]]


def sound():
    levels = enumerate([*["Recall"] * 5, *["Apply"] * 5, *["Invent"] * 5], start=1)
    return [cell for number, level in levels for cell in puzzle(number, level)]


def faults(chapter):
    return [line for rule in EXERCISE_RULES for _, line in rule(chapter)]


def test_sound_puzzles_need_no_summary_but_an_opening(tmp_path):
    assert broken_rules(puzzles(*sound()), [], tmp_path) == []
    chapter = puzzles(*sound(), kind=None)
    lines = "\n".join(broken_rules(chapter, [], tmp_path))
    assert "end with Summary" in lines and "'Exercise 1: '" in lines
    chapter = puzzles(*sound())
    del chapter.notebook.cells[0]
    assert any("opens without a title" in line for line in broken_rules(chapter, [], tmp_path))


@pytest.mark.parametrize("asked", ["### 1. Twice *Recall.* It", "### 2. Twice\n\n*Recall.* It"])
def test_a_heading_says_the_number_and_the_title_alone(asked):
    cells = sound()
    cells[0].source = cells[0].source.replace("### 1. Twice\n\n*Recall.* Write", asked)
    assert any(
        "begins with '**1. Title.**' or '### 1. Title'" in each for each in faults(puzzles(*cells))
    )


@pytest.mark.parametrize("place", [0, 1, 3, 4])
def test_what_shows_an_answer_stands_between_it_and_its_check(place):
    cells = sound()
    shows = cells.pop(2)
    cells.insert(place, shows)
    assert any("exercise-1, answer-1, shows-1, holds-1" in each for each in faults(puzzles(*cells)))


def test_a_puzzle_is_called_one_where_it_holds():
    cells = sound()
    cells[3].source = HOLDS
    assert any("'Puzzle 1: '" in line for line in faults(puzzles(*cells)))
