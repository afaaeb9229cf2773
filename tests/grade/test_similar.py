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


SHORT = "def f(x):\n    return x + 1"
HALF = ONE.partition("        if total >")[0] + "        total = abs(value) ** 2\n" * 4
MOST = {f"s{n}": f"{ONE}\n# {n}\nx = {n}" for n in range(20)}  # who differ in a line
FOUND = {  # answers, what was given, who are found
    "a disguised copy": ({"ann": ONE, "bob": DISGUISED, "cy": OTHER}, [], [("ann", "bob")]),
    "two thirds": ({"ann": ONE, "bob": HALF}, [], []),
    "what was given": ({"ann": ONE, "bob": DISGUISED}, [ONE], []),
    "what most wrote": (MOST | {"z": OTHER}, [], []),
    "short": ({"ann": SHORT, "bob": SHORT}, [], []),
    "unreadable": ({"ann": "((((", "bob": "(((("}, [], []),
    "four": (dict.fromkeys("abcd", ONE) | {"z": OTHER}, [], [tuple("abcd")]),
    "twelve": (dict.fromkeys("abcdefghijkl", ONE) | {"z": OTHER}, [], [tuple("abcdefghijkl")]),
}


@pytest.mark.parametrize(("answers", "given", "expected"), FOUND.values(), ids=FOUND)
def test_who_is_found(answers, given, expected):
    groups = similar(1, {id: lines_of(source) for id, source in answers.items()}, given)
    assert [group.submissions for group in groups] == expected


def test_how_much_is_the_same():
    [group] = similar(1, {"ann": lines_of(ONE), "bob": lines_of(DISGUISED)}, [])
    assert group.text.startswith("10 of 11 lines are the same")
