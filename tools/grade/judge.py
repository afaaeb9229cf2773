"""The judge: runs a notebook in a sandbox, then asks the hidden tests from outside.

All cells run first; what they show is kept from then only, so nothing that came from a hidden
question reaches a result. Expected values stay here. A session that ends costs the exercise in
which it ended, and no other: the next one starts with that answer left blank, or goes on after it.
"""

import itertools
import math
import random
import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import lru_cache
from typing import Any

from tools.errors import BookError
from tools.grade.code import imports_of, without_magics
from tools.grade.sandbox import Ended, Limits, Raised
from tools.grade.splice import finding, is_blank, own_cells

SHOWN = 2000  # characters of what an exercise shows that its student gets back
LEAST_MEMORY = 1024  # MiB beyond torch: the cells that are given
SLACK = 120  # s of wall time that a submission has beyond four times all its exercises' seconds
ENDS = {  # how a session ends, in words that its student reads
    "time": "took more than {seconds:g} s",
    "memory": "needed more than {memory} MiB of memory",
    "disk": "wrote more to disk than is allowed",
    "output": "printed more than is allowed",
    "processes": "started more processes than is allowed",
    "crash": "ended the Python process that ran it",
    "protocol": "disturbed the line to the grader",
}
NO_ANSWER = "there is no answer yet"
RAISED = "your code raised an error"
OTHER = "the result is not the one asked for"
NO_FORM = "the result is not of the form asked for"
NOT_ASKED = "not asked, as a test before it ended the session"
CONTROL = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)
UNSEEN = re.compile("[\ud800-\udfff\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")


class StudentError(Exception):
    """The student's code raised, or its session ended."""


class Student:
    """What a hidden test asks: data from the student's notebook, never a verdict."""

    def __init__(self, session: Any, seconds: float) -> None:
        """Each question may take `seconds`."""
        self._session, self._seconds = session, seconds
        self.ended: str | None = None

    def ask(self, code: str, **inputs: object) -> Any:
        """The value of the last expression of `code`, run in the notebook with `inputs` as names.

        Plain data: None, bool, int, float, str, list, dict. Raises StudentError.
        """
        if self.ended:
            raise StudentError(self.ended)
        try:
            return self._session.ask(code, inputs, seconds=self._seconds)
        except Raised:
            raise StudentError(RAISED) from None
        except Ended as end:
            self.ended = end.kind
            raise StudentError(end.kind) from None


def points(worth: int) -> Callable:
    """Says what a hidden test is worth: `@points(2)` above it."""

    def mark(test: Callable) -> Callable:
        test.points = worth
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
    """The hidden tests of an exercise, in order. Raises BookError if there is none."""
    names = {
        "points": points,
        "close": close,
        "math": math,
        "itertools": itertools,
        "StudentError": StudentError,
    }
    try:
        exec(compile(source, "<hidden tests>", "exec"), names)
    except Exception as error:
        raise BookError(f"hidden tests cannot be read ({type(error).__name__}: {error})") from None
    found = tuple(
        test for name, test in names.items() if name.startswith("test_") and callable(test)
    )
    if not found:
        raise BookError("hidden tests: none; write 'def test_share(student, rng):'")
    return found


def rng_of(assignment: dict, number: int, test: str) -> random.Random:
    """The random numbers of one test: the same for every submission of a class."""
    return random.Random(f"{assignment['seed']}/{assignment['name']}/{number}/{test}")


