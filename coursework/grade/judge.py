"""The judge: runs a notebook in a sandbox, and asks the hidden tests from outside.

Each answer is asked as its own cells leave the notebook and, where it loses points there, once more
in a session of its own. Expected values stay here. A session that ends costs the exercise in which
it ended, and no other. What an answer is compared with, such as the time of the program that was
given, comes from a session in which no cell of a student's has run.
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
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

from coursework.grade.deadline import TooLong, deadline
from coursework.grade.measured import Measured
from coursework.grade.sandbox import Ended, Gap, NoData, Raised, strongest
from coursework.grade.source import tree_of
from coursework.grade.splice import finding, plain
from tools.errors import BookError

LEAST_MEMORY = 1024  # MiB beyond torch: the cells that are given
SLACK = 120  # s of wall time that a submission has beyond four times all its exercises' seconds
TEST_SECONDS = (
    5  # of processor time that a hidden test may take here, beside what it asks
)
REFERENCES = 512  # answers of the given programs that a worker remembers
SAID = tomllib.loads(Path(__file__).with_name("judge.toml").read_text(encoding="utf-8"))


class StudentError(Exception):
    """The student's code raised, or its session ended. `name` is that of the error, if known."""

    def __init__(self, reason: str, name: str | None = None) -> None:
        super().__init__(reason)
        self.name = name


class Student:
    """What a hidden test asks: data from the student's notebook, never a verdict. What one test has
    asked is not asked anew for the next: it would say the same, and timed programs take long."""

    def __init__(
        self,
        session: Any,
        question: dict,
        answers: dict,
        reference: Callable,
        anew: Callable,
    ) -> None:
        """`answers` are those that an exercise has given, by question and which of a test it is.
        `reference(code, inputs)` asks where no cell of a student's has run; `anew()` is a session
        in which the cells of the exercise have run again."""
        self._session, self._question, self._answers = session, question, answers
        self._reference, self._anew = reference, anew
        self._times: Counter[str] = Counter()
        self.ended: str | None = None
        self.gaps: list[str] = []
        self.notes: list[str] = []
        self.inputs: dict[str, object] = {}  # of the last question
        self.waiting: Callable = (
            nullcontext  # entered while the judge waits for an answer
        )

    def ask(self, code: str, **inputs: object) -> Any:
        """The value of `code`'s last expression, with `inputs` as names. Raises StudentError."""
        if self.ended:
            raise StudentError(self.ended)
        self.inputs, asked = inputs, json.dumps([code, inputs])
        self._times[asked] += 1
        key = asked, self._times[asked]
        if key not in self._answers:
            with self.waiting():
                self._answers[key] = self._ask(self._session, code, inputs)
        answer = self._answers[key]
        if isinstance(answer, StudentError):
            raise answer
        return deepcopy(answer)  # a test may change what it got

    def ask_anew(self, code: str, **inputs: object) -> Any:
        """The same in a process of its own, in which the cells have run again: it knows nothing of
        what was asked before. Raises StudentError."""
        with self.waiting(), self._anew() as session:
            answer = self._ask(session, code, inputs)
        if isinstance(answer, StudentError):
            raise answer
        return answer

    def _ask(self, session: Any, code: str, inputs: dict) -> Any:
        seconds, name = self._question["seconds"], self._question["name"]
        try:
            return session.ask(code, inputs, seconds=seconds, answer=name)
        except NoData:
            return StudentError(SAID["no-form"])
        except Raised as error:
            return StudentError(SAID["raised"], known_error(error.name))
        except Gap as gap:
            self.gaps += gap.reasons
            return StudentError(SAID["gap"])
        except Ended as end:
            self.ended = end.kind
            raise StudentError(end.kind) from None

    def note(self, text: str) -> None:
        """Let a person look at the answer, whatever points it gets. No word of the text may come
        from the student's process."""
        self.notes.append(text)

    def reference(self, code: str, **inputs: object) -> Any:
        """The value of `code` where the exercise is as it was given, in a session of its own that
        no student's code can touch: for the figures of the program that was given."""
        with self.waiting():
            answer = self._reference(code, inputs)
        if isinstance(answer, StudentError):
            raise BookError(f"a reference of its hidden tests fails: {answer}")
        return deepcopy(answer)

    def replay(self, code: str, **inputs: object) -> Any:
        """The same with data of the student's among the inputs, such as an order of lines, which
        are done there. Raises StudentError where they make it fail."""
        with self.waiting():
            answer = self._reference(code, inputs)
        if isinstance(answer, StudentError):
            raise answer
        return deepcopy(answer)


