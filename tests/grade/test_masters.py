"""Masters are read whole, or one line says what is wrong."""

import re

import pytest
from classroom import CHAPTER, FIRST, HEAD, SECOND, write_master
from helpers import refused

from coursework.exercises.masters import read_master


def read_small(folder, text=CHAPTER, **options):
    return read_master(write_master(folder, text) / "small.md", folder, **options)


def wholes(parts):
    return [part.whole for part in parts]


def test_a_master_is_read_whole(tmp_path):
    first, second = read_small(tmp_path).exercises
    assert (first.level, first.seconds, first.name, second.name) == (
        "Recall",
        5,
        "times",
        "larger",
    )
    assert [part.whole for part in first.parts["Hint"]] == [
        "A star multiplies.",
        "`x * 1` is `x`.",
    ]
    assert (second.by_hand, second.drawn, first.drawn) == (None, {}, {"factor": 2})
    by_hand, variants = FIRST.index("### By hand"), FIRST.index("### Variants")
    turned = FIRST[:by_hand] + FIRST[variants:] + "\n" + FIRST[by_hand:variants]
    for text in (CHAPTER, HEAD + turned + SECOND):
        first = read_small(
            tmp_path, text, draw=lambda place, values: values[-1]
        ).exercises[0]
        assert first.code("Checks").endswith("times(1) == 19")
        assert first.by_hand.rubric == "Two points for a sentence that says why."
    case = CHAPTER.replace("factor: [2,", "factor: [{n: 1},").replace(
        "factor }}", "factor.n }}"
    )
    assert (
        read_small(tmp_path, case)
        .exercises[0]
        .text.startswith("Write `times(x)`, which mul")
    )


def test_a_master_says_what_it_needs_and_where_it_is(tmp_path):
    master = read_small(tmp_path)
    assert (master.name, master.where, master.given_cells) == (
        "small",
        "small.md",
        ["base"],
    )
    assert (master.title, master.runner) == ("Small numbers", "cpu")
    assert (master.introduction, master.given_code) == (
        "Two exercises about numbers.",
        ["offset = 1"],
    )
    outside = read_master(tmp_path / "small.md", tmp_path / "book")
    assert outside.where == str(tmp_path / "small.md")
    assert read_small(tmp_path, CHAPTER.replace("[base]", "")).given_cells == []


TESTS = "### Hidden tests\n\n```python\n"


def test_text_around_the_code_of_a_part_is_kept(tmp_path):
    hint = "A star\n\n> ### Starter\n\nmultiplies."
    text = CHAPTER.replace("A star multiplies.", hint)
    text = text.replace("`x * 1` is `x`.", "")
    text = text.replace(TESTS, f"{TESTS}N = 9\n")
    first, _ = read_small(tmp_path, text).exercises
    assert wholes(first.parts["Hint"]) == [hint, ""]
    assert first.parts["Solution"][0].text == "It is the plainest way to say it."
    assert first.parts["Shows"][0].options == {"times": "shown"}
    assert len(first.checks) == 2


PYTHON = "```python\nx = 1\n```\n"
INSTRUCTORS = "### For instructors\n\nA fun"
SOLUTION = "### Solution\n\n```python\nlarger"
VALUES = "factor: [2, 3, 5, 7, 11, 13, 17, 19]"
NO_LIST = "cannot be drawn (a name without a list of values)"
# What is in a master, what takes its place, and what the one line says.
BAD = [
    ("---\ntitle", "title", "begins without a '---' block"),
    ("runner: cpu\n", "", "begins without a '---' block"),
    (FIRST + SECOND, "", "no exercise"),
    ("2. Which", "3. Which", "'3. Which"),
    ("### Shows", "### Draws", "has a part 'Draws'"),
    ("### Hidden tests", "### Hint", "0 parts 'Hidden tests'; write 1"),
    ("### Hint", "### Shows", "1 parts 'Hint'; write 2 to 3"),
    ("def test_both", "def tests_both", "needs hidden tests"),
    ("def test_negative", "def test_any", "needs hidden tests"),
    ('    """Finds it wherever it stands."""\n', "", "needs hidden tests"),
    (INSTRUCTORS, f"### Solution\n\n{PYTHON}\n{INSTRUCTORS}", "2 parts 'Solution'"),
    ("```python\nlarger = max\n```", "", "'Solution' of 0 ```python blocks"),
    (INSTRUCTORS, PYTHON + INSTRUCTORS, "'Hidden tests' of 2 ```python"),
    (SOLUTION, PYTHON * 2 + SOLUTION, "'Checks' of 3 ```python"),
    (
        "    n = rng.randrange(9)",
        "    %time n = 9",
        "'Hidden tests' that is not Python",
    ),
    ("- points: 1\n", "", "has no '- points: 3' in figures"),
    ("- level: Invent\n", "", "has no level"),
    ("larger = ...", "larger = 1", "nothing to answer"),
    ("- points: 2\n", "", "has no '- points: 3' in figures"),
    ("factor: [2,", "factor: [[2,", "cannot be drawn"),
    (VALUES, "2", "cannot be drawn"),
    (VALUES, "factor: []", NO_LIST),
    (VALUES, "factor: ab", NO_LIST),
    (VALUES, f"{VALUES}\nother: 2", NO_LIST),
    ("by {{ factor }}", "by {{ facto }}", "'facto'"),
]


@pytest.mark.parametrize(("old", "new", "words"), BAD)
def test_a_bad_master_is_one_line(tmp_path, old, new, words):
    before, after = CHAPTER.rsplit(old, 1)
    with refused("small.md", words):
        read_small(tmp_path, before + new + after)
