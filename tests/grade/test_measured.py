"""What a hidden test measures: figures from events of simulated GPUs, which no answer can touch.

Expected figures are counted by hand: a float has four bytes, a block of memory a multiple of 512.
"""

import pytest

from coursework.grade.hidden_tests import Measured
from coursework.grade.sandbox import Ended, Gap, NoData, Raised

MIB = 2**20
WORK = """
import cudasim, torch
def f(n):
    X = torch.ones(n, 1024, 1024, device='cuda:0')  # 4 MiB each
    Y = X.to('cuda:1')
    total = Y.sum()
    del X
    torch.cuda.reset_peak_memory_stats(0)
    return total.item(), Y
"""
ASKED = """
with watch() as record:
    total, Y = f(3)
[total, str(Y.device), record]
"""


@pytest.fixture
def session(sandbox):
    with sandbox.session() as opened:
        assert opened.run("import cudasim, torch", given=True) is None
        yield opened


def test_figures_of_a_program_are_those_counted_by_hand(session):
    session.run(WORK)
    total, device, record = session.ask(ASKED, answer="f")
    seen = Measured(record)
    assert (total, device) == (3 * MIB, "cuda:1")
    assert (seen.peak("cuda:0"), seen.kept("cuda:0")) == (
        12 * MIB,
        0,
    )  # though it was reset
    assert (seen.peak("cuda:1"), seen.kept("cuda:1")) == (12 * MIB + 512, 12 * MIB)
    assert seen.copies == [12 * MIB, 4]
    assert seen.waits == 1
    assert seen.unfinished == 0
    assert [span.name for span in seen.kernels(gpu="cuda:1")] == ["sum"]
    assert 0 < seen.busy("cuda:1") < seen.busy() < seen.total
    assert Measured(session.ask("with watch() as record:\n    pass\nrecord")).total == 0


GAPS = {
    "another simulation": "cudasim.disable()\n    cudasim.enable(gpus=2, force=True)",
    "no simulation": "cudasim.disable()",
    "another record of memory": "torch.cuda.memory._record_memory_history(None)",
    "another record of times": "session.clock._keep = print",
    "more than is kept": "for _ in range(12_000): x = torch.ones(1, device='cuda:0'); del x",
}


@pytest.mark.parametrize("line", GAPS.values(), ids=GAPS)
def test_a_measurement_with_a_gap_is_none(session, line):
    session.run(
        f"from cudasim.session import session\ndef f():\n    {line}\n    return 1"
    )
    with pytest.raises(Gap):
        session.ask("with watch() as record:\n    f()\nrecord", answer="f")


def test_what_a_program_does_to_the_clocks_own_record_changes_no_figure(session):
    session.run(
        "from cudasim.session import session\ndef f():\n    torch.ones(1, device='cuda')"
    )
    code = "with watch() as record:\n    f()\nrecord"
    figures = [
        [span.name for span in Measured(session.ask(code, answer="f")).kernels()]
    ]
    session.run(
        "def f():\n    torch.ones(1, device='cuda')\n    session.clock._spans.clear()"
    )
    figures.append(
        [span.name for span in Measured(session.ask(code, answer="f")).kernels()]
    )
    assert figures == [["ones"], ["ones"]]


def test_times_of_another_card_are_refused_while_an_answer_is_timed(session):
    session.run(
        "def f():\n    with cudasim.timeline('H100'): torch.ones(9, device='cuda')"
    )
    with pytest.raises(Raised, match="RuntimeError"):
        session.ask("with watch() as record:\n    f()\nrecord", answer="f")


UNREAD = """
import pickle
def waits(X):
    return len(pickle.dumps(X)) > 0
def early(X):
    return X.to('cpu', non_blocking=True).tolist()
"""


def test_a_value_that_was_not_waited_for_is_seen(session):
    session.run(UNREAD)
    asked = (
        "X = torch.ones(3, device='cuda')\nwith watch() as record:\n    f(X)\nrecord"
    )
    for name, figures in {"waits": (1, 0), "early": (0, 1)}.items():
        session.run(f"f = {name}")
        seen = Measured(session.ask(asked, answer="f"))
        assert (seen.waits, seen.unfinished) == figures, name


def test_memory_of_a_gpu_has_no_address_that_the_host_can_read(session):
    session.run(
        "import ctypes\ndef f(X):\n    return ctypes.string_at(X.data_ptr(), 4)"
    )
    with pytest.raises(Ended, match="crash"):
        session.ask("f(torch.ones(1, device='cuda'))", answer="f")


LIARS = """
class Twice(dict):
    reads = 0
    def __getitem__(self, key):
        Twice.reads += 1
        return dict.__getitem__(self, key) if Twice.reads % 2 else 'other'
class Tensor(torch.Tensor):
    device = property(lambda self: 'cuda:1')
    def tolist(self):
        return [7.0]
class Text(str):
    def __str__(self):
        return 'other'
    __repr__ = __eq__ = __str__
class Module(torch.nn.Linear):
    def parameters(self, recurse=True):
        return iter([])
class Called:
    def __call__(self):
        return [torch.ones(2).as_subclass(Tensor), Twice(a=1), Text('x')]
def changes(X):
    X.__class__ = Tensor
"""


