"""The examples of the pages do what the comments in them say."""

import ast
import re

import pytest
from programs import PROJECT, run, write

# Runs each statement, and prints what an interactive Python would show of it, as one line.
RUNNER = """\
import ast
from pathlib import Path

names = {}
for statement in ast.parse(Path("example.txt").read_text()).body:
    shown = ""
    try:
        if isinstance(statement, ast.Expr):
            shown = repr(eval(ast.unparse(statement), names))
        else:
            exec(ast.unparse(statement), names)
    except Exception as error:
        shown = f"{type(error).__name__}: {error}"
    print("shows", " ".join(shown.split()))
"""


def first_example(page):
    """Return the first block of Python in a page."""
    text = (PROJECT / page).read_text(encoding="utf-8")
    return re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]


def comments(source):
    """Return for each statement the comment behind it, as one line."""
    lines = source.splitlines()
    statements = ast.parse(source).body
    ends = [statement.lineno - 1 for statement in statements[1:]] + [len(lines)]
    texts = []
    for statement, end in zip(statements, ends, strict=True):
        last = statement.end_lineno
        behind = [lines[last - 1][statement.end_col_offset :], *lines[last:end]]
        words = " ".join(line.strip().removeprefix("#") for line in behind)
        texts.append(" ".join(words.split()))
    return texts


@pytest.mark.parametrize(
    "page", ["README.md", "docs/index.md", "docs/lab.md", "docs/other-devices.md"]
)
def test_an_example_shows_what_its_comments_say(page, tmp_path):
    source = first_example(page)
    write(tmp_path / "example.txt", source)
    write(tmp_path / "runner.py", RUNNER)
    result = run("runner.py", cwd=tmp_path)
    shown = re.findall("^shows (.*)", result.stdout, re.MULTILINE)
    said = comments(source)
    pairs = zip(shown, said, strict=True)
    commented = [pair for pair in pairs if pair[1]]
    assert len(commented) >= 2
    for statement_shows, text in commented:
        assert statement_shows == text
