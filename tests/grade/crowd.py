"""A class of any size, made from the masters' solutions and wrong answers, and what it must get.

As a command it grades one, so that tests can kill it: SUBMISSIONS ASSIGNMENTS OUT WORKERS|ADDRESS.
"""

import ast
import copy
import json
import random
import sys
from pathlib import Path

from tools.book.book import Book
from tools.exercises.assignment import make_assignment
from tools.exercises.masters import read_master
from tools.exercises.variants import draws_of
from tools.grade.command import engine_for, grade
from tools.root import ROOT

KEY = "a class of a thousand"
SECONDS = 3  # of processor time: a loop without end costs that much
# Each in place of one answer; {name} is what it is to define. All but the endless ones need far
# less time than they have: to touch a gigabyte took from 0.5 s to 3.2 s on one virtual machine.
HOSTILE = {
    "loop": "while True:\n    pass",
    "slow": "def {name}(*_):\n    while True:\n        pass",
    "exit": "import os\nos._exit(0)",
    "exit later": "def {name}(*_):\n    import os\n    os._exit(0)",
    "kill": "import os\nos.kill(-1, 9)",
    "fork": "import os\nwhile True:\n    os.fork()",
    "memory": "x = bytearray(3 * 10**10)",
    "output": "while True:\n    print('x' * 10**6)",
    "always equal": "class {name}:\n    def __new__(cls, *_): return object.__new__(cls)\n"
    "    __eq__ = lambda *_: True\n    __hash__ = lambda *_: 1",
    "huge": "def {name}(*_):\n    return 'x' * 10**7",
    "deep": "def {name}(*_):\n    x = []\n    for _ in range(10**5): x = [x]\n    return x",
    "nan": "def {name}(*_):\n    return float('nan')",
    "reads": "def {name}(*_):\n    return open('/etc/passwd').read()",
    "connects": "import socket\ndef {name}(*_):\n"
    "    return socket.create_connection(('127.0.0.1', 22), 1)",
    "terminal": "def {name}(*_):\n    print('\\x1b]0;x\\x07<script>alert(1)</script>')",
}
BROKEN = {  # what a file holds, and a word of the reason that it gets
    "empty": ("", "empty"),
    "half": ('{"cells": [{"cell_type": "code", "sour', "JSON"),
    "text": ("Dear teacher, my answers are 42.", "JSON"),
    "format 3": ('{"nbformat": 3, "worksheets": []}', "format 3"),
    "no cells": (
        '{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}',
        "no exercise",
    ),
    "in R": (
        '{"nbformat": 4, "nbformat_minor": 5, "cells": [],'
        ' "metadata": {"kernelspec": {"name": "ir", "language": "R"}}}',
        "Python",
    ),
    "other class": (None, "another class"),
}


def assignment_of(name="computing-devices"):
    """(the assignment, its master): a real chapter as a class gets it, with short limits."""
    draws = draws_of(KEY)
    master = read_master(ROOT / f"masters/{name}.md", ROOT, draws.choose)
    made = make_assignment(master, Book(ROOT).chapters[name], draws).to_json()
    for question in made["questions"]:
        question["seconds"] = SECONDS
    return made, master


def notebook(assignment, answers, **told):
    """A notebook with these answers, as the student edition has them."""
    cells = []

    def add(kind, id, source, mark):
        cell = {"cell_type": kind, "id": id, "metadata": {"assignment": mark}, "source": source}
        cells.append(cell | ({"outputs": [], "execution_count": 1} if kind == "code" else {}))

    add(
        "code", "given", "\n\n".join(source for _, source in assignment["given"]), {"part": "given"}
    )
    for each in assignment["questions"]:
        n = each["number"]
        add(
            "markdown",
            f"exercise-{n}",
            f"## {n}. {each['title']}",
            {"exercise": n, "part": "exercise"},
        )
        add(
            "code",
            f"answer-{n}",
            answers.get(n, each["starter"]),
            {"exercise": n, "part": "answer"},
        )
        for place, check in enumerate(each["checks"]):
            add("code", f"holds-{n}" + "-more" * place, check, {"exercise": n, "part": "check"})
    told = {"name": assignment["name"], "class": assignment["class"]} | told
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {"assignment": told}, "cells": cells}


class Renamed(ast.NodeTransformer):
    """Gives other names to what a function makes for itself."""

    def __init__(self, names):
        self.names = names

    def visit_Name(self, node):
        node.id = self.names.get(node.id, node.id)
        return node

    def visit_arg(self, node):
        node.arg = self.names.get(node.arg, node.arg)
        return node


