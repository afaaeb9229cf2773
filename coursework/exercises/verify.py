"""The gate: a solution scores full, a blank or given program 0, each wrong answer less than full.

Each is graded as a submission is. What held is remembered: a change of words grades nothing again.
"""

import ast
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tqdm import tqdm

from coursework.exercises.assignment import Assignment
from coursework.exercises.editions import TEXTS, answered
from coursework.exercises.masters import FORM, Master
from tools.book.cells import parsed
from tools.errors import BookError
from tools.files import read_text, write_json

LEAST = 16  # characters of a line that is not in an edition by chance
RIGHT = {  # is a score, of so many points, what it should be; and what to do if not
    "solution": (lambda points, of: points == of, "mend the solution or the test"),
    "nothing": (
        lambda points, of: points == 0,
        "let each test ask for what only an answer has",
    ),
    "wrong": (lambda points, of: points < of, "add a test that it fails"),
}
# Yields tasks in any order, each with its result or why there is none.
Grade = Callable[[Iterable[dict]], Iterable[tuple[dict, dict | BookError]]]
Trial = tuple[
    str, str, dict
]  # a master's file, which of RIGHT a score should be, the task
KeyOf = Callable[
    [dict, dict], str
]  # of an assignment and cells: what their result follows from


def leaks(master: Master, assignment: Assignment, notebook: str) -> Iterator[str]:
    """A line for each hidden line that is in a student's notebook and was given nowhere."""
    shown, hidden = [assignment["given"]], [assignment["seed"]]
    for exercise in master.exercises:
        shown.append(exercise.text)
        for name, form in FORM["parts"].items():
            for part in exercise.parts[name]:
                (hidden if form["hidden"] else shown).append(part.whole)
    public = "\n".join(shown)
    for line in dict.fromkeys(
        line.strip(" \"'") for text in hidden for line in text.splitlines()
    ):
        written = json.dumps(line, ensure_ascii=False)[1:-1]  # as a notebook has it
        if len(line) >= LEAST and line not in public and written in notebook:
            yield f"{master.where}: the student's notebook holds a hidden line, '{line}'; remove it"


def faults(trial: Trial, result: dict | BookError) -> Iterator[str]:
    where, kind, task = trial
    is_right, advice = RIGHT[kind]
    if isinstance(result, BookError):
        yield f"{where}: {task['student']} cannot be graded: {result}"
        return
    for number, asked in result["questions"].items():
        here = f"{where}: exercise {number}: {task['student']}"
        if not is_right(asked["points"], asked["of"]):
            odd = (
                test
                for test in asked["tests"]
                if test["passed"] != (kind == "solution")
            )
            why = "; ".join(
                f"{test['name']}: {test['reason'] or 'passes'}" for test in odd
            )
            yield f"{here} scores {asked['points']} of {asked['of']} ({why}); {advice}"
        if kind == "solution" and asked["check"] != "holds":
            yield f"{here} is refused by the public check; mend one of them"


def trials(master: Master, assignment: Assignment) -> Iterator[Trial]:
    exercises = {exercise.number: exercise for exercise in master.exercises}

    def trial(kind: str, what: str, codes: dict[int, str]) -> Trial:
        """With these answers, and of these exercises alone: others change nothing here."""
        answers = {
            n: answered(exercises[n].code("Starter"), code) for n, code in codes.items()
        }
        asked = [
            question
            for question in assignment["questions"]
            if question["number"] in codes
        ]
        made = task(assignment | {"questions": asked}, f"{what} of {[*codes]}", answers)
        return (
            master.where,
            kind,
            made | {"student": what, "checks": kind == "solution"},
        )

    yield trial(
        "solution",
        "the solution",
        {n: x.code("Solution") for n, x in exercises.items()},
    )
    blank = task(assignment, "the blank edition", {})
    yield master.where, "nothing", blank | {"checks": True}
    for n, exercise in exercises.items():
        for place, wrong in enumerate(exercise.parts["Wrong answer"], start=1):
            yield trial("wrong", f"wrong answer {place}", {n: wrong.blocks[0]})
        given = parsed(exercise.code("Starter")).body
        for program in [
            node.name for node in given if isinstance(node, ast.FunctionDef)
        ]:
            code = f"{exercise.name} = {program}"
            yield trial("nothing", f"'{code}', as given,", {n: code})
            for turn in (0, 1):
                what = f"'{code}' at every other call, from call {2 - turn} on,"
                yield trial(
                    "nothing", what, {n: TEXTS.two_faced(program, exercise.name, turn)}
                )


def task(assignment: Assignment, name: str, answers: dict[int, str]) -> dict:
    """What grades one notebook: the assignment with these answers to its exercises."""
    starters = {asked["number"]: asked["starter"] for asked in assignment["questions"]}
    cells = {str(n): [answers.get(n, starter)] for n, starter in starters.items()}
    id = f"{assignment['name']}/{name}"
    return {"assignment": assignment, "submission": id, "student": name, "cells": cells}


def verify(
    all_trials: Iterable[Trial], grade: Grade, key_of: KeyOf, root: Path
) -> list[str]:
    """Grade what is not known to hold; returns a line for each that does not."""
    path = root / "_build" / "verified.json"  # keys of what held
    held = set(json.loads(read_text(path, root))) if path.is_file() else set()
    by_id = {trial[-1]["submission"]: trial for trial in all_trials}
    left = {
        id: trial for id, trial in by_id.items() if _key(trial[-1], key_of) not in held
    }
    if not left:
        return []
    lines, seconds = (
        {},
        0.1 if sys.stderr.isatty() else 10,
    )  # a log needs fewer than a screen
    graded = grade([task for *_, task in left.values()])
    try:
        for task, result in tqdm(
            graded, "verified", len(left), unit="", mininterval=seconds
        ):
            lines[task["submission"]] = found = [
                *faults(left[task["submission"]], result)
            ]
            if not found:
                held.add(_key(task, key_of))
    finally:
        write_json(path, sorted(held), root)
    return [line for id in left for line in lines[id]]


def _key(task: dict, key_of: KeyOf) -> str:
    """A hash of what is judged: what an exercise is worth and is remarked on changes no verdict."""
    assignment = task["assignment"]
    asked = [
        question | {"points": 0, "remarks": []} for question in assignment["questions"]
    ]
    return key_of(assignment | {"questions": asked}, task["cells"])
