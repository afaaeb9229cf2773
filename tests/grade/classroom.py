"""A small assignment, its student edition, answers to it, and a stand-in for a sandbox."""

import copy
from contextlib import contextmanager

from tools.grade.sandbox import Ended, Raised
from tools.grade.sandbox.inside.agent import question as ask_within
from tools.grade.tables import read_table

GIVEN = "import math\nimport torch"
TESTS = '''
@points(2)
def test_numbers(student, rng):
    """Doubles any number."""
    n = rng.randrange(5, 400)
    assert student.ask("double(n)", n=n) == 2 * n


def test_text(student, rng):
    """Doubles a text."""
    assert student.ask("double('ab')") == "abab"
'''
TESTS_2 = '''
@points(2)
def test_sums(student, rng):
    """Adds any numbers."""
    xs = [rng.randrange(99) for _ in range(5)]
    assert student.ask("total(xs)", xs=xs) == sum(xs)


def test_empty(student, rng):
    """The total of nothing is zero."""
    assert student.ask("total([])") == 0
'''
TESTS_3 = '''
@points(3)
def test_card(student, rng):
    """Puts zeros on the second card."""
    n = rng.randrange(2, 9)
    found = student.ask("[str(zeros(n).device), zeros(n).tolist()]", n=n)
    assert found == ["cuda:1", [0.0] * n]
'''


def question(number, name, title, tests, points=3, **more):
    called = f"'Exercise {number}: '"
    check = (
        f"if {name} is not ...:\n    assert callable({name})\n"
        f"{called} + ('no answer yet' if {name} is ... else 'it holds')"
    )
    made = {"number": number, "title": title, "points": points, "name": name, "tests": tests}
    made |= {"starter": f"{name} = ...  # your function", "shows": None, "checks": [check]}
    made |= {"seconds": 2, "memory": 512, "by_hand": None, "solution": "", "remarks": []}
    return made | more


BY_HAND = {"points": 2, "rubric": "Reads well."}
SMALL = {
    "name": "small",
    "title": "A small chapter",
    "class": "0123456789ab",
    "seed": "00ff",
    "runner": "simulated",
    "given": GIVEN,
    "questions": [
        question(1, "double", "Twice", TESTS),
        question(2, "total", "In all", TESTS_2, shows="print('total is', total)"),
        question(3, "zeros", "Nothing there", TESTS_3, by_hand=BY_HAND),
    ],
}
RIGHT = {
    1: "def double(x):\n    return x + x",
    2: "def total(xs):\n    s = 0\n    for x in xs:\n        s += x\n    return s",
    3: "def zeros(n):\n    return torch.zeros(n, device='cuda:1')",
}
HERE = RIGHT | {  # the stand-in runs in the tests' own process, where there is no second card
    3: """
class zeros:
    def __init__(self, n):
        self.n, self.device = n, 'cuda:1'
    def tolist(self):
        return [0.0] * self.n
"""
}
WRONG = {1: "def double(x):\n    return x * 2.5", 2: "total = max", 3: "zeros = torch.zeros"}


def small(**changes):
    """A copy of the assignment, to be changed at will."""
    return copy.deepcopy(SMALL) | changes


def cell(kind, id, source, marks):
    return {"cell_type": kind, "id": id, "metadata": marks, "source": source}


def text(id, source, **marks):
    return cell("markdown", id, source, marks)


def code(id, source, **marks):
    return cell("code", id, source, marks) | {"outputs": [], "execution_count": None}


def edition(answers=None, assignment=SMALL):
    """The student edition, with these answers in it; shaped as `make release` writes it."""
    answers = answers or {}
    joined = "# @title Given: x\n" + assignment["given"]
    cells = [
        text("title", "# A small chapter: exercises"),
        code("setup", "# @title Set-up: x\nimport sys", tags=["setup"]),
        code("given", joined, assignment={"part": "given"}),
    ]
    for asked in assignment["questions"]:
        n = asked["number"]
        words = f"## {n}. {asked['title']}\n\n*Apply, 3 points.* Write it."
        parts = [(text, "exercise", "exercise", words)]
        parts += [(code, "answer", "answer", answers.get(n, asked["starter"]))]
        parts += [(code, "shows", "shows", asked["shows"])] if asked["shows"] else []
        parts += [(code, "holds", "check", check) for check in asked["checks"]]
        parts += [(text, "by-hand", "by hand", "*Write here.*")] if asked["by_hand"] else []
        for make, id, part, source in parts:
            cells.append(make(f"{id}-{n}", source, assignment={"exercise": n, "part": part}))
    told = {"name": assignment["name"], "class": assignment["class"], "edition": "student"}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {"assignment": told}, "cells": cells}


LOST = edition(HERE)  # of which nothing says what it is
del LOST["metadata"]["assignment"]


def table(out, name="grades.csv"):
    """The rows of a table that grading wrote."""
    return read_table((out / name).read_text(encoding="utf-8"))


def totals(out):
    return {row["student"]: row["total"] for row in table(out)}


class StandIn:
    """A tier without walls, for tests of the judge alone: `end('time')` ends its session."""

    name = about = "stand-in"

    def __init__(self):
        self.sessions, self.ran = 0, []

    @contextmanager
    def session(self, memory, runner="simulated"):
        self.sessions += 1
        yield Session(self)


class End(BaseException):
    pass


class Session:
    def __init__(self, tier):
        def end(kind):
            raise End(kind)

        self.tier, self.names = tier, {"end": end}

    def run(self, source, seconds=10):
        self.tier.ran.append(source)
        try:
            exec(source, self.names)
        except End as ended:
            raise Ended(ended.args[0]) from None
        except Exception as raised:
            return type(raised).__name__
        return None

    def ask(self, code, inputs, seconds=10):
        try:
            return ask_within(code, inputs, self.names)
        except End as ended:
            raise Ended(ended.args[0]) from None
        except Exception as error:
            raise Raised from error
