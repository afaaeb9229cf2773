"""Streams and events of simulated GPUs.

Results are there when an operation returns. So a stream is busy only while it sleeps
(`torch.cuda._sleep`), and an event is a reading of the host's clock; but a virtual clock
is obeyed. Rules, numbers and errors are those of c10/cuda/CUDAStream.cpp and
ATen/cuda/CUDAEvent.h.
"""

import itertools
from typing import Any, NoReturn

import torch
from torch import Tensor

from cudasim.device.gpu import GPU
from cudasim.dispatch import capture, captured, traces
from cudasim.dispatch.devices import resolve
from cudasim.dispatch.races import HOST
from cudasim.dispatch.tags import gpu_of
from cudasim.dispatch.times import end_of, now
from cudasim.dispatch.waiting import address, sleep_until, wait_for
from cudasim.patching import Patches
from cudasim.session import StreamKey, session
from cudasim.torch_private.devices import EVENT, STREAM

# Streams of each priority that a GPU has. After the last comes the first again.
POOL = 32
LEAST_PRIORITY = 0
GREATEST_PRIORITY = -3
# The time of an event that a graph will record. Until then it counts as done.
NOT_YET = -1

_Stream, _Event = torch.Stream, torch.Event  # PyTorch's own classes
# What stands for the addresses of events.
_handles = itertools.count(0x5C0DA0001000, 0x40)


def key_of(stream: _Stream | None = None) -> StreamKey:
    """Return the key of a stream; None is the current one."""
    if stream is not None:
        return stream.device_index, stream.stream_id
    return session.stream_key(session.current().index)


def set_stream(
    stream_id: int, device_index: int, device_type: int | None = None
) -> None:
    session.set_current(device_index)
    session.set_stream(device_index, stream_id)


def wait_until(when: int) -> None:
    if session.clock is None:
        sleep_until(when)
    else:
        session.clock.wait_until(when, "synchronize")


def spend(call: str) -> None:
    """Let a `call` cost its time.

    A program that asks again and again whether something is done has to get on.
    """
    if session.clock is not None:
        session.clock.spend(session.clock.operation, call)


def gpu_for(device: Any) -> GPU | None:
    """Return the GPU that `device` names, or the current one for None; None for others."""
    target = resolve(session.type.name if device is None else device)
    return target if isinstance(target, GPU) else None


def _is_of_gpu(device: Any) -> bool:
    """Return whether the type of `device` is that of the GPUs, whatever its index."""
    if device is None:
        return True
    if isinstance(device, str | int):
        device = torch.device(device)
    return isinstance(device, torch.device) and device.type == session.type.name


