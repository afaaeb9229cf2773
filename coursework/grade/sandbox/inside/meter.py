"""What simulated GPUs did while some lines ran, from the events themselves.

`with meter.watch() as record:` fills `record` with plain data: each span of the virtual clock,
each change of each GPU's memory, and `gaps`, which says why something may be missing. Nothing
that a program may do honestly, such as resetting the peak of memory, changes any of it. All
that grading reads of `cudasim` beside its public functions is read in this module.
"""

import functools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from . import ENDED, NOT_WHOLE

OPERATOR = re.compile(r"(?:\w+\.)?(\w+)\.\w+")  # `aten.mul.Tensor`
MOST = 200_000  # spans that are kept: more would be no answer
MOST_CHANGES = 20_000  # of a GPU's memory
TOLD = 2_000  # of more spans than that, the operations of Python are told as one


class Meter:
    """Watches the simulation that is running when it is made."""

    def __init__(self) -> None:
        import cudasim
        from cudasim.device.history import History
        from cudasim.session import session

        self._timeline = cudasim.timeline
        self._session = session
        self._clock = session.clock
        self._gpus = list(session.gpus)
        self._mode = session.mode
        self._ledger = ledger_class(History)
        self._spans: list[tuple] = []  # since a block began, as they are booked
        self._keep = self._kept_by(session.clock)
        session.clock._keep = self._keep
        self.note_given()
        self.begin()
        self._above = None

    def _kept_by(self, clock: Any) -> Callable[..., None]:
        """Return what the clock is to call with each span, in place of its own function.

        The record that programs see, and may change, is not the one that counts.
        """
        keep = clock._keep
        spans = self._spans

        def kept(*span: Any) -> None:
            spans.append(span)
            keep(*span)

        return kept

    def begin(self) -> None:
        """Begin an exercise: count what tensors hold from here on.

        What the student's cells above all exercises have made counts as well.
        """
        now = {gpu: held(gpu.memory) for gpu in self._gpus}
        if self._above is None:
            self._above = {gpu: now[gpu] - self._given[gpu] for gpu in self._gpus}
        self._others = {gpu: now[gpu] - self._above[gpu] for gpu in self._gpus}

    def note_given(self) -> None:
        """Note that what tensors hold by now is the assignment's.

        The student's cells above the exercises follow.
        """
        self._given = {gpu: held(gpu.memory) for gpu in self._gpus}
        self._above = None

    @contextmanager
    def watch(self) -> Iterator[dict[str, Any]]:
        """Record what the block does. Blocks are not nested."""
        record: dict[str, Any] = {"spans": [], "held": {}, "memory": {}, "gaps": []}
        ledgers = {}
        for gpu in self._gpus:
            ledgers[gpu] = self._ledger(gpu.memory)
            gpu.memory.record(ledgers[gpu])
            record["held"][str(gpu.device)] = ledgers[gpu].before - self._others[gpu]
        self._spans.clear()
        try:
            with self._timeline():  # within it, no other card's times can be taken
                yield record
        finally:
            record["gaps"] = self._gaps(ledgers)
            record["spans"] = plain_spans(self._spans[:MOST])
            for gpu, ledger in ledgers.items():
                record["memory"][str(gpu.device)] = ledger.changes[:MOST_CHANGES]
                gpu.memory.record(None)

    def _gaps(self, ledgers: dict[Any, Any]) -> list[str]:
        gaps = []
        session = self._session
        is_same = session.mode is self._mode and session.clock is self._clock
        if not is_same or session.gpus != self._gpus:
            gaps.append(ENDED)
        if self._clock._keep is not self._keep or len(self._spans) > MOST:
            gaps.append(NOT_WHOLE)
        for gpu, ledger in ledgers.items():
            if gpu.memory.history is not ledger or not ledger.is_whole():
                gaps.append(NOT_WHOLE)
        return gaps


