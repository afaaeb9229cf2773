"""The virtual clock: whole nanoseconds of host threads, streams and engines.

It is told what each operation costs, and books when that happens.
"""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from cudasim.timing.sheets import Sheet, host_sheet

SECOND = 10**9  # nanoseconds
EPOCH = 1_767_225_600 * SECOND  # where `time.time()` begins: 2026-01-01, UTC
# Kernels that a stream holds before the host has to wait, as with CUDA's drivers.
QUEUE = 1024
MAX_SPANS = 200_000  # that are kept; older ones are dropped
LIBRARIES = ("matmul", "convolution", "attention")  # kinds of work that libraries do
MAX_BUSY = 64  # spells of work of an engine between which later work may fill the gaps
IN, OUT = "in", "out"  # directions of a copy, seen from the card


@dataclass(frozen=True, slots=True)
class Span:
    """What one lane did from `start` to `end`, in nanoseconds of the virtual clock."""

    lane: str
    name: str
    start: int
    end: int
    kind: str  # operation, kernel, copy, wait or sleep
    size: int | None = None  # bytes of a copy

    @property
    def length(self) -> int:
        return self.end - self.start


def nanoseconds(seconds: float) -> int:
    return round(seconds * SECOND)


class Engine:
    """What does one thing at a time; work that is ready early fills gaps before later work."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.busy = [[0, 0]]  # [start, end], in order, apart from each other

    @property
    def end(self) -> int:
        return self.busy[-1][1]

    def book(self, ready: int, duration: int) -> tuple[int, int]:
        """Do `duration` of work as soon as possible after `ready`; return (start, end)."""
        last = self.busy[-1]
        last_start, last_end = last
        if ready < last_start:
            return self._fill(ready, duration)
        if ready <= last_end:
            last[1] = last_end + duration
            return last_end, last[1]
        self.busy.append([ready, ready + duration])
        del self.busy[:-MAX_BUSY]
        return ready, ready + duration

    def _fill(self, ready: int, duration: int) -> tuple[int, int]:
        """Do the same where something is booked for later already.

        Work that does not fit into one gap goes on in the next.
        """
        start = None
        end = ready
        left = duration
        for begin, until in self.busy:
            room = min(left, begin - end)
            if room > 0:
                if start is None:
                    start = end
                end += room
                left -= room
            if not left:
                break
            end = max(end, until)
        if start is None:
            start = end
        end += left
        self._insert(start, end)
        return start, end

    def _insert(self, start: int, end: int) -> None:
        """Be busy from `start` to `end`, as one with what is booked there or beside it."""
        first = sum(until < start for _, until in self.busy)
        last = sum(begin <= end for begin, _ in self.busy)
        for begin, until in self.busy[first:last]:
            start = min(start, begin)
            end = max(end, until)
        self.busy[first:last] = [[start, end]]


class Stream:
    """A stream of one GPU: when its work ends, and what waits in its queue."""

    def __init__(self, lane: str) -> None:
        self.lane = lane
        self.end = 0
        self.queue: deque[int] = deque(maxlen=QUEUE)  # ends of the last kernels


class CardLanes:
    """One GPU: an engine for computing, one for copies each way, its streams, what is loaded."""

    def __init__(self, name: str) -> None:
        self.name = name  # as in `cuda:0`
        self.compute = Engine(f"{name} compute")
        self.copies = {way: Engine(f"{name} copies {way}") for way in (IN, OUT)}
        self.streams: dict[int, Stream] = {}
        # Names and kinds of the operations that ran here; None stands for copies.
        self.loaded: set[str | None] = set()

    def stream(self, number: int) -> Stream:
        stream = self.streams.get(number)
        if stream is None:
            stream = self.streams[number] = Stream(f"{self.name} stream {number}")
        return stream

    @property
    def end(self) -> int:
        """When all that was submitted is done."""
        return max((stream.end for stream in self.streams.values()), default=0)


class ThreadTime(threading.local):
    """The time of one thread of the host, and what it is doing."""

    now = 0  # until the thread that started it says when
    in_graph = False  # whether a graph launches the work: the host paid for all at once
    by_engine = False  # whether autograd calls the operations, not a line of Python
    began: int | None = None  # when what Python did since the last operation began

    @cached_property
    def lane(self) -> str:
        """The name of its lane: asked for late, as a thread gets its time before its name."""
        thread = threading.current_thread()
        if thread is threading.main_thread():
            return "Python"
        return f"Python, {thread.name}"


class Clock:
    """The modelled time of GPUs called `names`, in whole nanoseconds since the simulation began."""

    def __init__(self, sheet: Sheet, names: list[str]) -> None:
        self.names = names
        self.use(sheet)
        self.restart()

    def use(self, sheet: Sheet) -> None:
        """From now on, book with the figures of `sheet`, and of the host beside that card."""
        self.sheet = sheet
        self.launch = nanoseconds(sheet.launch)
        self.floor = nanoseconds(sheet.floor)
        self.wait = nanoseconds(sheet.wait)

        self.host = host = host_sheet(sheet)
        self.operation = nanoseconds(host.operation)
        self.python = nanoseconds(host.python)
        self.reading = nanoseconds(host.clock)
        self.loop = nanoseconds(host.loop)
        self.first = {what: nanoseconds(host.first[what]) for what in host.first}

    def restart(self) -> None:
        """Begin again at 0, with idle cards, as a process does that was forked."""
        self.cards = [CardLanes(name) for name in self.names]
        self.thread = ThreadTime()
        self._lock = threading.Lock()
        self._spans: deque[tuple] = deque(maxlen=MAX_SPANS)
        self._booked = 0

    # Host time

    @property
    def now(self) -> int:
        return self.thread.now

    def reach(self, when: int) -> None:
        """Let this thread be at `when` at least, as when it has joined another."""
        self.thread.now = max(self.thread.now, when)

    def read(self) -> int:
        """Return the time to a program; reading the clock costs a little itself."""
        self.thread.now += self.reading
        return self.thread.now

    def spend(self, duration: int, name: str, kind: str = "operation") -> None:
        """Let the host be busy for `duration`."""
        thread = self.thread
        if thread.in_graph:
            return
        start = thread.now
        if thread.began is not None and kind == "operation":
            start = thread.began
        thread.began = None
        thread.now += duration
        with self._lock:
            self._keep(thread.lane, name, start, thread.now, kind)

    def pay(self, seconds: float) -> None:
        """Let the host be busy between operations; the next one's span begins with it."""
        thread = self.thread
        if thread.in_graph:
            return
        if thread.began is None:
            thread.began = thread.now
        thread.now += nanoseconds(seconds)

    def call_cost(self, duration: int) -> int:
        """Return what a call costs here that costs `duration` from a line of Python."""
        if self.thread.by_engine:
            return duration - self.python
        return duration

    def sleep(self, seconds: float) -> None:
        self.spend(nanoseconds(seconds), "sleep", "sleep")

    def wait_until(self, end: int, name: str) -> None:
        """Let the host wait for what a card finishes at `end`."""
        left = end - self.now
        if left > 0:
            self.spend(left + self.wait, name, "wait")
        else:  # it is done, and only asking takes time
            self.spend(self.operation, name, "wait")

    # Work of the cards

    def kernel(
        self,
        card: int,
        stream_id: int,
        name: str,
        duration: int,
        kernels: int = 1,
        kind: str = "other",
        fills: bool = False,
        call_duration: int | None = None,
    ) -> None:
        """Call an operation that launches `kernels`, which take `duration` in all.

        Kernels that do not fill the card run beside others. `call_duration` is what the
        call costs the host from a line of Python, without launches; None stands for what
        most operations cost.
        """
        thread = self.thread
        gpu = self.cards[card]
        if name not in gpu.loaded:
            self._load(gpu, name, kind)
        with self._lock:
            stream = gpu.stream(stream_id)
            ready = thread.now
            if not thread.in_graph:
                ready = self._submit(stream, name, kernels, call_duration)
                # The first kernel has begun while the host launched the others.
                ready -= min((kernels - 1) * self.launch, duration)
            begin = max(ready, stream.end)
            end = begin + duration
            if fills:
                begin, end = gpu.compute.book(begin, duration)
            stream.end = end
            if not thread.in_graph:
                stream.queue.append(end)
            self._keep(stream.lane, name, begin, end, "kernel")

    @contextmanager
    def graph(self, card: int, stream_id: int) -> Iterator[None]:
        """Launch a graph: the host pays one launch for all the work in the block."""
        thread = self.thread
        stream = self.cards[card].stream(stream_id)
        with self._lock:
            self._submit(stream, "graph")
        thread.in_graph = True
        try:
            yield
        finally:
            thread.in_graph = False
            stream.queue.append(stream.end)

    def call_collective(self, card: int, stream: Stream, name: str, after: int) -> int:
        """Call a collective on `stream`; return when it could begin here, from `after` on."""
        gpu = self.cards[card]
        if name not in gpu.loaded:
            self._load(gpu, name, "collective")
        with self._lock:
            return max(self._submit(stream, name), stream.end, after)

    def book_collective(
        self,
        stream: Stream,
        name: str,
        ready: int,
        begin: int,
        end: int,
        wait: str = "wait",
    ) -> None:
        """Let a stream run a collective from `begin` to `end`, after it waited from `ready`."""
        with self._lock:
            stream.end = max(stream.end, end)
            stream.queue.append(end)
            if begin > ready:
                self._keep(stream.lane, wait, ready, begin, "wait")
            self._keep(stream.lane, name, begin, end, "kernel")

    def copy(
        self, engines: list[tuple[int, str]], stream_id: int, duration: int, size: int
    ) -> int:
        """Submit a copy of `size` bytes to a stream of the first card; return its end.

        `engines` are the copy engines that it needs, as (card, direction): one or,
        between cards, two.
        """
        thread = self.thread
        for index, _ in engines:
            card = self.cards[index]
            if None not in card.loaded:
                self._load(card, None, "copy")
        with self._lock:
            stream = self.cards[engines[0][0]].stream(stream_id)
            ready = thread.now
            if not thread.in_graph:
                ready = self._submit(stream, "copy")
            begin = max(ready, stream.end)
            needed = [self.cards[index].copies[way] for index, way in engines]
            if len(needed) > 1:  # both have to be free at once
                begin = max(begin, *[engine.end for engine in needed])
            for engine in needed:
                begin, end = engine.book(begin, duration)
                self._keep(engine.name, "copy", begin, end, "copy", size)
            stream.end = end
            if not thread.in_graph:
                stream.queue.append(end)
        return end

    def hold(self, card: int, stream_id: int, until: int) -> None:
        """Let later work of a stream begin at `until`, at the earliest."""
        with self._lock:
            stream = self.cards[card].stream(stream_id)
            stream.end = max(stream.end, until)

    def _submit(
        self,
        stream: Stream,
        name: str,
        launches: int = 1,
        call_duration: int | None = None,
    ) -> int:
        """Wait for a place in the queue, call and launch; return when the host has."""
        thread = self.thread
        now = thread.now
        if len(stream.queue) == QUEUE and stream.queue[0] > now:
            self._keep(thread.lane, "a full queue", now, stream.queue[0], "wait")
            now = stream.queue[0]
            thread.began = None
        start = now if thread.began is None else thread.began
        thread.began = None
        if call_duration is None:
            call_duration = self.operation
        now += self.call_cost(call_duration) + self.launch * launches
        self._keep(thread.lane, name, start, now, "operation")
        thread.now = now
        return now

    def _load(self, card: CardLanes, name: str | None, kind: str) -> None:
        """Load what an operation needs the first time: the context, a library, a kernel."""
        loads = []
        if not card.loaded:
            loads.append(("context", "load context"))
        if kind in LIBRARIES and kind not in card.loaded:
            loads.append(("library", f"load {kind}"))
            card.loaded.add(kind)
        if name is not None:
            loads.append(("kernel", "load kernel"))
            card.loaded.add(name)
        card.loaded.add(None)
        for what, label in loads:
            self.spend(self.first[what], label)

    # Spans

    def _keep(self, *span: str | int) -> None:
        self._booked += 1
        self._spans.append(span)

    def mark(self) -> int:
        """Return a place in the record, for `since`."""
        return self._booked

    def since(self, mark: int) -> list[Span]:
        """Return the spans booked since `mark` that are still kept."""
        kept = list(self._spans)
        dropped = self._booked - len(kept)
        return [Span(*fields) for fields in kept[max(0, mark - dropped) :]]
