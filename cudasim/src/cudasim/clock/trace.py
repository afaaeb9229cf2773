"""Chrome's trace format: written from spans, and read from `torch.profiler`'s traces.

The format is Google's "Trace Event Format" of 2016. What `torch.profiler` exports is in
output_json.cpp and CuptiActivity.h of pytorch/kineto.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from cudasim.clock.clock import Span

BLOCK = "cudasim.timeline"  # the annotation around what is to be read
# What autograd and ATen put before the names of operators.
PREFIX = re.compile(
    r"(autograd::engine::evaluate_function: )?(torch::autograd::)?(aten::)?"
)
# Functions of CUDA's runtime in which the host waits.
WAIT = re.compile(r"(Stream|Device|Event|Ctx)Synchronize$|^(cuda|hip)Memcpy$")
COPY = re.compile(r"Memcpy (\wto\w)")
DIRECTIONS = {"HtoD": "in", "DtoH": "out"}  # of copies, seen from the GPU
ON_GPU = ("kernel", "gpu_memset", "gpu_memcpy")  # categories of events


# Timelines


def write(
    spans: Sequence[Span], lanes: Sequence[str], source: str, notes: Sequence[str]
) -> dict:
    """Return the spans as a trace: a named thread for each lane, times in microseconds."""
    begin = min(span.start for span in spans)
    threads = {lane: number for number, lane in enumerate(lanes, start=1)}
    events = [_metadata_event("process_name", 0, name=f"cudasim, {source}")]
    for lane, number in threads.items():
        events.append(_metadata_event("thread_name", number, name=lane))
        events.append(_metadata_event("thread_sort_index", number, sort_index=number))
    for span in spans:
        events.append(_span_event(span, threads[span.lane], begin))
    about = {"source": source, "notes": list(notes)}
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": about}


def _metadata_event(about: str, thread: int, **values: str | int) -> dict:
    return {"ph": "M", "name": about, "pid": 1, "tid": thread, "args": values}


def _span_event(span: Span, thread: int, begin: int) -> dict:
    event = {
        "ph": "X",
        "cat": span.kind,
        "name": span.name,
        "pid": 1,
        "tid": thread,
        "ts": (span.start - begin) / 1000,
        "dur": span.length / 1000,
    }
    if span.size is not None:
        event["args"] = {"bytes": span.size}
    return event


def reread(trace: dict) -> list[Span]:
    """Return the spans of a trace that `write` made."""
    lanes = {}
    spans = []
    for event in trace["traceEvents"]:
        if event["name"] == "thread_name":
            lanes[event["tid"]] = event["args"]["name"]
        if event["ph"] == "X":
            spans.append(_reread_event(event, lanes))
    return spans


def _reread_event(event: dict, lanes: dict[int, str]) -> Span:
    lane = lanes[event["tid"]]
    start = round(event["ts"] * 1000)
    end = start + round(event["dur"] * 1000)
    size = event.get("args", {}).get("bytes")
    return Span(lane, event["name"], start, end, event["cat"], size)


# Traces of torch.profiler


@dataclass
class HostThread:
    """The events of one thread of the host in the block."""

    operators: list[dict] = field(default_factory=list)
    waits: list[dict] = field(default_factory=list)


@dataclass
class Profile:
    """The events of a trace, sorted by what they are about."""

    begin: float  # of the block, in microseconds
    threads: dict[int, HostThread]
    on_gpu: list[dict]
    operators: dict[int, str]  # names of operators, by the id that their kernels bear
    streams: dict[int, list[int]]  # ids of the streams of each GPU, in order

    def span(self, lane: str, event: dict, name: str, kind: str) -> Span:
        """Return the span of an event, in nanoseconds since the block began."""
        start = round((event["ts"] - self.begin) * 1000)
        end = round((event["ts"] + event["dur"] - self.begin) * 1000)
        size = event["args"].get("bytes") if kind == "copy" else None
        return Span(lane, name, max(start, 0), end, kind, size)


def read(trace: dict) -> list[Span]:
    """Return the spans of the block that `torch.profiler` traced.

    These are the operators that Python called, less their waits; kernels, by the
    operator that launched them; and copies. Times are in nanoseconds since the block
    began. The streams of a GPU are numbered in the order of their ids, as CUDA's own
    begin anywhere.
    """
    events = []
    for event in trace["traceEvents"]:
        if event.get("ph") == "X" and "dur" in event:
            events.append(event)
    block = next(event for event in events if event["name"] == BLOCK)
    profile = _sort_events(events, block)

    spans = []
    for thread_id, thread in profile.threads.items():
        lane = f"Python, thread {thread_id}"
        if thread_id == block["tid"]:
            lane = "Python"
        spans += _host_spans(profile, lane, thread)
    for event in profile.on_gpu:
        if event["ts"] + event["dur"] > block["ts"]:
            spans += _gpu_spans(profile, event)
    return spans


def _sort_events(events: list[dict], block: dict) -> Profile:
    begin = block["ts"]
    end = begin + block["dur"]
    threads: dict[int, HostThread] = defaultdict(HostThread)
    on_gpu: list[dict] = []
    operators: dict[int, str] = {}
    streams: dict[int, set[int]] = defaultdict(set)
    for event in events:
        is_operator = event.get("cat") == "cpu_op"
        arguments = event.get("args", {})
        if is_operator and "External id" in arguments:
            operators[arguments["External id"]] = plain_name(event["name"])

        in_block = begin <= event["ts"] < end
        if event.get("cat") in ON_GPU:
            on_gpu.append(event)
            device, stream = _device_and_stream(event)
            streams[device].add(stream)
        elif is_operator and in_block:
            threads[event["tid"]].operators.append(event)
        elif in_block and WAIT.search(event["name"]):
            threads[event["tid"]].waits.append(event)
    in_order = {device: sorted(ids) for device, ids in streams.items()}
    return Profile(begin, threads, on_gpu, operators, in_order)


def _device_and_stream(event: dict) -> tuple[int, int]:
    """Return the GPU and the stream on which an event happened."""
    arguments = event.get("args", {})
    device = arguments.get("device", event["pid"])
    stream = arguments.get("stream", event["tid"])
    return device, stream


def _host_spans(profile: Profile, lane: str, thread: HostThread) -> list[Span]:
    waits = []
    for event in thread.waits:
        waits.append(profile.span(lane, event, event["name"], "wait"))
    spans = list(waits)
    for event in _outermost(thread.operators):
        name = plain_name(event["name"])
        spans += _cut_out(profile.span(lane, event, name, "operation"), waits)
    return spans


def _gpu_spans(profile: Profile, event: dict) -> list[Span]:
    device, stream = _device_and_stream(event)
    number = profile.streams[device].index(stream)
    lane = f"cuda:{device} stream {number}"
    if event["cat"] == "gpu_memcpy":
        engines = _copy_lanes(event, device) or [lane]
        return [profile.span(engine, event, "copy", "copy") for engine in engines]
    operator = profile.operators.get(event["args"].get("External id"))
    name = operator or short_name(event["name"])
    return [profile.span(lane, event, name, "kernel")]


def _copy_lanes(event: dict, device: int) -> list[str]:
    """Return the lanes of the copy engines that a copy occupies; none within a GPU."""
    match = COPY.match(event["name"])
    kind = match[1] if match else ""
    if kind in DIRECTIONS:
        return [f"cuda:{device} copies {DIRECTIONS[kind]}"]
    source = event["args"].get("fromDevice")
    target = event["args"].get("toDevice")
    if kind == "PtoP" and source is not None and target is not None:
        return [f"cuda:{source} copies out", f"cuda:{target} copies in"]
    return []


def _outermost(operators: Sequence[dict]) -> list[dict]:
    """Return the operators that no other operator called."""
    outermost = []
    reached = float("-inf")
    for event in sorted(operators, key=lambda event: (event["ts"], -event["dur"])):
        if event["ts"] >= reached:
            outermost.append(event)
            reached = event["ts"] + event["dur"]
    return outermost


def _cut_out(span: Span, waits: Sequence[Span]) -> list[Span]:
    """Return what is left of `span` beside the waits in it."""
    parts = []
    start = span.start
    for wait in sorted(waits, key=attrgetter("start")):
        if span.start <= wait.start < span.end:
            parts.append((start, wait.start))
            start = max(start, wait.end)
    parts.append((start, span.end))

    spans = []
    for start, end in parts:
        if start < end:
            spans.append(Span(span.lane, span.name, start, end, span.kind))
    return spans


def plain_name(operator: str) -> str:
    """Return the name of an operator without autograd's and ATen's prefixes."""
    return operator[PREFIX.match(operator).end() :]


def short_name(kernel: str) -> str:
    """Return the name of a kernel without its namespaces and arguments."""
    declared = kernel.removeprefix("void ")
    return re.split(r"[<(]", declared)[0].split("::")[-1]
