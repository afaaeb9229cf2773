"""The gate: a solution scores full, a blank or given program 0, each wrong answer less than full.

Each is graded as a submission is, in a sandbox, by what `grade` is handed in. What was found to
hold is remembered by what was judged, so a change of words grades nothing again.
"""

import ast
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from tools.book.code import parsed
from tools.errors import BookError
from tools.exercises.assignment import Assignment, cells_of
from tools.exercises.editions import answered, described
from tools.exercises.masters import Exercise, Master
from tools.files import digest, read_text, write_json

MEMORY = "_build/verified.json"  # keys of what held
HIDDEN = ("Hidden tests", "Solution", "Wrong answer", "For instructors", "By hand")
LEAST = 16  # characters of a line that is not in an edition by chance
RIGHT = {  # is a score, of so many points, what it should be; and what to do if not
    "solution": (lambda points, of: points == of, "mend the solution or the test"),
    "nothing": (lambda points, of: points == 0, "let each test ask for what only an answer has"),
    "wrong": (lambda points, of: points < of, "add a test that it fails"),
}
# The program that a task gives, with two faces: every other call only repeats the one before.
TWO_FACED = """
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

# Grades tasks in any order, and yields each with its result or why there is none.
Grade = Callable[[Iterable[dict]], Iterable[tuple[dict, dict | BookError]]]

# Of a runner: which grader and which pins. What held with others is graded again.
Stamp = Callable[[str], str]


def unsound(master: Master) -> Iterator[str]:
    """A line for each exercise of which a hidden test says nothing, or hides another."""
    for exercise in master.exercises:
        here, tests = f"{master.where}: exercise {exercise.number}", exercise.code("Hidden tests")
        names = [name for name, _ in described(tests)]
        if not names:
            yield f"{here}: no hidden test; write 'def test_what(student, rng):'"
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield f"{here}: two hidden tests are called {name}; rename one"
        for name in (name for name, about in described(tests) if not about):
            yield f"{here}: {name} does not say what it asks; write a docstring of one sentence"


def leaks(master: Master, assignment: Assignment, files: dict[str, bytes]) -> Iterator[str]:
    """A line for each hidden line that is in a file for students and was given nowhere."""
    given = [source for _, source in cells_of(assignment, {})]
    for exercise in master.exercises:
        given += [exercise.text, *exercise.hints]
    public = "\n".join(given)
    hidden = {assignment["seed"]: f"{master.where}: the seed of its hidden tests"}
    for exercise in master.exercises:
        parts = [part.whole for name in HIDDEN for part in exercise.parts[name]]
        for line in (line.strip(" \"'") for line in "\n".join(parts).splitlines()):
            if len(line) >= LEAST and line not in public:
                place = f"{master.where}: exercise {exercise.number}: a hidden line"
                hidden[line] = f"{place}, '{line}',"
    for line, place in sorted(hidden.items()):
        forms = {line.encode(), json.dumps(line, ensure_ascii=False)[1:-1].encode()}
        for name, data in files.items():
            if any(form in data for form in forms):  # the second is that of a notebook
                yield f"{place} is in {name}; take it out there"


@dataclass(frozen=True)
class Trial:
    """A notebook whose score is known beforehand."""

    where: str  # the file of the master
    kind: str  # of RIGHT
    what: str  # "the solution", "the blank edition", "wrong answer 2"
    task: dict

    def faults(self, result: dict | BookError) -> Iterator[str]:
        """A line for each exercise that does not score what it should."""
        right, advice = RIGHT[self.kind]
        if isinstance(result, BookError):
            yield f"{self.where}: {self.what} cannot be graded: {result}"
            return
        if result["status"] != "graded":
            yield f"{self.where}: {self.what} is refused: {result['reason']}"
        for number, question in result["questions"].items():
            here, points, of = (
                f"{self.where}: exercise {number}",
                question["points"],
                question["of"],
            )
            if not right(points, of):
                told = [
                    f"{test['name']}: {test['reason'] or 'passes'}"
                    for test in question["tests"]
                    if test["passed"] != (self.kind == "solution")
                ]
                why = "; ".join(told)
                yield f"{here}: {self.what} scores {points} of {of} ({why}); {advice}"
            if self.kind == "solution" and question["check"] != "holds":
                yield f"{here}: its public check refuses the solution; mend one of them"


def trials(master: Master, assignment: Assignment) -> Iterator[Trial]:
    """What has to be graded before a master is released."""

    def trial(kind: str, what: str, codes: dict[int, str]) -> Trial:
        """With these answers, and of these exercises alone: others change nothing here."""
        answers = {
            exercise.number: answered(exercise.code("Starter"), codes[exercise.number])
            for exercise in master.exercises
            if exercise.number in codes
        }
        asked = [each for each in assignment["questions"] if each["number"] in codes]
        alone = assignment | {"questions": asked}
        return Trial(master.where, kind, what, task(alone, f"{what} of {[*codes]}", answers))

    exercises = {exercise.number: exercise for exercise in master.exercises}
    solutions = {number: each.code("Solution") for number, each in exercises.items()}
    solved = trial("solution", "the solution", solutions)
    solved.task["checks"] = True
    yield solved
    blank = task(assignment, "the blank edition", {}) | {"checks": True}
    yield Trial(master.where, "nothing", "the blank edition", blank)
    for number, exercise in exercises.items():
        for place, wrong in enumerate(exercise.wrong_answers, start=1):
            yield trial("wrong", f"wrong answer {place}", {number: wrong.blocks[0]})
        for program in programs(exercise):
            code = f"{exercise.name} = {program}"
            yield trial("nothing", f"'{code}', as given,", {number: code})
            for turn in (0, 1):
                faces = TWO_FACED.format(name=exercise.name, turn=turn)
                what = f"'{code}' at every other call, from call {2 - turn} on,"
                yield trial("nothing", what, {number: f"{code}\n{faces}"})


def programs(exercise: Exercise) -> list[str]:
    """The names of the programs that its starter gives."""
    given = parsed(exercise.code("Starter")).body
    return [node.name for node in given if isinstance(node, ast.FunctionDef)]


def task(assignment: Assignment, name: str, answers: dict[int, str]) -> dict:
    """What grades one notebook: the assignment with these answers to its exercises."""
    return {
        "assignment": assignment,
        "submission": f"{assignment['name']}/{name}",
        "student": name,
        "cells": [list(cell) for cell in cells_of(assignment, answers)],
    }


def verify(all_trials: list[Trial], grade: Grade, stamp: Stamp, root: Path) -> list[str]:
    """Grade what is not known to hold; returns a line for each that does not."""
    path = root / MEMORY
    held = set(json.loads(read_text(path, root))) if path.is_file() else set()
    keys = {trial.task["submission"]: _key(trial.task, stamp) for trial in all_trials}
    by_id = {trial.task["submission"]: trial for trial in all_trials}
    left = {id: trial for id, trial in by_id.items() if keys[id] not in held}
    lines, done = {}, set()
    seconds = 0.1 if sys.stderr.isatty() else 10  # a log needs fewer lines than a screen
    bar = tqdm(total=len(left), desc="verified", unit="", mininterval=seconds, disable=not left)
    try:
        with bar:
            for graded, result in grade([trial.task for trial in left.values()]):
                id = graded["submission"]
                lines[id] = list(left[id].faults(result))
                if not lines[id]:
                    done.add(keys[id])
                bar.update()
    finally:
        if done:
            write_json(path, sorted(held | done), root)
    return [line for id in left for line in lines[id]]


def _key(task: dict, stamp: Stamp) -> str:
    """A hash of what is judged: no title, no rubric."""
    assignment = task["assignment"]
    words = ("title", "points", "by_hand", "holds", "solution", "remarks")
    asked = [
        {name: value for name, value in question.items() if name not in words}
        for question in assignment["questions"]
    ]
    judged = [assignment[name] for name in ("name", "seed", "given")]
    return digest([stamp(assignment["runner"]), json.dumps([judged, asked, task["cells"]])])
