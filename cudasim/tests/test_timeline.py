"""Timelines: of the virtual clock and of `torch.profiler`, as numbers, pictures and traces."""

import json
from xml.etree import ElementTree

import pytest
import torch
from calls import raised
from programs import run

import cudasim
from cudasim.clock import clock as clocks
from cudasim.clock import trace
from cudasim.clock.bars import BARS
from cudasim.clock.clock import Clock, Span
from cudasim.clock.timeline import MIME, OTHERS, THREADS, Timeline
from cudasim.session import session
from cudasim.timing.sheets import find_sheet

US = 1000  # nanoseconds
BEGIN = 4429661583575.0  # microseconds, when a trace of Kineto begins
PROFILED = r"another timeline or torch\.profiler is"


@pytest.fixture
def clock(monkeypatch):
    """A clock that nothing but a test spends."""
    monkeypatch.setattr(session, "clock", Clock(find_sheet("T4"), ["cuda:0"]))
    return session.clock


def spend(clock, duration, name, kind="operation", lane="Python"):
    """Book a span that begins now, and pass over it."""
    clock._keep(lane, name, clock.now, clock.now + duration, kind)
    clock.reach(clock.now + duration)


def work(clock):
    """Two kernels, a copy after them, and a wait."""
    spend(clock, 4 * US, "mm.default")
    spend(clock, 300 * US, "mm.default", "kernel", "cuda:0 stream 0")
    spend(clock, 50 * US, "add.Tensor", "kernel", "cuda:0 stream 0")
    spend(clock, 100 * US, "copy", "copy", "cuda:0 copies out")
    spend(clock, 10 * US, "item", "wait")


def timeline_of(*spans):
    timeline = Timeline()
    timeline.fill(spans, "modelled for a T4")
    return timeline


TWO = (
    Span("Python", "mm", 5000, 9000, "operation"),
    Span("Python", "item", 9000, 25000, "wait"),
    Span("cuda:0 stream 0", "mm", 9000, 21000, "kernel"),
    Span("cuda:0 copies in", "copy", 7000, 15000, "copy", 64),
)


def test_a_block_under_the_modelled_clock(clock):
    spend(clock, US, "before")
    with cudasim.timeline() as lanes:
        work(clock)
        for name in ("add_.Tensor", "torchvision.nms.default", "load cuBLAS 12.1"):
            spend(clock, 12 * US, name)
    spend(clock, US, "after")

    assert lanes.modelled
    assert lanes.source == "modelled for a T4"
    names = [span.name for span in lanes.spans]
    assert names[:5] == ["mm", "mm", "add", "copy", "item"]
    assert names[5:] == ["add_", "nms", "load cuBLAS 12.1"]
    assert lanes.lanes == ["Python", "cuda:0 stream 0", "cuda:0 copies out"]
    assert lanes.total == 500e-6
    assert lanes.busy("cuda:0 stream 0") == 350 / 500


@pytest.fixture
def product():
    """What a product on a simulated T4 with a modelled clock takes, done once before."""
    with cudasim.simulate(gpus=1, card="T4", clock="modelled"):
        yield product_on_a_card()


def product_on_a_card():
    A = torch.ones(2048, 2048, device="cuda")

    def product():
        return (A @ A).sum().item()

    product()
    return product


def test_another_card_is_booked_as_if_it_were_simulated(product):
    with cudasim.timeline(card="H100") as other:
        assert product() == 2048.0**3
        assert torch.cuda.get_device_name() == "Simulated GPU (T4, modelled time)"
    with cudasim.timeline() as own:
        product()
    cudasim.disable()
    with cudasim.simulate(gpus=1, card="H100", clock="modelled"):
        product = product_on_a_card()
        with cudasim.timeline() as simulated:
            product()
    assert other.source == simulated.source
    assert other.table() == simulated.table()
    assert own.table() != other.table()


def test_work_of_before_is_done_before_another_card_begins(product):
    with cudasim.timeline(card="H100") as alone:
        product()
    A = torch.ones(2048, 2048, device="cuda")
    for _ in range(10):
        A @ A  # queued, not waited for
    with cudasim.timeline(card="H100") as behind:
        product()
    assert behind.total == alone.total