def ledger_class(history: type) -> type:
    class Ledger(history):
        """The changes of a GPU's memory, in bytes, in their order."""

        def __init__(self, memory: Any) -> None:
            super().__init__(0, 0)
            self._memory = memory
            self.before = held(memory)
            self._blocks = {
                address: block.size for address, block in memory.used.items()
            }
            self.changes: list[int] = []

        def add(self, action: str, at: int, size: int, *_: Any, **__: Any) -> None:
            if action == "alloc":
                self._blocks[at] = self._memory.used[at].size
                self._note(self._blocks[at])
            elif action == "free_completed":
                self._note(-self._blocks.pop(at))

        def _note(self, change: int) -> None:
            """Add a change. One that comes in several steps is complete at the last."""
            if self.changes and (self.changes[-1] > 0) == (change > 0):
                self.changes[-1] += change
            else:
                self.changes.append(change)

        def is_whole(self) -> bool:
            now = held(self._memory)  # first, because it settles what is still to come
            is_complete = len(self.changes) <= MOST_CHANGES
            return is_complete and self.before + sum(self.changes) == now

    return Ledger


def held(memory: Any) -> int:
    memory.settle()
    return sum(block.size for block in memory.used.values())


def plain_spans(spans: list[tuple]) -> list[list[Any]]:
    """Return spans as plain data.

    Of very many, the operations of Python become one, from the first to the last.
    """
    plain = [plain_span(*span) for span in spans]
    if len(plain) <= TOLD:
        return plain
    operations = [span for span in plain if span[0] == "operation"]
    others = [span for span in plain if span[0] != "operation"]
    if not operations:
        return others
    start = min(span[3] for span in operations)
    end = max(span[4] for span in operations)
    return [["operation", "Python", "operations", start, end, None], *others]


def plain_span(
    lane: str, name: str, start: int, end: int, kind: str, size: int | None = None
) -> list[Any]:
    """Return [kind, lane, name, start, end, bytes], with times in nanoseconds."""
    operator = OPERATOR.fullmatch(name)
    if operator:
        name = operator[1]
    return [kind, lane, name, start, end, size]


# --- GPU memory is out of reach for the host


def keep_from_host(offset: int) -> None:
    """Let no program read a GPU's memory without a copy, as none can with real cards.

    The simulation has the numbers of its GPUs in the host's memory. Addresses there are
    told with `offset` added, where nothing is. Writing to a file, as `pickle` does, makes
    a copy, and so does making a tensor of numbers that are on GPUs.
    """
    from cudasim.dispatch.tags import gpu_of_storage

    hide_address(torch.Tensor, torch.Tensor.untyped_storage, gpu_of_storage, offset)
    hide_address(torch.UntypedStorage, lambda own: own, gpu_of_storage, offset)
    write = torch.UntypedStorage._write_file

    def _write_file(self: torch.UntypedStorage, *arguments: Any) -> None:
        if gpu_of_storage(self):
            self.cpu()
        write(self, *arguments)

    torch.UntypedStorage._write_file = _write_file
    torch.tensor = waiting_for_numbers(torch.tensor)
    torch.as_tensor = waiting_for_numbers(torch.as_tensor)


def hide_address(
    owner: type,
    storage_of: Callable[[Any], torch.UntypedStorage],
    gpu_of_storage: Callable[[torch.UntypedStorage], Any],
    offset: int,
) -> None:
    """Add `offset` to the addresses that objects of a class tell, if they are on a GPU."""
    read = owner.data_ptr

    def data_ptr(self: Any) -> int:
        address = read(self)
        if address and gpu_of_storage(storage_of(self)):
            return address + offset
        return address

    owner.data_ptr = data_ptr


def waiting_for_numbers(make: Callable) -> Callable:
    """Return a function that makes a tensor, which waits for numbers that are on GPUs."""

    @functools.wraps(make)
    def waiting(values: Any, *arguments: Any, **named: Any) -> torch.Tensor:
        if isinstance(values, list | tuple):
            values = read_numbers(values)
        return make(values, *arguments, **named)

    return waiting


def read_numbers(values: Any) -> Any:
    """Return a nested list, with each number that is on a GPU copied to the host."""
    if isinstance(values, list | tuple):
        return [read_numbers(value) for value in values]
    if isinstance(values, torch.Tensor) and values.dim() == 0 and values.is_cuda:
        return values.item()
    return values
