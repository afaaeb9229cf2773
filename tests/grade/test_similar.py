"""Near-identical answers are found whatever they were disguised with, and honest ones are not."""

import pytest

from tools.grade.similar import lines_of, similar

ONE = '''
def spread(values, limit):
    """Deal values out."""
    total, seen = 0, set()
    for value in values:
        if value in seen or value < 0:
            continue
        seen.add(value)
        total += value * limit
        if total > 1000:
            total = total % 7
            break
    return total, sorted(seen)
'''
DISGUISED = """
def spread(v: list, k: int = 3) -> tuple:  # all my own work
    acc, s = 0, set()
    for x in v:

        if x in s or x < 0: continue
        s.add(x)
        acc += (x * k)
        if acc > 1000:
            acc = acc % 7
            break
    "nothing to see"
    return acc, sorted(s)
"""
OTHER = """
def spread(values, limit):
    kept = [value for value in dict.fromkeys(values) if value >= 0]
    sums = [value * limit for value in kept]
    result = sum(sums)
    while result > 1000:
        result -= 1000
    order = sorted(kept, key=lambda value: (value, -value))
    print(order, result)
    return (result, order)
"""


def groups(answers, given=()):
    return similar(1, {id: lines_of(source) for id, source in answers.items()}, given)


def found(answers, given=()):
    return [group.submissions for group in groups(answers, given)]


def test_disguised_copy_is_found_and_an_answer_of_its_own_is_not():
    (group,) = groups({"ann": ONE, "bob": DISGUISED, "cy": OTHER})
    assert (group.submissions, group.same, group.lines) == (("ann", "bob"), 10, 11)
    assert group.text == "10 of 11 lines are the same once names and comments are put aside"


@pytest.mark.parametrize("count", [4, 12])
def test_those_who_are_alike_are_one_group_however_many(count):
    (group,) = groups({f"s{n}": ONE for n in range(count)} | {"z": OTHER})
    assert len(group.submissions) == count


def test_what_was_given_and_what_most_wrote_say_nothing():
    assert found({"ann": ONE, "bob": DISGUISED}, [ONE]) == []
    most = {f"s{n}": f"{ONE}\n# {n}\nx = {n}" for n in range(20)}  # who differ in a line
    assert found(most | {"z": OTHER}) == []


def test_short_and_unreadable_answers_are_put_aside():
    short = "def f(x):\n    return x + 1"
    assert found({"ann": short, "bob": short}) == []
    assert found({"ann": "((((", "bob": "(((("}) == [] and not lines_of("-" * 99999 + "1")


def test_two_thirds_are_not_enough():
    lines = ONE.strip().split("\n")
    half = "\n".join([*lines[:8], "        a = 1", "        b = a + 3", "        c = b ** 2",
                      "        d = c - a", "    return d"])  # fmt: skip
    assert found({"ann": ONE, "bob": half}) == []
