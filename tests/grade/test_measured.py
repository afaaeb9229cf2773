"""What a hidden test measures: figures from events of simulated GPUs, which no answer can touch.

Expected figures are counted by hand: a float has four bytes, a block of memory a multiple of 512.
"""

import pytest

from coursework.grade.measured import Measured
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
TOTAL_AND_RECORD = """
with watch() as record:
    total, Y = f(3)
[total, str(Y.device), record]
"""
RECORD = """
with watch() as record:
    f()
record
"""


@pytest.fixture
def session(sandbox):
    with sandbox.session() as session:
        assert session.run("import cudasim, torch", given=True) is None
        yield session


def test_figures_of_a_program_are_those_counted_by_hand(session):
    session.run(WORK)
    total, device, record = session.ask(TOTAL_AND_RECORD, answer="f")
    assert total == 3 * MIB
    assert device == "cuda:1"

    figures = Measured(record)
    # Though the peak was reset.
    assert figures.peak("cuda:0") == 12 * MIB
    assert figures.kept("cuda:0") == 0
    assert figures.peak("cuda:1") == 12 * MIB + 512
    assert figures.kept("cuda:1") == 12 * MIB
    assert figures.copies == [12 * MIB, 4]
    assert figures.waits == 1
    assert figures.unfinished == 0
    assert [span.name for span in figures.kernels(gpu="cuda:1")] == ["sum"]
    assert 0 < figures.busy("cuda:1") < figures.busy() < figures.total


def test_nothing_takes_no_time(session):
    record = session.ask("with watch() as record:\n    pass\nrecord")
    assert Measured(record).total == 0


GAPS = {
    "another simulation": "cudasim.disable()\n    cudasim.enable(gpus=2, force=True)",
    "no simulation": "cudasim.disable()",
    "another record of memory": "torch.cuda.memory._record_memory_history(None)",
    "another record of times": "session.clock._keep = print",
    "more than is kept": "for _ in range(12_000): x = torch.ones(1, device='cuda:0'); del x",
}


@pytest.mark.parametrize("line", GAPS.values(), ids=GAPS)
def test_a_measurement_with_a_gap_is_none(session, line):
    session.run("from cudasim.session import session")
    session.run(f"def f():\n    {line}\n    return 1")
    with pytest.raises(Gap):
        session.ask(RECORD, answer="f")


@pytest.mark.parametrize("line", ["", "session.clock._spans.clear()"])
def test_a_program_cannot_change_the_clocks_record(session, line):
    session.run("from cudasim.session import session")
    session.run(f"def f():\n    torch.ones(1, device='cuda')\n    {line}")
    figures = Measured(session.ask(RECORD, answer="f"))
    assert [span.name for span in figures.kernels()] == ["ones"]


def test_another_card_is_refused_while_an_answer_is_timed(session):
    with_timeline = "with cudasim.timeline('H100'): torch.ones(9, device='cuda')"
    session.run(f"def f():\n    {with_timeline}")
    with pytest.raises(Raised, match="RuntimeError"):
        session.ask(RECORD, answer="f")


@pytest.mark.parametrize(
    ("source", "waits", "unfinished"),
    [
        ("import pickle\ndef f(X):\n    return len(pickle.dumps(X)) > 0", 1, 0),
        ("def f(X):\n    return X.to('cpu', non_blocking=True).tolist()", 0, 1),
    ],
    ids=["waited for", "read early"],
)
def test_a_value_that_was_not_waited_for_is_seen(session, source, waits, unfinished):
    session.run(source)
    question = """\
X = torch.ones(3, device='cuda')
with watch() as record:
    f(X)
record"""
    figures = Measured(session.ask(question, answer="f"))
    assert figures.waits == waits
    assert figures.unfinished == unfinished


def test_memory_of_a_gpu_has_no_address_that_the_host_can_read(session):
    reads = "return ctypes.string_at(X.data_ptr(), 4)"
    session.run(f"import ctypes\ndef f(X):\n    {reads}")
    with pytest.raises(Ended, match="crash"):
        session.ask("f(torch.ones(1, device='cuda'))", answer="f")


# --- objects that lie

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


ANSWERS = """
d = Twice(a='x')
t = torch.ones(2).as_subclass(Tensor)
s = Text('y')
f = Called()
"""


@pytest.fixture
def liars(session):
    """A session in which answers say other things the second time, or of themselves."""
    session.run(LIARS)
    session.run(ANSWERS)
    return session


def test_a_mapping_says_the_same_however_often_it_is_read(liars):
    question = "[d['a'], d['a'], dict(d)]"
    assert liars.ask(question, answer="d") == ["x", "x", {"a": "x"}]


def test_a_tensor_tells_its_own_values_and_device(liars):
    question = "[t.tolist(), str(t.device)]"
    assert liars.ask(question, answer="t") == [[1.0, 1.0], "cpu"]


def test_a_text_is_one_text(liars):
    assert liars.ask("[s, str(s), s == 'y']", answer="s") == ["y", "y", True]


