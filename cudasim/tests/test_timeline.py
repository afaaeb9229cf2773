"""Timelines: of the virtual clock and of `torch.profiler`, as numbers, pictures and traces."""

import json
from collections import deque
from xml.etree import ElementTree

import pytest
import torch
from programs import run, write

import cudasim
from cudasim.clock import trace
from cudasim.clock.bars import BARS
from cudasim.clock.clock import Span
from cudasim.clock.timeline import MIME, OTHERS, THREADS, Timeline, reading
from cudasim.session import session
from cudasim.timing.sheets import find_sheet

US = 1000  # nanoseconds
NAME = "Simulated GPU (T4, modelled time)"


class Booked:
    """As much of a clock as a timeline asks for: what a test books, a bounded list."""

    def __init__(self, kept=None):
        self.sheet = find_sheet("T4")
        self.now, self.booked, self.spans = 0, 0, deque(maxlen=kept)

    def spend(self, duration, name, kind="operation", lane="Python"):
        self.spans.append(Span(lane, name, self.now, self.now + duration, kind))
        self.booked += 1
        self.now += duration

    def mark(self):
        return self.booked

    def since(self, mark):
        kept = min(self.booked - mark, len(self.spans))
        return list(self.spans)[len(self.spans) - kept :]


@pytest.fixture
def clock(monkeypatch):
    """A clock that nothing but a test spends."""
    monkeypatch.setattr(session, "clock", Booked())
    return session.clock


def work(clock, times=1):
    """Two kernels, a copy after them, and a wait."""
    for _ in range(times):
        clock.spend(4 * US, "mm.default")
        clock.spend(300 * US, "mm.default", "kernel", "cuda:0 stream 0")
        clock.spend(50 * US, "add.Tensor", "kernel", "cuda:0 stream 0")
        clock.spend(100 * US, "copy", "copy", "cuda:0 copies out")
        clock.spend(10 * US, "item", "wait")


def made_of(*spans, source="modelled for a T4", notes=()):
    timeline = Timeline()
    timeline.fill(spans, source, notes)
    return timeline


TWO = (
    Span("Python", "mm", 5000, 9000, "operation"),
    Span("Python", "item", 9000, 25000, "wait"),
    Span("cuda:0 stream 0", "mm", 9000, 21000, "kernel"),
    Span("cuda:0 copies in", "copy", 7000, 15000, "copy", 64),
)


def test_a_block_under_the_modelled_clock(clock):
    clock.spend(US, "before")
    with cudasim.timeline() as lanes:
        work(clock)
    clock.spend(US, "after")
    assert lanes.modelled and lanes.source == "modelled for a T4"
    assert {span.name for span in lanes.spans} == {"mm", "add", "copy", "item"}
    assert lanes.lanes == ["Python", "cuda:0 stream 0", "cuda:0 copies out"]
    assert lanes.total == 464e-6
    assert lanes.busy("cuda:0 stream 0") == 350 / 464


@pytest.mark.parametrize(
    ("booked", "shown"),
    [
        ("add_.Tensor", "add_"),
        ("torchvision.nms.default", "nms"),
        ("load cuBLAS 12.1", "load cuBLAS 12.1"),
    ],
)
def test_names_are_those_of_operators(clock, booked, shown):
    with cudasim.timeline() as lanes:
        clock.spend(US, booked)
    assert [span.name for span in lanes.spans] == [shown]


def test_what_an_unchanged_program_does_on_two_simulated_cards():
    with cudasim.simulate(gpus=2, card="T4", clock="modelled"):
        X = torch.ones(500, 500, device="cuda:0")
        (X @ X).sum().item()  # the first use loads libraries
        with cudasim.timeline() as lanes:
            (X @ X).sum().item()
            X.to("cuda:1")
    assert {"mm", "sum"} <= {span.name for span in lanes.spans if span.kind == "kernel"}
    assert {span.lane for span in lanes.spans if span.kind == "wait"} == {"Python"}
    assert {"cuda:0 copies out", "cuda:1 copies in"} <= set(lanes.lanes)
    assert lanes.source == "modelled for a T4"


def product(n=2048):
    A = torch.ones(n, n, device="cuda")
    return lambda: (A @ A).sum().item()