def varied(source, rng):
    """The same program in other words: local names, comments, blank lines."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return source
    local = set()
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        for node in ast.walk(function):
            if isinstance(node, ast.arg):
                local.add(node.arg)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                local.add(node.id)
    called = {each.arg for each in ast.walk(tree) if isinstance(each, ast.keyword)}
    outer = {
        node.id for node in ast.walk(tree) if isinstance(node, ast.Global) for node.id in node.names
    }
    names = {each: f"{each}_{rng.randrange(99)}" for each in sorted(local - called - outer)}
    lines = ast.unparse(Renamed(names).visit(tree)).split("\n")
    return "\n".join(
        f"{each}  # {rng.randrange(999)}" if rng.random() < 0.3 else each for each in lines
    )


def crowd(folder, count, seed=1):
    """Write `count` submissions; returns the assignment, and for each student what must come out:

    ("graded", {number: (kind, index)}) or ("refused", word), where kind is "right", "wrong",
    "blank" or "hostile".
    """
    rng = random.Random(seed)
    assignment, master = assignment_of()
    exercises = {each.number: each for each in master.exercises}
    names = {each["number"]: each["name"] for each in assignment["questions"]}
    folder.mkdir(parents=True)
    expected = {}

    def source_of(number, kind, index):
        if kind == "blank":
            return exercises[number].code("Starter")
        if kind == "hostile":
            return HOSTILE[index].replace("{name}", names[number])
        if kind == "wrong":
            return exercises[number].wrong_answers[index].blocks[0]
        return exercises[number].code("Solution")

    def write(student, chosen, vary):
        answers = {n: source_of(n, *each) for n, each in chosen.items()}
        if vary:
            for n, (kind, _) in chosen.items():
                if kind != "hostile":
                    answers[n] = varied(answers[n], rng)
        made = notebook(assignment, answers)
        if vary:
            disturb(made, rng)
        (folder / f"{student}.ipynb").write_text(json.dumps(made), encoding="utf-8")
        expected[student] = ("graded", chosen)

    plain = {n: ("right", None) for n in exercises}
    write("model-right", plain, False)
    write("model-blank", {n: ("blank", None) for n in exercises}, False)
    most = max(len(each.wrong_answers) for each in exercises.values())
    for index in range(most):
        chosen = {n: ("wrong", min(index, len(e.wrong_answers) - 1)) for n, e in exercises.items()}
        write(f"model-wrong-{index}", chosen, False)
    for place in range(count - len(expected)):
        student, kind = f"student-{place:04}", rng.random()
        if kind < 0.06:
            text, word = BROKEN[rng.choice(sorted(BROKEN))]
            text = (
                json.dumps(notebook(assignment, {}, **{"class": "f" * 12}))
                if text is None
                else text
            )
            (folder / f"{student}.ipynb").write_text(text, encoding="utf-8")
            expected[student] = ("refused", word)
        elif kind < 0.14:
            chosen = plain | {
                rng.choice(sorted(exercises)): ("hostile", rng.choice(sorted(HOSTILE)))
            }
            write(student, chosen, True)
        elif kind < 0.5:
            write(student, plain, True)
        else:
            chosen = {}
            for n, each in exercises.items():
                what = rng.choice(["right", "right", "wrong", "blank"])
                chosen[n] = (
                    what,
                    rng.randrange(len(each.wrong_answers)) if what == "wrong" else None,
                )
            write(student, chosen, True)
    return assignment, expected


def disturb(made, rng):
    """What students and services do to cells, and what must not matter."""
    cells, kind = made["cells"], rng.randrange(6)
    if kind == 0:  # ids and marks lost
        for cell in cells:
            cell.pop("id")
            cell["metadata"] = {"id": f"{rng.randrange(10**9)}"}
        made["nbformat_minor"] = 0
    elif kind == 1:  # a copy of a check, changed
        again = copy.deepcopy(cells[-1])
        again["source"] = "'Exercise 5: it holds'"
        cells.append(again)
    elif kind == 2:  # a helper cell
        cells.insert(
            1, copy.deepcopy(cells[0]) | {"id": "mine", "metadata": {}, "source": "step = 1"}
        )
    elif kind == 3:  # lists of lines
        for cell in cells:
            cell["source"] = cell["source"].splitlines(keepends=True)


def points_of(results, expected, assignment):
    """Every submission whose result is not the known one, with what is wrong."""
    by_student = {each["student"]: each for each in results}
    worth = {}  # what each answer earns where nothing is disturbed
    for student, (_, chosen) in expected.items():
        if student.startswith("model"):
            for n, what in chosen.items():
                worth[n, *what] = by_student[student]["questions"][str(n)]["points"]
    wrong = []
    for each in assignment["questions"]:
        n, of = each["number"], each["points"]
        if worth[n, "right", None] != of or worth[n, "blank", None] != 0:
            wrong.append(f"exercise {n}: the solution or the blank edition gets other points")
        if any(worth[key] >= of for key in worth if key[:2] == (n, "wrong")):
            wrong.append(f"exercise {n}: a wrong answer gets full points")
    for student, (status, what) in expected.items():
        result = by_student[student]
        if status == "refused":
            if result["status"] != "refused" or what not in result["reason"]:
                wrong.append(f"{student}: {result['status']}, {result['reason']}, not for {what}")
            continue
        got = {int(n): each["points"] for n, each in result["questions"].items()}
        must = {n: 0 if each[0] == "hostile" else worth[n, *each] for n, each in what.items()}
        if got != must:
            wrong.append(f"{student}: {got}, not {must}: {what}")
    return wrong


def main():
    submissions, assignments, out, engine = sys.argv[1:]
    found = json.loads(Path(assignments).read_text(encoding="utf-8"))
    workers = int(engine) if engine.isdigit() else None
    grade(Path(submissions), found, Path(out), engine_for(workers, None if workers else engine))


if __name__ == "__main__":
    main()
