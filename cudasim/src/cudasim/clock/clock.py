"""The virtual clock: whole nanoseconds of host threads, streams and engines. It is told what each
operation costs, and books it."""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from cudasim.timing.sheets import Sheet, host_sheet

SECOND = 10**9  # nanoseconds
EPOCH = 1_767_225_600 * SECOND  # what `time.time()` begins at: 2026-01-01, UTC
QUEUE = 1024  # kernels that a stream holds before the host has to wait; as CUDA's drivers do
KEPT = 200_000  # spans; the oldest are dropped
LIBRARIES = ("matmul", "convolution", "attention")  # kinds of work that libraries do
GAPS = 64  # of an engine, that later work may yet fill
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
    """What does one thing at a time; work that is ready early fills the gaps before later work."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.busy = [[0, 0]]  # [start, end], in order, apart from each other

    def book(self, ready: int, duration: int) -> tuple[int, int]:
        """Do `duration` of work as soon as possible after `ready`; returns (start, end)."""
        begin, end = last = self.busy[-1]
        if ready < begin:
            return self._fill(ready, duration)
        if ready <= end:
            ready, last[1] = end, end + duration
        else:
            self.busy.append([ready, ready + duration])
            del self.busy[:-GAPS]
        return ready, ready + duration

    def _fill(self, ready: int, duration: int) -> tuple[int, int]:
        """The same where something is booked for later already."""
        busy, start, end, left = self.busy, None, ready, duration
        for begin, until in busy:
            room = min(left, begin - end)
            if room > 0:
                start = end if start is None else start
                end, left = end + room, left - room
            if not left:
                break
            end = max(end, until)
        start = end if start is None else start
        end += left
        first = sum(until < start for _, until in busy)
        last = sum(begin <= end for begin, _ in busy)
        met = [start, end, *chain(*busy[first:last])]
        busy[first:last] = [[min(met), max(met)]]
        return start, end


class Stream:
    def __init__(self, lane: str) -> None:
        self.lane = lane
        self.end = 0
        self.queue: deque[int] = deque(maxlen=QUEUE)  # ends of the last kernels


class Card:
    """One GPU: its engine for computing, one for copies each way, its streams, what is loaded."""

    def __init__(self, name: str) -> None:
        self.name = name  # as in `cuda:0`
        self.compute = Engine(f"{name} compute")
        self.copies = {way: Engine(f"{name} copies {way}") for way in (IN, OUT)}
        self.streams: dict[int, Stream] = {}
        self.loaded: set[str | None] = (
            set()
        )  # names and kinds of operations; None for a copy

    def stream(self, number: int) -> Stream:
        found = self.streams.get(number)
        if found is None:
            found = self.streams[number] = Stream(f"{self.name} stream {number}")
        return found

    @property
    def end(self) -> int:
        """When all that was submitted is done."""
        return max((stream.end for stream in self.streams.values()), default=0)


class ThreadTime(threading.local):
    now = 0  # until somebody tells when it began
    in_graph = (
        False  # whether a graph asks for the work, which the host has paid for at once
    )
    by_engine = False  # whether autograd calls the operations, not a line of Python
    began: int | None = None  # when what Python did since the last operation began

    @cached_property
    def lane(self) -> str:
        """What its spans are shown under. A thread that begins is told its time without a name."""
        thread = threading.current_thread()
        main = thread is threading.main_thread()
        return "Python" if main else f"Python, {thread.name}"


class Clock:
    """The modelled time of GPUs called `names`, in whole nanoseconds since the simulation began."""

    def __init__(self, sheet: Sheet, names: list[str]) -> None:
        self.names = names
        self.use(sheet)
        self.restart()

    def use(self, sheet: Sheet) -> None:
        """From now on, book with the figures of `sheet`, and of the host beside that card."""
        self.sheet = sheet
        self.host = host = host_sheet(sheet)
        self.operation, self.python = (
            nanoseconds(host.operation),
            nanoseconds(host.python),
        )
        self.reading, self.loop = nanoseconds(host.clock), nanoseconds(host.loop)
        self.first = {what: nanoseconds(host.first[what]) for what in host.first}
        self.launch, self.floor = nanoseconds(sheet.launch), nanoseconds(sheet.floor)
        self.wait = nanoseconds(sheet.wait)

    def restart(self) -> None:
        """Begin again at 0, with idle cards: what a process that was forked does."""
        self.cards = [Card(name) for name in self.names]
        self.thread = ThreadTime()
        self._lock = threading.Lock()
        self._spans: deque[tuple] = deque(maxlen=KEPT)
        self._booked = 0

    # Host time

    @property
    def now(self) -> int:
        return self.thread.now

    def reach(self, when: int) -> None:
        """Be at `when`, at the earliest: what a thread that is joined has come to."""
        self.thread.now = max(self.thread.now, when)

    def read(self) -> int:
        """The time, for a program that asks for it; that costs a little itself."""
        self.thread.now += self.reading
        return self.thread.now

    def spend(self, duration: int, name: str, kind: str = "operation") -> None:
        thread = self.thread
        if thread.in_graph:
            return
        start, thread.began = thread.began, None
        if start is None or kind != "operation":
            start = thread.now
        thread.now += duration
        with self._lock:
            self._keep(thread.lane, name, start, thread.now, kind)

    def pay(self, seconds: float) -> None:
        """Let the host be busy beside operations: the next one's span begins with it."""
        thread = self.thread
        if thread.in_graph:
            return
        if thread.began is None:
            thread.began = thread.now
        thread.now += nanoseconds(seconds)

    def call(self, duration: int) -> int:
        """What a call of an operation costs here that costs `duration` from a line of Python."""
        return duration - self.python if self.thread.by_engine else duration

    def sleep(self, seconds: float) -> None:
        self.spend(nanoseconds(seconds), "sleep", "sleep")

    def wait_until(self, end: int, name: str) -> None:
        """Let the host wait for what a card finishes at `end`; to ask is all, if it has."""
        late = end - self.now
        self.spend(late + self.wait if late > 0 else self.operation, name, "wait")

    # Work of the cards

    def kernel(
        self,
        card: int,
        stream: int,
        name: str,
        duration: int,
        kernels: int = 1,
        kind: str = "other",
        fills: bool = False,
        call: int | None = None,
    ) -> None:
        """Call an operation that launches `kernels`, `duration` in all; those that do not fill the
        card run beside others. `call`: what an unusual call costs the host, without launches."""
        thread, where = self.thread, self.cards[card]
        if name not in where.loaded:
            self._load(where, name, kind)
        with self._lock:
            line = where.stream(stream)
            ready = thread.now
            if (
                not thread.in_graph
            ):  # the first is launched earlier, and the last before it ends
                ready = self._submit(line, name, kernels, call)
                ready -= min((kernels - 1) * self.launch, duration)
            begin = max(ready, line.end)
            end = begin + duration
            if fills:
                begin, end = where.compute.book(begin, duration)
            line.end = end
            if not thread.in_graph:
                line.queue.append(end)
            self._keep(line.lane, name, begin, end, "kernel")

    @contextmanager
    def graph(self, card: int, stream: int) -> Iterator[None]:
        """Launch a graph: the host pays one launch for all that is asked for within."""
        thread, line = self.thread, self.cards[card].stream(stream)
        with self._lock:
            self._submit(line, "graph")
        thread.in_graph = True
        try:
            yield
        finally:
            thread.in_graph = False
            line.queue.append(line.end)

    def ask(self, card: int, line: Stream, name: str, after: int) -> int:
        """Call a collective that runs on `line`; returns when, from `after` on, it could begin."""
        where = self.cards[card]
        if name not in where.loaded:
            self._load(where, name, "collective")
        with self._lock:
            return max(self._submit(line, name), line.end, after)

    def together(
        self,
        line: Stream,
        name: str,
        ready: int,
        begin: int,
        end: int,
        wait: str = "wait",
    ) -> None:
        """Let a line take part in a collective from `begin` to `end`, and wait from `ready`."""
        with self._lock:
            line.end = max(line.end, end)
            line.queue.append(end)
            if begin > ready:
                self._keep(line.lane, wait, ready, begin, "wait")
            self._keep(line.lane, name, begin, end, "kernel")

    def copy(
        self, engines: list[tuple[int, str]], stream: int, duration: int, size: int
    ) -> int:
        """Submit a copy of `size` bytes to a stream of the first card; returns when it ends.
        `engines`: (card, direction) of the copy engines, one or, between cards, both."""
        thread, cards = self.thread, [self.cards[index] for index, _ in engines]
        for card in cards:
            if None not in card.loaded:
                self._load(card, None, "copy")
        with self._lock:
            line = cards[0].stream(stream)
            ready = thread.now if thread.in_graph else self._submit(line, "copy")
            used = [self.cards[index].copies[way] for index, way in engines]
            begin = max(ready, line.end)
            if len(used) > 1:  # both are free at once
                begin = max(begin, *(each.busy[-1][1] for each in used))
            for each in used:
                begin, end = each.book(begin, duration)
                self._keep(each.name, "copy", begin, end, "copy", size)
            line.end = end
            if not thread.in_graph:
                line.queue.append(end)
        return end

    def hold(self, card: int, stream: int, until: int) -> None:
        """Let later work of a stream begin at `until`, at the earliest."""
        with self._lock:
            line = self.cards[card].stream(stream)
            line.end = max(line.end, until)

    def _submit(
        self, line: Stream, name: str, launches: int = 1, call: int | None = None
    ) -> int:
        """Let the host wait for a place in a queue, call and launch; returns when it has."""
        thread = self.thread
        now = thread.now
        if len(line.queue) == QUEUE and line.queue[0] > now:
            self._keep(thread.lane, "a full queue", now, line.queue[0], "wait")
            now, thread.began = line.queue[0], None
        start, thread.began = thread.began, None
        if start is None:
            start = now
        now += (
            self.call(self.operation if call is None else call) + self.launch * launches
        )
        self._keep(thread.lane, name, start, now, "operation")
        thread.now = now
        return now

    def _load(self, card: Card, name: str | None, kind: str) -> None:
        """Let the host load what an operation needs the first time: context, library, kernel."""
        needed = [] if card.loaded else [("context", "context")]
        if kind in LIBRARIES and kind not in card.loaded:
            needed.append(("library", kind))
        if name is not None:
            needed.append(("kernel", name))
        card.loaded.update([None, *(each for _, each in needed)])
        for what, each in needed:
            self.spend(self.first[what], f"load {each if what == 'library' else what}")

    # Spans

    def _keep(self, *span: str | int) -> None:
        self._booked += 1
        self._spans.append(span)

    def mark(self) -> int:
        """A place in the record, for `since`."""
        return self._booked

    def since(self, mark: int) -> list[Span]:
        """The spans booked since `mark` that are still there."""
        kept = list(self._spans)
        dropped = self._booked - len(kept)
        return [Span(*each) for each in kept[max(0, mark - dropped) :]]
