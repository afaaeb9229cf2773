"""The virtual clock: whole nanoseconds of host threads, streams and engines, the same on every run.

It knows nothing of operations: it is told what each costs, and books it. The host goes on while
a card works, until it asks for something that the card has yet to finish.
"""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

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
    """What one lane did from `start` to `end`, in nanoseconds of the virtual clock.

    `kind` is operation, kernel, copy, wait or sleep; `size` is in bytes, of a copy.
    """

    lane: str
    name: str
    start: int
    end: int
    kind: str
    size: int | None = None


def nanoseconds(seconds: float) -> int:
    """The nearest whole number of nanoseconds."""
    return round(seconds * SECOND)


class Engine:
    """What does one thing at a time; work that is ready early fills the gaps before later work.

    Work that meets other work in a gap goes on after it, as two kernels share a card.
    """

    __slots__ = ("busy", "name")

    def __init__(self, name: str) -> None:
        """Nothing booked yet."""
        self.name = name
        self.busy: list[list[int]] = []  # [start, end], in order, apart from each other

    def book(self, ready: int, duration: int) -> tuple[int, int]:
        """Do `duration` of work as soon as possible after `ready`; returns (start, end)."""
        busy = self.busy
        if not busy or ready > busy[-1][1]:
            busy.append([ready, ready + duration])
            if len(busy) > GAPS:
                del busy[0]
            return ready, ready + duration
        if ready >= busy[-1][0]:
            start = busy[-1][1]
            busy[-1][1] = start + duration
            return start, start + duration
        return self._fill(ready, duration)

    def _fill(self, ready: int, duration: int) -> tuple[int, int]:
        """The same where something is booked for later already."""
        place = len(self.busy)
        while place and self.busy[place - 1][1] >= ready:
            place -= 1
        start, at, left = None, ready, duration
        while place < len(self.busy) and left:
            begin, end = self.busy[place]
            if at < begin:
                start = at if start is None else start
                used = min(left, begin - at)
                left -= used
                at += used
                if not left:
                    break
            at = max(at, end)
            place += 1
        finish = at + left
        start = at if start is None else start
        self._occupy(start, finish)
        return start, finish

    def _occupy(self, start: int, end: int) -> None:
        """Everything from `start` to `end` is busy."""
        kept = [each for each in self.busy if each[1] < start or each[0] > end]
        for each in self.busy:
            if each[1] >= start and each[0] <= end:
                start, end = min(start, each[0]), max(end, each[1])
        self.busy = sorted([*kept, [start, end]])


class Stream:
    """Work of one GPU that is done in the order in which it was submitted."""

    __slots__ = ("end", "lane", "queue")

    def __init__(self, lane: str) -> None:
        """Nothing submitted yet."""
        self.lane = lane
        self.end = 0
        self.queue: deque[int] = deque(maxlen=QUEUE)  # ends of the last kernels


class Card:
    """One GPU: its engine for computing, one for copies each way, its streams, what is loaded."""

    def __init__(self, name: str) -> None:
        """A card that nothing has used yet; `name` is as in `cuda:0`."""
        self.name = name
        self.compute = Engine(f"{name} compute")
        self.copies = {way: Engine(f"{name} copies {way}") for way in (IN, OUT)}
        self.streams: dict[int, Stream] = {}
        self.loaded: set[str | None] = set()  # names and kinds of operations

    def stream(self, number: int) -> Stream:
        """The stream with that id; 0 is the default one."""
        found = self.streams.get(number)
        if found is None:
            found = self.streams[number] = Stream(f"{self.name} stream {number}")
        return found

    @property
    def end(self) -> int:
        """When all that was submitted is done."""
        return max((stream.end for stream in self.streams.values()), default=0)


class ThreadTime(threading.local):
    """The host time of one thread."""

    now = 0  # until somebody tells when it began
    in_graph = False  # whether a graph asks for the work, which the host has paid for at once
    by_engine = False  # whether autograd calls the operations, not a line of Python
    began: int | None = None  # when what Python did since the last operation began

    @cached_property
    def lane(self) -> str:
        """What its spans are shown under. A thread that begins is told its time without a name."""
        thread = threading.current_thread()
        main = thread is threading.main_thread()
        return "Python" if main else f"Python, {thread.name}"