def test_what_a_call_returns_is_plain_too(liars):
    question = """\
t, d, s = f()
[t.tolist(), str(t.device), d['a'], d['a'], str(s)]"""
    assert liars.ask(question, answer="f") == [[1.0, 1.0], "cpu", 1, 1, "x"]


def test_an_answer_cannot_change_the_kind_of_an_input(liars):
    question = """\
X = torch.ones(2)
changes(X)
[X.tolist(), str(X.device)]"""
    assert liars.ask(question, answer="changes") == [[1.0, 1.0], "cpu"]


def test_a_module_that_hides_its_parameters_is_no_data(liars):
    liars.run("m = Module(2, 2)")
    with pytest.raises(NoData):
        liars.ask("len(list(m.parameters()))", answer="m")


LEAVES_TRAPS = """
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


@pytest.fixture
def trapped(sandbox):
    """A session whose student leaves traps for questions, once `f` is called."""
    with sandbox.session() as session:
        given = "import torch\ndef helper():\n    return two\ntwo = 2"
        assert session.run(given, given=True) is None
        session.run(LEAVES_TRAPS)
        yield session


def test_a_question_has_names_and_functions_as_they_were(trapped):
    question = """\
numbers = [1, 2]
x = f(torch.ones(1))
[x.tolist(), sum(numbers), helper()]"""
    for _ in range(2):
        assert trapped.ask(question, answer="f") == [[1.0], 3, 2]


def test_what_a_student_entered_stays_for_the_student(trapped):
    trapped.ask("f(1)", answer="f")
    trapped.run("import torch\ndef g():\n    return torch.ones(1).tolist()")
    assert trapped.ask("g()", answer="g") == [9.0]


def test_modules_of_the_sandbox_are_out_of_sight(session):
    question = "import sys\n[name for name in sys.modules if 'inside' in name]"
    assert session.ask(question) == []


def test_a_block_gives_a_name_of_the_notebook_another_value(session):
    session.run("n = 1\ndef f():\n    return n")
    question = """\
before = f()
with notebook(n=5):
    within = f()
[before, within, notebook['n']]"""
    assert session.ask(question, answer="f") == [1, 5, 1]


ODD_NUMBERS = """
from decimal import Decimal
from enum import Enum, IntEnum
from fractions import Fraction
class Kind(str, Enum):
    HOST = 'host'
class N(IntEnum):
    ONE = 1
def f():
    return [Kind.HOST, N.ONE, Fraction(3), Fraction(1, 4), Decimal('2')]
"""


def test_numbers_of_all_kinds_are_numbers(session):
    session.run(ODD_NUMBERS)
    assert session.ask("f()", answer="f") == ["host", 1, 3, 0.25, 2.0]


# --- figures of a record

SECOND = 1_000_000_000


def span(kind, lane, name, start, size=None):
    """Return a span of one second, as a record holds it."""
    return [kind, lane, name, start * SECOND, (start + 1) * SECOND, size]


OUT_OF_0 = "cuda:0 copies out"
INTO_1 = "cuda:1 copies in"
COPIES = [
    span("copy", OUT_OF_0, "to cuda:1", 3, 512),
    span("copy", INTO_1, "to cuda:1", 3, 512),
    span("copy", OUT_OF_0, "to cpu", 4, 4),
    span("copy", OUT_OF_0, "to cpu", 5, 8),
    span("copy", OUT_OF_0, "to cuda:1", 6, 512),
    span("copy", INTO_1, "to cuda:1", 6, 512),
]
SPANS = [
    ["kernel", "cuda:1", "mm", 1 * SECOND, 3 * SECOND, None],
    span("kernel", "cuda:10", "add", 1),
    *COPIES[:3],
    ["wait", "Python", "a copy", 2 * SECOND, 5 * SECOND, None],
    *COPIES[3:],
]
HELD = {"cuda:0": 1024, "cuda:1": 512}
MEMORY = {"cuda:0": [512, 512, -512], "cuda:1": [-512, 1024], "cuda:2": [-512]}


@pytest.fixture(scope="module")
def figures():
    return Measured({"spans": SPANS, "held": HELD, "memory": MEMORY})


def test_kernels_are_found_by_name_and_gpu(figures):
    assert [kernel.name for kernel in figures.kernels("m")] == ["mm"]
    # And not those of cuda:10.
    assert [kernel.name for kernel in figures.kernels(gpu="cuda:1")] == ["mm"]


def test_seconds_are_counted(figures):
    assert figures.busy() == 3
    assert figures.busy("cuda:1") == 2
    assert figures.busy("cuda:10") == 1
    assert figures.total == 6


def test_a_copy_between_two_gpus_is_one(figures):
    assert figures.copies == [512, 4, 8, 512]


def test_a_copy_that_nobody_waited_for_is_unfinished(figures):
    assert figures.waits == 1
    assert figures.unfinished == 1
    without_wait = Measured({"spans": COPIES, "held": {}, "memory": {}})
    assert without_wait.unfinished == 2


def test_bytes_are_counted(figures):
    assert figures.held == 1536
    assert figures.peak() == 1536
    assert figures.kept() == 512
    assert figures.peak("cuda:1") == 512
    assert figures.kept("cuda:1") == 512
    assert figures.peak("cuda:2") == 0
