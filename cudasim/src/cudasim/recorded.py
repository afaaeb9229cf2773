"""`cudasim.timeline()`: record what some lines of a program do, in modelled or in measured time."""

import json
import os
import platform
import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from cudasim.clock import trace
from cudasim.clock.clock import Clock, Span
from cudasim.clock.timeline import Timeline
from cudasim.dispatch import booking
from cudasim.session import session
from cudasim.timing.sheets import Sheet, find_sheet
from cudasim.words import WORDS

SAID = WORDS["times"]
UNNAMED = re.compile(
    r"Python, Thread-(\d+)(.*)"
)  # the lane of a thread that nobody named
_seen: tuple[Any, int] = (
    None,
    0,
)  # a clock, and how far timelines have shown what it booked
_open = 0  # blocks that record from a clock


def timeline(card: str | None = None) -> "Recording":
    """What some lines of a program did: Python, each GPU's streams and copies, and the waits.

    `with cudasim.timeline() as lanes:` records the block. Under a modelled clock its times are
    modelled; without one they are measured by `torch.profiler`, on the CPU and on real GPUs.
    Without `with`, under a modelled clock, it is what happened since the last timeline, or since
    the simulation began. As the last expression of a notebook's cell it displays itself.
    `card`, one of those with a data sheet or the path of a calibrated card's file: under a
    modelled clock, the block takes the times of that card instead. It begins when the simulated
    GPUs have done what was asked of them before, and changes times alone: values, memory and the
    name of the GPU stay. Blocks within blocks each have what is theirs where times are modelled.
    Raises RuntimeError where they are measured in a block of another timeline, or of
    `torch.profiler`, and for a `card` without a modelled clock; ValueError for one without a
    data sheet."""
    return Recording(card)


class Recording(Timeline):
    """A timeline that is recorded: the block of a `with` statement, or what has just happened."""

    def __init__(self, card: str | None = None) -> None:
        super().__init__()
        clock = _clock(card)
        self._sheet = None if card is None else find_sheet(card)
        if self._sheet is not None:
            self.empty(
                f"the times of another card need a block: with timeline({card!r}):"
            )
        elif clock is None:
            self.empty(SAID["no clock"])
        else:
            self._from_clock(clock, _seen[1] if _seen[0] is clock else 0, [])

    def __enter__(self) -> "Recording":
        self.empty("its block has not ended")
        clock = _clock(self._sheet and self._sheet.name)
        self._notes: list[str] = []
        self._block = self._measured() if clock is None else self._modelled(clock)
        next(self._block)
        return self

    def __exit__(self, error: type | None, *_: Any) -> None:
        if error:  # what it did before is kept
            self._notes.append(f"the block raised {error.__name__} and ended there")
        next(self._block, None)
        del self._block  # a recording can be copied

    def _modelled(self, clock: Clock) -> Iterator[None]:
        global _open
        home, sheet = clock.sheet, self._sheet
        if sheet is not None:
            if _open:
                raise RuntimeError(SAID["within"].format(sheet.name))
            _go_on(clock, sheet)
        mark = clock.mark()
        _open += 1
        yield
        _open -= 1
        self._from_clock(clock, mark, self._notes)
        if sheet is not None:
            _go_on(clock, home)

    def _from_clock(self, clock: Clock, mark: int, notes: list[str]) -> None:
        global _seen
        spans, upto = clock.since(mark), clock.mark()
        _seen = clock, upto
        if lost := upto - mark - len(spans):
            notes.append(f"the first {lost:,} spans were dropped: there are too many")
        lanes, card = _counted(spans), clock.sheet.name
        spans = [
            replace(s, name=_operator(s.name), lane=lanes.get(s.lane, s.lane))
            for s in spans
        ]
        article = (
            "an" if card.startswith(("A", "H", "L", "M", "RTX")) else "a"
        )  # as one says it
        self.fill(spans, f"modelled for {article} {card}", notes)

    def _measured(self) -> Iterator[None]:
        if torch.autograd._profiler_enabled():  # starting a second would end it
            raise RuntimeError(SAID["profiled"])
        on_gpus = session.mode is None and torch.cuda.is_available()
        kinds = torch.profiler.ProfilerActivity
        profiler = torch.profiler.profile(
            activities=[kinds.CPU, *[kinds.CUDA] * on_gpus]
        )
        with ExitStack() as after:
            if "KINETO_LOG_LEVEL" not in os.environ:  # else it reports that it begins
                os.environ["KINETO_LOG_LEVEL"] = "99"
                after.callback(os.environ.pop, "KINETO_LOG_LEVEL")
            profiler.start()
        with torch.profiler.record_function(trace.BLOCK):
            yield
        profiler.stop()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "trace.json")
            profiler.export_chrome_trace(str(path))
            traced = json.loads(path.read_text(encoding="utf-8", errors="replace"))
        spans = trace.read(traced)
        on_gpu = sorted(
            {span.lane.split()[0] for span in spans if span.lane.startswith("cuda:")}
        )
        names = {torch.cuda.get_device_name(each) for each in on_gpu} or {processor()}
        self.fill(spans, f"measured on {', '.join(sorted(names))}", self._notes)


def _clock(card: str | None) -> Clock | None:
    if session.clock is None and card is not None:
        raise RuntimeError(SAID["no other card"].format(card))
    return session.clock


def _go_on(clock: Clock, sheet: Sheet) -> None:
    clock.reach(max(card.end for card in clock.cards))  # without a span
    clock.use(sheet)
    booking.forget()  # what operations cost on the card so far


@cache
def _operator(name: str) -> str:
    """The name of an operator without its namespace and overload: `add`, not `add.Tensor`."""
    found = re.fullmatch(r"(?:\w+\.)?(\w+)\.\w+", name)
    return found[1] if found else name


def _counted(spans: list[Span]) -> dict[str, str]:
    """New names for lanes of threads without a name: `Python, thread 1` is the first that began."""
    began = {
        span.lane: span.start for span in reversed(spans) if UNNAMED.match(span.lane)
    }
    order = sorted(began, key=lambda lane: (began[lane], int(UNNAMED.match(lane)[1])))
    numbered = enumerate(order, start=1)
    return {lane: f"Python, thread {n}{UNNAMED.match(lane)[2]}" for n, lane in numbered}


def processor() -> str:
    path = Path("/proc/cpuinfo")  # Linux has it
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    named = re.search(r"^model name\s*:\s*(.+)$", text, re.M)
    return named[1] if named else platform.processor() or platform.machine()
