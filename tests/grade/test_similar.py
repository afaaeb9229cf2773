"""Near-identical answers are found whatever they were disguised with, and honest ones are not."""

import tomllib

import pytest
from classroom import DATA

from tools.grade.similar import lines_of, own_lines, similar

ONE, DISGUISED, OTHER = tomllib.loads((DATA / "similar.toml").read_text(encoding="utf-8")).values()
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
    lines = {id: lines_of(source) for id, source in answers.items()}
    groups = similar(1, own_lines(lines, given))
    assert [group.submissions for group in groups] == expected
    if expected == [("ann", "bob")]:
        assert groups[0].text.startswith("10 of 11 lines are the same")
