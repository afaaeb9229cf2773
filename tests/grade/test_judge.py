"""The judge asks from outside, and a session that ends costs the exercise in which it ended."""

import json
import math
from itertools import product

import pytest
from classroom import HERE, RIGHT, SMALL, TESTS, WRONG, StandIn, edition, small

from tools.errors import BookError
from tools.grade.judge import close, grade_one, rng_of
from tools.grade.splice import splice

LEAK = """
def total(xs):
    print('SECRET', xs)
    if xs:
        raise ValueError('SECRET', xs)
    return 'SECRET'
"""
MORE = """

def test_more(student, rng):
    'More.'
    assert student.ask('double(1)') == 2
"""
FORM = """
def test_form(student, rng):
    'Form.'
    assert student.ask('double(1)')['a'][2] == 1
"""
SWALLOWS = """
def test_a(student, rng):
    'A.'
    try:
        student.ask("double('ab')")
    except StudentError:
        pass
"""
END = "def double(x):\n    return end('time') if x == 'ab' else 2 * x"


def graded(answers, tier=None, assignment=SMALL):
    return grade_one(task_of(answers, assignment), tier or StandIn())


def task_of(answers, assignment=SMALL):
    cells = splice(edition(answers, assignment), assignment).cells
    return {"assignment": assignment, "submission": "jane", "cells": cells}


def reasons(result, number):
    return [test["reason"] for test in result["questions"][str(number)]["tests"]]


def test_right_answers_get_full_points():
    result = graded(HERE)
    assert result["points"] == result["of"] == 9 and result["sandbox"] == "stand-in"
    [test, _] = result["questions"]["1"]["tests"]
    assert (test["name"], test["about"]) == ("test_numbers", "Doubles any number.")
    assert (test["passed"], test["points"], test["of"], test["inputs"]) == (True, 2, 2, {})


@pytest.mark.parametrize("below", ["", "\nend('memory')"])
def test_session_that_ends_costs_one_exercise(below):
    asked = "def total(xs):\n    return end('memory') if xs else 0"
    result = graded(HERE | {2: asked + below})
    assert result["questions"]["2"]["points"] == 0 and result["points"] == 6
    assert result["findings"] == [
        {"kind": "memory", "exercise": 2, "text": "ended its session: memory"}
    ]


@pytest.mark.parametrize(
    ("number", "more"),
    [
        (1, "sum = range = 5"),
        (1, "for xs in [1]: s = 1 / 0"),
        (1, "math = None"),
        (3, "double = total = 5"),  # an answer is asked as it stood when its own cell had run
        (3, "sum = len = range = 5"),
        (3, "import math\ndel double"),
    ],
)
def test_no_answer_costs_another_one_points(number, more):
    answers = HERE | {2: "def total(xs):\n    return sum(xs)"}
    assert graded(answers | {number: f"{answers[number]}\n{more}"})["points"] == 9


def test_a_student_is_told_what_was_put_in_and_what_their_cell_raised():
    result = graded({1: "def double(x):\n    return 2.5 * x\n1 / 0"})["questions"]["1"]
    assert result["error"] == "ZeroDivisionError" and 5 <= result["tests"][0]["inputs"]["n"] < 400


@pytest.mark.parametrize("before", ["", "x = 1\n", "if 0: torch" + ".a" * 900 + "\n"])
def test_a_known_wrong_answer_has_the_masters_remark(before):
    assignment = small()
    assignment["questions"][0]["remarks"] = [[WRONG[1], "It is 2, not 2.5."]]
    result = graded({1: before + WRONG[1] + "  # mine"}, assignment=assignment)["questions"]["1"]
    assert result["remark"] == "It is 2, not 2.5."


def test_an_end_leaves_the_points_before_it_and_asks_no_more():
    assignment = small()
    assignment["questions"][0] |= {"tests": TESTS + MORE, "points": 4}
    result = graded(HERE | {1: END}, assignment=assignment)
    late = "not asked, as a test before it ended the session"
    assert reasons(result, 1) == [None, "took more than 2 s", late] and result["points"] == 8
    again = graded(HERE | {1: END}, assignment=assignment)
    assert json.dumps(again) == json.dumps(result)  # byte for byte


def test_every_exercise_may_end_its_session_and_no_more_are_started_than_that():
    tier = StandIn()
    assert graded(dict.fromkeys((1, 2, 3), "end('crash')"), tier)["points"] == 0
    assert tier.sessions == 3


def test_cells_above_the_exercises_that_end_a_session_are_left_out():
    task = task_of(HERE)
    task["cells"][""] = ["end('time')"]
    result = grade_one(task, StandIn())
    assert result["points"] == 9 and result["findings"][0]["kind"] == "preamble"


def test_given_cell_that_ends_a_session_is_nobodys_fault():
    assignment = small(given="end('memory')")
    with pytest.raises(BookError, match=r"small: a given cell ended the session \(memory\)"):
        graded(RIGHT, assignment=assignment)


def test_nothing_that_a_student_says_reaches_a_result():
    named = "class SECRET(Exception): pass\ndef total(xs):\n    raise SECRET\nraise SECRET"
    for answer in (LEAK, named):
        assert "SECRET" not in json.dumps(graded(HERE | {2: answer, 1: END}))


def test_rng_is_the_same_for_a_class_and_another_for_each_test():
    draws = {
        rng_of(small(seed=seed), number, name).random()
        for seed, number, name in product("ab", (1, 2), ("test_a", "test_b"))
    }
    assert len(draws) == 8 and rng_of(small(seed="a"), 1, "test_a").random() in draws


@pytest.mark.parametrize(
    ("tests", "answers", "reason"),
    [
        (FORM, {}, "the result is not of the form asked for"),
        (SWALLOWS, {1: END}, "took more than 2 s"),  # though the test catches it
    ],
)
def test_a_test_that_goes_astray_stops_nothing(tests, answers, reason):
    assignment = small()
    assignment["questions"][0]["tests"] = tests
    assert reasons(graded(HERE | answers, assignment=assignment), 1) == [reason]


def test_magics_behave():
    answer = f"%%time\n!pip install x\n%matplotlib inline\n{RIGHT[1]}\ndouble?\ny = %time double(1)"
    tier = StandIn()
    assert graded(HERE | {1: answer}, tier)["points"] == 9
    assert not any(sign in "".join(tier.ran) for sign in "%!?")
    assert graded(HERE | {1: "%%bash\nrm -rf /"})["questions"]["1"]["points"] == 0


def test_close():
    assert close([1.0, [2, 3]], [1 + 1e-9, [2, 3.0000001]]) and close(math.nan, math.nan)
    assert not close([1.0], [1.0, 2.0]) and not close(1, 1.1) and not close(True, 1)
    assert not close("a", "a") and not close(None, None) and not close(math.inf, -math.inf)