def test_a_block_takes_the_times_of_another_card():
    with cudasim.simulate(gpus=1, card="T4", clock="modelled"):
        work = product()
        work()  # the first use loads libraries
        totals = []
        for card in None, "H100", None, "T4":
            with cudasim.timeline(card=card) as lanes:
                value = work()
            totals.append((lanes.source, lanes.total))
            assert value == 2048.0**3 and torch.cuda.get_device_name() == NAME
    here, other, again, named = totals
    assert here == again == named and here[0] == "modelled for a T4"
    assert other[0] == "modelled for an H100" and other[1] < here[1] / 4


def test_another_card_is_booked_as_if_it_were_simulated():
    def recorded(card, other=None):
        with cudasim.simulate(gpus=1, card=card, clock="modelled"):
            work = product()
            work()
            with cudasim.timeline(card=other) as lanes:
                work()
        return lanes.table()

    assert recorded("T4", "H100") == recorded("H100") != recorded("T4")


def test_work_of_before_is_done_before_another_card_begins():
    with cudasim.simulate(gpus=1, card="T4", clock="modelled"):
        work = product()
        work()
        with cudasim.timeline(card="H100") as alone:
            work()
        A = torch.ones(2048, 2048, device="cuda")
        for _ in range(10):
            A @ A  # queued, not waited for
        with cudasim.timeline(card="H100") as behind:
            work()
        assert behind.total == alone.total


def test_a_block_that_raises_gives_the_card_back():
    with cudasim.simulate(gpus=1, card="T4", clock="modelled"):
        sheet = session.clock.sheet
        with pytest.raises(ZeroDivisionError), cudasim.timeline(card="H100"):
            torch.ones(2, device="cuda")
            1 / 0  # noqa: B018
        assert session.clock.sheet is sheet


def test_another_card_needs_a_clock_a_sheet_and_a_block():
    with pytest.raises(RuntimeError, match=r"card='H100'\): only a modelled clock knows"):
        cudasim.timeline(card="H100")
    with cudasim.simulate(gpus=1, clock="modelled"):
        torch.ones(2, device="cuda")
        with pytest.raises(ValueError, match="card='H1000': no data sheet; there are"):
            cudasim.timeline(card="H1000")
        with pytest.raises(RuntimeError, match="need a block: with timeline"):
            cudasim.timeline(card="H100").spans  # noqa: B018
        late = cudasim.timeline(card="H100")
    with pytest.raises(RuntimeError, match="only a modelled clock"), late:
        pass


def test_without_a_block_it_is_what_happened_since_the_last(clock):
    work(clock)
    assert len(cudasim.timeline().spans) == 5
    with pytest.raises(RuntimeError, match="nothing was recorded"):
        cudasim.timeline().spans  # noqa: B018
    work(clock, 2)
    assert len(cudasim.timeline().spans) == 10
    with cudasim.timeline():
        work(clock)
    work(clock)
    assert len(cudasim.timeline().spans) == 5


def test_another_simulation_begins_with_nothing(clock, monkeypatch):
    work(clock, 3)
    cudasim.timeline()
    monkeypatch.setattr(session, "clock", Booked())
    work(session.clock)
    assert len(cudasim.timeline().spans) == 5


def test_plain_numbers():
    lanes = made_of(*TWO)
    assert lanes.total == 20e-6
    assert lanes.busy("Python") == 0.2  # waiting is not work
    assert lanes.busy("cuda:0 stream 0") == 0.6
    assert lanes.busy("cuda:0") == 0.7  # the copy and the kernel overlap
    with pytest.raises(ValueError, match=r"^'cuda:1': no such lane; there are Python, cuda:0 str"):
        lanes.busy("cuda:1")
    assert lanes.table()[1] == ("Python", "item", 4e-6, 16e-6)