def known_error(name: str) -> str:
    """The name of an error of Python's own; a name of the student's own could tell a question."""
    known = getattr(builtins, name, None)
    is_error = isinstance(known, type) and issubclass(known, BaseException)
    return name if is_error else "an error of its own class"


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
        return len(a) == len(b) and all(
            close(x, y, rel, abs) for x, y in zip(a, b, strict=True)
        )
    if not all(isinstance(x, int | float) and not isinstance(x, bool) for x in (a, b)):
        return False
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return math.isclose(a, b, rel_tol=rel, abs_tol=abs)


@lru_cache(maxsize=256)
def hidden_tests(source: str) -> tuple[Callable, ...]:
    names = {
        "points": points,
        "close": close,
        "StudentError": StudentError,
        "Measured": Measured,
    }
    names |= {"math": math, "itertools": itertools}
    try:
        exec(compile(source, "<hidden tests>", "exec"), names)
    except Exception as error:
        raise BookError(
            f"hidden tests cannot be read ({type(error).__name__}: {error})"
        ) from None
    tests = (test for name, test in names.items() if name.startswith("test_"))
    return tuple(test if hasattr(test, "points") else points(1)(test) for test in tests)


def remark(own: Iterable[str], question: dict) -> str | None:
    """What the master says of this very answer, if it is one of its wrong ones."""
    tree = tree_of("\n".join(own)) or ast.Module([], [])
    with suppress(RecursionError):
        for code, text in question["remarks"]:
            wrong = tree_of(code)
            if ast.dump(ast.Module(tree.body[-len(wrong.body) :], [])) == ast.dump(
                wrong
            ):
                return text
    return None


class References:
    """What the programs that were given do, asked where no cell of a student's has run.

    Each question has a session of its own, so that the same question always gets the same answer;
    a worker asks it once for all submissions of a class.
    """

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def ask(
        self, assignment: dict, question: dict, tier: Any, code: str, inputs: dict
    ) -> Any:
        """The value of `code` after what the assignment and the exercise give, or a StudentError
        if there is none."""
        runner, given, starter = (
            assignment["runner"],
            assignment["given"],
            question["starter"],
        )
        limits = [question["memory"], question["seconds"]]
        key = json.dumps([tier.name, runner, given, starter, limits, code, inputs])
        if key not in self._known:
            if len(self._known) >= REFERENCES:
                self._known.clear()
            self._known[key] = self._asked(assignment, question, tier, code, inputs)
        return self._known[key]

    def _asked(
        self, assignment: dict, question: dict, tier: Any, code: str, inputs: dict
    ) -> Any:
        memory, seconds = max(LEAST_MEMORY, question["memory"]), question["seconds"]
        try:
            with tier.session(memory, assignment["runner"]) as session:
                session.run(assignment["given"], seconds=seconds, given=True)
                session.run(
                    question["starter"], seconds=seconds, given=True, begins=True
                )
                return session.ask(code, inputs, seconds=seconds)
        except Raised as error:
            return StudentError(SAID["raised"], known_error(error.name))
        except Gap:
            return StudentError(SAID["gap"])
        except Ended as end:
            return StudentError(SAID["ends"][end.kind].format(**question))


REFERENCES_OF_THIS_WORKER = References()