def test_a_block_that_raises_gives_the_card_back(product):
    sheet = session.clock.sheet
    with pytest.raises(ZeroDivisionError), cudasim.timeline(card="H100"):
        raise ZeroDivisionError
    assert session.clock.sheet is sheet


def test_another_card_needs_a_clock_a_sheet_and_a_block():
    words = r"card='H100'\): only a modelled clock knows"
    with pytest.raises(RuntimeError, match=words):
        cudasim.timeline(card="H100")
    with cudasim.simulate(gpus=1, clock="modelled"):
        torch.ones(2, device="cuda")
        with pytest.raises(ValueError, match="card='H1000': no data sheet; there are"):
            cudasim.timeline(card="H1000")
        with pytest.raises(RuntimeError, match="need a block: with timeline"):
            cudasim.timeline(card="H100").table()
        late = cudasim.timeline(card="H100")
    with pytest.raises(RuntimeError, match="only a modelled clock"), late:
        pass


def test_without_a_block_it_is_what_happened_since_the_last(clock, monkeypatch):
    work(clock)
    assert len(cudasim.timeline().spans) == 5
    with pytest.raises(RuntimeError, match="nothing was recorded"):
        cudasim.timeline().table()
    work(clock)
    work(clock)
    assert len(cudasim.timeline().spans) == 10
    with cudasim.timeline():
        work(clock)
    work(clock)
    assert len(cudasim.timeline().spans) == 5

    # Another simulation begins with nothing.
    clock = Clock(clock.sheet, ["cuda:0"])
    monkeypatch.setattr(session, "clock", clock)
    work(clock)
    assert len(cudasim.timeline().spans) == 5


def test_plain_numbers():
    lanes = timeline_of(*TWO)
    assert lanes.total == 20e-6
    assert lanes.busy("Python") == 0.2  # waiting is not work
    assert lanes.busy("cuda:0 stream 0") == 0.6
    assert lanes.busy("cuda:0") == 0.7  # the copy and the kernel overlap
    assert lanes.table()[1] == ("Python", "item", 4e-6, 16e-6)
    words = r"^'cuda:1': no such lane; there are Python, cuda:0 str"
    with pytest.raises(ValueError, match=words):
        lanes.busy("cuda:1")


def test_text():
    lanes = timeline_of(*TWO)
    assert str(lanes).splitlines() == [
        "timeline, modelled for a T4: ≈ 0.020 ms",
        "Python: 1 operation, 1 wait; busy ≈ 0.004 ms, ≈ 20 %",
        "cuda:0 stream 0: 1 kernel; busy ≈ 0.012 ms, ≈ 60 %",
        "cuda:0 copies in: 1 copy; busy ≈ 0.008 ms, ≈ 40 %",
    ]
    heads, first, *_ = str(lanes.table()).splitlines()
    assert heads.split() == ["lane", "name", "start", "duration"]
    assert first.split("  ")[-1].strip() == "≈ 0.004 ms"


def test_lanes_have_an_order():
    shuffled = (
        "cuda:1 stream 0",
        "cuda:0 copies out",
        "cuda:0 stream 35",
        "Python, Thread-1",
        "cuda:0 stream 3",
        "cuda:0 copies in",
        "Python",
    )
    spans = [Span(lane, "a", 0, 1, "kernel") for lane in shuffled]
    assert timeline_of(*spans).lanes == [
        "Python",
        "Python, Thread-1",
        "cuda:0 stream 3",
        "cuda:0 stream 35",
        "cuda:0 copies in",
        "cuda:0 copies out",
        "cuda:1 stream 0",
    ]


# Too much to draw.


def test_many_threads_share_a_lane_and_it_is_said():
    spans = []
    for number in range(1000):
        lane = f"Python, Thread-{number}"
        spans.append(Span(lane, "add", number, number + 1, "operation"))
    of_main_thread = Span("Python", "add", 5, 6, "operation")
    lanes = timeline_of(*spans, of_main_thread)
    assert len(lanes.lanes) == THREADS + 2
    assert OTHERS in lanes.lanes
    assert len(lanes.table()) == 1001
    assert len(lanes.bars()) <= BARS
    assert lanes.notes == [f"{1000 - THREADS} more threads of Python share a lane"]

    few = timeline_of(*spans[:THREADS])
    assert len(few.lanes) == THREADS
    assert few.notes == []