def test_text():
    assert str(made_of(*TWO)).splitlines() == [
        "timeline, modelled for a T4: ≈ 0.020 ms",
        "Python: 1 operation, 1 wait; busy ≈ 0.004 ms, ≈ 20 %",
        "cuda:0 stream 0: 1 kernel; busy ≈ 0.012 ms, ≈ 60 %",
        "cuda:0 copies in: 1 copy; busy ≈ 0.008 ms, ≈ 40 %",
    ]
    heads, first, *_ = str(made_of(*TWO).table()).splitlines()
    assert heads.split() == ["lane", "name", "start", "duration"]
    assert first.split("  ")[-1].strip() == "≈ 0.004 ms"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "≈ 0.000 ms"), (0.00000812, "≈ 0.008 ms"), (0.0081, "≈ 8.10 ms"), (12.3456, "≈ 12346 ms")],
)
def test_readings(seconds, text):
    assert reading(seconds) == text


def test_lanes_have_an_order():
    lanes = "cuda:1 stream 0", "cuda:0 copies out", "cuda:0 stream 35", "Python, Thread-1"
    more = "cuda:0 stream 3", "cuda:0 copies in", "Python"
    timeline = made_of(*(Span(lane, "a", 0, 1, "kernel") for lane in lanes + more))
    assert timeline.lanes == [
        "Python", "Python, Thread-1", "cuda:0 stream 3", "cuda:0 stream 35",
        "cuda:0 copies in", "cuda:0 copies out", "cuda:1 stream 0",
    ]  # fmt: skip


# Too much to draw.


@pytest.mark.parametrize("times", [10, 1000])
def test_a_picture_is_bounded_and_says_what_it_merged(clock, times):
    with cudasim.timeline() as lanes:
        work(clock, times)
    bars = lanes.bars()
    assert len(bars) <= BARS and sum(bar.merged for bar in bars) == len(lanes.spans) == 5 * times
    assert max(bar.end for bar in bars) == lanes.length
    merged = len(bars) < len(lanes.spans)
    assert merged == (times == 1000)
    assert any("neighbours are merged" in each for each in lanes.chart().notes) == merged
    assert sum(map(len, lanes._repr_mimebundle_().values())) < 40 * 1024


def test_many_threads_share_a_lane_and_it_is_said():
    lanes = Timeline()
    spans = [Span(f"Python, Thread-{n}", "add", n, n + 1, "operation") for n in range(1000)]
    lanes.fill([*spans, Span("Python", "add", 5, 6, "operation")], "modelled for a T4")
    assert len(lanes.lanes) == THREADS + 2 and OTHERS in lanes.lanes
    assert len(lanes.table()) == 1001 and len(lanes.bars()) <= BARS
    assert lanes.notes == [f"{1000 - THREADS} more threads of Python share a lane"]
    lanes.fill(spans[:THREADS], "modelled for a T4")
    assert len(lanes.lanes) == THREADS and lanes.notes == []


def test_threads_without_a_name_are_counted_as_they_begin(clock):
    for lane in ("Python, Thread-12 (run)", "Python, loader", "Python, Thread-9 (run)"):
        clock.spend(US, "add.Tensor", lane=lane)
    clock.spend(US, "add.Tensor", lane="Python, Thread-12 (run)")
    shown = [span.lane for span in cudasim.timeline().spans]
    first, second = "Python, thread 1 (run)", "Python, thread 2 (run)"
    assert shown == [first, "Python, loader", second, first]


def test_the_threads_of_data_parallel_do_not_depend_on_threads_before_it():
    with cudasim.simulate(gpus=2, clock="modelled"):
        net = torch.nn.DataParallel(torch.nn.Linear(2, 2).cuda())
        for _ in range(2):  # Python goes on counting
            with cudasim.timeline() as lanes:
                net(torch.ones(4, 2, device="cuda:0"))
            found = [lane for lane in lanes.lanes if lane.startswith("Python, ")]
            assert found == ["Python, thread 1 (_worker)", "Python, thread 2 (_worker)"]


@pytest.mark.parametrize("count", [400, 5000])
def test_irregular_spans_are_bounded_too(count):
    spans, at = [], 0
    for i in range(count):
        lane = ("Python", "cuda:0 stream 0", "cuda:0 copies in")[i % 3]
        spans.append(Span(lane, f"op{i % 37}", at, at + i * i % 997, "kernel"))
        at += i * i % 1009
    lanes = made_of(*spans)
    assert 1 < len(lanes.bars()) <= BARS
    assert sum(len(part.encode()) for part in lanes._repr_mimebundle_().values()) < 40 * 1024


