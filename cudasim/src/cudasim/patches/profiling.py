"""`torch.profiler`: it traces what the program calls on the CPU, as if there were no GPU."""

import json
import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.autograd import profiler

from cudasim.notices import SimulationWarning
from cudasim.patching import changed, replaces
from cudasim.session import session
from cudasim.torch_private.tensors import PARSE_PROFILE, PROFILER_SWITCHES
from cudasim.words import WORDS

# torch's name of the block in which a dispatch mode, ours, is at work.
MODE_BLOCK = "PythonDispatchMode"
# How torch names a call of a function in this package: file, line and function. It leaves
# out how the path begins, if that is in `sys.path`.
_OUR_CALL = re.compile(r"(.*[/\\])?cudasim[/\\].*\.py\(\d+\): ")


@dataclass
class Span:
    """An event in a trace: a block of code in a thread, from `begin` to `end`."""

    event: Any
    thread: Any
    begin: float
    end: float
    name: str


@replaces(profiler.profile, "__init__")
def init(original: Callable, self: Any, *args, **kwargs) -> None:
    """Profile the CPU only: C++, asked for CUDA, would print a trace at every operation."""
    requested = [name for name in ("use_device", "use_cuda") if kwargs.get(name)]
    if any(kwargs[name] in (True, session.type.name) for name in requested):
        warnings.warn(WORDS["times"]["no kernels"], SimulationWarning, stacklevel=3)
        for name in requested:
            kwargs[name] = None
        kwargs["use_cpu"] = True  # else it would have nothing to trace
    original(self, *args, **kwargs)


@replaces(
    profiler.emit_nvtx,
    "__enter__",
    "__exit__",
    when=lambda: session.type.is_cuda,
)
def mark_for_nvtx(original: Callable, self: Any, *error) -> Any:
    """Begin or end a region for a profiler that is not there, as C++ has no NVTX."""
    with changed(profiler, **dict.fromkeys(PROFILER_SWITCHES, lambda *settings: None)):
        return original(self, *error)


@replaces(*PARSE_PROFILE)
def parse(original: Callable, *args, **kwargs) -> list[Any]:
    events = original(*args, **kwargs)
    spans = []
    for event in events:
        times = event.time_range
        spans.append(Span(event, event.thread, times.start, times.end, event.name))
        event.stack = [line for line in event.stack if not _OUR_CALL.match(line)]
    visible = _without_mode(events, spans)
    return [event for event in visible if not _OUR_CALL.match(event.name)]


@replaces(profiler.profile, "export_chrome_trace")
def export(original: Callable, self: Any, path: Any, *args, **kwargs) -> Any:
    result = original(self, path, *args, **kwargs)
    trace = json.loads(Path(path).read_text(encoding="utf-8"))
    spans = []
    for event in trace["traceEvents"]:
        if event.get("cat") == "cpu_op":
            thread = (event["pid"], event["tid"])
            begin = event["ts"]
            spans.append(
                Span(event, thread, begin, begin + event["dur"], event["name"])
            )
    visible = _without_mode(trace["traceEvents"], spans)
    trace["traceEvents"] = [
        event for event in visible if not _OUR_CALL.match(event.get("name", ""))
    ]
    Path(path).write_text(json.dumps(trace), encoding="utf-8")
    return result


def _without_mode(events: list[Any], spans: Iterable[Span]) -> list[Any]:
    """Return the `events` that are not within the block of a dispatch mode."""
    hidden = set()
    block_ends: dict[Any, float] = {}  # by thread
    for span in sorted(spans, key=lambda span: (span.begin, -span.end)):
        block_end = block_ends.get(span.thread, float("-inf"))
        if span.end > block_end and span.name == MODE_BLOCK:
            block_end = block_ends[span.thread] = span.end
        if span.end <= block_end:
            hidden.add(id(span.event))
    return [event for event in events if id(event) not in hidden]
