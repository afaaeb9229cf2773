"""The judge: runs a notebook in a sandbox, and asks the hidden tests from outside.

Each answer is asked right after its own cells have run. If it loses points there, it is asked once
more in a session of its own. Expected values stay here. A session that ends costs the exercise in
which it ended, and no other. What an answer is compared with, such as the time of the program that
was given, comes from a session in which no cell of a student has run.
"""

import ast
import json
import random
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from coursework.exercises.tasks import Assignment, GradedExercise, Task
from coursework.grade.deadline import TooLong, deadline
from coursework.grade.hidden_tests import (
    HIDDEN_TESTS,
    SessionOver,
    Student,
    StudentError,
    ending_text,
    hidden_tests,
    known_error,
)
from coursework.grade.results import (
    BROKEN_TEST,
    REASONS,
    ExerciseResult,
    Finding,
    Judgement,
    TestResult,
    rounded,
    with_article,
)
from coursework.grade.sandbox import Ended, Gap, Raised, Session, Tier, strongest
from coursework.grade.student_code import plain, tree_of
from tools.errors import BookError

LEAST_MEMORY = 1024  # MiB beyond torch: the cells that are given
# Seconds of wall time that a submission has beyond four times all its exercises' seconds.
SLACK = 120
# How an exercise ends that is cut off when these are over; in its session nothing was wrong.
NOTEBOOK_TIME = "notebook-time"
# Seconds of processor time that a hidden test may take here, besides what it asks.
TEST_SECONDS = 5
REFERENCES = 512  # answers of the given programs that a worker remembers


def judge(task: Task, tier: Tier | None = None) -> Judgement:
    """Judge one notebook by the hidden tests. Raises BookError.

    No date and no duration is in the result: judging again gives the same bytes, unless
    all cells together take too long (see `Judge.until`).
    """
    tier = tier or strongest()
    run = Judge(task, tier)
    try:
        run.run()
    except RuntimeError as error:
        reason = f"{tier.name}: no session could be started ({error}); run it again"
        raise BookError(reason) from None
    results = {number: run.results[number] for number in run.exercises}
    return Judgement(task.key, results, run.findings, tier.about)


@dataclass
class Attempt:
    """A hidden test and how the answer fared in it. A reason says why it failed."""

    test: Callable
    reason: str | None
    error: str | None
    inputs: Mapping[str, object]


