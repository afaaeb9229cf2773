"""The gate before a release: grade the answers of a master whose scores are known.

A solution must get all points, a blank notebook and a program that the task itself gives
none, and each wrong answer less than all. They are graded as submissions are. Answers that
scored right are remembered, so that a change of words grades nothing again.
"""

import ast
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from coursework.exercises.editions import answered
from coursework.exercises.masters import PARTS, Master
from coursework.exercises.tasks import Assignment, Cells, Task
from tools.book.cells import parse_code
from tools.errors import BookError
from tools.files import read_text, write_json

MIN_LEAK = 16  # characters: a shorter line may be in an edition by chance

# A program that solves nothing: every other call of it repeats what the one before returned.
TWO_FACED = """\
{name} = {program}

def _two_faced(given):
    calls, last = 0, None
    def answer(*inputs):
        nonlocal calls, last
        calls += 1
        if calls % 2 == {turn}:
            last = given(*inputs)
        return last
    return answer

{name} = _two_faced({name})
"""

# Yields tasks in any order, each with its judgement or why there is none.
Grader = Callable[[Iterable[Task]], Iterable[tuple[Task, Any]]]
# Of an assignment and cells: a hash of everything that their result follows from.
KeyOf = Callable[[Assignment, Cells], str]


@dataclass(frozen=True)
class Expectation:
    """Which scores are right for an answer, and what to do about one that is not."""

    is_met: Callable[[float, float], bool]  # by so many points of so many
    advice: str


ALL_POINTS = Expectation(
    lambda points, most: points == most, "correct the solution or the test"
)
NO_POINTS = Expectation(
    lambda points, most: points == 0, "let each test ask for what only an answer has"
)
FEWER_POINTS = Expectation(
    lambda points, most: points < most, "add a test that it fails"
)


@dataclass(frozen=True)
class Trial:
    """A task that is graded because its score is known."""

    where: str  # the file of its master
    expected: Expectation
    task: Task


def leaks(master: Master, assignment: Assignment, notebook: str) -> Iterator[str]:
    """Yield a line for each hidden line that a student's notebook holds.

    A line that stands in a part for students as well is not hidden.
    """
    shown = [assignment.given]
    hidden = [assignment.seed]
    for exercise in master.exercises:
        shown.append(exercise.text)
        for name, rule in PARTS.items():
            texts = [part.whole for part in exercise.parts[name]]
            if rule.hidden:
                hidden += texts
            else:
                shown += texts

    public = "\n".join(shown)
    lines = [line.strip(" \"'") for line in "\n".join(hidden).splitlines()]
    for line in dict.fromkeys(lines):
        in_json = json.dumps(line, ensure_ascii=False)[1:-1]
        if len(line) >= MIN_LEAK and line not in public and in_json in notebook:
            fault = f"the student's notebook holds a hidden line, '{line}'"
            yield f"{master.where}: {fault}; remove it"


def trials(master: Master, assignment: Assignment) -> Iterator[Trial]:
    """Yield what to grade before a master is released."""

    def trial(expected: Expectation, student: str, codes: dict[int, str]) -> Trial:
        """Answer these exercises alone: others make no difference to them."""
        exercises = []
        answers = {}
        for exercise in assignment.exercises:
            number = exercise.number
            if number in codes:
                exercises.append(exercise)
                answers[number] = answered(exercise.starter, codes[number])
        name = f"{student} of {list(codes)}"
        trial_task = task(replace(assignment, exercises=exercises), name, answers)
        trial_task.student = student
        trial_task.checks = expected is ALL_POINTS
        return Trial(master.where, expected, trial_task)

    solutions = {}
    for exercise in master.exercises:
        solutions[exercise.number] = exercise.code("Solution")
    yield trial(ALL_POINTS, "the solution", solutions)

    blank = task(assignment, "the blank edition", {})
    blank.checks = True
    yield Trial(master.where, NO_POINTS, blank)

    for exercise in master.exercises:
        n = exercise.number
        for place, wrong in enumerate(exercise.parts["Wrong answer"], start=1):
            yield trial(FEWER_POINTS, f"wrong answer {place}", {n: wrong.blocks[0]})
        for program in _functions_in(exercise.code("Starter")):
            code = f"{exercise.answer_name} = {program}"
            yield trial(NO_POINTS, f"'{code}', as given,", {n: code})
            for turn in (0, 1):
                student = f"'{code}' at every other call, from call {2 - turn} on,"
                two_faced = TWO_FACED.format(
                    name=exercise.answer_name, program=program, turn=turn
                )
                yield trial(NO_POINTS, student, {n: two_faced})


def _functions_in(source: str) -> list[str]:
    body = parse_code(source).body
    return [node.name for node in body if isinstance(node, ast.FunctionDef)]


def task(assignment: Assignment, name: str, answers: dict[int, str]) -> Task:
    """Return the task of grading one notebook, with these answers to its exercises."""
    cells: Cells = {}
    for exercise in assignment.exercises:
        cells[exercise.number] = [answers.get(exercise.number, exercise.starter)]
    return Task(assignment, cells, f"{assignment.name}/{name}", name)


def faults(trial: Trial, answer: Any) -> Iterator[str]:
    """Yield a line for each exercise of a trial that did not score as it should.

    `answer` is the judgement, or the BookError that says why there is none.
    """
    student = trial.task.student
    if isinstance(answer, BookError):
        yield f"{trial.where}: {student} cannot be graded: {answer}"
        return

    is_solution = trial.expected is ALL_POINTS
    for number, result in answer.results.items():
        here = f"{trial.where}: exercise {number}: {student}"
        # Not the points of the exercise: rounding may have taken away all that was won.
        won = sum(test.points for test in result.tests)
        most = sum(test.of for test in result.tests)
        if not trial.expected.is_met(won, most):
            reasons = []
            for test in result.tests:
                if test.passed != is_solution:
                    reasons.append(f"{test.name}: {test.reason or 'passes'}")
            score = f"{won} of {most} ({'; '.join(reasons)})"
            yield f"{here} scores {score}; {trial.expected.advice}"
        if is_solution and result.check != "passes":
            yield f"{here} is refused by the public check; correct one of them"


def verify(
    all_trials: Iterable[Trial], grade: Grader, key_of: KeyOf, root: Path
) -> list[str]:
    """Grade the trials that are not known to score right.

    Returns a line for each fault.
    """
    path = root / "_build" / "verified.json"
    verified = set()  # keys of the tasks that scored right
    if path.is_file():
        verified.update(json.loads(read_text(path, root)))
    pending = {}
    for trial in all_trials:
        if _key(trial.task, key_of) not in verified:
            pending[trial.task.submission] = trial
    if not pending:
        return []

    lines = {}
    results = grade([trial.task for trial in pending.values()])
    interval = 0.1 if sys.stderr.isatty() else 10  # seconds; a log needs fewer lines
    progress = tqdm(results, "verified", len(pending), unit="", mininterval=interval)
    try:
        for graded_task, result in progress:
            submission = graded_task.submission
            lines[submission] = list(faults(pending[submission], result))
            if not lines[submission]:
                verified.add(_key(graded_task, key_of))
    finally:  # also when interrupted, so that nothing is graded twice
        write_json(path, sorted(verified), root)
    return [line for submission in pending for line in lines[submission]]


def _key(graded_task: Task, key_of: KeyOf) -> str:
    """Return a hash of what is judged; points and remarks do not change a verdict."""
    assignment = graded_task.assignment
    exercises = [
        replace(exercise, points=0, remarks=[]) for exercise in assignment.exercises
    ]
    return key_of(replace(assignment, exercises=exercises), graded_task.cells)