class Judge:
    """Grades one submission: see `run`."""

    def __init__(self, task: dict, tier: Any) -> None:
        self.assignment, self.tier = task["assignment"], tier
        self.checks = task.get("checks", False)  # of a master, and blank ones
        self.questions = {
            asked["number"]: asked for asked in self.assignment["questions"]
        }
        self.own = {number: task["cells"][str(number)] for number in self.questions}
        given = {
            n: {"", plain(asked["starter"])} for n, asked in self.questions.items()
        }
        self.blank = {n for n in given if {*map(plain, self.own[n])} <= given[n]}
        self.preamble = task["cells"].get("", [])
        self.results: dict[int, dict] = {}
        self.lost: set[int] = (
            set()
        )  # exercises whose cells ended a session: they run no more
        self.in_company: set[int] = (
            set()
        )  # before whose cells others of the student's ran
        self.findings: list[dict] = []
        every = [asked["seconds"] for asked in self.questions.values()]
        self.longest = max([10, *every])  # s of a cell above the exercises
        self.until = (
            time.monotonic() + 4 * sum(every) + SLACK
        )  # many cells, each below its limit

    def run(self) -> None:
        """Ask all exercises; those that lost points beside others again, each by itself."""
        while len(self.results) < len(self.questions):
            self._pass(self.questions, self.results)
        for number, before in list(self.results.items()):
            lost_points = before["points"] < before["of"]
            if lost_points and number in self.in_company and number not in self.blank:
                self.results[number] = self._alone(number, before)
        for number in self.questions:
            result = self.results[number]
            for gap in result.pop("gaps"):
                self.findings.append(
                    finding("gap", number, f"its measurement is void: {gap}")
                )
            if ended := result["ended"]:
                self.findings.append(
                    finding(ended, number, f"ended its session: {ended}")
                )

    def _alone(self, number: int, before: dict) -> dict:
        """What an exercise gets in a session of its own, if that is no less than `before`."""
        self.lost.discard(number)  # it may have been another's doing
        results: dict[int, dict] = {}
        self._pass([number], results)
        alone = results.get(number, before)
        is_better = alone["points"] > before["points"]
        is_clearer = before["ended"] and alone["points"] == before["points"]
        return alone if is_better or is_clearer else before

    def _pass(self, numbers: Iterable[int], results: dict[int, dict]) -> None:
        """Run these exercises' cells in order, each asked after its own, until a session ends."""
        memory = max(
            [LEAST_MEMORY, *(asked["memory"] for asked in self.questions.values())]
        )
        with self.tier.session(memory, self.assignment["runner"]) as session:
            given = [self.assignment["given"]] if self.assignment["given"] else []
            _, ended = self._run(session, given, is_given=True)
            if ended:
                fault = f"{self.assignment['name']}: a given cell ended the session ({ended})"
                raise BookError(f"{fault}; allow more memory or seconds, or correct it")
            _, ended = self._run(session, self.preamble)
            if ended:
                self.preamble = []
                text = SAID["ends"][ended].format(
                    seconds=self.longest, memory=LEAST_MEMORY
                )
                text = f"cells above the exercises: {text}"
                self.findings.append(finding("preamble", None, text))
                return
            company = False
            for number in numbers:
                if number in self.lost:
                    continue
                errors, ended = self._run(
                    session, self.own[number], number, begins_exercise=True
                )
                if ended:
                    self.lost.add(number)
                if number not in results:
                    results[number] = self._result(number, session, ended)
                    results[number]["error"] = errors[0] if errors else None
                    ended = results[number]["ended"]
                    if company:
                        self.in_company.add(number)
                    else:
                        self.in_company.discard(number)
                if ended:
                    return
                company = company or bool(self.own[number])

    def _run(
        self,
        session: Any,
        sources: Iterable[str],
        number: int | None = None,
        is_given: bool = False,
        begins_exercise: bool = False,
    ) -> tuple[list[str], str | None]:
        """The errors that these cells raised, and how they ended the session, if they did."""
        errors: list[str] = []
        seconds = self.longest if number is None else self.questions[number]["seconds"]
        try:
            for place, source in enumerate(sources):
                if number is not None and time.monotonic() > self.until:
                    raise Ended("time")
                begins = begins_exercise and place == 0
                name = session.run(
                    source, seconds=seconds, given=is_given, begins=begins
                )
                if name is not None:
                    errors.append(known_error(name))
        except Ended as end:
            return errors, end.kind
        return errors, None

    def _result(self, number: int, session: Any, ended: str | None) -> dict:
        """What an exercise gets by its hidden tests, even if its own cells `ended` the session."""
        question, own = self.questions[number], self.own[number]
        blank = bool(own) and number in self.blank
        tests, gaps, ended = self._tests(number, session, blank, ended)
        # An instructor may have set other points than the master's: to the half.
        share = sum(test["points"] for test in tests) / sum(
            test["of"] for test in tests
        )
        won = round(2 * question["points"] * share) / 2
        check = "not run"
        if self.checks and not blank and not ended:
            shows = [question["shows"]] if question["shows"] else []
            self._run(session, shows, number)  # a check may build on it
            errors, ended = self._run(session, question["checks"], number)
            check = "fails" if errors or ended else "holds"
        return {
            "points": int(won) if won.is_integer() else won,
            "of": question["points"],
            "tests": tests,
            "blank": blank,
            "check": check,
            "remark": None if won == question["points"] else remark(own, question),
            "ended": ended,
            "gaps": gaps,
        }

    def _tests(
        self, number: int, session: Any, blank: bool, ended: str | None
    ) -> tuple[list[dict], list[str], str | None]:
        """What each hidden test of an exercise gives; the gaps of its measurements; how asking
        ended the session, if it did, or how its own cells had `ended` it before."""
        question = self.questions[number]
        reference = self._reference_of(question)
        by_cells, answers, tries, gaps = ended, {}, [], []
        for test in hidden_tests(question["tests"]):
            student = Student(
                session, question, answers, reference, self._anew_of(number)
            )
            error = None
            if blank and not self.checks:
                reason = SAID["no-answer"]
            elif by_cells:
                reason = SAID["ends"][by_cells].format(**question)
            elif ended:
                reason = SAID["not-asked"]
            else:
                reason, error = self._try(test, student, number)
                if student.ended:
                    ended, error = student.ended, None
                    reason = SAID["ends"][ended].format(**question)
            gaps += [gap for gap in student.gaps if gap not in gaps]
            for text in student.notes:
                note = finding("note", number, f"to be looked at: {text}")
                if note not in self.findings:
                    self.findings.append(note)
            tries.append((test, reason, error, student.inputs))
        earns_alone = any(test.alone and reason is None for test, reason, _, _ in tries)
        tests = []
        for test, reason, error, inputs in tries:
            if reason is None and not earns_alone:
                reason = SAID["as-given"]
            if reason is not None and blank and not ended:
                reason = SAID["no-answer"]
            passed = reason is None
            tests.append(
                {
                    "name": test.__name__,
                    "about": " ".join((test.__doc__ or test.__name__).split()),
                    "passed": passed,
                    "points": test.points if passed else 0,
                    "of": test.points,
                    "reason": reason,
                    "error": error,
                    "inputs": {} if passed else inputs,
                }
            )
        return tests, gaps, ended

    def _reference_of(self, question: dict) -> Callable[[str, dict], Any]:
        def reference(code: str, inputs: dict) -> Any:
            assignment, tier = self.assignment, self.tier
            return REFERENCES_OF_THIS_WORKER.ask(
                assignment, question, tier, code, inputs
            )

        return reference

    def _anew_of(self, number: int) -> Callable:
        @contextmanager
        def anew() -> Iterator[Any]:
            memory = max(LEAST_MEMORY, self.questions[number]["memory"])
            with self.tier.session(memory, self.assignment["runner"]) as session:
                given = [self.assignment["given"]] if self.assignment["given"] else []
                self._run(session, given, is_given=True)
                self._run(session, self.preamble)
                self._run(session, self.own[number], number, begins_exercise=True)
                yield session

        return anew

    def _try(
        self, test: Callable, student: Student, number: int
    ) -> tuple[str | None, str | None]:
        """Why a test failed, or None, and the name of the error, if the answer raised one; never
        a word of what came from inside."""
        if time.monotonic() > self.until:
            student.ended = "time"
            return SAID["raised"], None
        of = f"{self.assignment['seed']}/{self.assignment['name']}/{number}/{test.__name__}"
        draws = random.Random(of)  # the same for every submission of a class
        try:
            with deadline(TEST_SECONDS) as student.waiting:
                test(student, draws)
        except AssertionError:
            return SAID["other"], None
        except StudentError as error:
            return str(error), error.name
        except BookError:  # of a reference: nobody's answer is at fault
            raise
        except TooLong:
            return SAID["too-long"], None
        except Exception:  # the data were not of the form that the test goes through
            return SAID["no-form"], None
        return None, None


def grade_one(task: dict, tier: Any = None) -> dict:
    """What one submission gets by tests, with no date and no duration in it: grading again gives
    the same bytes. A task has `cells` as `splice` gives them. Raises BookError."""
    tier = tier or strongest()
    judge = Judge(task, tier)
    try:
        judge.run()
    except RuntimeError as error:
        raise BookError(
            f"{tier.name}: no session can be had ({error}); run it again"
        ) from None
    questions = {str(number): judge.results[number] for number in judge.questions}
    sums = {
        key: sum(result[key] for result in questions.values())
        for key in ("points", "of")
    }
    made = {
        "key": task.get("key"),
        "questions": questions,
        "sandbox": tier.about,
        **sums,
    }
    return made | {"findings": judge.findings}
