"""`torch.profiler`: it traces what the program calls on the CPU, as where it can trace no GPUs."""

import json
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from torch.autograd import profiler

from cudasim.patching import replaces
from cudasim.session import session
from cudasim.words import WORDS

OURS = "PythonDispatchMode"  # torch's name of the block in which a dispatch mode, ours, is at work


@replaces(profiler.profile, "__init__")
def init(original: Callable, self: Any, *args, **kwargs) -> None:
    """A profiler, of the CPU: asked for CUDA, it would print a trace of C++ at every operation."""
    given = [name for name in ("use_device", "use_cuda") if kwargs.get(name)]
    if any(kwargs[name] in (True, session.type.name) for name in given):
        warnings.warn(WORDS["times"]["no kernels"], stacklevel=3)
        kwargs.update(dict.fromkeys(given))
    original(self, *args, **kwargs)


@replaces(profiler.profile, "_parse_kineto_results")
def parse(original: Callable, *args, **kwargs) -> list[Any]:
    events = original(*args, **kwargs)
    ours = _ours(
        (e, e.thread, e.time_range.start, e.time_range.end, e.name) for e in events
    )
    return [event for event in events if id(event) not in ours]


@replaces(profiler.profile, "export_chrome_trace")
def export(original: Callable, self: Any, path: Any, *args, **kwargs) -> Any:
    result = original(self, path, *args, **kwargs)
    trace = json.loads(Path(path).read_text(encoding="utf-8"))
    events = trace["traceEvents"]
    ours = _ours(
        (
            each,
            (each["pid"], each["tid"]),
            each["ts"],
            each["ts"] + each["dur"],
            each["name"],
        )
        for each in events
        if each.get("cat") == "cpu_op"
    )
    trace["traceEvents"] = [each for each in events if id(each) not in ours]
    Path(path).write_text(json.dumps(trace), encoding="utf-8")
    return result


def _ours(rows: Iterable[tuple]) -> set[int]:
    """The `id` of events, of (event, thread, begin, end, name), within a dispatch mode's block."""
    until, ours = (
        defaultdict(lambda: float("-inf")),
        set(),
    )  # of each thread, the end of a block
    for event, thread, _, end, name in sorted(rows, key=lambda row: (row[2], -row[3])):
        if end > until[thread] and name == OURS:
            until[thread] = end
        if end <= until[thread]:
            ours.add(id(event))
    return ours
