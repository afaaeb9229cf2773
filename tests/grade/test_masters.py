"""Masters: read whole, or one line about what is wrong."""

import pytest
from helpers import ROOT, refused
from small_masters import FIRST, HEAD, SECOND, SMALL, read_small, write_master

from tools.exercises.masters import read_masters


def test_a_master_is_read_whole(tmp_path):
    master = read_small(tmp_path)
    first, second = master.exercises
    assert (master.title, master.given, master.runner) == ("Small numbers", ["base"], "cpu")
    assert (master.head, master.own_given) == ("Two exercises about numbers.", ["offset = 1"])
    assert (first.title, first.level, first.points, first.seconds) == ("Times", "Recall", 3, 5)
    assert first.text.startswith("Write `times(x)`, which multiplies `x` by 2.")
    assert (first.name, second.name) == ("times", "larger")
    assert first.hints == ["A star multiplies.", "`x * 1` is `x`."]
    assert len(first.checks) == 2 and len(first.wrong_answers) == 2
    assert first.wrong_answers[1].text == "It loses the sign on its way."
    assert first.by_hand == {"points": 2, "rubric": "Two points for a sentence that says why."}
    assert (second.by_hand, second.drawn, first.drawn) == (None, {}, {"factor": 2})
    assert "return 2 * (x" in first.code("Solution")


def test_variants_are_drawn_wherever_they_stand(tmp_path):
    places = []

    def last(place, values):
        places.append(place)
        return values[-1]

    by_hand, variants = FIRST.index("### By hand"), FIRST.index("### Variants")
    turned = FIRST[:by_hand] + FIRST[variants:] + "\n" + FIRST[by_hand:variants]
    for text in (SMALL, HEAD + turned + SECOND):
        first = read_small(tmp_path, text, draw=last).exercises[0]
        assert first.code("Checks").endswith("times(1) == 19")
        assert first.by_hand["rubric"] == "Two points for a sentence that says why."
    assert places == ["small/1/factor"] * 2


def test_a_variant_may_be_a_case_of_several(tmp_path):
    text = SMALL.replace("factor: [2,", "factor: [{n: 1},").replace(
        "{{ factor }}", "{{ factor.n }}"
    )
    assert read_small(tmp_path, text).exercises[0].text.startswith("Write `times(x)`, which mul")


def without(part, text=SECOND):
    """A section without its part of that name."""
    start = text.index(f"### {part}")
    end = text.find("### ", start + 4)
    return text[:start] + (text[end:] if end > 0 else "")


BAD = {
    "no head": (SMALL.removeprefix("---\n"), "begins with no '---' block"),
    "no runner": (SMALL.replace("runner: cpu\n", ""), "begins with no '---' block"),
    "no exercise": (HEAD, "no exercise"),
    "a number left out": (HEAD + FIRST + SECOND.replace("2. Which", "3. Which"), "'3. Which"),
    "a part of another name": (SMALL.replace("### Shows", "### Draws"), "has a part 'Draws'"),
    "no hidden tests": (HEAD + FIRST + without("Hidden tests"), "0 parts 'Hidden tests'"),
    "two solutions": (SMALL + "\n### Solution\n\n```python\nx = 1\n```\n", "2 parts 'Solution'"),
    "a part without code": (
        SMALL.replace("```python\nlarger = max\n```", ""),
        "holds 0 ```python blocks",
    ),
    "two blocks of tests": (
        SMALL.replace(
            "### For instructors\n\nA", "```python\nx = 1\n```\n\n### For instructors\n\nA"
        ),
        "a part 'Hidden tests' holds 2 ```python blocks; write one",
    ),
    "three checks": (
        SMALL.replace("### Solution", "```python\n1\n```\n\n```python\n2\n```\n\n### Solution"),
        "blocks; write one or two",
    ),
    "a magic in a test": (
        SMALL.replace("    n = rng.randrange(9)", "    %time n = rng.randrange(9)"),
        "the part 'Hidden tests' is no Python",
    ),
    "no points": (SMALL.replace("- points: 1\n", ""), "says no '- points: 3' in figures"),
    "no level": (SMALL.replace("- level: Invent\n", ""), "says no level"),
    "nothing to answer": (SMALL.replace("larger = ...", "larger = 1"), "nothing to answer"),
    "a test that is no Python": (SMALL.replace("def test_both(", "def test both("), "no Python"),
    "a rubric without points": (SMALL.replace("- points: 2\n", ""), "says no '- points: 2"),
    "variants that are no YAML": (SMALL.replace("factor: [2,", "factor: [[2,"), "cannot be drawn"),
    "variants that are no lists": (
        SMALL.replace("factor: [2, 3, 5, 7, 11, 13, 17, 19]", "2"),
        "ca",
    ),
    "a variant without a value": (
        SMALL.replace("[2, 3, 5, 7, 11, 13, 17, 19]", "[]"),
        "cannot be drawn",
    ),
    "a name that is no variant": (SMALL.replace("by {{ factor }}", "by {{ facto }}"), "'facto'"),
    "half of a merge": (SMALL + "\n<<<<<<< HEAD\n", "conflict markers"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_master_is_one_line(tmp_path, what):
    text, words = BAD[what]
    assert text != SMALL
    with refused("small.md", words):
        read_small(tmp_path, text)


def test_a_folder_without_masters_is_one_line(tmp_path):
    with refused("nowhere", "no such folder"):
        read_masters(tmp_path / "nowhere", ROOT)
    with refused(str(tmp_path), "no master in it"):
        read_masters(tmp_path, ROOT)
    write_master(tmp_path)
    (tmp_path / "small.md").write_bytes(b"\xff")
    with refused("small.md", "not UTF-8"):
        read_masters(tmp_path, ROOT)
