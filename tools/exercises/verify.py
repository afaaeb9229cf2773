"""The gate: a solution scores full, the blank edition 0, every listed wrong answer less than full.

Each is graded as a submission is, in a sandbox, by what `grade` is handed in. What was found to
hold is remembered, so that only what changed is graded again.
"""

import ast
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tqdm import tqdm

from tools.errors import BookError
from tools.exercises.assignment import Assignment
from tools.exercises.editions import answered, described
from tools.exercises.masters import Exercise, Master
from tools.files import digest, read_text, write_json

MEMORY = "_build/verified.json"  # keys of what held

# Grades tasks in any order, and yields each with its result or why there is none.
Grade = Callable[[Iterable[dict]], Iterable[tuple[dict, dict | BookError]]]

# Of a runner: which grader and which pins. What held with others is graded again.
Stamp = Callable[[str], str]


@dataclass(frozen=True)
class Trial:
    """A notebook whose score is known beforehand."""

    where: str  # the file of the master
    what: str  # "the solution", "the blank edition", "wrong answer 2 of exercise 3"
    right: Callable[[int, int], bool]  # of points, and of how many
    advice: str
    task: dict
    is_solution: bool = False  # its public checks must hold, too

    def faults(self, result: dict | BookError) -> Iterator[str]:
        """A line for each exercise that does not score what it should."""
        if isinstance(result, BookError):
            yield f"{self.where}: {self.what} cannot be graded: {result}"
            return
        if result["status"] != "graded":
            yield f"{self.where}: {self.what} is refused: {result['reason']}"
        for number, each in result["questions"].items():
            if not self.right(each["points"], each["of"]):
                lost = [
                    f"{test['name']}: {test['reason']}"
                    for test in each["tests"]
                    if not test["passed"]
                ]
                why = f" ({'; '.join(lost)})" if lost else ""
                yield (
                    f"{self.where}: exercise {number}: {self.what} scores {each['points']} of "
                    f"{each['of']}{why}; {self.advice}"
                )
            if self.is_solution and each["check"] != "holds":
                yield (
                    f"{self.where}: exercise {number}: its public check refuses the solution; "
                    "mend one of them"
                )


def unsound(master: Master) -> Iterator[str]:
    """A line for each exercise whose hidden tests are no tests, or not worth its points."""
    for each in master.exercises:
        here, source = f"{master.where}: exercise {each.number}", each.code("Hidden tests")
        if not (tests := described(source)):
            yield f"{here}: no hidden test; write 'def test_what(student, rng):'"
            continue
        names = [name for name, _ in tests]
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield f"{here}: two hidden tests are called {name}; rename one"
        for name in (name for name, about in tests if not about):
            yield f"{here}: {name} does not say what it asks; write a docstring of one sentence"
        worth = sum(_points(source))
        if worth != each.points:
            yield (
                f"{here}: its hidden tests are worth {worth}, and it says '- points: "
                f"{each.points}'; let both be the same"
            )


def _points(source: str) -> Iterator[int]:
    """What each hidden test is worth: the number in `@points(2)`, or 1."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            marks = [
                each.args[0].value
                for each in node.decorator_list
                if isinstance(each, ast.Call)
                and getattr(each.func, "id", None) == "points"
                and [type(argument) for argument in each.args] == [ast.Constant]
            ]
            yield marks[0] if marks else 1


def trials(master: Master, assignment: Assignment) -> Iterator[Trial]:
    """What has to be graded before a master is released."""
    solutions = {each.number: _answer(each, each.code("Solution")) for each in master.exercises}
    yield Trial(
        master.where,
        "the solution",
        lambda points, of: points == of,
        "mend the solution or the test",
        task(assignment, "solution", solutions),
        is_solution=True,
    )
    yield Trial(
        master.where,
        "the blank edition",
        lambda points, of: points == 0,
        "let each test ask for what only an answer has",
        task(assignment, "blank", {}),
    )
    for exercise, question in zip(master.exercises, assignment.questions, strict=True):
        alone = replace(assignment, questions=[question])  # another exercise changes nothing here
        for place, wrong in enumerate(exercise.wrong_answers, start=1):
            answers = {exercise.number: _answer(exercise, wrong.blocks[0])}
            yield Trial(
                master.where,
                f"wrong answer {place}",
                lambda points, of: points < of,
                "add a test that it fails",
                task(alone, f"wrong-{exercise.number}-{place}", answers),
            )


def _answer(exercise: Exercise, code: str) -> str:
    return answered(exercise.code("Starter"), code)


def task(assignment: Assignment, name: str, answers: dict[int, str]) -> dict:
    """What grades one notebook: the assignment with these answers to its exercises."""
    return {
        "assignment": assignment.to_json(),
        "submission": f"{assignment.name}/{name}",
        "student": name,
        "cells": [list(cell) for cell in assignment.cells(answers)],
        "ask": [each.number for each in assignment.questions],
    }


def verify(all_trials: list[Trial], grade: Grade, stamp: Stamp, root: Path) -> list[str]:
    """Grade what is not known to hold; returns a line for each that does not."""
    path = root / MEMORY
    held = set(json.loads(read_text(path, root))) if path.is_file() else set()
    keys = {each.task["submission"]: _key(each.task, stamp) for each in all_trials}
    by_id = {each.task["submission"]: each for each in all_trials}
    left = {id: each for id, each in by_id.items() if keys[id] not in held}
    lines, done = {}, set()
    try:
        seconds = 0.1 if sys.stderr.isatty() else 10  # a log needs fewer lines than a screen
        with tqdm(
            total=len(left), desc="verified", unit="", mininterval=seconds, disable=not left
        ) as bar:
            for each, result in grade([trial.task for trial in left.values()]):
                id = each["submission"]
                lines[id] = list(left[id].faults(result))
                if not lines[id]:
                    done.add(keys[id])
                bar.update()
    finally:
        if done:
            write_json(path, sorted(held | done), root)
    return [line for id in left for line in lines[id]]


def _key(task: dict, stamp: Stamp) -> str:
    return digest([stamp(task["assignment"]["runner"]), json.dumps(task)])