class Clock:
    """The modelled time of one simulation. All times are whole nanoseconds since it began."""

    def __init__(self, sheet: Sheet, names: list[str]) -> None:
        """A clock at 0 for GPUs called `names`, all with the figures of `sheet`."""
        self.names = names
        self.use(sheet)
        self.restart()

    def use(self, sheet: Sheet) -> None:
        """From now on, book with the figures of `sheet`, and of the host beside that card."""
        self.sheet = sheet
        self.host = host = host_sheet(sheet)
        self.operation, self.python = nanoseconds(host.operation), nanoseconds(host.python)
        self.reading, self.loop = nanoseconds(host.clock), nanoseconds(host.loop)
        self.first = {what: nanoseconds(host.first[what]) for what in host.first}
        self.launch = nanoseconds(sheet.launch)
        self.floor = nanoseconds(sheet.floor)
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
        """The host time of this thread."""
        return self.thread.now

    def reach(self, when: int) -> None:
        """Be at `when`, at the earliest: what a thread that is joined has come to."""
        thread = self.thread
        thread.now = max(thread.now, when)

    def read(self) -> int:
        """The time, for a program that asks for it; that costs a little itself."""
        thread = self.thread
        thread.now += self.reading
        return thread.now

    def spend(self, duration: int, name: str, kind: str = "operation") -> None:
        """Let the host of this thread be busy for `duration`."""
        thread = self.thread
        if thread.in_graph:
            return
        start, thread.began = thread.began, None
        if start is None or kind != "operation":
            start = thread.now
        thread.now = end = thread.now + duration
        with self._lock:
            self._keep(thread.lane, name, start, end, kind)

    def pay(self, seconds: float) -> None:
        """Let the host be busy beside operations: the next one's span begins with it."""
        thread = self.thread
        if thread.in_graph:
            return
        if thread.began is None:
            thread.began = thread.now
        thread.now += nanoseconds(seconds)

    def by_engine(self, whether: bool) -> bool:
        """Say whether autograd calls the operations of this thread; returns what held before."""
        before, self.thread.by_engine = self.thread.by_engine, whether
        return before

    def call(self, duration: int) -> int:
        """What a call of an operation costs here that costs `duration` from a line of Python."""
        return duration - self.python if self.thread.by_engine else duration

    def sleep(self, seconds: float) -> None:
        """Pass over `seconds` at once."""
        self.spend(nanoseconds(seconds), "sleep", "sleep")

    def drain(self) -> None:
        """Be, at the earliest, where every card has done what was submitted; nothing is booked."""
        self.reach(max(card.end for card in self.cards))

    def wait_until(self, end: int, name: str) -> None:
        """Let the host wait for what a card finishes at `end`; to ask is all, if it has."""
        late = end - self.thread.now
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
    ) -> int:
        """Call an operation that launches `kernels`, `duration` in all; returns when they end.

        Those that do not fill the card run beside others. `call` is what the call costs the host
        without launches, if it is not an ordinary one.
        """
        thread, where = self.thread, self.cards[card]
        if name not in where.loaded:
            self._load(where, name, kind)
        with self._lock:
            line = where.stream(stream)
            if thread.in_graph:
                ready = max(thread.now, line.end)
            else:
                self._enter(thread, line)
                submitted = self._submit(thread, name, kernels, call)
                ready = max(submitted - (kernels - 1) * self.launch, line.end)
                ready = max(ready, submitted - duration)  # the last is launched before it ends
            if fills:
                begin, end = where.compute.book(ready, duration)
            else:
                begin, end = ready, ready + duration
            line.end = end
            if not thread.in_graph:
                line.queue.append(end)
            self._keep(line.lane, name, begin, end, "kernel")
        return end

    @contextmanager
    def graph(self, card: int, stream: int) -> Iterator[None]:
        """Launch a graph on a stream: the host pays one launch for all that is asked for within.

        Each kernel begins when the one before it has ended.
        """
        thread, line = self.thread, self.cards[card].stream(stream)
        with self._lock:
            self._enter(thread, line)
            self._submit(thread, "graph", 1)
        thread.in_graph = True
        try:
            yield
        finally:
            thread.in_graph = False
            with self._lock:
                line.queue.append(line.end)

    def ask(self, card: int, line: Stream, name: str, after: int) -> int:
        """Call a collective that runs on `line`; returns when it could begin.

        That is not before `after`, when what it reads is done.
        """
        thread, where = self.thread, self.cards[card]
        if name not in where.loaded:
            self._load(where, name, "collective")
        with self._lock:
            self._enter(thread, line)
            return max(self._submit(thread, name), line.end, after)

    def together(
        self, line: Stream, name: str, ready: int, begin: int, end: int, wait: str = "wait"
    ) -> None:
        """Let a line take part in a collective from `begin` to `end`, and wait from `ready`."""
        with self._lock:
            line.end = max(line.end, end)
            line.queue.append(end)
            if begin > ready:
                self._keep(line.lane, wait, ready, begin, "wait")
            self._keep(line.lane, name, begin, end, "kernel")

    def copy(self, engines: list[tuple[int, str]], stream: int, duration: int, size: int) -> int:
        """Submit a copy of `size` bytes to a stream; returns when it ends.

        `engines` are the copy engines that it occupies: (card, direction) of one or, between
        cards, of both; the stream is that of the first card.
        """
        thread, card = self.thread, engines[0][0]
        for index, _ in engines:
            if None not in self.cards[index].loaded:
                self._load(self.cards[index], None, "copy")
        with self._lock:
            line = self.cards[card].stream(stream)
            submitted = thread.now
            if not thread.in_graph:
                self._enter(thread, line)
                submitted = self._submit(thread, "copy")
            used = [self.cards[index].copies[way] for index, way in engines]
            begin = max(submitted, line.end)
            if len(used) > 1:  # both are free at once
                begin = max(begin, *(each.busy[-1][1] if each.busy else 0 for each in used))
            booked = [each.book(begin, duration) for each in used]
            begin, end = booked[0][0], max(each[1] for each in booked)
            line.end = end
            if not thread.in_graph:
                line.queue.append(end)
            for each in used:
                self._keep(each.name, "copy", begin, end, "copy", size)
        return end

    def _enter(self, thread: ThreadTime, line: Stream) -> None:
        """Wait, with the lock held, for a place in the queue of a stream."""
        if len(line.queue) == QUEUE and line.queue[0] > thread.now:
            self._keep(thread.lane, "a full queue", thread.now, line.queue[0], "wait")
            thread.now, thread.began = line.queue[0], None

    def _submit(
        self, thread: ThreadTime, name: str, launches: int = 1, call: int | None = None
    ) -> int:
        """Let the host, with the lock held, make a call and its launches; returns when it has."""
        start, thread.began = thread.began, None
        if start is None:
            start = thread.now
        thread.now += self.call(self.operation if call is None else call) + self.launch * launches
        self._keep(thread.lane, name, start, thread.now, "operation")
        return thread.now

    def hold(self, card: int, stream: int, until: int) -> None:
        """Let later work of a stream begin at `until`, at the earliest."""
        with self._lock:
            line = self.cards[card].stream(stream)
            line.end = max(line.end, until)

    def _load(self, card: Card, name: str | None, kind: str) -> None:
        """Let the host load what an operation needs the first time: context, library, kernel."""
        needed = [("context", "context")] if not card.loaded else []
        if kind in LIBRARIES and kind not in card.loaded:
            needed.append(("library", kind))
        if name is not None:
            needed.append(("kernel", name))
        card.loaded.update([None, *(each for _, each in needed)])
        for what, each in needed:
            self.spend(self.first[what], f"load {each if what == 'library' else what}")

    # Spans

    def _keep(
        self, lane: str, name: str, start: int, end: int, kind: str, size: int | None = None
    ) -> None:
        self._booked += 1
        self._spans.append((lane, name, start, end, kind, size))

    def mark(self) -> int:
        """A place in the record, for `since`."""
        return self._booked

    def since(self, mark: int) -> list[Span]:
        """The spans booked since `mark` that are still there."""
        count = min(self._booked - mark, len(self._spans))
        return [Span(*each) for each in list(self._spans)[len(self._spans) - count :]]

    @property
    def spans(self) -> list[Span]:
        """All spans that are still there, in the order in which they were booked."""
        return self.since(0)

    @property
    def dropped(self) -> int:
        """How many spans were dropped, because there are too many."""
        return self._booked - len(self._spans)