def test_neighbours_of_one_name_are_merged_and_counted():
    spans = [Span("Python", "add", 10 * i, 10 * i + 10, "operation") for i in range(BARS + 1)]
    (bar,) = made_of(*spans).bars()
    assert (bar.merged, bar.label) == (BARS + 1, f"add \N{MULTIPLICATION SIGN} {BARS + 1}")


def test_what_the_clock_dropped_is_said(monkeypatch):
    clock = Booked(kept=6)
    monkeypatch.setattr(session, "clock", clock)
    with cudasim.timeline() as lanes:
        work(clock, 2)
    assert len(lanes.spans) == 6
    assert lanes.notes == ["the first 4 spans were dropped: there are too many"]
    assert lanes.notes[0] in str(lanes) and lanes.notes[0] in lanes.payload()
    assert lanes.notes[0] in lanes._repr_mimebundle_()["image/svg+xml"]


# What it shows.


def test_the_picture_is_the_same_on_every_run_and_marks_its_times():
    first, second = (made_of(*TWO)._repr_mimebundle_()["image/svg+xml"] for _ in range(2))
    assert first == second
    assert "modelled for a T4" in first and "≈ µs" in first and "<dc:date>" not in first
    ElementTree.fromstring(first)


def test_the_bars_for_a_page():
    payload = made_of(*TWO)._repr_mimebundle_()[MIME]
    assert payload.startswith('{"unit":"≈ ns",')  # how a comparison knows a real clock's
    content = json.loads(payload)
    assert content["bars"][1] == [0, 1, 4000, 16000, 1, 1]
    assert content["lanes"][0] == ["Python", {"operation": 1, "wait": 1}, 0.2]
    assert (content["total"], content["kinds"]) == (20000, ["operation", "wait", "kernel", "copy"])


def test_a_trace_for_chrome(tmp_path):
    made_of(*TWO).save(tmp_path / "trace.json")
    written = json.loads((tmp_path / "trace.json").read_text())
    assert written["otherData"]["source"] == "modelled for a T4"
    names = {
        e["tid"]: e["args"]["name"] for e in written["traceEvents"] if e["name"] == "thread_name"
    }
    assert list(names.values()) == ["Python", "cuda:0 stream 0", "cuda:0 copies in"]
    drawn = [each for each in written["traceEvents"] if each["ph"] == "X"]
    shown = [(names[each["tid"]], each["ts"], each["dur"]) for each in drawn]
    assert ("cuda:0 stream 0", 4.0, 12.0) in shown and len(shown) == 4
    assert [each["args"] for each in drawn if each["cat"] == "copy"] == [{"bytes": 64}]


def test_the_chart_is_matplotlibs():
    drawn = made_of(*TWO).figure()
    (axes,) = drawn.axes
    assert drawn.get_suptitle() == "Timeline, modelled for a T4"
    assert "≈" in axes.get_xlabel()
    assert [label.get_text().split("\n")[0] for label in axes.get_yticklabels()] == [
        "Python", "cuda:0 stream 0", "cuda:0 copies in",
    ]  # fmt: skip


# Without a modelled clock.


def test_python_measured_by_the_profiler():
    X = torch.ones(20, 20)
    with cudasim.timeline() as lanes:
        (X @ X).sum().item()
    assert [span.name for span in lanes.spans] == ["matmul", "sum", "item"]
    assert lanes.lanes == ["Python"] and not lanes.modelled
    assert lanes.source.startswith("measured on ") and len(lanes.source) > 13
    assert str(lanes).startswith("timeline, measured: ≈ ")
    assert 0 < lanes.busy("Python") <= 1


def test_simulated_gpus_without_a_clock_are_the_cpu(two_gpus):
    with cudasim.timeline() as lanes:
        torch.ones(2, device="cuda:0") + 1
    assert lanes.lanes == ["Python"] and "measured on" in lanes.source


def event(cat, name, ts, dur, tid=7, pid=0, **args):
    """An event as Kineto exports it: microseconds, GPUs as processes, streams as threads."""
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur} | {
        "args": args
    }


