"""The judge: runs a notebook in a sandbox, and asks the hidden tests from outside.

Each answer is asked as its own cells leave the notebook and, where it loses points there, once more
in a session of its own. Expected values stay here. A session that ends costs the exercise in which
it ended, and no other.
"""

import ast
import builtins
import itertools
import json
import math
import random
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

from tools.errors import BookError
from tools.grade.sandbox import Ended, NoData, Raised, strongest
from tools.grade.source import tree_of
from tools.grade.splice import finding, plain

LEAST_MEMORY = 1024  # MiB beyond torch: the cells that are given
SLACK = 120  # s of wall time that a submission has beyond four times all its exercises' seconds
SAID = tomllib.loads(Path(__file__).with_name("judge.toml").read_text(encoding="utf-8"))


class StudentError(Exception):
    """The student's code raised, or its session ended."""


class Student:
    """What a hidden test asks: data from the student's notebook, never a verdict. What one test has
    asked is not asked anew for the next: it would say the same, and timed programs take long."""

    def __init__(self, session: Any, seconds: float, answers: dict[tuple, Any]) -> None:
        """`answers` are those that an exercise has given, by question and which of a test it is."""
        self._session, self._seconds, self._answers = session, seconds, answers
        self._times: Counter[str] = Counter()
        self.ended: str | None = None
        self.inputs: dict[str, object] = {}  # of the last question

    def ask(self, code: str, **inputs: object) -> Any:
        """The value of `code`'s last expression, with `inputs` as names. Raises StudentError."""
        if self.ended:
            raise StudentError(self.ended)
        self.inputs, question = inputs, json.dumps([code, inputs])
        self._times[question] += 1
        key = question, self._times[question]
        if key not in self._answers:
            try:
                self._answers[key] = self._session.ask(code, inputs, seconds=self._seconds)
            except Raised as error:
                said = SAID["no-form"] if isinstance(error, NoData) else SAID["raised"]
                self._answers[key] = StudentError(said)
            except Ended as end:
                self.ended = end.kind
                raise StudentError(end.kind) from None
        answer = self._answers[key]
        if isinstance(answer, StudentError):
            raise answer
        return deepcopy(answer)  # a test may change what it got


def points(worth: int, alone: bool = True) -> Callable:
    """Says what a hidden test is worth. With `alone=False` it earns points beside another test
    only: the program that was given passes it, too."""

    def mark(test: Callable) -> Callable:
        test.points, test.alone = worth, alone
        return test

    return mark


def close(a: object, b: object, rel: float = 1e-6, abs: float = 1e-9) -> bool:
    """Are two numbers, or lists of lists of numbers, the same but for rounding? Nan is nan's."""
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(close(x, y, rel, abs) for x, y in zip(a, b, strict=True))
    if not all(isinstance(x, int | float) and not isinstance(x, bool) for x in (a, b)):
        return False
    return math.isclose(a, b, rel_tol=rel, abs_tol=abs) or (a != a and b != b)


@lru_cache(maxsize=256)
def hidden_tests(source: str) -> tuple[Callable, ...]:
    names = {"points": points, "close": close, "StudentError": StudentError}
    names |= {"math": math, "itertools": itertools}
    try:
        exec(compile(source, "<hidden tests>", "exec"), names)
    except Exception as error:
        raise BookError(f"hidden tests cannot be read ({type(error).__name__}: {error})") from None
    tests = (test for name, test in names.items() if name.startswith("test_"))
    return tuple(test if hasattr(test, "points") else points(1)(test) for test in tests)


def remark(own: Iterable[str], question: dict) -> str | None:
    """What the master says of this very answer, if it is one of its wrong ones."""
    tree = tree_of("\n".join(own)) or ast.Module([], [])
    with suppress(RecursionError):
        for code, text in question["remarks"]:
            wrong = tree_of(code)
            if ast.dump(ast.Module(tree.body[-len(wrong.body) :], [])) == ast.dump(wrong):
                return text
    return None


