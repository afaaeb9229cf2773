"""Near-identical answers are found in any disguise, and honest ones are not."""

import tomllib

import pytest
from classroom import DATA

from coursework.grade.similar import lines_of, own_lines, similar_answers

ANSWERS = tomllib.loads((DATA / "similar.toml").read_text(encoding="utf-8"))
ONE = ANSWERS["one"]
DISGUISED = ANSWERS["disguised"]
OTHER = ANSWERS["other"]


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


def test_two_thirds_of_the_same_lines_are_no_copy():
    beginning = ONE.partition("        if total >")[0]
    own_end = "        total = abs(value) ** 2\n" * 4
    assert groups_in({"ann": ONE, "bob": beginning + own_end}) == []


def test_what_most_wrote_is_no_copy():
    # These differ in a line.
    answers = {f"s{n}": f"{ONE}\n# {n}\nx = {n}" for n in range(20)}
    answers["z"] = OTHER
    assert groups_in(answers) == []


@pytest.mark.parametrize(
    "answer", ["def f(x):\n    return x + 1", "(((("], ids=["short", "unreadable"]
)
def test_a_short_or_unreadable_answer_is_no_copy(answer):
    assert groups_in({"ann": answer, "bob": answer}) == []


@pytest.mark.parametrize("students", ["abcd", "abcdefghijkl"], ids=["four", "twelve"])
def test_all_who_copied_are_one_group(students):
    answers = dict.fromkeys(students, ONE) | {"z": OTHER}
    [group] = groups_in(answers)
    assert group.submissions == tuple(students)


# --- how much must be the same


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


def sizes(answers):
    """Return how many answers are in each group that is found."""
    return [len(group.submissions) for group in similar_answers(1, answers)]


EIGHT = "abcdefgh"


def test_eight_common_lines_are_enough():
    assert sizes(answers_of(EIGHT, EIGHT)) == [2]
    assert sizes(answers_of(EIGHT[:7], EIGHT[:7])) == []


@pytest.mark.parametrize(
    ("letters", "others", "groups"),
    [
        # In a class of forty a line of two is odd.
        (["abcde", "abcde"], 38, [2]),
        (["abcde", "abcde"], 37, []),
        # Four of the five must be.
        (["abcde", "abcde", "e"], 37, [2]),
        (["abcde", "abcde", "de"], 37, []),
        (["abcd", "abcd"], 38, []),
    ],
)
def test_five_odd_lines_are_enough(letters, others, groups):
    assert sizes(answers_of(*letters, others=others)) == groups


def test_four_fifths_of_the_lines_must_be_the_same():
    assert sizes(answers_of("abcdefghij", "abcdefgh12")) == [2]
    assert sizes(answers_of("abcdefghi", "abcdefg12")) == []


@pytest.mark.parametrize(
    ("count", "others", "groups"),
    [
        # In a small class more than eight are too many.
        (8, 10, [8]),
        (9, 10, []),
        # In a large one, more than 2 in 100.
        (9, 441, [9]),
        # And more than half of the class, unless it is of seven or fewer.
        (4, 4, [4]),
        (5, 3, []),
        (5, 2, [5]),
    ],
)
def test_what_many_wrote_is_no_copy(count, others, groups):
    own_lines = "123456789"[:count]
    answers = answers_of(*[EIGHT + own for own in own_lines], others=others)
    assert sizes(answers) == groups


def test_the_largest_group_comes_first():
    answers = answers_of("ABCDEFGH", "ABCDEFGH", EIGHT, EIGHT, EIGHT)
    assert sizes(answers) == [3, 2]


def test_a_group_is_described_by_the_two_least_alike():
    chain = answers_of("abcdefghij", "abcdefgh12", "abcdefgh12", "abcdefg312")
    [group] = similar_answers(1, chain)
    same = "at least 8 of 10 lines are the same"
    assert group.text == f"{same} when names and comments are ignored"
