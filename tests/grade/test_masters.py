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
    assert first.answer_name == "times"
    assert first.level == "Recall"
    assert first.seconds == 5
    assert first.drawn == {"factor": 2}
    assert wholes(first.parts["Hint"]) == ["A star multiplies.", "`x * 1` is `x`."]
    assert second.answer_name == "larger"
    assert second.by_hand is None
    assert second.drawn == {}


def draw_last(place, values):
    return values[-1]


BEFORE, BY_HAND, VARIANTS = re.split(r"(?=### By hand|### Variants)", FIRST)
ORDERS = [CHAPTER, f"{HEAD}{BEFORE}{VARIANTS}\n{BY_HAND}{SECOND}"]


@pytest.mark.parametrize("text", ORDERS, ids=["variants last", "by hand last"])
def test_variants_are_drawn_wherever_they_stand(tmp_path, text):
    first, _ = read_small(tmp_path, text, draw=draw_last).exercises
    assert first.code("Checks").endswith("times(1) == 19")
    assert first.by_hand.rubric == "Two points for a sentence that says why."


def test_a_variant_may_have_several_values(tmp_path):
    text = CHAPTER.replace("factor: [2,", "factor: [{n: 1},")
    text = text.replace("factor }}", "factor.n }}")
    first, _ = read_small(tmp_path, text).exercises
    assert first.text.startswith("Write `times(x)`, which mul")


def test_a_master_says_what_it_needs_and_where_it_is(tmp_path):
    master = read_small(tmp_path)
    assert master.name == "small"
    assert master.where == "small.md"
    assert master.title == "Small numbers"
    assert master.introduction == "Two exercises about numbers."
    assert master.runner == "cpu"
    assert master.given_cells == ["base"]
    assert master.given_code == ["offset = 1"]
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
    ("    n = rng", "    %time n = rng", "'Hidden tests' that is not Python"),
    ("- points: 1\n", "", "has no '- points: 3' above its text"),
    ("- level: Invent\n", "", "has no level"),
    ("larger = ...", "larger = 1", "nothing to answer"),
    ("- points: 2\n", "", "has no '- points: 3' above its rubric"),
    (
        "- points: 2\n",
        "- points: 1.5\n",
        "'- points: 1.5' above its rubric; write a whole",
    ),
    (
        "- points: 1\n",
        "- points: 1\n- seconds: ten\n",
        "'- seconds: ten' above its text",
    ),
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
