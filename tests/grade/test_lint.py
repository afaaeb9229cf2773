"""The lint suggests where to look: at tricks, and at no honest answer."""

import pytest

from tools.exercises.masters import read_master
from tools.grade.lint import lint
from tools.root import ROOT

TRICKS = {
    "imports subprocess": "def f():\n    from subprocess import run",
    "imports os": "import os.path",
    "calls exec": "exec('x')",
    "calls __import__": "__import__('o' + 's')",
    "calls open": "def f():\n    return open('x').read()",
    "calls getattr with a name that it computes": "getattr(torch, 'eq' + 'ual')",
    "sets torch.equal": "torch.equal = lambda *_: True",
    "defines __eq__": "class A:\n    def __eq__(self, other):\n        return True",
    "uses __globals__": "f.__globals__['x'] = 1",
    "uses __builtins__": "__builtins__.len = f",
    "uses reset_peak_memory_stats": "torch.cuda.reset_peak_memory_stats(0)",
    "uses f_back": "e.tb_frame.f_back",
    "names a card": "import cudasim as c\nwith c.timeline('H100'):\n    x",
}


@pytest.mark.parametrize("words", TRICKS)
def test_tricks_are_named_but_in_comments_and_texts(words):
    source = TRICKS[words]
    assert any(words in found["text"] for found in lint(source, 1))
    assert not lint("# " + source.replace("\n", "\n# ") + f"\nx = {source!r}", 1)


def test_a_reason_comes_once_and_honest_or_unreadable_code_has_none():
    own = "class A:\n    def __init__(self):\n        self.x = 1\n"
    assert not lint(own + "a = A()\na.x = 2\nnet = make()\nnet.a.b = 3", 1)
    assert len(lint("import gc\nimport gc\nimport gc", 3)) == 1
    assert lint("import gc (", 3) == [] and lint("import gc", 3)[0]["exercise"] == 3


def test_no_solution_of_the_book_is_named():
    for path in (ROOT / "masters").glob("*.md"):
        for exercise in read_master(path, ROOT).exercises:
            assert lint(exercise.code("Solution"), exercise.number) == []