class Event(_Event):
    __doc__ = _Event.__doc__
    event_id = 0  # what stands for its address; 0 until it is recorded
    # That of the stream on which it was recorded; before, only its type
    # (c10/core/impl/InlineEvent.h).
    device: torch.device | None = None
    _place = "device index"  # what errors call it: c10/cuda/impl/CUDAGuardImpl.h

    def __new__(
        cls, device: Any = None, *, enable_timing: bool = False, **flags: bool
    ) -> _Event:
        """An event that is yet to be recorded; PyTorch's own if not of a GPU.

        Of `device` only the type counts (`THPEvent_pynew` in torch/csrc/Event.cpp).
        """
        if not _is_of_gpu(device):
            return _Event(device, enable_timing=enable_timing, **flags)
        self = super().__new__(cls, "cpu", **flags)
        self.device = torch.device(session.type.name)
        self._timed = enable_timing
        # When all that comes before it is done; None until it is recorded.
        self._when: int | None = None
        self._mark: captured.Mark | None = (
            None  # what it stands for, if it was captured
        )
        self._external = False  # whether a graph records it and waits for it as it runs
        self._known: dict = {}  # what comes before it, for the search for races
        self._clock = session.clock
        return self

    def record(self, stream: _Stream | None = None) -> None:
        self._check()
        key = key_of(stream)
        index, stream_id = key
        gpu = session.gpu(index)
        if self._when is not None and gpu.device != self.device:
            raise RuntimeError(
                f"Event {self._place} {self.device.index} does not match "
                f"recording stream's {self._place} {gpu.index}."
            )
        self.device = gpu.device
        if not self.event_id:
            self.event_id = next(_handles)
            traces.fire("EventCreation", self.event_id)
        traces.fire("EventRecord", self.event_id, address(stream_id, index))

        self._mark = None
        if session.capturing and self._external and key in session.capturing:
            session.capturing[key].record_event(self._record_in_replay)
            if self._when is None:
                self._when = NOT_YET
            return
        if session.capturing:
            self._mark = captured.mark(key)
        self._stand_for(key)

    def _record_in_replay(self) -> None:
        self._stand_for(key_of())

    def _stand_for(self, key: StreamKey) -> None:
        """Let the event stand for all work of a stream so far."""
        if session.races is not None:
            self._known = dict(session.races.known[key])
        spend("record")
        self._when = max(now(), end_of(*key))

    def wait(self, stream: _Stream | None = None) -> None:
        self._check()
        if self._when is None:
            return
        key = key_of(stream)
        index, stream_id = key
        traces.fire("EventWait", self.event_id, address(stream_id, index))
        if session.capturing and not self._external:
            captured.wait(key, self._mark)
        self._order_before(key)
        spend("wait")
        if session.clock is not None:
            session.clock.hold(index, stream_id, self._when)
        elif self._when > now():
            session.asleep[key] = max(self._when, end_of(*key))
            session.update_watching()

    def query(self) -> bool:
        self._check()
        self._refuse_query()
        spend("query")
        is_done = self._when is None or self._when <= now()
        if is_done:
            self._order_before(HOST)
        return is_done

    def synchronize(self) -> None:
        self._check()
        if self._when is not None:
            traces.fire("EventSynchronization", self.event_id)
            self._refuse_query()
            self._order_before(HOST)
            wait_until(self._when)

    def _refuse_query(self) -> None:
        """Raise CUDA's error if a capture does not permit the host to ask of this event."""
        if self._when is not None and (self._mark is not None or session.capturing):
            capture.refuse_query(self._mark)

    def _order_before(self, stream: StreamKey) -> None:
        """Note, for the search for races, that `stream` comes after what this event marks."""
        if session.races is not None:
            session.races.learn(stream, self._known)

    def _check(self) -> None:
        if self._clock is not session.clock:
            raise RuntimeError(
                "this event was made in a simulation that has ended, or before "
                "modelled time began; make and record it again"
            )

    def elapsed_time(self, end_event: "Event") -> float:
        """Milliseconds, of the virtual clock if there is one, from this event to `end_event`."""
        self._check()
        if not isinstance(end_event, Event):
            raise TypeError(
                f"elapsed_time() needs an event of a GPU, not {end_event!r}"
            )
        end_event._check()
        if not (self._timed and end_event._timed):
            raise ValueError(
                "Both events must be created with argument 'enable_timing=True'."
            )
        if self._when is None or end_event._when is None:
            raise ValueError(
                "Both events must be recorded before calculating elapsed time."
            )
        self._refuse_query()
        end_event._refuse_query()
        is_unknown = NOT_YET in (self._when, end_event._when)
        if is_unknown or end_event.device != self.device:
            error = session.type.elapsed_between_devices()
            if error:
                raise error
        if max(self._when, end_event._when) > now():
            raise RuntimeError(
                "Both events must be completed before calculating elapsed time."
            )
        self._order_before(HOST)
        end_event._order_before(HOST)
        return (end_event._when - self._when) / 1e6

    def __del__(self) -> None:
        if self.event_id:
            traces.fire("EventDeletion", self.event_id)

    def ipc_handle(self, *args: Any) -> NoReturn:
        raise NotImplementedError("cudasim: events cannot be shared between processes")

    from_ipc_handle = ipc_handle

    def __repr__(self) -> str:
        index = -1 if self.device.index is None else self.device.index
        device = f"device_type={self.device.type}, device_index={index}"
        return f"torch.Event {device}, event_flag={int(self._timed)}, event_id={self.event_id}"


