"""Near-identical answers are found whatever they were disguised with, and honest ones are not."""

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


def found(answers, given=()):
    return [(pair.first, pair.second) for pair in similar(1, answers, given)]


def test_disguised_copy_is_found_and_an_answer_of_its_own_is_not():
    (pair,) = similar(1, {"ann": ONE, "bob": DISGUISED, "cy": OTHER}, [])
    assert (pair.first, pair.second, pair.same, pair.lines) == ("ann", "bob", 10, 11)
    assert pair.text == (
        "10 of 11 lines are the same once names and comments are put aside; "
        f"{pair.alone} of them stand in no other one"
    )
    assert 4 <= pair.alone <= 11


def test_a_group_is_found_as_pairs_that_say_how_many():
    pairs = similar(1, {name: ONE for name in "abcd"} | {"z": OTHER}, [])
    assert len(pairs) == 6 and "only in 4 submissions like it" in pairs[0].text


def test_what_was_given_and_what_most_wrote_say_nothing():
    assert found({"ann": ONE, "bob": DISGUISED}, [ONE]) == []
    class_of = {f"s{n}": ONE for n in range(20)} | {f"t{n}": OTHER for n in range(5)}
    assert not any(first[0] == "s" for first, _ in found(class_of))


def test_short_and_unreadable_answers_are_put_aside():
    short = "def f(x):\n    return x + 1"
    assert found({"ann": short, "bob": short}) == []
    assert found({"ann": "((((", "bob": "(((("}) == [] and not lines_of("-" * 99999 + "1")


def test_two_thirds_are_not_enough():
    lines = ONE.strip().split("\n")
    half = "\n".join([*lines[:8], "        a = 1", "        b = a + 3", "        c = b ** 2",
                      "        d = c - a", "    return d"])  # fmt: skip
    assert found({"ann": ONE, "bob": half}) == []
