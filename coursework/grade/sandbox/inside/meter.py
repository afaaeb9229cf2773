"""What simulated GPUs did while some lines ran, from the events themselves.

`with meter.watch() as record:` fills `record` with plain data: each span of the virtual clock, each
change of each GPU's memory, and `gaps`: why something may be missing. Nothing that a program may do
honestly, such as starting the peak of memory again, changes any of it. All that is read of
`cudasim` beside its public functions is read here, and held by `tests/grade/test_meter.py`.
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
TOLD = 2_000  # of more spans than that, what Python did is told as one span


class Meter:
    """Watches the simulation that runs as it is made."""

    def __init__(self) -> None:
        import cudasim
        from cudasim.device.history import History
        from cudasim.session import session

        self._timeline, self._session = cudasim.timeline, session
        self._clock, self._gpus, self._mode = (
            session.clock,
            list(session.gpus),
            session.mode,
        )
        self._ledger = ledger_class(History)
        self._spans: list[tuple] = []  # since a block began, as they are booked
        self._keep = self._kept_by(session.clock)
        session.clock._keep = self._keep
        self.note_given()
        self.begin()
        self._above = None

    def _kept_by(self, clock: Any) -> Callable[..., None]:
        """What the clock calls with each span, in place of its own: the record that programs see,
        and may change, is not the one that counts."""
        keep, spans = clock._keep, self._spans

        def kept(*span: Any) -> None:
            spans.append(span)
            keep(*span)

        return kept

    def begin(self) -> None:
        """Count what tensors hold from here on, as an exercise's own cells follow, and what those
        above the exercises have made."""
        now = {gpu: held(gpu.memory) for gpu in self._gpus}
        if self._above is None:  # of all exercises
            self._above = {gpu: now[gpu] - self._given[gpu] for gpu in self._gpus}
        self._others = {gpu: now[gpu] - self._above[gpu] for gpu in self._gpus}

    def note_given(self) -> None:
        """What tensors hold by now is of the assignment's: cells above the exercises follow."""
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
            record["spans"] = told(self._spans[:MOST])
            for gpu, ledger in ledgers.items():
                record["memory"][str(gpu.device)] = ledger.changes[:MOST_CHANGES]
                gpu.memory.record(None)

    def _gaps(self, ledgers: dict[Any, Any]) -> list[str]:
        gaps = []
        session = self._session
        if session.mode is not self._mode or session.clock is not self._clock:
            gaps.append(ENDED)
        elif session.gpus != self._gpus:
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
            self._memory, self.before = memory, held(memory)
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
            """One change more; what rises in several steps has risen at the last of them."""
            if self.changes and (self.changes[-1] > 0) == (change > 0):
                self.changes[-1] += change
            else:
                self.changes.append(change)

        def is_whole(self) -> bool:
            now = held(self._memory)
            return (
                len(self.changes) <= MOST_CHANGES
                and self.before + sum(self.changes) == now
            )

    return Ledger


def held(memory: Any) -> int:
    memory.settle()
    return sum(block.size for block in memory.used.values())


def told(spans: list[tuple]) -> list[list[Any]]:
    """Spans as plain data; of very many, the operations of Python as one, from first to last."""
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
    """[kind, lane, name, start, end, bytes], times in nanoseconds."""
    operator = OPERATOR.fullmatch(name)
    return [kind, lane, operator[1] if operator else name, start, end, size]


def keep_from_host(offset: int) -> None:
    """Let no program read a GPU's memory without a copy, as none can on a machine with cards: the
    simulation has the numbers of its GPUs in memory of the host. Addresses there are told with
    `offset` added, where nothing is, and writing to a file, as `pickle` does, is a copy."""
    from cudasim.dispatch.tags import gpu_of_storage

    def hide(owner: type, storage_of: Callable[[Any], torch.UntypedStorage]) -> None:
        read = owner.data_ptr

        def data_ptr(self: Any) -> int:
            address = read(self)
            return (
                address + offset
                if address and gpu_of_storage(storage_of(self))
                else address
            )

        owner.data_ptr = data_ptr

    hide(torch.Tensor, torch.Tensor.untyped_storage)
    hide(torch.UntypedStorage, lambda storage: storage)
    write = torch.UntypedStorage._write_file

    def _write_file(self: torch.UntypedStorage, *arguments: Any) -> None:
        if gpu_of_storage(self):
            self.cpu()
        write(self, *arguments)

    torch.UntypedStorage._write_file = _write_file

    def read(values: Any) -> Any:
        """A list with the numbers that it has on GPUs, each of which the host waits for."""
        if isinstance(values, list | tuple):
            return [read(value) for value in values]
        is_number = (
            isinstance(values, torch.Tensor) and values.dim() == 0 and values.is_cuda
        )
        return values.item() if is_number else values

    def reading(make: Callable) -> Callable:
        @functools.wraps(make)
        def made(values: Any, *arguments: Any, **named: Any) -> torch.Tensor:
            is_list = isinstance(values, list | tuple)
            return make(read(values) if is_list else values, *arguments, **named)

        return made

    for name in ("tensor", "as_tensor"):
        setattr(torch, name, reading(getattr(torch, name)))
