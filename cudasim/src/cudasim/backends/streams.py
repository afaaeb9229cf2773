"""Streams and events of simulated GPUs.

The CPU has computed every result by the time that an operation returns. So a stream is busy only
while it sleeps (`torch.cuda._sleep`), and an event is a reading of the host's clock; but where a
virtual clock runs, they obey it. The rules, numbers and errors are those of
c10/cuda/CUDAStream.cpp and ATen/cuda/CUDAEvent.h.
"""

import itertools
import time
from typing import Any, NoReturn

import torch
from torch import Tensor

from cudasim.clock.clock import Stream as Line
from cudasim.device.gpu import GPU
from cudasim.dispatch import traces
from cudasim.dispatch.capture import Mark, mark, wait
from cudasim.dispatch.devices import resolve
from cudasim.dispatch.races import HOST
from cudasim.dispatch.tags import gpu_of
from cudasim.dispatch.waiting import address, end_of_sleep, sleep_until, wait_for
from cudasim.patching import Patches
from cudasim.session import session

POOL = 32  # streams of each priority that a GPU has; after the last comes the first again

_Stream, _Event = torch.Stream, torch.Event  # PyTorch's own classes
_handles = itertools.count(0x5C0DA0001000, 0x40)  # what stands for the addresses of events


def set_current(stream_id: int, index: int) -> None:
    """Make a stream the current one of GPU `index`, and that GPU the current one."""
    session.set_current(index)
    session.set_stream(index, stream_id)


def new_id(index: int, priority: int, least: int, greatest: int) -> int:
    """The id of the next stream in the pool of GPU `index`; priorities are clamped."""
    level = -max(min(priority, least), greatest)
    count = session.streams.setdefault((index, level), itertools.count())
    return next(count) % POOL << 5 | level + 1 << 1 | 1


def timed_query(end: int) -> bool:
    """Whether what ends at `end` is done; to ask takes time, so that who goes on asking gets on."""
    clock = session.clock
    clock.spend(clock.operation, "query")
    return end <= clock.now


def gpu_for(device: Any) -> GPU | None:
    """The GPU that `device` means; None if it is of another type."""
    found = resolve(session.type.name if device is None else device)
    return found if isinstance(found, GPU) else None


class Stream(_Stream):
    """`torch.Stream` on a simulated GPU."""

    PRIORITIES = (0, -3)  # the least and the greatest

    def __new__(cls, device: Any = None, *, priority: int = 0, **ids: int) -> _Stream:
        """A stream from the pool of `device`, or that which `ids` name.

        `ids` are stream_id, device_index and device_type. PyTorch's own if not of a GPU.
        """
        if not ids:
            gpu = gpu_for(device)
            if gpu is None:
                return _Stream(device, priority=priority)
            stream_id = new_id(gpu.index, priority, *cls.PRIORITIES)
            ids = {"stream_id": stream_id, "device_index": gpu.index}
        self = super().__new__(
            cls,
            stream_id=ids["stream_id"],
            device_index=ids["device_index"],
            device_type=ids.get("device_type", session.type.number),
        )
        self._outer = []
        traces.fire(traces.STREAM_CREATION, self.native_handle)
        return self

    def query(self) -> bool:
        """True if all submitted work is done."""
        if session.clock is None:
            return end_of_sleep(self.device_index, self.stream_id) <= time.perf_counter_ns()
        return timed_query(self._line().end)

    def synchronize(self) -> None:
        """Wait for all submitted work."""
        if session.watching:
            wait_for(session.gpu(self.device_index), self.stream_id)
        if session.clock is not None:
            session.clock.wait_until(self._line().end, "synchronize")

    def _line(self) -> Line:
        """What the virtual clock knows of the stream."""
        return session.clock.cards[self.device_index].stream(self.stream_id)

    def is_capturing(self) -> bool:
        """True while the stream's work is captured by a graph."""
        return (self.device_index, self.stream_id) in session.capturing

    def wait_event(self, event: "Event") -> None:
        """Make later work wait for `event`."""
        event.wait(self)

    def wait_stream(self, stream: "Stream") -> None:
        """Make later work wait for `stream`."""
        self.wait_event(stream.record_event())

    def record_event(self, event: "Event | None" = None) -> "Event":
        """Record `event`, or a new one, here; returns it."""
        if event is None:
            event = Event(self.device)
        event.record(self)
        return event

    @property
    def native_handle(self) -> int:
        """What stands for the address of the stream: 0 for the default one."""
        return address(self.stream_id, self.device_index)

    def __enter__(self) -> "Stream":
        """Make the stream the current one of its GPU, and that GPU current."""
        index = session.current().index
        self._outer.append((index, self.device_index, session.current_stream(self.device_index)))
        set_current(self.stream_id, self.device_index)
        return self

    def __exit__(self, *error: object) -> None:
        """Make what was current so again."""
        index, mine, stream_id = self._outer.pop()
        set_current(stream_id, mine)
        session.set_current(index)


