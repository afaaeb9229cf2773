"""What makes the host wait for a GPU, and `torch.cuda.set_sync_debug_mode`, which tells of it. It
is what PyTorch waits for: `warn_or_error_on_sync` in c10/cuda/CUDAFunctions.h and its callers."""

import sys
import time
import warnings
from collections.abc import Callable

from cudasim.clock.costs import WAITS
from cudasim.device.gpu import GPU
from cudasim.device.history import PACKAGE
from cudasim.device.types import cuda as runtime
from cudasim.dispatch import traces
from cudasim.dispatch.tags import gpu_of
from cudasim.session import session

WARN, ERROR = 1, 2  # modes; 0 is silent
CAPTURING = 4  # added to the mode while a CUDA graph is captured
WORDS = "called a synchronizing CUDA operation"


def waits(func: Callable, args: tuple, kwargs: dict) -> bool:
    if func not in WAITS or gpu_of(args[0]) is None:
        return False
    return WAITS[func](args, kwargs, lambda tensor: gpu_of(tensor) is None)


def watch_copy(source: GPU | None, target: GPU | None, non_blocking: bool) -> None:
    """Tell of a copy between host and GPU for which the host waits, if that is wanted."""
    if (
        session.watching
        and not non_blocking
        and (source is None) is not (target is None)
    ):
        wait_for(source or target)


def address(stream_id: int, index: int) -> int:
    """A number that stands for the address of a stream; CUDA's default stream is at 0."""
    if stream_id and not stream_id & 1:
        return stream_id  # an external stream: its id is its address
    return stream_id and 0x5C0DA0000000 + (index << 20) + (stream_id << 4)


def wait_for(gpu: GPU, stream_id: int | None = None) -> None:
    """The host waits for a stream of `gpu`, or its current one, if it may (`complain`)."""
    if session.sync_debug:
        complain()
    if stream_id is None:
        stream_id = session.current_stream(gpu.index)
    traces.fire("StreamSynchronization", address(stream_id, gpu.index))
    if session.races is not None:
        session.races.wait((gpu.index, stream_id))
    sleep_until(session.asleep.get((gpu.index, stream_id), 0))


def sleep_until(when: int) -> None:
    left = when - time.perf_counter_ns()
    if left > 0:
        time.sleep(left / 1e9)


def complain() -> None:
    """Warn of an operation that waits, or refuse it, as `set_sync_debug_mode` or a capture says."""
    if session.sync_debug & CAPTURING:
        index = session.current().index
        capture = session.capturing.get((index, session.current_stream(index)))
        if capture is not None:
            capture.failed = True
            raise runtime.runtime_error(runtime.NOT_WHILE_CAPTURING)
        if session.sync_debug == CAPTURING:
            return
    if session.sync_debug & ERROR:
        raise RuntimeError(WORDS)
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(WORDS, UserWarning, stacklevel=level)
