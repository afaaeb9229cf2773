"""Chrome's trace format ("Trace Event Format", Google, 2016), written from spans, and read from
what `torch.profiler` exports (output_json.cpp and CuptiActivity.h of pytorch/kineto)."""

import re
from collections import defaultdict
from collections.abc import Sequence
from operator import attrgetter

from cudasim.clock.clock import Span

BLOCK = "cudasim.timeline"  # the annotation around what is to be read
PREFIX = re.compile(
    "(autograd::engine::evaluate_function: )?(torch::autograd::)?(aten::)?"
)
WAIT = re.compile(r"(Stream|Device|Event|Ctx)Synchronize$|^(cuda|hip)Memcpy$")
COPY = re.compile(r"Memcpy (\wto\w)")
WAYS = {"HtoD": "in", "DtoH": "out"}
GPU = ("kernel", "gpu_memset", "gpu_memcpy")


def write(
    spans: Sequence[Span], lanes: Sequence[str], source: str, notes: Sequence[str]
) -> dict:
    """The spans as a trace: a named thread for each lane, times in microseconds."""
    start = min(span.start for span in spans)
    thread = {lane: number for number, lane in enumerate(lanes, start=1)}
    events = [_about("process_name", 0, name=f"cudasim, {source}")]
    for lane, number in thread.items():
        events.append(_about("thread_name", number, name=lane))
        events.append(_about("thread_sort_index", number, sort_index=number))
    for span in spans:
        event = {
            "ph": "X",
            "cat": span.kind,
            "name": span.name,
            "pid": 1,
            "tid": thread[span.lane],
        }
        event |= {"ts": (span.start - start) / 1000, "dur": span.length / 1000}
        event |= {} if span.size is None else {"args": {"bytes": span.size}}
        events.append(event)
    about = {"source": source, "notes": list(notes)}
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": about}


def _about(what: str, thread: int, **values: str | int) -> dict:
    return {"ph": "M", "name": what, "pid": 1, "tid": thread, "args": values}


def reread(trace: dict) -> list[Span]:
    events = trace["traceEvents"]
    lanes = {
        each["tid"]: each["args"]["name"]
        for each in events
        if each["name"] == "thread_name"
    }
    spans = []
    for each in events:
        if each["ph"] == "X":
            start, size = round(each["ts"] * 1000), each.get("args", {}).get("bytes")
            end = start + round(each["dur"] * 1000)
            spans.append(
                Span(lanes[each["tid"]], each["name"], start, end, each["cat"], size)
            )
    return spans


def read(trace: dict) -> list[Span]:
    """The spans of the block that `torch.profiler` traced, in nanoseconds since it began: operators
    that Python called, less their waits; kernels, by the operator that launched them; copies. The
    streams of a GPU are numbered in the order of their ids: CUDA's own begin anywhere."""
    events = [
        each for each in trace["traceEvents"] if each.get("ph") == "X" and "dur" in each
    ]
    block = next(each for each in events if each["name"] == BLOCK)
    begin, until = block["ts"], block["ts"] + block["dur"]

    def span(lane: str, event: dict, name: str, kind: str) -> Span:
        start, end = event["ts"] - begin, event["ts"] + event["dur"] - begin
        size = event["args"].get("bytes") if kind == "copy" else None
        return Span(
            lane, name, max(round(start * 1000), 0), round(end * 1000), kind, size
        )

    threads = defaultdict(lambda: ([], []))  # operators that were called, and waits
    streams, on_gpu, operators = defaultdict(set), [], {}
    for event in events:
        called, about = event.get("cat") == "cpu_op", event.get("args", {})
        if called and "External id" in about:
            operators[about["External id"]] = plain(event["name"])
        if event.get("cat") in GPU:
            device, stream = (
                about.get("device", event["pid"]),
                about.get("stream", event["tid"]),
            )
            on_gpu.append((event, device, stream))
            streams[device].add(stream)
        elif (called or WAIT.search(event["name"])) and begin <= event["ts"] < until:
            threads[event["tid"]][not called].append(event)

    spans = []
    for tid, (calls, others) in threads.items():
        lane = "Python" if tid == block["tid"] else f"Python, thread {tid}"
        waits = [span(lane, each, each["name"], "wait") for each in others]
        spans += waits
        for each in _outermost(calls):
            spans += _less(span(lane, each, plain(each["name"]), "operation"), waits)
    for event, device, stream in on_gpu:
        if event["ts"] + event["dur"] <= begin:
            continue
        lanes = [f"cuda:{device} stream {sorted(streams[device]).index(stream)}"]
        if event["cat"] == "gpu_memcpy":
            lanes = _copy_lanes(event, device) or lanes
            spans += [span(lane, event, "copy", "copy") for lane in lanes]
        else:
            name = operators.get(event["args"].get("External id")) or short(
                event["name"]
            )
            spans.append(span(lanes[0], event, name, "kernel"))
    return spans


def _copy_lanes(event: dict, device: int) -> list[str]:
    """The copy engines that a copy occupies; none if it stays on its GPU."""
    found, about = COPY.match(event["name"]), event["args"]
    way = found[1] if found else ""
    if way == "PtoP" and {"fromDevice", "toDevice"} <= about.keys():
        return [
            f"cuda:{about['fromDevice']} copies out",
            f"cuda:{about['toDevice']} copies in",
        ]
    return [f"cuda:{device} copies {WAYS[way]}"] if way in WAYS else []


def _outermost(events: Sequence[dict]) -> list[dict]:
    found, reached = [], float("-inf")
    for event in sorted(events, key=lambda each: (each["ts"], -each["dur"])):
        if event["ts"] >= reached:
            found.append(event)
            reached = event["ts"] + event["dur"]
    return found


def _less(span: Span, waits: Sequence[Span]) -> list[Span]:
    parts, at = [], span.start
    for wait in sorted(waits, key=attrgetter("start")):
        if span.start <= wait.start < span.end:
            parts.append((at, wait.start))
            at = max(at, wait.end)
    parts.append((at, span.end))
    return [Span(span.lane, span.name, a, b, span.kind) for a, b in parts if a < b]


def plain(operator: str) -> str:
    return operator[PREFIX.match(operator).end() :]


def short(kernel: str) -> str:
    return re.split(r"[<(]", kernel.removeprefix("void "))[0].split("::")[-1]