def test_threads_without_a_name_are_counted_as_they_begin(clock):
    for thread in ("Thread-12 (run)", "loader", "Thread-9 (run)", "Thread-12 (run)"):
        spend(clock, US, "add.Tensor", lane=f"Python, {thread}")
    lanes = [span.lane for span in cudasim.timeline().spans]
    first, second = "Python, thread 1 (run)", "Python, thread 2 (run)"
    assert lanes == [first, "Python, loader", second, first]

    # Python itself goes on counting.
    spend(clock, US, "add.Tensor", lane="Python, Thread-20 (run)")
    assert [span.lane for span in cudasim.timeline().spans] == [first]


def many_spans(count):
    """Return spans of many names and lengths, some of them at once, in three lanes."""
    lanes = ("Python", "cuda:0 stream 0", "cuda:0 copies in")
    spans = []
    start = 0
    for i in range(count):
        lane = lanes[i % 3]
        name = f"op{i % 37}"
        end = start + i * i % 997
        spans.append(Span(lane, name, start, end, "kernel"))
        start += i * i % 1009
    return spans


@pytest.mark.parametrize(("count", "merged"), [(50, False), (5000, True)])
def test_a_picture_is_bounded_and_says_what_it_merged(count, merged):
    lanes = timeline_of(*many_spans(count))
    bars = lanes.bars()
    assert 1 < len(bars) <= BARS
    assert (len(bars) < count) == merged
    assert sum(bar.merged for bar in bars) == count
    assert max(bar.end for bar in bars) == lanes.length
    assert ("neighbours are merged" in str(lanes.chart().notes)) == merged

    parts = lanes._repr_mimebundle_().values()
    assert sum(len(part.encode()) for part in parts) < 40 * 1024


def test_neighbours_of_one_name_are_merged_and_counted():
    spans = []
    for start in range(0, 10 * (BARS + 1), 10):
        spans.append(Span("Python", "add", start, start + 10, "operation"))
    (bar,) = timeline_of(*spans).bars()
    assert bar.merged == BARS + 1
    assert bar.label == f"add \N{MULTIPLICATION SIGN} {BARS + 1}"


def test_what_the_clock_dropped_is_said(clock, monkeypatch):
    monkeypatch.setattr(clocks, "MAX_SPANS", 6)
    clock.restart()
    with cudasim.timeline() as lanes:
        work(clock)
        work(clock)
    assert len(lanes.spans) == 6
    note = "the first 4 spans were dropped: there are too many"
    assert lanes.notes == [note]
    bundle = lanes._repr_mimebundle_()
    assert len(bundle) == 3
    for part in bundle.values():
        assert note in part


# What it shows.


def test_what_a_notebook_and_a_page_show():
    bundle = timeline_of(*TWO)._repr_mimebundle_()
    assert bundle == timeline_of(*TWO)._repr_mimebundle_()

    picture = bundle["image/svg+xml"]
    assert "modelled for a T4" in picture
    assert "≈ µs" in picture
    assert "<dc:date>" not in picture
    ElementTree.fromstring(picture)

    payload = bundle[MIME]
    # This is how a comparison knows it from a real clock's.
    assert payload.startswith('{"unit":"≈ ns",')
    content = json.loads(payload)
    assert content["bars"][1] == [0, 1, 4000, 16000, 1, 1]
    assert content["lanes"][0] == ["Python", {"operation": 1, "wait": 1}, 0.2]
    assert content["total"] == 20000
    assert content["kinds"] == ["operation", "wait", "kernel", "copy"]


