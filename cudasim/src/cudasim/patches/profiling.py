"""`torch.profiler`: it traces the CPU's work, as on a machine whose PyTorch cannot trace GPUs.

Asked for CUDA's, it would call on CUDA at every operation, and print a trace of C++ each time.
Its rows are the calls of the program: what the simulation calls to answer them is left out. The
times are real, of the CPU that computes the values.
"""

import json
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from torch.autograd import profiler

from cudasim.patches.replacing import Replacements
from cudasim.session import session

METHODS = Replacements()

CPU_ONLY = (
    "cudasim: torch.profiler traces the CPU only, simulated GPUs run no kernels; "
    "cudasim.timeline() shows those of modelled time"
)
OURS = "PythonDispatchMode"  # torch's name of the block in which a dispatch mode, ours, is at work


@METHODS(profiler.profile, "__init__")
def init(original: Callable, self: Any, *args: Any, **kwargs: Any) -> None:
    """A profiler, of the CPU."""
    given = [name for name in ("use_device", "use_cuda") if kwargs.get(name)]
    if any(kwargs[name] in (True, session.type.name) for name in given):
        warnings.warn(CPU_ONLY, stacklevel=3)
        kwargs.update(dict.fromkeys(given))
    original(self, *args, **kwargs)


@METHODS(profiler.profile, "_parse_kineto_results")
def parse(original: Callable, *args: Any, **kwargs: Any) -> list[Any]:
    """The rows that are the program's."""
    return [
        event
        for _, _, _, _, event in _outside(
            (event.thread, event.time_range.start, event.time_range.end, event.name, event)
            for event in original(*args, **kwargs)
        )
    ]


@METHODS(profiler.profile, "export_chrome_trace")
def export(original: Callable, self: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
    """A trace in a file, of the program's rows."""
    result = original(self, path, *args, **kwargs)
    trace = json.loads(Path(path).read_text(encoding="utf-8"))
    timed = [
        (
            (event["pid"], event["tid"]),
            event["ts"],
            event["ts"] + event["dur"],
            event["name"],
            event,
        )
        for event in trace["traceEvents"]
        if event.get("cat") == "cpu_op"
    ]
    ours = {id(row[-1]) for row in timed} - {id(row[-1]) for row in _outside(timed)}
    trace["traceEvents"] = [event for event in trace["traceEvents"] if id(event) not in ours]
    Path(path).write_text(json.dumps(trace), encoding="utf-8")
    return result


def _outside(rows: Iterable[tuple]) -> list[tuple]:
    """Those of `rows` (thread, begin, end, name, event) that are no dispatch mode, nor within one.

    In their order.
    """
    rows = list(rows)
    until = defaultdict(lambda: float("-inf"))  # of each thread, the end of a mode's block
    kept = set()
    for place, row in sorted(enumerate(rows), key=lambda placed: (placed[1][1], -placed[1][2])):
        thread, _, end, name, _ = row
        if end <= until[thread]:
            continue
        if name == OURS:
            until[thread] = end
        else:
            kept.add(place)
    return [row for place, row in enumerate(rows) if place in kept]
