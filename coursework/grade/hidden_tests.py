"""What a hidden test works with: the student's notebook, figures of a recording, a limited time.

A hidden test is a function of a master, `def test_name(student, rng)`. It asks `student` for data
and asserts what is right about it. The text of a master's tests is run by `hidden_tests`, which
gives it the names of this module that a test needs.
"""

import builtins
import ctypes
import itertools
import json
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from coursework.exercises.tasks import GradedExercise
from coursework.grade.results import REASONS
from coursework.grade.sandbox import Ended, Gap, NoData, Raised, Session
from tools.errors import BookError

SECOND = 10**9  # nanoseconds
TICK = 0.1  # s between looks at the time that a test has taken


class StudentError(Exception):
    """The student's code raised, or its session ended; `name` is that of the error, if known."""

    def __init__(self, reason: str, name: str | None = None) -> None:
        super().__init__(reason)
        self.name = name


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

        Raises StudentError.
        """
        if self.ended:
            raise StudentError(self.ended)
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

        It knows nothing of what was asked before. Raises StudentError.
        """
        with self.waiting(), self._fresh_session() as session:
            answer = self._ask(session, code, inputs)
        return unless_error(answer)

    def _ask(self, session: Session, code: str, inputs: dict) -> Any:
        """Return the answer, or the StudentError that stands for it."""
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
            raise StudentError(end.kind) from None

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
        exec(compile(source, "<hidden tests>", "exec"), names)
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


# --- figures of a recording


@dataclass(frozen=True)
class Span:
    """What one lane did from `start` to `end`, in nanoseconds."""

    kind: str  # operation, kernel, copy, wait or sleep
    lane: str
    name: str
    start: int
    end: int
    size: int | None  # of a copy

    @property
    def seconds(self) -> float:
        return (self.end - self.start) / SECOND

    def is_on(self, gpu: str) -> bool:
        return f"{self.lane} ".startswith(f"{gpu} ")


class Measured:
    """What simulated GPUs did while a question ran, in figures that a test asserts about.

    A question records with `with watch() as record:` and gives the record back, from which this is
    made. Times are in seconds of the modelled clock, sizes in bytes. The record comes from the
    student's process: a value that is no record raises an error, as any odd value does.
    """

    def __init__(self, record: dict) -> None:
        self.spans = [Span(*span) for span in record["spans"]]
        self._held: dict[str, int] = record["held"]
        self._changes: dict[str, list[int]] = record["memory"]

    def kernels(self, name: str = "", gpu: str = "cuda") -> list[Span]:
        """Return the kernels with `name` in their names, on one GPU or on all."""
        kernels = [span for span in self._of("kernel") if name in span.name]
        if gpu == "cuda":
            return kernels
        return [kernel for kernel in kernels if kernel.is_on(gpu)]

    def busy(self, gpu: str = "cuda") -> float:
        """Return the seconds of all kernels, one after another."""
        return sum(kernel.seconds for kernel in self.kernels(gpu=gpu))

    @property
    def copies(self) -> list[int]:
        """The bytes of each copy to, from and between GPUs; one between two GPUs counts once."""
        copies = {(span.start, span.end): span.size for span in self._of("copy")}
        return list(copies.values())

    @property
    def waits(self) -> int:
        """How often the host waited for a GPU."""
        return len(self._of("wait"))

    @property
    def unfinished(self) -> int:
        """The number of copies to the host that it never waited for, so that it reads too early."""
        copies = self._of("copy")
        # A copy between two GPUs is a span of both: out of one, and in to the other.
        arrivals = {(span.start, span.end) for span in copies if is_lane(span, "in")}
        last_wait = max((span.end for span in self._of("wait")), default=-1)
        unfinished = 0
        for span in copies:
            is_to_host = is_lane(span, "out") and (span.start, span.end) not in arrivals
            if is_to_host and span.end > last_wait:
                unfinished += 1
        return unfinished

    @property
    def total(self) -> float:
        """The seconds from the first thing that happened to the end of the last."""
        if not self.spans:
            return 0.0
        first = min(span.start for span in self.spans)
        last = max(span.end for span in self.spans)
        return (last - first) / SECOND

    @property
    def held(self) -> int:
        """The bytes that the exercise's tensors held on all GPUs at the beginning.

        That is what its cells have made and not dropped.
        """
        return sum(self._held.values())

    def peak(self, gpu: str | None = None) -> int:
        """Return the most bytes above those at the beginning that tensors held at one time.

        Without the name of a GPU, the peaks of all are added up.
        """
        peaks = [
            max(itertools.accumulate(changes, initial=0))
            for changes in self._changes_on(gpu)
        ]
        return sum(peaks)

    def kept(self, gpu: str | None = None) -> int:
        """Return the bytes that tensors hold at the end and did not hold at the beginning."""
        return sum(sum(changes) for changes in self._changes_on(gpu))

    def _changes_on(self, gpu: str | None) -> list[list[int]]:
        if gpu is None:
            return list(self._changes.values())
        return [self._changes[gpu]]

    def _of(self, kind: str) -> list[Span]:
        return [span for span in self.spans if span.kind == kind]


def is_lane(span: Span, direction: str) -> bool:
    return span.lane.endswith(f" {direction}")


# --- a limit on the time of a test


class TooLong(Exception):
    """The thread has taken more processor time than it may."""


@contextmanager
def deadline(seconds: float) -> Iterator[Callable[[], AbstractContextManager]]:
    """Raise TooLong in this thread once the block has taken so many seconds of processor time.

    A hidden test goes through values that it was given, and an answer may be shaped so that
    this takes long. Processor time is counted, so that a busy machine changes no grade.

    Yields a function that makes a context manager: what happens within it is not counted,
    such as waiting for a session, which has limits of its own. A single call of a function
    in C is interrupted only when it returns.
    """
    thread = threading.get_ident()
    clock = time.pthread_getcpuclockid(thread)
    paused = threading.Event()
    over = threading.Event()
    not_counted = 0.0  # seconds in pauses

    def watch() -> None:
        start = time.clock_gettime(clock)
        while not over.wait(TICK):
            used = time.clock_gettime(clock) - start - not_counted
            if not paused.is_set() and used > seconds:
                raise_in(thread, TooLong)
                return

    @contextmanager
    def pause() -> Iterator[None]:
        nonlocal not_counted
        paused.set()
        start = time.clock_gettime(clock)
        try:
            yield
        finally:
            not_counted += time.clock_gettime(clock) - start
            paused.clear()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield pause
    finally:
        over.set()
        watcher.join()


def raise_in(thread: int, error: type[Exception]) -> None:
    """Raise an error in another thread.

    This use is documented: https://docs.python.org/3/c-api/threads.html.
    """
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), ctypes.py_object(error)
    )