class Judge:
    """The judging of one notebook, over all its sessions."""

    def __init__(self, task: Task, tier: Tier) -> None:
        assignment = task.assignment
        self.assignment = assignment
        self.tier = tier
        self.runs_checks = task.checks
        self.exercises = assignment.by_number
        self.cells = {number: task.cells[number] for number in self.exercises}
        self.preamble = task.cells.get(None, [])
        # Exercises with cells, in which nothing was answered. One without any cells is not
        # among them: its answer may stand in a cell of another.
        self.blank: set[int] = set()
        for number, exercise in self.exercises.items():
            if self.cells[number] and is_blank(self.cells[number], exercise):
                self.blank.add(number)
        self.results: dict[int, ExerciseResult] = {}
        self.findings: list[Finding] = []
        # Exercises whose cells have ended a session; they are not run again in company.
        self.lost: set[int] = set()
        # Exercises that were asked when cells of others had run before their own.
        self.in_company: set[int] = set()
        seconds = [exercise.seconds for exercise in assignment.exercises]
        self.preamble_seconds = max([10, *seconds])
        # Many cells, each below its own limit, may not take forever together.
        self.notebook_seconds = 4 * sum(seconds) + SLACK
        self.until = time.monotonic() + self.notebook_seconds

    def run(self) -> None:
        """Ask all exercises, and those that lost points in company once more by themselves."""
        # This ends, because a pass that does not ask all ends with one thing more that is
        # never done again: the cells above the exercises are left out, or the exercise
        # that ended the session has its result, or it is lost and no longer run.
        while len(self.results) < len(self.exercises):
            self._pass(self.exercises, self.results)

        for number, result in list(self.results.items()):
            is_answered = bool(self.cells[number]) and number not in self.blank
            lost_points = result.points < result.of
            if is_answered and lost_points and number in self.in_company:
                self.results[number] = self._better_alone(number, result)
        self._add_findings()

    def _add_findings(self) -> None:
        for number in self.exercises:
            result = self.results[number]
            for gap in result.gaps:
                text = f"its measurement is void: {gap}"
                self.findings.append(Finding("gap", number, text))
            if result.ended:
                text = f"ended its session: {result.ended}"
                if result.ended == NOTEBOOK_TIME:
                    limit = f"{self.notebook_seconds:g} s"
                    text = f"was stopped, as the notebook took more than {limit}"
                self.findings.append(Finding(result.ended, number, text))

    def _better_alone(self, number: int, before: ExerciseResult) -> ExerciseResult:
        """Ask an exercise in a session of its own; return that result if it is no worse."""
        self.lost.discard(number)  # another exercise may have ended its session
        results: dict[int, ExerciseResult] = {}
        self._pass([number], results)
        alone = results.get(number, before)
        if alone.ended == NOTEBOOK_TIME:
            return before
        if alone.points > before.points:
            return alone
        if before.ended and alone.points == before.points:
            return alone  # the reason is clearer
        return before

    # --- sessions

    def _pass(self, numbers: Iterable[int], results: dict[int, ExerciseResult]) -> None:
        """Run exercises in order in one session, until all are asked or the session ends."""
        memory = [exercise.memory for exercise in self.assignment.exercises]
        with self._session(*memory) as session:
            if not self._run_preamble(session):
                return
            others_ran = False
            for number in numbers:
                if number in self.lost:
                    continue
                if self._run_exercise(number, session, results, others_ran):
                    return
                if self.cells[number]:
                    others_ran = True

    def _session(self, *memory: int) -> Any:
        most = max([LEAST_MEMORY, *memory])
        return self.tier.session(most, self.assignment.runner)

    def _run_given(self, session: Session) -> str | None:
        """Run the code above all exercises; return how it ended the session, if it did."""
        if not self.assignment.given:
            return None
        _, ended = self._run(session, [self.assignment.given], is_given=True)
        return ended

    def _run_preamble(self, session: Session) -> bool:
        """Run what stands above the exercises; return False if the session is over."""
        ended = self._run_given(session)
        if ended:
            fault = f"{self.assignment.name}: a given cell ended the session ({ended})"
            raise BookError(f"{fault}; allow more memory or seconds, or correct it")
        _, ended = self._run(session, self.preamble)
        if ended:
            self.preamble = []  # the next session goes without it
            reason = ending_text(ended, self.preamble_seconds, LEAST_MEMORY)
            text = f"cells above the exercises: {reason}"
            self.findings.append(Finding("preamble", None, text))
            return False
        return True

    def _run_exercise(
        self,
        number: int,
        session: Session,
        results: dict[int, ExerciseResult],
        others_ran: bool,
    ) -> str | None:
        """Run an exercise's cells and, if it has no result yet, ask it.

        Returns how the session ended, if it did.
        """
        errors, ended = self._run(session, self.cells[number], number, begins=True)
        if ended:
            self.lost.add(number)
        if number in results:
            return ended
        result = self._ask(number, session, ended)
        if errors:
            result.error = errors[0]
        results[number] = result
        if others_ran:
            self.in_company.add(number)
        else:
            self.in_company.discard(number)
        return result.ended

    def _run(
        self,
        session: Session,
        sources: Iterable[str],
        number: int | None = None,
        is_given: bool = False,
        begins: bool = False,
    ) -> tuple[list[str], str | None]:
        """Run cells; return the errors that they raised, and how they ended the session."""
        seconds = self.preamble_seconds
        if number is not None:
            seconds = self.exercises[number].seconds
        errors: list[str] = []
        try:
            for source in sources:
                if number is not None and self._is_out_of_time():
                    return errors, NOTEBOOK_TIME
                name = session.run(
                    source, seconds=seconds, given=is_given, begins=begins
                )
                begins = False  # an exercise begins with its first cell
                if name is not None:
                    errors.append(known_error(name))
        except Ended as end:
            return errors, end.kind
        return errors, None

    def _is_out_of_time(self) -> bool:
        return time.monotonic() > self.until

    @contextmanager
    def _fresh_session(self, number: int) -> Iterator[Session]:
        """A new session in which the cells of one exercise have run."""
        with self._session(self.exercises[number].memory) as session:
            self._run_given(session)
            self._run(session, self.preamble)
            self._run(session, self.cells[number], number, begins=True)
            yield session

    # --- questions

    def _ask(self, number: int, session: Session, ended: str | None) -> ExerciseResult:
        """Ask an exercise's hidden tests, even if its own cells `ended` the session."""
        exercise = self.exercises[number]
        blank = number in self.blank
        attempts, gaps, ended = self._attempts(number, session, ended)
        tests = test_results(attempts, blank and not ended)

        points = scaled_points(tests, exercise.points)
        about_answer = None
        if points < exercise.points:
            about_answer = remark(self.cells[number], exercise)
        check = "not run"
        if self.runs_checks and not blank and not ended:
            check, ended = self._check(exercise, session)
        return ExerciseResult(
            points=points,
            of=exercise.points,
            tests=tests,
            blank=blank,
            check=check,
            remark=about_answer,
            ended=ended,
            gaps=gaps,
        )

    def _attempts(
        self, number: int, session: Session, cells_ended: str | None
    ) -> tuple[list[Attempt], list[str], str | None]:
        """Return what came of each hidden test, the gaps of measurements, how the session ended."""
        exercise = self.exercises[number]
        ask_reference = REFERENCES_OF_WORKER.ask
        reference = partial(ask_reference, self.assignment, exercise, self.tier)
        fresh_session = partial(self._fresh_session, number)
        ended = cells_ended
        answers: dict[tuple[str, int], Any] = {}
        attempts: list[Attempt] = []
        gaps: list[str] = []
        for test in hidden_tests(exercise.tests):
            student = Student(session, exercise, answers, reference, fresh_session)
            error = None
            if number in self.blank and not self.runs_checks:
                reason = REASONS["no-answer"]
            elif cells_ended:
                reason = ending_text(cells_ended, exercise.seconds, exercise.memory)
            elif ended:
                reason = REASONS["not-asked"]
            elif self._is_out_of_time():
                ended = NOTEBOOK_TIME
                reason = ending_text(ended, exercise.seconds, exercise.memory)
            else:
                reason, error = self._try(test, student, number)
                if student.ended:
                    ended = student.ended
                    reason = ending_text(ended, exercise.seconds, exercise.memory)
                    error = None
            attempts.append(Attempt(test, reason, error, student.inputs))
            for gap in student.gaps:
                if gap not in gaps:
                    gaps.append(gap)
            for note in student.notes:
                self._add_once("note", number, f"to be looked at: {note}")
        return attempts, gaps, ended

    def _add_once(self, kind: str, number: int, text: str) -> None:
        """Add a finding, unless an earlier session of the notebook has led to the same."""
        finding = Finding(kind, number, text)
        if finding not in self.findings:
            self.findings.append(finding)

    def _try(
        self, test: Callable, student: Student, number: int
    ) -> tuple[str | None, str | None]:
        """Run a hidden test; return why it failed, and the name of the answer's error.

        The reason is None if it passed, and if the session ended, as `student.ended` says then.
        No word of it comes from inside the session.
        """
        name = self.assignment.name
        place = f"{self.assignment.seed}/{name}/{number}/{test.__name__}"
        rng = random.Random(place)  # the same for every submission of a class
        try:
            with deadline(TEST_SECONDS) as student.waiting:
                test(student, rng)
        except SessionOver:
            return None, None
        except AssertionError:
            return REASONS["other"], None
        except StudentError as error:
            return str(error), error.name
        except BookError:  # a reference failed, which is no answer's fault
            raise
        except TooLong:
            return REASONS["too-long"], None
        except Exception as error:
            # The data were not of the form that the test goes through, or the test has a fault.
            # Only its instructor can tell which.
            if not student.ended:
                source = self.exercises[number].tests
                text = about_broken_test(test, error, source)
                self._add_once(BROKEN_TEST, number, text)
            return REASONS["no-form"], None
        return None, None

    def _check(
        self, exercise: GradedExercise, session: Session
    ) -> tuple[str, str | None]:
        """Run the public checks; return what they say, and how they ended the session."""
        if exercise.demo:  # a check may build on it
            self._run(session, [exercise.demo], exercise.number)
        errors, ended = self._run(session, exercise.checks, exercise.number)
        return ("fails" if errors or ended else "passes"), ended


