"""Operations for which the host waits for a GPU.

`torch.cuda.set_sync_debug_mode` warns of them or refuses them, and a captured stream does not
permit them. They are what PyTorch itself waits for: `warn_or_error_on_sync` in
c10/cuda/CUDAFunctions.h and its callers.
"""

import time
from collections.abc import Callable

from torch import Tensor

from cudasim.clock.costs import WAITS
from cudasim.device.gpu import GPU
from cudasim.device.types import cuda as runtime
from cudasim.dispatch import traces
from cudasim.dispatch.arguments import operands_of
from cudasim.dispatch.captured import order_peer_copy, refuse_pageable
from cudasim.dispatch.pinning import is_pinned
from cudasim.dispatch.tags import gpu_of
from cudasim.notices import warn_program
from cudasim.session import session

# The modes of `set_sync_debug_mode`; 0 is silent.
WARN, ERROR = 1, 2
# Added to the mode while a CUDA graph is captured.
CAPTURING = 4

_MESSAGE = "called a synchronizing CUDA operation"
_STREAM_ADDRESSES = 0x5C0DA0000000  # where no memory is


def awaited_gpu(func: Callable, args: tuple, kwargs: dict) -> GPU | None:
    """Return the GPU for which the host waits in this call of `func`, if it does."""
    if func not in WAITS:
        return None
    gpus = map(gpu_of, operands_of(args, kwargs))
    gpu = next(filter(None, gpus), None)
    if gpu is None or not WAITS[func](args, kwargs, _is_on_host):
        return None
    return gpu


def _is_on_host(tensor: Tensor) -> bool:
    return gpu_of(tensor) is None


def watch_copy(
    source: GPU | None, target: GPU | None, non_blocking: bool, host: Tensor | None
) -> None:
    """Let the host wait for a copy between itself and a GPU, if PyTorch waits for it.

    Where it does not, CUDA may wait still: see `copies.host_waits`. `host` is the tensor
    in the host's memory. Where there is None yet, it will be pinned for a `non_blocking`
    copy (`_to_copy` in aten/src/ATen/native/TensorConversions.cpp).

    A captured stream permits no copy of pageable memory, nor one to or from a GPU whose
    stream is not captured.
    """
    if not session.watching or source is target:
        return
    if source is not None and target is not None:
        if session.capturing:
            order_peer_copy(source, target)
        return
    gpu = source or target
    pinned = non_blocking if host is None else is_pinned(host)
    if not pinned and (host is None or host.numel()):
        refuse_pageable(gpu)
    if not non_blocking:
        wait_for(gpu)


def wait_for_values(func: Callable, args: tuple, kwargs: dict) -> None:
    """Let the host wait in a call of `func`, if it waits there.

    An index on the CPU is copied to the GPU (`make_info` in
    aten/src/ATen/native/TensorAdvancedIndexing.cpp).
    """
    gpu = awaited_gpu(func, args, kwargs)
    if gpu is None:
        return
    indices = args[1] if len(args) > 1 and isinstance(args[1], list | tuple) else ()
    for index in indices:
        is_on_host = isinstance(index, Tensor) and gpu_of(index) is None
        if is_on_host and not is_pinned(index):
            refuse_pageable(gpu)
    wait_for(gpu)


def address(stream_id: int, index: int) -> int:
    """Return a number for the address of a stream of GPU `index`.

    CUDA's default stream is at 0. An external stream has its address as its id.
    """
    is_external = stream_id and not stream_id & 1
    if is_external or not stream_id:
        return stream_id
    return _STREAM_ADDRESSES + (index << 20) + (stream_id << 4)


def wait_for(gpu: GPU, stream_id: int | None = None) -> None:
    """Let the host wait for a stream of `gpu`, or for its current one.

    Warns or raises as `complain` does.
    """
    if session.sync_debug:
        complain()
    if stream_id is None:
        stream_id = session.current_stream(gpu.index)
    stream = (gpu.index, stream_id)
    traces.fire("StreamSynchronization", address(stream_id, gpu.index))
    if session.races is not None:
        session.races.wait(stream)
    sleep_until(session.asleep.get(stream, 0))


def sleep_until(when: int) -> None:
    """Sleep until the clock of `time.perf_counter_ns` shows `when`."""
    left = when - time.perf_counter_ns()
    if left > 0:
        time.sleep(left / 1e9)


def complain() -> None:
    """Warn of an operation that waits, or refuse it.

    `set_sync_debug_mode` decides, and whether the current stream is captured.
    """
    if session.sync_debug & CAPTURING:
        _refuse_in_capture()
        if session.sync_debug == CAPTURING:
            return
    if session.sync_debug & ERROR:
        raise RuntimeError(_MESSAGE)

    warn_program(_MESSAGE, UserWarning)


def _refuse_in_capture() -> None:
    stream = session.stream_key(session.current().index)
    capture = session.capturing.get(stream)
    if capture is not None:
        capture.failed = True
        raise runtime.runtime_error(runtime.NOT_WHILE_CAPTURING)
