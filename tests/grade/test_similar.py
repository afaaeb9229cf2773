"""Near-identical answers are found whatever they were disguised with, and honest ones are not."""

import tomllib

import pytest
from classroom import DATA

from coursework.grade.similar import lines_of, own_lines, similar_answers

ONE, DISGUISED, OTHER = tomllib.loads(
    (DATA / "similar.toml").read_text(encoding="utf-8")
).values()
SHORT = "def f(x):\n    return x + 1"
HALF = ONE.partition("        if total >")[0] + "        total = abs(value) ** 2\n" * 4
MOST = {f"s{n}": f"{ONE}\n# {n}\nx = {n}" for n in range(20)}  # who differ in a line
FOUND = {  # answers, what was given, who are found
    "a disguised copy": (
        {"ann": ONE, "bob": DISGUISED, "cy": OTHER},
        [],
        [("ann", "bob")],
    ),
    "two thirds": ({"ann": ONE, "bob": HALF}, [], []),
    "what was given": ({"ann": ONE, "bob": DISGUISED}, [ONE], []),
    "what most wrote": (MOST | {"z": OTHER}, [], []),
    "short": ({"ann": SHORT, "bob": SHORT}, [], []),
    "unreadable": ({"ann": "((((", "bob": "(((("}, [], []),
    "four": (dict.fromkeys("abcd", ONE) | {"z": OTHER}, [], [tuple("abcd")]),
    "twelve": (
        dict.fromkeys("abcdefghijkl", ONE) | {"z": OTHER},
        [],
        [tuple("abcdefghijkl")],
    ),
}


@pytest.mark.parametrize(("answers", "given", "expected"), FOUND.values(), ids=FOUND)
def test_who_is_found(answers, given, expected):
    lines = {id: lines_of(source) for id, source in answers.items()}
    groups = similar_answers(1, own_lines(lines, given))
    assert [group.submissions for group in groups] == expected
    if expected == [("ann", "bob")]:
        assert groups[0].text.startswith("10 of 11 lines are the same")


def answers_of(*letters, others=0):
    """Answers in which each letter is a line, beside those of others who share none."""
    lines = {
        f"s{n}": frozenset((letter, 0) for letter in own)
        for n, own in enumerate(letters)
    }
    alone = {
        f"z{n}": frozenset((f"{n} {line}", 0) for line in range(20))
        for n in range(others)
    }
    return lines | alone


EIGHT = "abcdefgh"
LIMITS = {  # answers, and how many are in each group that is found
    "eight lines are enough": (answers_of(EIGHT, EIGHT), [2]),
    "seven are not": (answers_of(EIGHT[:7], EIGHT[:7]), []),
    "five odd ones are": (answers_of("abcde", "abcde", others=38), [2]),
    "of which four are odd": (answers_of("abcde", "abcde", "e", others=37), [2]),
    "and not three": (answers_of("abcde", "abcde", "de", others=37), []),
    "four lines are not": (answers_of("abcd", "abcd", others=38), []),
    "none is odd in fewer than forty": (answers_of("abcde", "abcde", others=37), []),
    "eight of ten lines": (answers_of("abcdefghij", "abcdefgh12"), [2]),
    "seven of nine": (answers_of("abcdefghi", "abcdefg12"), []),
    "eight have a line": (
        answers_of(*(EIGHT + own for own in "12345678"), others=10),
        [8],
    ),
    "nine have it": (answers_of(*(EIGHT + own for own in "123456789"), others=10), []),
    "2 in 100 have it": (
        answers_of(*(EIGHT + own for own in "123456789"), others=441),
        [9],
    ),
    "half of a class": (answers_of(*(EIGHT + own for own in "1234"), others=4), [4]),
    "more of it": (answers_of(*(EIGHT + own for own in "12345"), others=3), []),
    "of a class of seven": (
        answers_of(*(EIGHT + own for own in "12345"), others=2),
        [5],
    ),
    "the largest first": (answers_of("ABCDEFGH", "ABCDEFGH", *[EIGHT] * 3), [3, 2]),
}


@pytest.mark.parametrize(("own", "sizes"), LIMITS.values(), ids=LIMITS)
def test_how_much_must_be_the_same(own, sizes):
    assert [len(group.submissions) for group in similar_answers(1, own)] == sizes


def test_a_group_is_told_by_the_two_that_are_least_alike():
    chain = answers_of("abcdefghij", "abcdefgh12", "abcdefgh12", "abcdefg312")
    [group] = similar_answers(1, chain)
    assert (
        group.text
        == "at least 8 of 10 lines are the same once names and comments are put aside"
    )
