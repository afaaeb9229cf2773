"""A class of any size that grades the small assignment, and what it must get.

As a command it grades one, so that tests can kill it: SUBMISSIONS OUT WORKERS|ADDRESS.
"""

import json
import random
import sys
from pathlib import Path

from classroom import RIGHT, SMALL, WRONG, edition

from tools.grade.command import engine_for, grade_all, read_all

# Each in place of one answer; {name} is what it is to define. All but the endless ones need far
# less time than they have.
HOSTILE = [
    "while True:\n    pass",
    "def {name}(*_):\n    while True:\n        pass",
    "def {name}(*_):\n    import os\n    os._exit(0)",
    "class {name}:\n    def __new__(cls, *_): return object.__new__(cls)\n"
    "    __eq__ = lambda *_: True\n    __hash__ = lambda *_: 1",
    "def {name}(*_):\n    return 'x' * 10**7",
    "def {name}(*_):\n    x = []\n    for _ in range(10**5): x = [x]\n    return x",
    "def {name}(*_):\n    return float('nan')",
    "def {name}(*_):\n    return open('/etc/passwd').read()",
    "import socket\ndef {name}(*_):\n    return socket.create_connection(('127.0.0.1', 22), 1)",
    "def {name}(*_):\n    print('\\x1b]0;x\\x07<script>alert(1)</script>')",
]
BROKEN = {  # what a file holds, and a word of the reason that it gets
    "": "empty",
    '{"cells": [{"cell_type": "code", "sour': "not a notebook",
    '{"nbformat": 3, "worksheets": []}': "formats 4.0 to 4.5",
    '{"nbformat": 4, "cells": []}': "no exercise",
    json.dumps(edition(RIGHT, SMALL | {"class": "f" * 12})): "another class",
}


def crowd(folder, count, seed=1):
    """Write `count` submissions; the points of each student's exercises, or a word of a refusal."""
    rng, expected = random.Random(seed), {}
    names = {question["number"]: question["name"] for question in SMALL["questions"]}
    folder.mkdir(parents=True)
    for place in range(count):
        student, kind = f"student-{place:04}", rng.random()
        if kind < 0.06:
            text, expected[student] = rng.choice(list(BROKEN.items()))
        else:
            answers, points = {}, dict.fromkeys(RIGHT, 0)
            for number in names:
                what = rng.choice(["right", "right", "wrong", "blank"])
                if what != "blank":
                    source = (RIGHT if what == "right" else WRONG)[number]
                    answers[number] = f"{source}  # {rng.random()}"
                    points[number] = 3 if what == "right" else 0
            if kind < 0.2:
                number = rng.choice(list(names))
                answers[number] = rng.choice(HOSTILE).replace("{name}", names[number])
                points[number] = 0
            text, expected[student] = json.dumps(edition(answers)), points
        (folder / f"{student}.ipynb").write_text(text, encoding="utf-8")
    return expected


if __name__ == "__main__":
    submissions, out, engine = sys.argv[1:]
    workers = int(engine) if engine.isdigit() else None
    by_name = {SMALL["name"]: SMALL}
    found = read_all(Path(submissions), by_name)
    grade_all(found, by_name, Path(out), engine_for(workers, None if workers else engine))