def test_a_trace_for_chrome(tmp_path):
    timeline_of(*TWO).save(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert trace["otherData"]["source"] == "modelled for a T4"

    lanes = {}
    drawn = []
    for event in trace["traceEvents"]:
        if event["name"] == "thread_name":
            lanes[event["tid"]] = event["args"]["name"]
        elif event["ph"] == "X":
            drawn.append(event)
    assert list(lanes.values()) == ["Python", "cuda:0 stream 0", "cuda:0 copies in"]
    assert len(drawn) == 4

    (kernel,) = [event for event in drawn if event["cat"] == "kernel"]
    assert lanes[kernel["tid"]] == "cuda:0 stream 0"
    assert kernel["ts"] == 4.0
    assert kernel["dur"] == 12.0
    (copy,) = [event for event in drawn if event["cat"] == "copy"]
    assert copy["args"] == {"bytes": 64}


# Without a modelled clock.


def test_python_measured_by_the_profiler():
    X = torch.ones(20, 20)
    with cudasim.timeline() as lanes:
        (X @ X).sum().item()
    assert [span.name for span in lanes.spans] == ["matmul", "sum", "item"]
    assert lanes.lanes == ["Python"]
    assert not lanes.modelled
    assert lanes.source.startswith("measured on ")
    assert len(lanes.source) > len("measured on ") + 1
    assert str(lanes).startswith("timeline, measured: ≈ ")
    assert 0 < lanes.busy("Python") <= 1


def test_a_simulation_without_a_clock_is_measured_on_the_cpu():
    with cudasim.simulate(), cudasim.timeline() as lanes:
        torch.ones(2, device="cuda:0") + 1
    assert lanes.lanes == ["Python"]
    assert "measured on" in lanes.source


def test_a_block_in_which_nothing_ran():
    with cudasim.timeline() as lanes:
        pass
    words = "nothing was recorded: no operation of PyTorch ran"
    assert repr(lanes) == f"cudasim.timeline(): {words}"


def event(cat, name, ts, dur, tid=88, pid=88, **args):
    """Return an event as Kineto exports it: GPUs are processes, streams are threads."""
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": BEGIN + ts,
        "dur": dur,
        "args": args,
    }


def operation(number, name, ts, dur, tid=88):
    return event("cpu_op", name, ts, dur, tid, **{"External id": number})


def on_gpu(cat, name, ts, dur, stream, operation, **args):
    ids = {"device": 0, "stream": stream, "External id": operation}
    return event(cat, name, ts, dur, stream, 0, **ids, **args)


def copied(name, ts, dur, stream, operation, **args):
    return on_gpu("gpu_memcpy", f"Memcpy {name}", ts, dur, stream, operation, **args)


PRODUCT = "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n"
SUM = "void at::native::vectorized_elementwise_kernel<4, at::F<float>>(int)"
PEERS = {"fromDevice": 0, "inDevice": 0, "toDevice": 1}
TRACE = [
    event("user_annotation", trace.BLOCK, 0, 300),
    operation(1, "aten::to", 1, 30),
    operation(2, "aten::copy_", 3, 27),
    copied("HtoD (Pinned -> Device)", 10, 15, 20, 2, bytes=4096),
    operation(4, "aten::mm", 41, 18),
    on_gpu("kernel", PRODUCT, 52, 100, 7, 4),
    on_gpu("kernel", SUM, 152, 10, 7, 5),
    operation(6, "aten::item", 70, 100),
    event("cuda_runtime", "cudaStreamSynchronize", 80, 85),
    copied("DtoH (Device -> Pageable)", 163, 1.5, 7, 6),
    copied("PtoP (Device -> Device)", 180, 20, 7, 7, **PEERS),
    operation(9, "aten::add", 200, 4, tid=99),  # in a thread
    operation(0, "aten::early", -20, 4),
    event("cuda_runtime", "cudaDeviceSynchronize", 320, 40),  # the profiler's own
]


