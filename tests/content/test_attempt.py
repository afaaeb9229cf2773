"""`attempt`, which chapters show errors with: a traceback as readers meet it, without libraries."""

import pytest
from helpers import ROOT, code, notebook
from nbclient import NotebookClient

from tools.rules.rules import ATTEMPT

CELLS = [
    code("imports", "import statistics, traceback\nclass Odd(Exception):\n    pass"),
    code("attempt", ATTEMPT),
    code("sound", "attempt(lambda: 1 + 1)"),
    code("inner", "def half(x):\n    y = x // 0\n    return y"),
    code("refused", "attempt(lambda: half(3))"),
    code("library", "attempt(lambda: statistics.mean([]))"),
    code("named", "def odd():\n    raise Odd('no\\nnever')\n\nattempt(odd)"),
]
SHOWN = {
    "sound": "2",
    "refused": """\
Traceback (most recent call last):
  Cell, line 1, in <lambda>
    attempt(lambda: half(3))
  Cell, line 2, in half
    y = x // 0
ZeroDivisionError: integer division or modulo by zero
""",
    "library": """\
Traceback (most recent call last):
  Cell, line 1, in <lambda>
    attempt(lambda: statistics.mean([]))
statistics.StatisticsError: mean requires at least one data point
""",
    "named": """\
Traceback (most recent call last):
  Cell, line 2, in odd
    raise Odd('no\\nnever')
Odd: no
never
""",
}


@pytest.mark.parametrize("runner", ["cpu", "simulated"])
def test_an_error_is_shown_as_python_shows_it_less_the_libraries(runner, tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_PATH", str(ROOT))
    client = NotebookClient(
        notebook(*CELLS),
        kernel_name=runner,
        shutdown_kernel="immediate",
        resources={"metadata": {"path": str(tmp_path)}},
    )
    shown = {
        cell.id: "".join(each.get("text") or each.data["text/plain"] for each in cell.outputs)
        for cell in client.execute().cells
    }
    assert {id: shown[id] for id in SHOWN} == SHOWN