class Stream(_Stream):
    __doc__ = _Stream.__doc__
    event_type = Event  # of the events that `record_event` makes
    native_handle = 0  # what stands for its address: 0 of the default one

    def __new__(cls, device: Any = None, *, priority: int = 0, **ids: int) -> _Stream:
        """A stream from the pool of `device`, or that of `ids`; PyTorch's own if not of a GPU."""
        if not ids:
            gpu = gpu_for(device)
            if gpu is None:
                return _Stream(device, priority=priority)
            ids = {"stream_id": _next_id(gpu, priority), "device_index": gpu.index}
        self = super().__new__(cls, **{"device_type": session.type.number, **ids})
        self._outer = []
        self.native_handle = address(self.stream_id, self.device_index)
        traces.fire("StreamCreation", self.native_handle)
        return self

    def query(self) -> bool:
        if session.capturing:
            capture.refuse_stream_query(key_of(self))
        spend("query")
        key = key_of(self)
        is_done = end_of(*key) <= now()
        if is_done and session.races is not None:
            session.races.wait(key)
        return is_done

    def synchronize(self) -> None:
        if session.capturing:
            capture.refuse_stream_query(key_of(self))
        if session.watching:
            wait_for(session.gpu(self.device_index), self.stream_id)
        if session.clock is not None:
            wait_until(end_of(*key_of(self)))

    def is_capturing(self) -> bool:
        return key_of(self) in session.capturing

    def wait_event(self, event: Event) -> None:
        event.wait(self)

    def wait_stream(self, stream: "Stream") -> None:
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        if event is None:
            event = self.event_type()
        event.record(self)
        return event

    def __enter__(self) -> "Stream":
        before = session.current().index
        self._outer.append((before, session.current_stream(self.device_index)))
        set_stream(self.stream_id, self.device_index)
        return self

    def __exit__(self, *error: object) -> None:
        index, stream_id = self._outer.pop()
        session.set_stream(self.device_index, stream_id)
        session.set_current(index)


# As their own do, for programs that print the class.
Stream.__module__ = Event.__module__ = "torch"


def _next_id(gpu: GPU, priority: int) -> int:
    """Return the id of the next stream of a priority: (its number, its level, 1) in bits."""
    level = -max(min(priority, LEAST_PRIORITY), GREATEST_PRIORITY)
    numbers = session.stream_numbers.setdefault((gpu.index, level), itertools.count())
    number = next(numbers) % POOL
    return number << 5 | level + 1 << 1 | 1


def record_stream(original: Any, tensor: Tensor, stream: _Stream) -> None:
    """Stand for `Tensor.record_stream`: on a GPU it matters to the search for races."""
    if gpu_of(tensor) is None:
        original(tensor, stream)
    elif session.races is not None:
        session.races.record_stream(tensor, key_of(stream))


def stream_data(index: int, stream_id: int) -> tuple[int, int, int]:
    """Return what `torch.cuda` makes a stream from: (id, index, type of device)."""
    count = len(session.gpus)
    if not 0 <= index < count:
        raise ValueError(
            f"Device index value {index} is out of index range [0, {count})"
        )
    return stream_id, index, session.type.number


def patch_streams(patches: Patches) -> None:
    patches.replace(torch, "Stream", Stream)
    # The compiler makes streams and events by these names.
    patches.replace(*STREAM, Stream)
    patches.replace(*EVENT, Event)
    patches.replace(torch, "Event", Event)
    patches.wrap(Tensor, "record_stream", record_stream)