class Event(_Event):
    """`torch.Event` on a simulated GPU."""

    def __new__(
        cls,
        device: Any = None,
        *,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
    ) -> _Event:
        """An event that is yet to be recorded, on `device`; PyTorch's own if not of a GPU."""
        gpu = gpu_for(device)
        if gpu is None:
            return _Event(device, enable_timing=enable_timing)
        self = super().__new__(cls, "cpu")
        self._gpu = gpu
        self._timed, self._when, self._handle = enable_timing, None, 0
        self._mark: Mark | None = None  # what it stands for, if it was captured
        self._known: dict = {}  # what comes before it, for who looks for races
        self._clock = session.clock
        return self

    @property
    def device(self) -> torch.device:
        """The GPU of the stream on which the event was recorded, or will be."""
        return self._gpu.device

    @property
    def event_id(self) -> int:
        """What stands for the address of the event: 0 until it is recorded."""
        return self._handle

    def record(self, stream: _Stream | None = None) -> None:
        """Note the time, in `stream` or the current one.

        Raises RuntimeError, with CUDA's text, if the event was recorded on another GPU.
        """
        self._check()
        gpu = session.current() if stream is None else session.gpu(stream.device_index)
        if self._when is not None and gpu is not self._gpu:
            raise RuntimeError(
                f"Event device {self._gpu.index} does not match recording stream's device "
                f"{gpu.index}."
            )
        self._gpu = gpu
        stream_id = session.current_stream(gpu.index) if stream is None else stream.stream_id
        if not self._handle:
            self._handle = next(_handles)
            traces.fire(traces.EVENT_CREATION, self._handle)
        traces.fire(traces.EVENT_RECORD, self._handle, address(stream_id, gpu.index))
        self._mark = mark((gpu.index, stream_id)) if session.capturing else None
        if session.races is not None:
            self._known = dict(session.races.known[gpu.index, stream_id])
        clock = session.clock
        if clock is None:
            self._when = max(time.perf_counter_ns(), end_of_sleep(gpu.index, stream_id))
            return
        clock.spend(clock.operation, "record")
        self._when = max(clock.now, clock.cards[gpu.index].stream(stream_id).end)

    def wait(self, stream: _Stream | None = None) -> None:
        """Make later work in `stream`, or the current one, wait for the event."""
        self._check()
        if self._when is None:
            return
        index = session.current().index if stream is None else stream.device_index
        stream_id = session.current_stream(index) if stream is None else stream.stream_id
        traces.fire(traces.EVENT_WAIT, self._handle, address(stream_id, index))
        if session.capturing:
            wait((index, stream_id), self._mark)
        self._tell((index, stream_id))
        clock = session.clock
        if clock is not None:
            clock.spend(clock.operation, "wait")
            clock.hold(index, stream_id, self._when)
        elif self._when > time.perf_counter_ns():
            session.asleep[index, stream_id] = max(self._when, end_of_sleep(index, stream_id))
            session.watch()

    def query(self) -> bool:
        """True if what was recorded has happened."""
        self._check()
        now = time.perf_counter_ns() if session.clock is None else None
        done = timed_query(self._when or 0) if now is None else (self._when or 0) <= now
        if done:
            self._tell(HOST)
        return done

    def _tell(self, line: tuple[int, int]) -> None:
        """Tell who looks for races that a line comes after the event."""
        if session.races is not None:
            session.races.learn(line, self._known)

    def synchronize(self) -> None:
        """Wait for the event."""
        self._check()
        if self._when is None:
            return
        traces.fire(traces.EVENT_SYNCHRONIZATION, self._handle)
        self._tell(HOST)
        if session.clock is None:
            sleep_until(self._when)
        else:
            session.clock.wait_until(self._when, "synchronize")

    def _check(self) -> None:
        """Raise RuntimeError if the event is of another simulation, whose times are over."""
        if self._clock is not session.clock:
            raise RuntimeError(
                "this event was made in a simulation that has ended, or before modelled time "
                "began; make and record it again"
            )

    def elapsed_time(self, end_event: "Event") -> float:
        """Milliseconds of the host's clock, or of the virtual one, from this event to `end_event`.

        Raises ValueError, with CUDA's text, unless both were made to be timed and recorded, and
        CUDA's error if they were recorded on two GPUs. Raises RuntimeError unless both have
        happened, and if one is of another simulation; TypeError for what is no event of a GPU.
        """
        self._check()
        if not isinstance(end_event, Event):
            raise TypeError(f"elapsed_time() needs an event of a GPU, not {end_event!r}")
        end_event._check()
        if not (self._timed and end_event._timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._when is None or end_event._when is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if end_event._gpu is not self._gpu and (error := session.type.elapsed_between_devices()):
            raise error
        now = time.perf_counter_ns() if session.clock is None else session.clock.now
        if max(self._when, end_event._when) > now:
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return (end_event._when - self._when) / 1e6

    def __del__(self) -> None:
        """Tell who follows events that this one is gone."""
        if self._handle:
            traces.fire(traces.EVENT_DELETION, self._handle)

    def ipc_handle(self, *args: Any) -> NoReturn:
        """Refused: no other process has this GPU."""
        raise NotImplementedError("cudasim: events cannot be shared between processes")

    from_ipc_handle = ipc_handle

    def __repr__(self) -> str:
        """As PyTorch's events print."""
        return (
            f"torch.Event device_type={self.device.type}, device_index={self._gpu.index}, "
            f"event_flag={int(self._timed)}, event_id={self._handle}"
        )


Stream.__module__ = Event.__module__ = "torch"  # as their own do, for who prints the class


def record_stream(original: Any, tensor: Tensor, stream: _Stream) -> None:
    """`Tensor.record_stream`: on a GPU it matters to who looks for races."""
    if gpu_of(tensor) is None:
        original(tensor, stream)
    elif session.races is not None:
        session.races.record_stream(tensor, (stream.device_index, stream.stream_id))


def stream_data(index: int, stream_id: int) -> tuple[int, int, int]:
    """(id, index, type of device): what `torch.cuda` makes a stream from."""
    if not 0 <= index < len(session.gpus):
        raise ValueError(
            f"Device index value {index} is out of index range [0, {len(session.gpus)})"
        )
    return stream_id, index, session.type.number


def patch_streams(patches: Patches) -> None:
    """Replace `torch.Stream` and `torch.Event`."""
    for name, function in {  # which torch.accelerator calls
        "getStream": lambda index: Stream(
            stream_id=session.current_stream(session.gpu(index).index), device_index=index
        ),
        "setStream": lambda stream: set_current(stream.stream_id, stream.device_index),
    }.items():
        patches.replace(torch._C, f"_accelerator_{name}", function)
    patches.replace(torch, "Stream", Stream)
    patches.replace(torch, "Event", Event)
    patches.wrap(Tensor, "record_stream", record_stream)
