"""`cudasim.timeline()`: record what some lines do, in modelled or in measured time."""

import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from cudasim.clock import trace
from cudasim.clock.clock import Clock, Span
from cudasim.clock.timeline import Timeline
from cudasim.dispatch import booking
from cudasim.hardware import processor, with_article
from cudasim.session import session
from cudasim.timing.sheets import Sheet, find_sheet
from cudasim.torch_private.tensors import is_profiling
from cudasim.words import WORDS

MESSAGES = WORDS["times"]
# The lane of a thread that nobody named.
UNNAMED = re.compile(r"Python, Thread-(\d+)(.*)")

_shown_clock: Clock | None = None  # the clock of the last timeline
_shown = 0  # how much of what it booked timelines have shown
_open_blocks = 0  # that record from a clock


def timeline(card: str | None = None) -> "Recording":
    """Record what some lines of a program do: Python, streams, copies, and the waits.

    `with cudasim.timeline() as lanes:` records the block. Under a modelled clock its
    times are modelled; without one they are measured by `torch.profiler`, on the CPU
    and on real GPUs. Without `with`, under a modelled clock, the timeline shows what
    happened since the last timeline, or since the simulation began. As the last
    expression of a notebook's cell it displays itself.

    `card` is one of those with a data sheet, or the path of a data sheet of your own:
    under a modelled clock, the block takes the times of that card instead. It begins
    when the simulated GPUs have done all that was submitted before, and changes times
    alone: values, memory and the name of the GPU stay.

    Blocks may stand within blocks where times are modelled; each has what is its own.
    Raises RuntimeError for a measured block within another, or within
    `torch.profiler`, and for a `card` without a modelled clock; ValueError for a card
    without a data sheet.
    """
    return Recording(card)


class Recording(Timeline):
    """A timeline that is recorded: the block of a `with` statement, or what just happened."""

    def __init__(self, card: str | None = None) -> None:
        super().__init__()
        clock = _clock(card)
        self._sheet = None if card is None else find_sheet(card)
        if self._sheet is not None:
            block = f"with timeline({card!r}):"
            self.empty(f"the times of another card need a block: {block}")
        elif clock is None:
            self.empty(MESSAGES["no clock"])
        else:
            mark = _shown if clock is _shown_clock else 0
            self._fill_from_clock(clock, mark, [])

    def __enter__(self) -> "Recording":
        self.empty("its block has not ended")
        clock = _clock(self._sheet and self._sheet.name)
        self._notes: list[str] = []
        if clock is None:
            self._block = self._record_measured()
        else:
            self._block = self._record_modelled(clock)
        next(self._block)
        return self

    def __exit__(self, error: type | None, *_: Any) -> None:
        if error:  # what the block did before is kept
            self._notes.append(f"the block raised {error.__name__} and ended there")
        next(self._block, None)
        del self._block  # a recording without a generator can be copied

    def _record_modelled(self, clock: Clock) -> Iterator[None]:
        global _open_blocks
        own_sheet, other_sheet = clock.sheet, self._sheet
        if other_sheet is not None:
            if _open_blocks:
                raise RuntimeError(MESSAGES["within"].format(other_sheet.name))
            _change_sheet(clock, other_sheet)
        mark = clock.mark()
        _open_blocks += 1
        yield
        _open_blocks -= 1
        self._fill_from_clock(clock, mark, self._notes)
        if other_sheet is not None:
            _change_sheet(clock, own_sheet)

    def _fill_from_clock(self, clock: Clock, mark: int, notes: list[str]) -> None:
        global _shown, _shown_clock
        spans = clock.since(mark)
        _shown_clock, _shown = clock, clock.mark()
        dropped = _shown - mark - len(spans)
        if dropped:
            notes.append(
                f"the first {dropped:,} spans were dropped: there are too many"
            )

        new_lanes = _number_threads(spans)
        named = []
        for span in spans:
            lane = new_lanes.get(span.lane, span.lane)
            named.append(replace(span, name=_operator(span.name), lane=lane))
        self.fill(named, f"modelled for {with_article(clock.sheet.name)}", notes)

    def _record_measured(self) -> Iterator[None]:
        if is_profiling():  # starting a second would end it
            raise RuntimeError(MESSAGES["profiled"])
        activities = [torch.profiler.ProfilerActivity.CPU]
        if session.mode is None and torch.cuda.is_available():
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        profiler = torch.profiler.profile(activities=activities)
        with _quiet_profiler():
            profiler.start()
        with torch.profiler.record_function(trace.BLOCK):
            yield
        profiler.stop()

        spans = trace.read(_export(profiler))
        devices = {span.lane.split()[0] for span in spans}
        gpus = [device for device in devices if device.startswith("cuda:")]
        names = {torch.cuda.get_device_name(gpu) for gpu in gpus} or {processor()}
        self.fill(spans, f"measured on {', '.join(sorted(names))}", self._notes)


def _clock(card: str | None) -> Clock | None:
    if session.clock is None and card is not None:
        raise RuntimeError(MESSAGES["no other card"].format(card))
    return session.clock


def _change_sheet(clock: Clock, sheet: Sheet) -> None:
    """Wait without a span until all cards are done, then go on by another sheet."""
    clock.reach(max(card.end for card in clock.cards))
    clock.use(sheet)
    booking.forget()  # what operations cost on the card so far


@cache
def _operator(name: str) -> str:
    """Return an operator's name without namespace and overload: `add` for `add.Tensor`."""
    match = re.fullmatch(r"(?:\w+\.)?(\w+)\.\w+", name)
    return match[1] if match else name


def _number_threads(spans: list[Span]) -> dict[str, str]:
    """Return new names for the lanes of threads that nobody named.

    Python goes on counting its threads; here `Python, thread 1` is the first that began.
    """
    begins: dict[str, int] = {}
    for span in reversed(spans):
        if UNNAMED.match(span.lane):
            begins[span.lane] = span.start

    def order(lane: str) -> tuple[int, int]:
        return begins[lane], int(UNNAMED.match(lane)[1])

    names = {}
    for number, lane in enumerate(sorted(begins, key=order), start=1):
        names[lane] = f"Python, thread {number}{UNNAMED.match(lane)[2]}"
    return names


@contextmanager
def _quiet_profiler() -> Iterator[None]:
    """Keep Kineto from reporting that it begins, unless the program set what it logs."""
    if "KINETO_LOG_LEVEL" in os.environ:
        yield
        return
    os.environ["KINETO_LOG_LEVEL"] = "99"
    try:
        yield
    finally:
        os.environ.pop("KINETO_LOG_LEVEL")


def _export(profiler: torch.profiler.profile) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(path))
        return json.loads(path.read_text(encoding="utf-8", errors="replace"))
