"""Masters are read whole, or one line says what is wrong."""

import re

import pytest
from classroom import CHAPTER, FIRST, HEAD, SECOND, write_master
from helpers import refused

from coursework.exercises.masters import read_master


def read_small(folder, text=CHAPTER, **options):
    return read_master(write_master(folder, text) / "small.md", folder, **options)


def texts_of(parts):
    return [part.whole for part in parts]


def test_a_master_is_read_whole(tmp_path):
    first, second = read_small(tmp_path).exercises
    assert first.answer_name == "times"
    assert first.level == "Recall"
    assert first.seconds == 5
    assert first.drawn == {"factor": 2}
    assert texts_of(first.parts["Hint"]) == ["A star multiplies.", "`x * 1` is `x`."]
    assert second.answer_name == "larger"
    assert second.by_hand is None
    assert second.drawn == {}


def draw_last(place, values):
    return values[-1]


EXERCISE, BY_HAND, VARIANTS = re.split(r"(?=### By hand|### Variants)", FIRST)
BY_HAND_LAST = f"{HEAD}{EXERCISE}{VARIANTS}\n{BY_HAND}{SECOND}"


@pytest.mark.parametrize(
    "text", [CHAPTER, BY_HAND_LAST], ids=["variants last", "by hand last"]
)
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


def test_a_master_outside_the_book_has_its_whole_path(tmp_path):
    path = write_master(tmp_path) / "small.md"
    master = read_master(path, tmp_path / "book")
    assert master.where == str(path)


def test_a_master_may_need_no_cell(tmp_path):
    master = read_small(tmp_path, CHAPTER.replace("[base]", ""))
    assert master.given_cells == []


HIDDEN_TESTS = "### Hidden tests\n\n```python\n"


def test_text_around_the_code_of_a_part_is_kept(tmp_path):
    hint = "A star\n\n> ### Starter\n\nmultiplies."
    text = CHAPTER.replace("A star multiplies.", hint)
    text = text.replace("`x * 1` is `x`.", "")
    text = text.replace(HIDDEN_TESTS, f"{HIDDEN_TESTS}N = 9\n")
    first, _ = read_small(tmp_path, text).exercises
    assert texts_of(first.parts["Hint"]) == [hint, ""]
    assert first.parts["Solution"][0].text == "It is the plainest way to say it."
    assert first.parts["Shows"][0].options == {"times": "shown"}
    assert len(first.checks) == 2


# --- masters with a fault: what is in one, what takes its place, and words of the refusal


def assert_refused(folder, old, new, words):
    """Assert that the master is refused with its last `old` replaced by `new`."""
    before, after = CHAPTER.rsplit(old, 1)
    with refused("small.md", words):
        read_small(folder, before + new + after)


@pytest.mark.parametrize(
    ("old", "new"), [("---\ntitle", "title"), ("runner: cpu\n", "")]
)
def test_a_master_begins_with_what_it_needs(tmp_path, old, new):
    assert_refused(tmp_path, old, new, "begins without a '---' block")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [(FIRST + SECOND, "", "no exercise"), ("2. Which", "3. Which", "'3. Which")],
)
def test_exercises_are_counted_from_one(tmp_path, old, new, words):
    assert_refused(tmp_path, old, new, words)


PYTHON = "```python\nx = 1\n```\n"
SOLUTION = "### Solution\n\n```python\nlarger"
INSTRUCTORS = "### For instructors\n\nA fun"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("### Shows", "### Draws", "has a part 'Draws'"),
        ("### Hidden tests", "### Hint", "0 parts 'Hidden tests'; write 1"),
        ("### Hint", "### Shows", "1 parts 'Hint'; write 2 to 3"),
        (INSTRUCTORS, f"### Solution\n\n{PYTHON}\n{INSTRUCTORS}", "2 parts 'Solution'"),
        ("```python\nlarger = max\n```", "", "'Solution' of 0 ```python blocks"),
        (INSTRUCTORS, PYTHON + INSTRUCTORS, "'Hidden tests' of 2 ```python"),
        (SOLUTION, PYTHON * 2 + SOLUTION, "'Checks' of 3 ```python"),
    ],
)
def test_an_exercise_has_so_many_of_each_part(tmp_path, old, new, words):
    assert_refused(tmp_path, old, new, words)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def test_both", "def tests_both"),
        ("def test_negative", "def test_any"),
        ('    """Finds it wherever it stands."""\n', ""),
    ],
    ids=["none", "two of one name", "none that says what it tests"],
)
def test_an_exercise_needs_hidden_tests(tmp_path, old, new):
    assert_refused(tmp_path, old, new, "needs hidden tests")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("    n = rng", "    %time n = rng", "'Hidden tests' that is not Python"),
        ("larger = ...", "larger = 1", "nothing to answer"),
    ],
)
def test_code_of_a_master_is_python_with_a_blank(tmp_path, old, new, words):
    assert_refused(tmp_path, old, new, words)


POINTS = "- points: 1\n"
POINTS_BY_HAND = "- points: 2\n"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("- level: Invent\n", "", "has no level"),
        (POINTS, "", "has no '- points: 3' above its text"),
        (POINTS_BY_HAND, "", "has no '- points: 3' above its rubric"),
        (
            POINTS_BY_HAND,
            "- points: 1.5\n",
            "'- points: 1.5' above its rubric; write a whole",
        ),
        (POINTS, f"{POINTS}- seconds: ten\n", "'- seconds: ten' above its text"),
    ],
)
def test_an_exercise_says_its_level_and_points(tmp_path, old, new, words):
    assert_refused(tmp_path, old, new, words)


VALUES = "factor: [2, 3, 5, 7, 11, 13, 17, 19]"
NO_LIST = "cannot be drawn (a name without a list of values)"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("factor: [2,", "factor: [[2,", "cannot be drawn"),
        (VALUES, "2", "cannot be drawn"),
        (VALUES, "factor: []", NO_LIST),
        (VALUES, "factor: ab", NO_LIST),
        (VALUES, f"{VALUES}\nother: 2", NO_LIST),
        ("by {{ factor }}", "by {{ facto }}", "'facto'"),
    ],
)
def test_a_variant_is_a_name_with_values(tmp_path, old, new, words):
    assert_refused(tmp_path, old, new, words)
