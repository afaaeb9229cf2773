"""What simulated GPUs did while some lines ran, from the events themselves.

`with meter.watch() as record:` fills `record` with plain data: each span of the virtual clock, each
change of each GPU's memory, and `gaps`: why something may be missing. Nothing that a program may do
honestly, such as starting the peak of memory again, changes any of it. All that is read of
`cudasim` beside its public functions is read here, and held by `tests/grade/test_meter.py`.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from . import ENDED, NOT_WHOLE

OPERATOR = re.compile(r"(?:\w+\.)?(\w+)\.\w+")  # `aten.mul.Tensor`
MOST = 20_000  # spans and changes of memory that are kept: more would be no answer


class Meter:
    """Watches the simulation that runs as it is made."""

    def __init__(self) -> None:
        import cudasim
        from cudasim.device.history import History
        from cudasim.session import session

        self._timeline, self._session = cudasim.timeline, session
        self._clock, self._gpus, self._mode = session.clock, list(session.gpus), session.mode
        self._ledger = ledger_class(History)
        self._spans: list[tuple] = []  # since a block began, as they are booked
        self._keep = self._kept_by(session.clock)
        session.clock._keep = self._keep
        self.begin()

    def _kept_by(self, clock: Any) -> Callable[..., None]:
        """What the clock calls with each span, in place of its own: the record that programs see,
        and may change, is not the one that counts."""
        keep, spans = clock._keep, self._spans

        def kept(*span: Any) -> None:
            spans.append(span)
            keep(*span)

        return kept

    def begin(self) -> None:
        """Count what tensors hold from here on: an exercise's own cells follow."""
        self._others = {gpu: held(gpu.memory) for gpu in self._gpus}

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
            record["spans"] = [plain_span(*span) for span in self._spans[:MOST]]
            for gpu, ledger in ledgers.items():
                record["memory"][str(gpu.device)] = ledger.changes[:MOST]
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
            self._blocks = {address: block.size for address, block in memory.used.items()}
            self.changes: list[int] = []

        def add(self, action: str, at: int, size: int, *_: Any, **__: Any) -> None:
            if action == "alloc":
                self._blocks[at] = self._memory.used[at].size
                self.changes.append(self._blocks[at])
            elif action == "free_completed":
                self.changes.append(-self._blocks.pop(at))

        def is_whole(self) -> bool:
            now = held(self._memory)
            return len(self.changes) <= MOST and self.before + sum(self.changes) == now

    return Ledger


def held(memory: Any) -> int:
    memory.settle()
    return sum(block.size for block in memory.used.values())


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
            return address + offset if address and gpu_of_storage(storage_of(self)) else address

        owner.data_ptr = data_ptr

    hide(torch.Tensor, torch.Tensor.untyped_storage)
    hide(torch.UntypedStorage, lambda storage: storage)
    write = torch.UntypedStorage._write_file

    def _write_file(self: torch.UntypedStorage, *arguments: Any) -> None:
        if gpu_of_storage(self):
            self.cpu()
        write(self, *arguments)

    torch.UntypedStorage._write_file = _write_file
