"""Which streams a CUDA graph captures, and what may not happen there meanwhile."""

from typing import TYPE_CHECKING, NamedTuple

from cudasim.device.gpu import GPU
from cudasim.device.types import cuda as runtime
from cudasim.session import StreamKey, session
from cudasim.words import WORDS

if TYPE_CHECKING:
    from cudasim.dispatch.capture import Capture


class Mark(NamedTuple):
    """What an event in a captured stream stands for: the work of `streams` so far."""

    capture: "Capture"
    streams: set[StreamKey]

    def is_underway(self) -> bool:
        return session.capturing.get(self.capture.origin) is self.capture


def mark(stream: StreamKey) -> Mark | None:
    """Return what an event stands for that is recorded in a stream, if it is captured."""
    capture = session.capturing.get(stream)
    if capture is None:
        return None
    return Mark(capture, {stream, *capture.waited_for[stream]})


def wait(stream: StreamKey, event: Mark | None) -> None:
    """Let a stream wait for an event.

    If the event was captured, the stream is captured as well from now on, or is back where
    the capture began. Raises CUDA's error where a captured stream waits for work that is
    not captured, or that another capture holds.
    """
    own_capture = session.capturing.get(stream)
    if event is not None and event.is_underway():
        if own_capture not in (None, event.capture):
            event.capture.failed = True
            own_capture.fail(runtime.MERGED_CAPTURES)
        session.capturing[stream] = event.capture
        event.capture.join(stream, event.streams)
    elif own_capture is not None:
        own_capture.fail(runtime.UNCAPTURED_WORK)


def order_peer_copy(source: GPU, target: GPU) -> None:
    """Let the streams of two GPUs wait for each other, as for a copy between the two.

    `copy_device_to_device` records an event in the current stream of the target, for which
    that of the source waits, and another one for the way back
    (aten/src/ATen/native/cuda/Copy.cu).
    """
    reading = session.stream_key(source.index)
    writing = session.stream_key(target.index)
    wait(reading, mark(writing))
    wait(writing, mark(reading))


def refuse_pageable(gpu: GPU) -> None:
    """Refuse a copy between a captured stream of `gpu` and memory that is not pinned.

    The host checks it before anything is captured, so the graph remains sound
    (`copy_kernel_cuda` in Copy.cu since PyTorch 2.11;
    https://github.com/pytorch/pytorch/pull/172156).
    """
    if session.stream_key(gpu.index) in session.capturing:
        raise RuntimeError(WORDS["graphs"]["pageable"])