def test_a_trace_of_the_profiler_with_a_gpu_in_it():
    spans = trace.read({"traceEvents": TRACE})
    rows = set()
    for span in spans:
        start, end = span.start / US, span.end / US
        rows.add((span.lane, span.name, start, end, span.kind))
    assert rows == {
        ("Python", "to", 1, 31, "operation"),
        ("Python", "mm", 41, 59, "operation"),
        ("Python", "item", 70, 80, "operation"),
        ("Python", "cudaStreamSynchronize", 80, 165, "wait"),
        ("Python", "item", 165, 170, "operation"),
        ("Python, thread 99", "add", 200, 204, "operation"),
        ("cuda:0 stream 0", "mm", 52, 152, "kernel"),
        ("cuda:0 stream 0", "vectorized_elementwise_kernel", 152, 162, "kernel"),
        ("cuda:0 copies in", "copy", 10, 25, "copy"),
        ("cuda:0 copies out", "copy", 163, 164.5, "copy"),
        ("cuda:0 copies out", "copy", 180, 200, "copy"),
        ("cuda:1 copies in", "copy", 180, 200, "copy"),
    }
    (copy_in,) = [span for span in spans if span.lane == "cuda:0 copies in"]
    assert copy_in.size == 4096


# Bad use.


def test_the_clock_is_off_and_there_is_no_block():
    lanes = cudasim.timeline()
    words = "there is no modelled clock; write 'with cudasim.timeline() as lanes:'"
    assert words in repr(lanes)
    assert list(lanes._repr_mimebundle_()) == ["text/plain"]
    for use in (
        lanes.table,
        lanes.figure,
        lanes.payload,
        lanes.__str__,
        lambda: lanes.total,
        lambda: lanes.busy("Python"),
        lambda: lanes.save("never.json"),
    ):
        error = raised(use)
        assert "there is no modelled clock" in error
        assert "\n" not in error


def assert_a_block_may_raise(record):
    """Assert that a block that raises keeps what was recorded, and that another can begin."""
    with pytest.raises(ZeroDivisionError), cudasim.timeline() as lanes:
        record()
        raise ZeroDivisionError
    note = "the block raised ZeroDivisionError and ended there"
    assert lanes.notes == [note]
    assert note in str(lanes)

    with cudasim.timeline() as lanes:
        record()
    assert lanes.spans
    assert lanes.notes == []


def test_a_modelled_block_that_raises_keeps_what_was_recorded(clock):
    assert_a_block_may_raise(lambda: work(clock))


def test_a_measured_block_that_raises_keeps_what_was_recorded():
    assert_a_block_may_raise(lambda: torch.ones(2))


def test_a_timeline_within_a_timeline_that_is_measured():
    with cudasim.timeline() as outer:
        torch.ones(2)
        with pytest.raises(RuntimeError, match="its block has not ended"):
            outer.figure()
        with pytest.raises(RuntimeError, match=PROFILED), cudasim.timeline():
            pass
        torch.zeros(2)
    assert {"ones", "zeros"} <= {span.name for span in outer.spans}
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        with pytest.raises(RuntimeError, match=PROFILED), cudasim.timeline():
            pass


def test_a_timeline_within_another_has_its_own_spans(clock):
    with cudasim.timeline() as outer:
        work(clock)
        with cudasim.timeline() as inner:
            work(clock)
        work(clock)
    assert len(inner.spans) == 5
    assert len(outer.spans) == 15


def test_another_card_within_a_timeline_is_refused(product):
    words = r"card='H100'\): within another timeline"
    with cudasim.timeline() as lanes:
        with pytest.raises(RuntimeError, match=words), cudasim.timeline(card="H100"):
            pass
        product()
    assert lanes.source == "modelled for a T4"
    assert lanes.total > 0


WITHOUT_MATPLOTLIB = """
import sys
sys.modules['matplotlib'] = None
import torch, cudasim
with cudasim.timeline() as lanes:
    torch.ones(2)
bundle = lanes._repr_mimebundle_()
assert 'image/svg+xml' not in bundle and len(lanes.table()) >= 1
print(bundle['text/plain'].splitlines()[-1])
try:
    lanes.figure()
except ModuleNotFoundError as error:
    print(error)
"""


@pytest.mark.full
def test_without_matplotlib_all_but_the_picture_is_there(tmp_path):
    got = run("-c", WITHOUT_MATPLOTLIB, cwd=tmp_path)
    assert got.stderr == ""  # the profiler has nothing to say
    first, second = got.stdout.splitlines()
    assert first == second
    assert first.startswith("cudasim.timeline(): a picture needs matplotlib")