BASE = 4429661583575.0
ON_GPU = {
    "schemaVersion": 1,
    "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}],
    "displayTimeUnit": "ms",
    "traceEvents": [
        {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}},
        event("user_annotation", trace.BLOCK, BASE, 300.0, 88, 88),
        event("gpu_user_annotation", trace.BLOCK, BASE + 50, 150.0, device=0, stream=7),
        event("cpu_op", "aten::to", BASE + 1, 30.0, 88, 88, **{"External id": 1}),
        event("cpu_op", "aten::copy_", BASE + 3, 27.0, 88, 88, **{"External id": 2}),
        event("cuda_runtime", "cudaMemcpyAsync", BASE + 5, 20.0, 88, 88, correlation=40),
        event(
            "gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", BASE + 10, 15.0, 20,
            device=0, stream=20, bytes=4096, correlation=40, **{"External id": 2},
        ),
        event("cpu_op", "aten::matmul", BASE + 40, 20.0, 88, 88, **{"External id": 3}),
        event("cpu_op", "aten::mm", BASE + 41, 18.0, 88, 88, **{"External id": 4}),
        event("cuda_runtime", "cudaLaunchKernel", BASE + 45, 5.0, 88, 88, correlation=41),
        event(
            "kernel", "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x64x32", BASE + 52, 100.0,
            device=0, stream=7, correlation=41, **{"External id": 4},
        ),
        event(
            "kernel", "void at::native::vectorized_elementwise_kernel<4, at::F<float>>(int)",
            BASE + 152, 10.0, device=0, stream=7, correlation=42,
        ),
        event("cpu_op", "aten::item", BASE + 70, 100.0, 88, 88, **{"External id": 6}),
        event("cuda_runtime", "cudaStreamSynchronize", BASE + 80, 85.0, 88, 88, correlation=43),
        event(
            "gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", BASE + 163, 1.5,
            device=0, stream=7, bytes=4, **{"External id": 6},
        ),
        event(
            "gpu_memcpy", "Memcpy PtoP (Device -> Device)", BASE + 180, 20.0,
            device=0, stream=7, bytes=64, fromDevice=0, inDevice=0, toDevice=1,
        ),
        event("gpu_memcpy", "Memcpy DtoD (Device -> Device)", BASE + 210, 2.0, device=0, stream=7),
        event("cpu_op", "aten::add", BASE + 200, 4.0, 99, 88, **{"External id": 9}),  # a thread
        event("cpu_op", "aten::early", BASE - 20, 4.0, 88, 88, **{"External id": 0}),
        # The profiler's own, when it stops.
        event("cuda_runtime", "cudaDeviceSynchronize", BASE + 320, 40.0, 88, 88, correlation=50),
        event("Trace", "PyTorch Profiler (0)", BASE - 40, 500.0, "PyTorch Profiler", "Spans"),
        {"ph": "s", "id": 41, "pid": 88, "tid": 88, "ts": BASE + 45, "cat": "ac2g", "name": "ac2g"},
    ],
}  # fmt: skip


def lanes_of(spans):
    found = {}
    for span in sorted(spans, key=lambda span: span.start):
        found.setdefault(span.lane, []).append((span.name, span.start, span.end, span.kind))
    return found


def test_a_trace_of_the_profiler_with_a_gpu_in_it():
    assert lanes_of(trace.read(ON_GPU)) == {
        "Python": [
            ("to", 1 * US, 31 * US, "operation"),
            ("matmul", 40 * US, 60 * US, "operation"),
            ("item", 70 * US, 80 * US, "operation"),
            ("cudaStreamSynchronize", 80 * US, 165 * US, "wait"),
            ("item", 165 * US, 170 * US, "operation"),
        ],
        "Python, thread 99": [("add", 200 * US, 204 * US, "operation")],
        "cuda:0 stream 0": [
            ("mm", 52 * US, 152 * US, "kernel"),
            ("vectorized_elementwise_kernel", 152 * US, 162 * US, "kernel"),
            ("copy", 210 * US, 212 * US, "copy"),
        ],
        "cuda:0 copies in": [("copy", 10 * US, 25 * US, "copy")],
        "cuda:0 copies out": [
            ("copy", 163 * US, 164500, "copy"),
            ("copy", 180 * US, 200 * US, "copy"),
        ],
        "cuda:1 copies in": [("copy", 180 * US, 200 * US, "copy")],
    }
    sizes = [span.size for span in trace.read(ON_GPU) if span.lane == "cuda:0 copies in"]
    assert sizes == [4096]