def cleaned(text: str) -> str:
    """Text of a student's, cut, without what drives a terminal or hides from a reader."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = UNSEEN.sub("\N{REPLACEMENT CHARACTER}", CONTROL.sub("", text[: 20 * SHOWN]))
    return text if len(text) <= SHOWN else text[:SHOWN].rstrip() + " [cut]"


class Judge:
    """One submission's notebook, run as often as its sessions end, and asked."""

    def __init__(self, task: dict, tier: Any) -> None:
        """Nothing runs before `start`."""
        self.assignment, self.cells, self.tier = task["assignment"], task["cells"], tier
        self.questions = {asked["number"]: asked for asked in self.assignment["questions"]}
        self.own = {n: own_cells(self.cells, asked) for n, asked in self.questions.items()}
        self.imports = imports_of(source for _, source in self.assignment["given"])
        self.lost: dict[int, str] = {}  # exercises whose cells ended a session, and how
        self.silent: set[int | None] = set()  # those of which no cell runs any more
        self.replies: dict[int, dict] = {}  # what each cell did when it first ran
        self.findings: list[dict] = []
        self.stack, self.session = ExitStack(), None
        allowed = sum(asked["seconds"] for asked in self.questions.values())
        self.until = time.monotonic() + 4 * allowed + SLACK  # many cells, each just below its limit

    def close(self) -> None:
        """End the session, if there is one."""
        self.session = None
        self.stack.close()

    def start(self) -> None:
        """Run the cells in a fresh session; where it ends, again without what ended it."""
        memory = max([LEAST_MEMORY, *(asked["memory"] for asked in self.questions.values())])
        while self.session is None:
            limits = Limits(seconds=self._seconds(None), memory=memory)
            session = self.stack.enter_context(
                self.tier.session(limits, self.assignment["runner"], self.imports)
            )
            if self._run_cells(session):
                self.session = session
            else:
                self.stack.close()

    def _seconds(self, number: int | None) -> float:
        """Seconds that one cell or question of an exercise has."""
        every = [asked["seconds"] for asked in self.questions.values()]
        return self.questions[number]["seconds"] if number in self.questions else max([10, *every])

    def _run_cells(self, session: Any) -> bool:
        """Run all cells in order; False if one ended the session."""
        given, count = len(self.assignment["given"]), {}
        for place, (number, source) in enumerate(self.cells):
            nth = count[number] = count.get(number, -1) + 1
            student = number is not None or place >= given
            if student and number in self.silent:
                continue
            if number in self.lost and nth < len(self.own[number]):
                if nth:
                    continue
                source = self.questions[number]["starter"]
            try:
                if number in self.own and time.monotonic() > self.until:
                    raise Ended("time")
                reply = session.run(without_magics(source), seconds=self._seconds(number))
            except Ended as end:
                if not student:
                    raise BookError(
                        f"{self.assignment['name']}: a given cell ended the session ({end.kind}); "
                        "allow more memory or seconds, or mend it"
                    ) from None
                self._lose(number, end.kind)
                return False
            if number not in self.lost:
                self.replies.setdefault(place, reply)
        return True

    def _lose(self, number: int | None, kind: str) -> None:
        """Note that a session ended in a cell of an exercise, or of the preamble."""
        if number is None or number in self.lost:
            self.silent.add(number)
        if number is None:
            self.findings.append(
                finding("preamble", None, f"cells above the exercises: {self._end(kind)}")
            )
        else:
            self.lost.setdefault(number, kind)

    def _end(self, kind: str, number: int | None = None) -> str:
        """How a session ended, in words."""
        question = self.questions.get(number, {"memory": LEAST_MEMORY})
        limits = {"seconds": self._seconds(number), "memory": question["memory"]}
        return ENDS.get(kind, "ended the session").format(**limits)

    def asked(self, number: int) -> dict:
        """What an exercise gets: its hidden tests, what it showed, how its public check went."""
        question = self.questions[number]
        blank = is_blank(self.own[number], question) and not self._defined_elsewhere(number)
        results, ended = [], None
        for test in hidden_tests(question["tests"]):
            if number not in self.lost and time.monotonic() > self.until:
                self.lost[number] = "time"
            if number not in self.lost and not ended:
                self.start()  # the cells may lose this exercise only now
            if number in self.lost:
                reason = self._end(self.lost[number], number)
            elif ended:
                reason = NOT_ASKED
            else:
                student = Student(self.session, question["seconds"])
                reason = self._reason(test, student, number)
                if student.ended:
                    ended, reason = student.ended, self._end(student.ended, number)
                    self.close()
            of = getattr(test, "points", 1)
            results.append(
                {
                    "name": test.__name__,
                    "about": " ".join((test.__doc__ or test.__name__).split()),
                    "passed": reason is None,
                    "points": of if reason is None else 0,
                    "of": of,
                    "reason": NO_ANSWER if reason and blank and not ended else reason,
                }
            )
        ended = self.lost.get(number, ended)
        return {
            "key": None,
            "points": sum(result["points"] for result in results),
            "of": sum(result["of"] for result in results),
            "tests": results,
            **self._shown(number, blank),
            "ended": ended,
        }

    def _defined_elsewhere(self, number: int) -> bool:
        return not self.own[number]  # it stands in a cell of another exercise

    def _reason(self, test: Callable, student: Student, number: int) -> str | None:
        """Why a test failed, or None; never with a word of what came from inside."""
        try:
            test(student, rng_of(self.assignment, number, test.__name__))
        except AssertionError:
            return OTHER
        except StudentError:
            return RAISED
        except Exception:  # the data were not of the form that the test goes through
            return NO_FORM
        return NOT_ASKED if student.ended else None  # it caught what ended the session

    def _shown(self, number: int, blank: bool) -> dict:
        """What its cells showed when they first ran, and how the public check went."""
        places = [place for place, (n, _) in enumerate(self.cells) if n == number]
        checks = places[len(places) - len(self.questions[number]["checks"]) :]
        texts = []
        for reply in (self.replies[place] for place in places if place in self.replies):
            said = reply["shown"].rstrip()  # mostly with the value or the error at its end
            texts += [
                said,
                *(more for more in (reply["value"], reply["error"]) if more and more not in said),
            ]
        shown = cleaned("\n".join(text for text in texts if text))
        if blank or number in self.lost:
            check = "not run"
        else:
            ran = [self.replies.get(place) for place in checks]
            check = "holds" if all(reply and reply["ok"] for reply in ran) else "fails"
        return {"shown": shown, "check": check}


def judged(task: dict, tier: Any) -> tuple[dict, list[dict]]:
    """The results of the exercises asked for, by number, and findings."""
    judge = Judge(task, tier)
    try:
        judge.start()
        questions = {str(number): judge.asked(number) for number in task["ask"]}
    finally:
        judge.close()
    return questions, judge.findings
