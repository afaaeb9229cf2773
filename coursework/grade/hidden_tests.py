"""The tests of a master, and the student's notebook as they ask it.

A hidden test is a function of a master, `def test_name(student, rng)`. It asks `student` for data
and asserts what is right about it. The text of a master's tests is run by `hidden_tests`, which
gives it the names that a test needs.
"""

import builtins
import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from functools import lru_cache
from typing import Any

from coursework.exercises.tasks import GradedExercise
from coursework.grade.measured import Measured
from coursework.grade.results import REASONS
from coursework.grade.sandbox import Ended, Gap, NoData, Raised, Session
from tools.errors import BookError

# What tracebacks call the file of a master's tests.
HIDDEN_TESTS = "<hidden tests>"


class StudentError(Exception):
    """There is no answer to a question, for a `reason` that its student reads.

    `name` is that of the error that the student's code raised, if it did.
    """

    def __init__(self, reason: str, name: str | None = None) -> None:
        super().__init__(reason)
        self.name = name


class SessionOver(Exception):
    """The session is over, so nothing more can be asked; `Student.ended` says how it ended."""


class Student:
    """The student's notebook, as a hidden test asks it: for data, never for a verdict.

    What one test has asked is not asked again for the next. The answer would be the same, and timed
    programs take long.
    """

    def __init__(
        self,
        session: Session,
        exercise: GradedExercise,
        answers: dict[tuple[str, int], Any],
        reference: Callable[[str, Mapping[str, object]], Any],
        fresh_session: Callable[[], AbstractContextManager[Session]],
    ) -> None:
        """Prepare the questions of one test.

        `answers` holds what the exercise has answered so far: by code and inputs, and by how often
        the same test had asked for it. `reference(code, inputs)` asks a session in which no cell of
        a student has run. `fresh_session()` is one in which the exercise's cells have run again.
        """
        self._session = session
        self._exercise = exercise
        self._answers = answers
        self._reference = reference
        self._fresh_session = fresh_session
        # How often this test has asked each request: a program may well answer something
        # else the second time, as one that counts does, so each time has its own answer.
        self._request_counts: Counter[str] = Counter()
        self.ended: str | None = None
        self.gaps: list[str] = []
        self.notes: list[str] = []
        self.inputs: Mapping[str, object] = {}  # of the last question
        # Entered while the judge waits for an answer.
        self.waiting: Callable[[], AbstractContextManager] = nullcontext

    def ask(self, code: str, **inputs: object) -> Any:
        """Return the value of `code`'s last expression, with `inputs` as names.

        Raises StudentError or SessionOver.
        """
        if self.ended:
            raise SessionOver(self.ended)
        self.inputs = inputs
        request = json.dumps([code, inputs])
        self._request_counts[request] += 1
        key = request, self._request_counts[request]
        if key not in self._answers:
            with self.waiting():
                self._answers[key] = self._ask(self._session, code, inputs)
        return unless_error(self._answers[key])

    def ask_anew(self, code: str, **inputs: object) -> Any:
        """Ask a new process, in which the cells have run again.

        It knows nothing of what was asked before. Raises StudentError or SessionOver.
        """
        with self.waiting(), self._fresh_session() as session:
            answer = self._ask(session, code, inputs)
        return unless_error(answer)

    def _ask(self, session: Session, code: str, inputs: dict) -> Any:
        """Return the answer, or the StudentError that stands for it. Raises SessionOver."""
        seconds = self._exercise.seconds
        try:
            return session.ask(
                code, inputs, seconds=seconds, answer=self._exercise.answer_name
            )
        except NoData:
            return StudentError(REASONS["no-form"])
        except Raised as error:
            return StudentError(REASONS["raised"], known_error(error.name))
        except Gap as gap:
            self.gaps += gap.reasons
            return StudentError(REASONS["gap"])
        except Ended as end:
            self.ended = end.kind
            raise SessionOver(end.kind) from None

    def note(self, text: str) -> None:
        """Let a person look at the answer, whatever points it gets.

        No word of the text may come from the student's process.
        """
        self.notes.append(text)

    def reference(self, code: str, **inputs: object) -> Any:
        """Return the value of `code` where the exercise is as it was given.

        It comes from a session that no code of a student can touch, and serves for the figures of
        the program that was given.
        """
        with self.waiting():
            answer = self._reference(code, inputs)
        if isinstance(answer, StudentError):
            raise BookError(f"a reference of its hidden tests fails: {answer}")
        return deepcopy(answer)

    def replay(self, code: str, **inputs: object) -> Any:
        """Do the same with data of the student's among the inputs, such as an order of lines.

        Raises StudentError where the data make it fail.
        """
        with self.waiting():
            answer = self._reference(code, inputs)
        return unless_error(answer)


def unless_error(answer: Any) -> Any:
    """Return a copy of an answer, which a test may change, or raise the error that it is."""
    if isinstance(answer, StudentError):
        raise answer
    return deepcopy(answer)


def known_error(name: str) -> str:
    """Return the name of one of Python's own errors; the name of another could leak a question."""
    known = getattr(builtins, name, None)
    if isinstance(known, type) and issubclass(known, BaseException):
        return name
    return "an error of its own class"


def ending_text(kind: str, seconds: float, memory: int) -> str:
    """Return what a student reads about a session that ended in this way."""
    return REASONS["ends"][kind].format(seconds=seconds, memory=memory)


# --- the tests of a master


def points(worth: int, alone: bool = True) -> Callable:
    """Say what a hidden test is worth.

    With `alone=False` it earns points only if another test passes as well, because the program that
    was given passes it, too.
    """

    def mark(test: Callable) -> Callable:
        test.points = worth
        test.alone = alone
        return test

    return mark


def close(a: object, b: object, rel: float = 1e-6, abs: float = 1e-9) -> bool:
    """Tell whether two numbers, or lists of numbers, differ by no more than rounding.

    Nan is close to nan.
    """
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        if len(a) != len(b):
            return False
        return all(close(x, y, rel, abs) for x, y in zip(a, b, strict=True))
    if not (is_number(a) and is_number(b)):
        return False
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return math.isclose(a, b, rel_tol=rel, abs_tol=abs)


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@lru_cache(maxsize=256)
def hidden_tests(source: str) -> tuple[Callable, ...]:
    """Return the tests that a master's text defines. Raises BookError."""
    names = {
        "points": points,
        "close": close,
        "StudentError": StudentError,
        "Measured": Measured,
        "math": math,
        "itertools": itertools,
    }
    try:
        exec(compile(source, HIDDEN_TESTS, "exec"), names)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise BookError(f"hidden tests cannot be read ({reason})") from None
    tests = []
    for name, test in names.items():
        if not name.startswith("test_"):
            continue
        if not hasattr(test, "points"):
            test = points(1)(test)
        tests.append(test)
    return tuple(tests)