def test_what_is_handed_over_says_the_same_however_often_it_is_read(session):
    session.run(LIARS)
    session.run(
        "d, t, s, f = Twice(a='x'), torch.ones(2).as_subclass(Tensor), Text('y'), Called()"
    )
    assert session.ask("[d['a'], d['a'], dict(d)]", answer="d") == [
        "x",
        "x",
        {"a": "x"},
    ]
    assert session.ask("[t.tolist(), str(t.device)]", answer="t") == [[1.0, 1.0], "cpu"]
    assert session.ask("[s, str(s), s == 'y']", answer="s") == ["y", "y", True]
    code = "t, d, s = f()\n[t.tolist(), str(t.device), d['a'], d['a'], str(s)]"
    assert session.ask(code, answer="f") == [[1.0, 1.0], "cpu", 1, 1, "x"]
    code = "X = torch.ones(2)\nchanges(X)\n[X.tolist(), str(X.device)]"
    assert session.ask(code, answer="changes") == [[1.0, 1.0], "cpu"]
    session.run("m = Module(2, 2)")
    with pytest.raises(NoData):
        session.ask("len(list(m.parameters()))", answer="m")


LEFT = """
import builtins, sys
from torch.overrides import TorchFunctionMode
class Lies(TorchFunctionMode):
    def __torch_function__(self, call, types, args=(), kwargs=None):
        return [9.0] if call is torch.Tensor.tolist else call(*args, **(kwargs or {}))
def f(x):
    Lies().__enter__()
    torch.Tensor.tolist = lambda self: [8.0]
    builtins.sum = lambda values: 7
    globals().update(numbers=[6], two=3, helper=lambda: 5)
    def trace(frame, event, argument):
        frame.f_locals['numbers'] = [4]
        return trace
    sys.settrace(trace)
    sys.setprofile(lambda *_: None)
    return x
"""


def test_a_question_has_names_of_its_own_and_functions_as_they_were(sandbox):
    with sandbox.session() as session:
        given = "import torch\ndef helper():\n    return two\ntwo = 2"
        assert session.run(given, given=True) is None
        session.run(LEFT)
        code = "numbers = [1, 2]\nx = f(torch.ones(1))\n[x.tolist(), sum(numbers), helper()]"
        for _ in range(2):
            assert session.ask(code, answer="f") == [[1.0], 3, 2]
        session.run("import torch\ndef g():\n    return torch.ones(1).tolist()")
        assert session.ask("g()", answer="g") == [
            9.0
        ]  # what it entered is there for its own code
        assert (
            session.ask(
                "import sys\n[name for name in sys.modules if 'inside' in name]"
            )
            == []
        )


def test_a_name_of_the_notebook_is_another_for_the_length_of_a_block(session):
    session.run("n = 1\ndef f():\n    return n")
    code = "before = f()\nwith notebook(n=5):\n    within = f()\n[before, within, notebook['n']]"
    assert session.ask(code, answer="f") == [1, 5, 1]


def test_numbers_of_all_kinds_are_numbers(session):
    session.run(
        "from enum import Enum, IntEnum\nfrom fractions import Fraction\nimport decimal"
    )
    session.run(
        "class Kind(str, Enum):\n    HOST = 'host'\nclass N(IntEnum):\n    ONE = 1"
    )
    session.run(
        "f = lambda: [Kind.HOST, N.ONE, Fraction(3), Fraction(1, 4), decimal.Decimal('2')]"
    )
    assert session.ask("f()", answer="f") == ["host", 1, 3, 0.25, 2.0]


SPANS = [  # kind, lane, name, start and end in ns, bytes of a copy
    ["kernel", "cuda:1", "mm", 1_000_000_000, 3_000_000_000, None],
    ["kernel", "cuda:10", "add", 1_000_000_000, 2_000_000_000, None],
    ["copy", "cuda:0 copies out", "to cuda:1", 3_000_000_000, 4_000_000_000, 512],
    ["copy", "cuda:1 copies in", "to cuda:1", 3_000_000_000, 4_000_000_000, 512],
    ["copy", "cuda:0 copies out", "to cpu", 4_000_000_000, 5_000_000_000, 4],
    ["wait", "Python", "a copy", 2_000_000_000, 5_000_000_000, None],
    ["copy", "cuda:0 copies out", "to cpu", 5_000_000_000, 6_000_000_000, 8],
    ["copy", "cuda:0 copies out", "to cuda:1", 6_000_000_000, 7_000_000_000, 512],
    ["copy", "cuda:1 copies in", "to cuda:1", 6_000_000_000, 7_000_000_000, 512],
]
MEMORY = {"cuda:0": [512, 512, -512], "cuda:1": [-512, 1024], "cuda:2": [-512]}


def test_figures_of_a_record_are_those_counted_by_hand():
    held = {"cuda:0": 1024, "cuda:1": 512}
    seen = Measured({"spans": SPANS, "held": held, "memory": MEMORY})
    assert [span.name for span in seen.kernels("m")] == ["mm"]
    assert [span.name for span in seen.kernels(gpu="cuda:1")] == [
        "mm"
    ]  # and not of cuda:10
    assert (seen.busy(), seen.busy("cuda:1"), seen.busy("cuda:10"), seen.total) == (
        3,
        2,
        1,
        6,
    )
    assert seen.copies == [512, 4, 8, 512]  # between two GPUs it is one
    assert (seen.waits, seen.unfinished) == (1, 1)
    assert (seen.held, seen.peak(), seen.kept()) == (1536, 1536, 512)
    assert (seen.peak("cuda:1"), seen.kept("cuda:1"), seen.peak("cuda:2")) == (
        512,
        512,
        0,
    )
    copies = [span for span in SPANS if span[0] == "copy"]
    assert Measured({"spans": copies, "held": {}, "memory": {}}).unfinished == 2
