"""`torch.profiler`: it traces the CPU's work, as on a machine whose PyTorch cannot trace GPUs.

Asked for CUDA's, it would call on CUDA at every operation, and print a trace of C++ each time.
Its rows are the calls of the program: what the simulation calls to answer them is left out. The
times are real, of the CPU that computes the values.
"""

import json
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any

from torch.autograd import profiler

from cudasim.patching import Patches
from cudasim.session import session

CPU_ONLY = (
    "cudasim: torch.profiler traces the CPU only, simulated GPUs run no kernels; "
    "cudasim.timeline() shows those of modelled time"
)
OURS = "PythonDispatchMode"  # torch's name of the block in which a dispatch mode, ours, is at work


def patch_profiler(patches: Patches) -> None:
    """Let the profiler leave the simulated type out, and say so."""
    patches.replace(profiler.profile, "__init__", _make_init(profiler.profile.__init__))
    original = profiler.profile._parse_kineto_results
    patches.replace(profiler.profile, "_parse_kineto_results", _make_parse(original))
    exported = _make_export(profiler.profile.export_chrome_trace)
    patches.replace(profiler.profile, "export_chrome_trace", exported)


def _make_init(original: Callable) -> Callable:
    @wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        given = [name for name in ("use_device", "use_cuda") if kwargs.get(name)]
        if any(kwargs[name] in (True, session.type.name) for name in given):
            warnings.warn(CPU_ONLY, stacklevel=2)
            kwargs.update(dict.fromkeys(given))
        original(self, *args, **kwargs)

    return init


def _make_parse(original: Callable) -> Callable:
    @wraps(original)
    def parse(*args: Any, **kwargs: Any) -> list[Any]:
        return _of_the_program(original(*args, **kwargs))

    return parse


def _make_export(original: Callable) -> Callable:
    @wraps(original)
    def export_chrome_trace(self: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, path, *args, **kwargs)
        file = Path(path)
        trace = json.loads(file.read_text(encoding="utf-8"))
        events = trace["traceEvents"]
        timed = [each for each in events if each.get("cat") == "cpu_op"]
        kept = {
            id(each)
            for each in _outside(
                timed,
                lambda each: (each["pid"], each["tid"]),
                lambda each: (each["ts"], each["ts"] + each["dur"]),
                lambda each: each["name"],
            )
        }
        ours = {id(each) for each in timed} - kept
        trace["traceEvents"] = [each for each in events if id(each) not in ours]
        file.write_text(json.dumps(trace), encoding="utf-8")
        return result

    return export_chrome_trace


def _of_the_program(events: Iterable[Any]) -> list[Any]:
    """The events that are neither a dispatch mode at work nor within one, on the same thread."""
    return _outside(
        events,
        lambda each: each.thread,
        lambda each: (each.time_range.start, each.time_range.end),
        lambda each: each.name,
    )


def _outside(
    events: Iterable[Any],
    thread: Callable[[Any], Any],
    span: Callable[[Any], tuple[float, float]],
    name: Callable[[Any], str],
) -> list[Any]:
    """Those of `events`, in their order, that are no dispatch mode and not within one."""
    events = list(events)
    order = {id(each): place for place, each in enumerate(events)}
    kept, until = [], defaultdict(lambda: float("-inf"))  # of each thread, the end of such a block
    for each in sorted(events, key=lambda each: (span(each)[0], -span(each)[1])):
        if span(each)[1] <= until[thread(each)]:
            continue
        if name(each) == OURS:
            until[thread(each)] = span(each)[1]
        else:
            kept.append(each)
    return sorted(kept, key=lambda each: order[id(each)])