def about_broken_test(test: Callable, error: Exception, source: str) -> str:
    """Say where in the `source` of the hidden tests a test raised an error of its own."""
    raised = with_article(type(error).__name__)
    text = f"{test.__name__} broke off with {raised}"
    line = None
    for frame, frame_line in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename == HIDDEN_TESTS:
            line = frame_line
    if line is None:  # it could not even be called
        return text
    code = source.splitlines()[line - 1].strip()
    return f"{text} in line {line} of the hidden tests: {code}"


def is_blank(cells: list[str], exercise: GradedExercise) -> bool:
    """Tell whether the cells hold nothing but what was given."""
    given = {"", plain(exercise.starter)}
    return all(plain(source) in given for source in cells)


def test_results(attempts: list[Attempt], is_blank: bool) -> list[TestResult]:
    """Say what each test is worth.

    Tests that the program that was given passes as well earn nothing if no other test passes.
    """
    earns = any(attempt.test.alone and attempt.reason is None for attempt in attempts)
    results = []
    for attempt in attempts:
        test = attempt.test
        reason = attempt.reason
        if reason is None and not earns:
            reason = REASONS["as-given"]
        if reason is not None and is_blank:
            reason = REASONS["no-answer"]
        passed = reason is None
        result = TestResult(
            name=test.__name__,
            about=" ".join((test.__doc__ or test.__name__).split()),
            passed=passed,
            points=test.points if passed else 0,
            of=test.points,
            reason=reason,
            error=attempt.error,
            inputs={} if passed else dict(attempt.inputs),
        )
        results.append(result)
    return results