# Bad use.


def test_the_clock_is_off_and_there_is_no_block():
    lanes = cudasim.timeline()
    assert "there is no modelled clock; write 'with cudasim.timeline() as lanes:'" in repr(lanes)
    assert list(lanes._repr_mimebundle_()) == ["text/plain"]
    asked = (
        lambda: lanes.total, lanes.table, lanes.figure, lanes.payload, lambda: lanes.busy("Python"),
        lambda: lanes.save("never.json"), lambda: str(lanes),
    )  # fmt: skip
    for ask in asked:
        with pytest.raises(RuntimeError, match="there is no modelled clock") as error:
            ask()
        assert "\n" not in str(error.value)


def test_nothing_recorded():
    with cudasim.timeline() as lanes:
        pass
    assert repr(lanes) == ("cudasim.timeline(): nothing was recorded: no operation of PyTorch ran")
    with pytest.raises(RuntimeError, match="no operation of PyTorch ran"):
        lanes.figure()


@pytest.mark.parametrize("modelled", [False, True])
def test_a_block_that_raises_keeps_what_was_recorded(request, modelled):
    clock = request.getfixturevalue("clock") if modelled else None
    with pytest.raises(ZeroDivisionError), cudasim.timeline() as lanes:
        torch.ones(2)
        if clock:
            work(clock)
        1 / 0  # noqa: B018
    assert lanes.notes == ["the block raised ZeroDivisionError and ended there"]
    assert lanes.notes[0] in str(lanes)
    with cudasim.timeline() as lanes:  # and nothing is left running
        torch.ones(2)
        if clock:
            work(clock)
    assert lanes.notes == []


def test_a_timeline_within_a_timeline_that_is_measured():
    with cudasim.timeline() as outer:
        torch.ones(2)
        with pytest.raises(RuntimeError, match="its block has not ended"):
            outer.figure()
        with pytest.raises(RuntimeError, match="another timeline or"):
            with cudasim.timeline():
                pass
        torch.zeros(2)
    assert {"ones", "zeros"} <= {span.name for span in outer.spans}


def test_modelled_timelines_within_another_have_what_is_theirs(clock):
    with cudasim.timeline() as outer:
        work(clock)
        with cudasim.timeline() as inner:
            work(clock)
        work(clock)
    with cudasim.timeline() as one:
        work(clock)
    assert len(inner.spans) == len(one.spans)
    assert len(outer.spans) >= 3 * len(one.spans)


def test_another_card_within_a_timeline_would_change_its_times():
    with cudasim.simulate(gpus=1, card="T4", clock="modelled"), cudasim.timeline() as lanes:
        with pytest.raises(RuntimeError, match=r"card='H100'\): within another timeline"):
            with cudasim.timeline(card="H100"):
                pass
        torch.ones(2, device="cuda")
    assert lanes.source == "modelled for a T4" and lanes.total > 0


def test_a_timeline_within_torchs_own_profiler():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        with pytest.raises(
            RuntimeError, match=r"^cudasim\.timeline\(\): another timeline or torch.profiler is"
        ):
            with cudasim.timeline():
                pass
    with cudasim.timeline() as lanes:
        torch.ones(2)
    assert lanes.spans


@pytest.mark.full
def test_without_matplotlib_all_but_the_picture_is_there(tmp_path):
    code = """
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
    got = run("-c", code, cwd=tmp_path)
    first, second = got.stdout.splitlines()
    assert first == second, got.stderr
    assert first.startswith("cudasim.timeline(): a picture needs matplotlib")


@pytest.mark.full
def test_nothing_is_drawn_before_it_is_asked_for(tmp_path):
    code = """
        import sys, torch, cudasim
        with cudasim.timeline():
            torch.ones(2)
        print("matplotlib" in sys.modules)
    """
    got = run(write(tmp_path / "program.py", code), cwd=tmp_path)
    assert (got.stdout, got.stderr) == ("False\n", "")  # the profiler has nothing to say