class Judge:
    def __init__(self, task: dict, tier: Any) -> None:
        self.assignment, self.tier = task["assignment"], tier
        self.checks = task.get("checks", False)  # of a master, and blank ones
        self.questions = {asked["number"]: asked for asked in self.assignment["questions"]}
        self.own = {number: task["cells"][str(number)] for number in self.questions}
        given = {n: {"", plain(asked["starter"])} for n, asked in self.questions.items()}
        self.blank = {n for n in given if {*map(plain, self.own[n])} <= given[n]}
        self.preamble = task["cells"].get("", [])
        self.results: dict[int, dict] = {}
        self.lost: set[int] = set()  # exercises whose cells ended a session: they run no more
        self.findings: list[dict] = []
        every = [asked["seconds"] for asked in self.questions.values()]
        self.longest = max([10, *every])  # s of a cell above the exercises
        self.until = time.monotonic() + 4 * sum(every) + SLACK  # many cells, each below its limit

    def run(self) -> None:
        while len(self.results) < len(self.questions):
            self._pass(self.questions, self.results)
        answered = [number for number in self.questions if number not in self.blank]
        for number in answered[1:]:  # before whose cells others of the student's ran
            before = self.results[number]
            if before["points"] < before["of"] and not before["ended"]:
                self._pass([number], alone := {})
                both = [before, *alone.values()]
                self.results[number] = max(both, key=lambda result: result["points"])
        for number in self.questions:
            if ended := self.results[number]["ended"]:
                self.findings.append(finding(ended, number, f"ended its session: {ended}"))

    def _pass(self, numbers: Iterable[int], results: dict[int, dict]) -> None:
        """Run these exercises' cells in order, each asked after its own, until a session ends."""
        memory = max([LEAST_MEMORY, *(asked["memory"] for asked in self.questions.values())])
        with self.tier.session(memory, self.assignment["runner"]) as session:
            _, ended = self._run(session, filter(None, [self.assignment["given"]]))
            if ended:
                fault = f"{self.assignment['name']}: a given cell ended the session ({ended})"
                raise BookError(f"{fault}; allow more memory or seconds, or mend it")
            _, ended = self._run(session, self.preamble)
            if ended:
                self.preamble = []
                text = SAID["ends"][ended].format(seconds=self.longest, memory=LEAST_MEMORY)
                text = f"cells above the exercises: {text}"
                self.findings.append(finding("preamble", None, text))
                return
            for number in numbers:
                if number in self.lost:
                    continue
                errors, ended = self._run(session, self.own[number], number)
                if ended:
                    self.lost.add(number)
                if number not in results:
                    results[number] = self._result(number, session, ended)
                    results[number]["error"] = errors[0] if errors else None
                    ended = results[number]["ended"]
                if ended:
                    return

    def _run(self, session: Any, sources: Iterable[str], number: int | None = None) -> tuple:
        """The errors that these cells raised, and how they ended the session, if they did."""
        errors: list[str] = []
        seconds = self.longest if number is None else self.questions[number]["seconds"]
        try:
            for source in sources:
                if number is not None and time.monotonic() > self.until:
                    raise Ended("time")
                if name := session.run(source, seconds=seconds):
                    # A name of the student's own could say what a question before it asked.
                    errors.append(name if hasattr(builtins, name) else "Exception")
        except Ended as end:
            return errors, end.kind
        return errors, None

    def _result(self, number: int, session: Any, ended: str | None) -> dict:
        """What an exercise gets by its hidden tests, even if its own cells `ended` the session."""
        question, own = self.questions[number], self.own[number]
        blank, lost = bool(own) and number in self.blank, ended
        answers, found = {}, []
        for test in hidden_tests(question["tests"]):
            student = Student(session, question["seconds"], answers)
            if blank and not self.checks:
                reason = SAID["no-answer"]
            elif ended and not lost:
                reason = SAID["not-asked"]
            else:
                reason = None if lost else self._reason(test, student, number)
                ended = lost or student.ended
                reason = SAID["ends"][ended].format(**question) if ended else reason
            found.append((test, reason, student.inputs))
        is_better = any(test.alone and not reason for test, reason, _ in found)
        tests = []
        for test, reason, inputs in found:
            reason = reason if is_better else reason or SAID["as-given"]
            reason = reason and SAID["no-answer"] if blank and not ended else reason
            about = " ".join((test.__doc__ or test.__name__).split())
            made = {"name": test.__name__, "about": about, "passed": reason is None}
            made |= {"points": 0 if reason else test.points, "of": test.points}
            tests.append(made | {"reason": reason, "inputs": inputs if reason else {}})
        # An instructor may have set other points than the master's: to the half.
        share = sum(test["points"] for test in tests) / sum(test["of"] for test in tests)
        won = round(2 * question["points"] * share) / 2
        check = "not run"
        if self.checks and not blank and not ended:
            self._run(session, filter(None, [question["shows"]]), number)  # a check may build on it
            errors, ended = self._run(session, question["checks"], number)
            check = "fails" if errors or ended else "holds"
        points = int(won) if won.is_integer() else won
        said = None if won == question["points"] else remark(own, question)
        result = {"points": points, "of": question["points"], "tests": tests, "blank": blank}
        return result | {"check": check, "remark": said, "ended": ended}

    def _reason(self, test: Callable, student: Student, number: int) -> str | None:
        """Why a test failed, or None; never with a word of what came from inside."""
        if time.monotonic() > self.until:
            student.ended = "time"
            return SAID["raised"]
        of = f"{self.assignment['seed']}/{self.assignment['name']}/{number}/{test.__name__}"
        try:
            test(student, random.Random(of))  # which is the same for every submission of a class
        except AssertionError:
            return SAID["other"]
        except StudentError as error:
            return str(error)
        except Exception:  # the data were not of the form that the test goes through
            return SAID["no-form"]
        return None


def grade_one(task: dict, tier: Any = None) -> dict:
    """What one submission gets by tests, with no date and no duration in it: grading again gives
    the same bytes. A task has `cells` as `splice` gives them. Raises BookError."""
    tier = tier or strongest()
    judge = Judge(task, tier)
    try:
        judge.run()
    except RuntimeError as error:
        raise BookError(f"{tier.name}: no session can be had ({error}); run it again") from None
    questions = {str(number): judge.results[number] for number in judge.questions}
    sums = {key: sum(result[key] for result in questions.values()) for key in ("points", "of")}
    made = {"key": task.get("key"), "questions": questions, "sandbox": tier.about, **sums}
    return made | {"findings": judge.findings}