def scaled_points(tests: list[TestResult], worth: int) -> int | float:
    """Return the points for an exercise of this worth, by the share of its tests' points.

    The tests may be worth more or less together than the exercise. Points that are no multiple
    of a half are rounded down, so that only an answer that passes all tests gets them all.
    """
    won = sum(test.points for test in tests)
    most = sum(test.of for test in tests)
    half_points = 2 * worth * won // most
    return rounded(half_points / 2)


def remark(cells: Iterable[str], exercise: GradedExercise) -> str | None:
    """Return what the master says about this very answer, if it is one of its wrong ones."""
    tree = tree_of("\n".join(cells)) or ast.Module([], [])
    with suppress(RecursionError):
        for known in exercise.remarks:
            wrong = tree_of(known.code)
            end = ast.Module(tree.body[-len(wrong.body) :], [])
            if ast.dump(end) == ast.dump(wrong):
                return known.text
    return None


class References:
    """The answers of the programs that were given, asked where no cell of a student has run.

    Each question has a session of its own, so that the same question always gets the same answer. A
    worker asks it once for all submissions of a class.
    """

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def ask(
        self,
        assignment: Assignment,
        exercise: GradedExercise,
        tier: Tier,
        code: str,
        inputs: Mapping[str, object],
    ) -> Any:
        """Return the value of `code` after what the assignment and the exercise give.

        A StudentError is returned if there is none.
        """
        runner = assignment.runner
        sources = [assignment.given, exercise.starter]
        limits = [exercise.memory, exercise.seconds]
        key = json.dumps([tier.name, runner, sources, limits, code, inputs])
        if key not in self._known:
            if len(self._known) >= REFERENCES:
                self._known.clear()
            self._known[key] = self._answer(assignment, exercise, tier, code, inputs)
        return self._known[key]

    def _answer(
        self,
        assignment: Assignment,
        exercise: GradedExercise,
        tier: Tier,
        code: str,
        inputs: Mapping[str, object],
    ) -> Any:
        seconds = exercise.seconds
        memory = max(LEAST_MEMORY, exercise.memory)
        try:
            with tier.session(memory, assignment.runner) as session:
                session.run(assignment.given, seconds=seconds, given=True)
                session.run(exercise.starter, seconds=seconds, given=True, begins=True)
                return session.ask(code, inputs, seconds=seconds)
        except Raised as error:
            return StudentError(REASONS["raised"], known_error(error.name))
        except Gap:
            return StudentError(REASONS["gap"])
        except Ended as end:
            reason = ending_text(end.kind, seconds, exercise.memory)
            return StudentError(reason)


REFERENCES_OF_WORKER = References()
