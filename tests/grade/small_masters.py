"""A small master, and a stand-in for what grades: no sandbox, for code of these tests alone."""

import ast
import random
import shutil
from pathlib import Path

from helpers import ROOT, code, make_book, prose, write

from tools.book.book import Book
from tools.exercises.masters import read_master

HEAD = """\
---
title: Small numbers
given: [base]
runner: cpu
---

Two exercises about numbers.

## Given

```python
offset = 1
```
"""
FIRST = """
## 1. Times

- level: Recall
- points: 3
- seconds: 5

Write `times(x)`, which multiplies `x` by {{ factor }}.

*It holds when* `times(1)` is {{ factor }}.

See [the glossary](../book/glossary.md#gpu) and `f[0](x)`.

### Hint

A star multiplies.

### Hint

`x * 1` is `x`.

### Starter

```python
import math

times = ...  # your function
```

### Shows

- times: shown

```python
None if times is ... else times(2)
```

### Checks

```python
if times is not ...:
    assert times(1) == {{ factor }}
```

```python
'Exercise 1: ' + ('no answer yet' if times is ... else 'it holds')
```

### Solution

```python
def times(x):
    \"\"\"A number so many times.\"\"\"
    return {{ factor }} * (x + offset - 1)
```

It is the plainest way to say it.

### Wrong answer

```python
def times(x):
    return x + {{ factor }} - 1
```

It holds for one number, and for no other one.

### Wrong answer

```python
times = lambda x: {{ factor }} * abs(x)
```

It loses the sign on its way.

### Hidden tests

```python
@points(2)
def test_any(student, rng):
    \"\"\"Multiplies any number that is not negative.\"\"\"
    n = rng.randrange(2, 99)
    assert student.ask("times(n)", n=n) == {{ factor }} * n


def test_negative(student, rng):
    \"\"\"Multiplies a negative number, too.\"\"\"
    n = -rng.randrange(2, 99)
    assert student.ask("times(n)", n=n) == {{ factor }} * n
```

### For instructors

It is for warming up. Many forget the sign.

### By hand

- points: 2

Two points for a sentence that says why.

### Variants

```yaml
factor: [2, 3, 5, 7, 11, 13, 17, 19]
```
"""
SECOND = """
## 2. Which is larger?

- level: Invent
- points: 1

Write `larger(a, b)`, which returns the larger number.

*It holds when* `larger(1, 2)` is 2.

### Hint

Compare them.

### Hint

Python has a function for it.

### Starter

```python
larger = ...  # your function
```

### Checks

```python
if larger is not ...:
    assert larger(1, 2) == 2
'Exercise 2: ' + ('no answer yet' if larger is ... else 'it holds')
```

### Solution

```python
larger = max
```

Functions are values, too.

### Wrong answer

```python
larger = lambda a, b: b
```

It never looks at the first.

### Hidden tests

```python
def test_both(student, rng):
    \"\"\"Finds it wherever it stands.\"\"\"
    n = rng.randrange(9)
    assert student.ask("[larger(n, n + 1), larger(n + 1, n)]", n=n) == [n + 1, n + 1]
```

### For instructors

A function is handed on without being called.
"""
SMALL = HEAD + FIRST + SECOND


def write_master(folder, text=SMALL, name="small"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(text, encoding="utf-8")
    return folder


def read_small(folder, text=SMALL, **options):
    """The master of that text."""
    return read_master(write_master(folder, text) / "small.md", folder, **options)


def book_of_one(root):
    """A tiny book, with a chapter whose exercises come from a master; its root."""
    make_book(root)
    shutil.copy(ROOT / "_config.yml", root)
    (root / "cudasim").mkdir()
    shutil.copy(ROOT / "cudasim" / "pyproject.toml", root / "cudasim")
    write(
        root,
        "small",
        prose("title", "# Small numbers"),
        code("switch", "SIMULATE_GPUS = False", tags=["setup"]),
        code("base", "base = 10"),
        prose("exercises", "## Exercises"),
        prose("exercise-1", "old"),
        code("answer-1", "old"),
        prose("between", "## Harder"),
        prose("exercise-2", "old"),
    )
    with (root / "_toc.yml").open("a") as toc:
        toc.write("  - file: notebooks/small\n")
    write_master(root / "masters")
    return Book(root)


class Student:
    """What `ask` may be asked of, without a sandbox."""

    def __init__(self, names):
        self.names = names

    def ask(self, source, **inputs):
        *before, last = ast.parse(source).body
        names = self.names | inputs
        exec(compile(ast.Module(before, []), "ask", "exec"), names)
        return eval(compile(ast.Expression(last.value), "ask", "eval"), names)


def points(worth):
    def mark(test):
        test.points = worth
        return test

    return mark


def grade_one(task):
    names, questions, raised = {}, {}, set()
    for number, source in task["cells"]:
        try:
            exec(source, names)
        except Exception:
            raised.add(number)
    for question in task["assignment"]["questions"]:
        tests, results = {"points": points}, []
        exec(question["tests"], tests)
        for name in [name for name in tests if name.startswith("test_")]:
            rng = random.Random(task["assignment"]["seed"] + name)
            try:
                tests[name](Student(names), rng)
                reason = None
            except Exception as error:
                reason = type(error).__name__
            of = getattr(tests[name], "points", 1)
            results.append({"name": name, "passed": reason is None, "of": of, "reason": reason})
        questions[str(question["number"])] = {
            "points": sum(each["of"] for each in results if each["passed"]),
            "of": sum(each["of"] for each in results),
            "tests": results,
            "check": "fails" if question["number"] in raised else "holds",
        }
    return {"status": "graded", "reason": None, "questions": questions}


class Grader:
    """Grades one task after another, and remembers which."""

    def __init__(self):
        self.graded = []

    def __call__(self, tasks):
        for task in tasks:
            self.graded.append(task["submission"])
            yield task, grade_one(task)


def stamp(runner):
    return f"a grader for {runner}"


def contents(folder: Path):
    """The bytes of each file below a folder, by its path in it."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
