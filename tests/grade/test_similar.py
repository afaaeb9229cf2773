"""Near-identical answers are found in any disguise, and honest ones are not."""

import tomllib

import pytest
from classroom import DATA

from coursework.grade.similar import lines_of, own_lines, similar_answers

ANSWERS = tomllib.loads((DATA / "similar.toml").read_text(encoding="utf-8"))
ONE, DISGUISED, OTHER = ANSWERS.values()
SHORT = "def f(x):\n    return x + 1"
HALF = ONE.partition("        if total >")[0] + "        total = abs(value) ** 2\n" * 4
# These differ in a line.
MOST = {f"s{n}": f"{ONE}\n# {n}\nx = {n}" for n in range(20)}
INNOCENT = {
    "two thirds are the same": {"ann": ONE, "bob": HALF},
    "what most wrote": MOST | {"z": OTHER},
    "too short": {"ann": SHORT, "bob": SHORT},
    "unreadable": {"ann": "((((", "bob": "(((("},
}


def groups_in(answers, given=()):
    lines = {}
    for submission, source in answers.items():
        lines[submission] = lines_of(source)
    return similar_answers(1, own_lines(lines, given))


def test_a_disguised_copy_is_found():
    [group] = groups_in({"ann": ONE, "bob": DISGUISED, "cy": OTHER})
    assert group.submissions == ("ann", "bob")
    assert group.text.startswith("10 of 11 lines are the same")


def test_what_was_given_to_all_is_no_copy():
    assert groups_in({"ann": ONE, "bob": DISGUISED}, given=[ONE]) == []


@pytest.mark.parametrize("answers", INNOCENT.values(), ids=INNOCENT.keys())
def test_nobody_is_found_without_reason(answers):
    assert groups_in(answers) == []


@pytest.mark.parametrize("students", ["abcd", "abcdefghijkl"], ids=["four", "twelve"])
def test_all_who_copied_are_one_group(students):
    answers = dict.fromkeys(students, ONE) | {"z": OTHER}
    [group] = groups_in(answers)
    assert group.submissions == tuple(students)


def lines_from(texts):
    return frozenset((text, 0) for text in texts)


def answers_of(*letters, others=0):
    """Make answers in which each letter is a line, and some that share no line."""
    answers = {}
    for n, own in enumerate(letters):
        answers[f"s{n}"] = lines_from(own)
    for n in range(others):
        answers[f"z{n}"] = lines_from(f"{n} {line}" for line in range(20))
    return answers


EIGHT = "abcdefgh"


def sharing_eight(count, others):
    """Make answers of `count` students who share eight lines and have one of their own."""
    own = "123456789"[:count]
    return answers_of(*[EIGHT + letter for letter in own], others=others)


# Answers, and how many are in each group that is found.
LIMITS = {
    "eight lines are enough": (answers_of(EIGHT, EIGHT), [2]),
    "seven are not": (answers_of(EIGHT[:7], EIGHT[:7]), []),
    "five odd ones are": (answers_of("abcde", "abcde", others=38), [2]),
    "of which four are odd": (answers_of("abcde", "abcde", "e", others=37), [2]),
    "and not three": (answers_of("abcde", "abcde", "de", others=37), []),
    "four lines are not": (answers_of("abcd", "abcd", others=38), []),
    "none is odd in fewer than forty": (answers_of("abcde", "abcde", others=37), []),
    "eight of ten lines": (answers_of("abcdefghij", "abcdefgh12"), [2]),
    "seven of nine": (answers_of("abcdefghi", "abcdefg12"), []),
    "eight have a line": (sharing_eight(8, others=10), [8]),
    "nine have it": (sharing_eight(9, others=10), []),
    "2 in 100 have it": (sharing_eight(9, others=441), [9]),
    "half of a class": (sharing_eight(4, others=4), [4]),
    "more of it": (sharing_eight(5, others=3), []),
    "of a class of seven": (sharing_eight(5, others=2), [5]),
    "the largest first": (answers_of("ABCDEFGH", "ABCDEFGH", *[EIGHT] * 3), [3, 2]),
}


@pytest.mark.parametrize(("own", "sizes"), LIMITS.values(), ids=LIMITS)
def test_how_much_must_be_the_same(own, sizes):
    assert [len(group.submissions) for group in similar_answers(1, own)] == sizes


def test_a_group_is_described_by_the_two_least_alike():
    chain = answers_of("abcdefghij", "abcdefgh12", "abcdefgh12", "abcdefg312")
    [group] = similar_answers(1, chain)
    same = "at least 8 of 10 lines are the same"
    assert group.text == f"{same} once names and comments are put aside"
