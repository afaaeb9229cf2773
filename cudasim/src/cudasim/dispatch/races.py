"""Races: accesses to one memory, of which one writes, that nothing puts one after the other. Every
stream, and the host, knows how far the others had come when it last waited for them (vector clocks:
Mattern, 1988), as in PyTorch's sanitizer; but all views are one memory, as are pinned memory and
what the allocator hands out again. Not seen: what runs within a CUDA graph, collectives that nobody
waited for, and NumPy's reads."""

import os
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cudasim import config
from cudasim.dispatch.arguments import arguments_by_name, tensors_in
from cudasim.dispatch.mode import PLAIN, TRACED, DeviceMode, is_wrapper
from cudasim.dispatch.operators import written_by
from cudasim.dispatch.scratch import outside
from cudasim.dispatch.tags import PINNED, TAG, gpu_of, storage_of
from cudasim.modes import LightMode, decompose, is_composite
from cudasim.session import session
from cudasim.words import WORDS

SAID = WORDS["races"]
HOST = (-1, 0)  # the line of the host, among those of streams: (GPU, stream)
ACCESSES = "_cudasim_accesses"  # the attribute of a storage that holds its Memory
COPIES = (torch.ops.aten.copy_.default, torch.ops.aten._to_copy.default)
UNREAD = (
    "new_",
    "empty_like",
    "zeros_like",
    "ones_like",
    "full_like",
    "rand_like",
    "randn_like",
)
UNWRITTEN = ("empty", "new_empty")
# Files whose lines a program's author did not write.
_FOLDERS = Path(torch.__file__).parent, Path(__file__).resolve().parents[1]
_LIBRARIES = tuple(str(folder) + os.sep for folder in _FOLDERS)

Line = tuple[int, int]


class DataRace(RuntimeError):
    """Two accesses to one memory that nothing puts one after the other."""


class Access(NamedTuple):
    """What an operation did to a memory: `number` counts the operations of its line."""

    line: Line
    number: int
    name: str  # of the operation
    writes: bool
    shape: tuple[int, ...]
    place: tuple[str, int]  # file and line of the program


@dataclass(eq=False)
class Memory:
    """Who has used a memory since it was last written, and who had it before."""

    order: "Order"
    begin: int = 0  # its addresses, on a GPU
    end: int = 0
    uses: list[Access] = field(
        default_factory=list
    )  # the last that wrote, and who read that
    earlier: list[Access] = field(default_factory=list)
    recorded: set[Line] = field(
        default_factory=set
    )  # by record_stream: the allocator waits

    def unrecorded(self) -> list[Access]:
        """The accesses that the allocator does not wait for before it hands the memory out."""
        used = [*self.earlier, *sorted(self.uses, key=lambda use: use.writes)]
        return [access for access in used if access.line not in self.recorded]


class Order:
    """What happens before what, on the streams of all GPUs and on the host."""

    def __init__(self, action: str) -> None:
        self.action = action
        self.known: dict[Line, dict[Line, int]] = defaultdict(dict)
        self.areas: dict[int, list[Memory]] = defaultdict(list)  # by GPU

    def learn(self, line: Line, known: dict[Line, int]) -> None:
        mine = self.known[line]
        for other, number in known.items():
            mine[other] = max(number, mine.get(other, 0))

    def wait(self, other: Line, line: Line = HOST) -> None:
        self.learn(line, self.known[other])

    def record_stream(self, tensor: Tensor, line: Line) -> None:
        """The allocator waits for a line before it hands the memory of `tensor` out again."""
        memory = self._memory(tensor)
        if memory is not None:
            memory.recorded.add(line)

    def note(self, func: Callable, args: tuple, kwargs: dict, out: Any) -> None:
        """Look whether what `func` has read and written is in order. Raises DataRace, or warns."""
        if not hasattr(func, "_schema") or session.capturing:
            return
        name = func._schema.name.partition("::")[2]
        reads, writes = operands(func, name, args, kwargs, out)
        homes = [(each, gpu_of(each)) for each in (*writes, *reads)]
        gpus = list(dict.fromkeys(gpu for _, gpu in homes if gpu is not None))
        lines = [(gpu.index, session.current_stream(gpu.index)) for gpu in gpus]
        line = lines[0] if lines else HOST
        crosses = func in COPIES and len(lines) == 2
        if crosses:
            self.wait(lines[1], line)  # a copy waits for both GPUs, and both for it
        if line != HOST:
            self.wait(HOST, line)
        self.known[line][line] = number = self.known[line].get(line, 0) + 1
        frame = outside(sys._getframe(), _LIBRARIES)
        place = frame.f_code.co_filename, frame.f_lineno
        for tensors, writing in ((reads, False), (writes, True)):
            for tensor in tensors:
                access = Access(line, number, name, writing, tuple(tensor.shape), place)
                self._use(self._memory(tensor), access)
        if crosses:
            self.wait(line, lines[1])
        elif func in COPIES and lines:
            hosts = [storage_of(each) for each, gpu in homes if gpu is None]
            pinned = all(hasattr(storage, PINNED) for storage in hosts)
            if hosts and not (
                pinned and arguments_by_name(func, args, kwargs).get("non_blocking")
            ):
                self.wait(line)

    def _memory(self, tensor: Tensor) -> Memory | None:
        """The memory of a tensor, if that is a GPU's or pinned."""
        storage = storage_of(tensor)
        memory = getattr(storage, ACCESSES, None)
        if storage is None or (memory is not None and memory.order is self):
            return memory
        tag = getattr(storage, TAG, None)
        gpu = None if tag is None else tag.gpu
        if gpu is None and not hasattr(storage, PINNED):
            return None
        memory = Memory(self)
        if gpu is not None and tag.block is not None:
            areas, memory.begin = self.areas[gpu.index], tag.block.address
            memory.end = memory.begin + tag.block.size
            gone = [
                each
                for each in areas
                if each.begin < memory.end and memory.begin < each.end
            ]
            memory.earlier = [use for each in gone for use in each.unrecorded()]
            self.areas[gpu.index] = [
                *(each for each in areas if each not in gone),
                memory,
            ]
        setattr(storage, ACCESSES, memory)
        return memory

    def _use(self, memory: Memory | None, access: Access) -> None:
        if memory is None:
            return
        meeting = [use for use in memory.uses if use.writes or access.writes]
        for other in (*memory.earlier, *meeting):
            if self.known[access.line].get(other.line, 0) >= other.number:
                continue
            if torch._C._current_graph_task_id() != -1:  # its engine lets streams wait
                self.wait(other.line, access.line)
            else:
                self._report(access, other, other in memory.earlier)
        memory.earlier = []
        others = [use for use in memory.uses if use.writes or use.line != access.line]
        memory.uses = [access] if access.writes else [*others, access]

    def _report(self, access: Access, other: Access, handed_out: bool) -> None:
        verbs = (
            "writes" if access.writes else "reads",
            "wrote" if other.writes else "read",
        )
        here, there = (
            "the host" if index < 0 else f"{session.gpu(index).device} stream {stream}"
            for index, stream in (access.line, other.line)
        )
        cure, what = "host" if HOST in (access.line, other.line) else "stream", "it"
        if handed_out:
            cure, what = "handed out", "what was there before"
        now = access.name, verbs[0], access.shape, here
        before = other.name, verbs[1], what, there, *other.place
        told = SAID["race"].format(*now, *before, SAID[cure])
        if self.action == "raise":
            raise DataRace(told)
        warnings.warn_explicit(told, UserWarning, *access.place)


def operands(
    func: Callable, name: str, args: tuple, kwargs: dict, out: Any
) -> tuple[list[Tensor], list[Tensor]]:
    """(tensors that an operation reads, those that it writes); a view does neither."""
    schema, values = func._schema, arguments_by_name(func, args, kwargs)
    reads, writes = [], tensors_in(written_by(func, args, kwargs))
    if not name.startswith(UNREAD):
        read = (each.name for each in schema.arguments if each.alias_info is None)
        reads = tensors_in(values.get(each) for each in read)
    if not name.startswith(UNWRITTEN):
        results = zip(
            schema.returns, out if len(schema.returns) > 1 else (out,), strict=False
        )
        writes += tensors_in(
            value for result, value in results if result.alias_info is None
        )
    return reads, writes


class RaceMode(LightMode):
    supports_higher_order_operators = True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if is_composite(func):
            return decompose(self, func, args, kwargs)
        if types and types != PLAIN:
            if any(issubclass(kind, TRACED) for kind in types):
                return func(*args, **kwargs)
            if any(map(is_wrapper, tensors_in((*args, *kwargs.values())))):
                return NotImplemented
        out = func(*args, **kwargs)
        if session.races is not None and out is not NotImplemented:
            session.races.note(func, args, kwargs, out)
        return out


@contextmanager
def races(action: str = "raise") -> Iterator[None]:
    """Look for races within a `with` block, in this thread; `warn` for warnings, not errors. What
    was done before it counts as waited for. Raises RuntimeError where no GPUs are simulated."""
    if session.mode is None:
        raise RuntimeError(
            "cudasim.races() looks at simulated GPUs: call cudasim.enable() first"
        )
    before = session.races
    session.look_for_races(Order(config.check_races(action)))
    try:
        with RaceMode() if before is None else nullcontext():
            yield
    finally:
        session.look_for_races(before)


def checked(mode: type[DeviceMode]) -> type[RaceMode]:
    """A mode that looks for races and simulates as `mode` does, in every thread that enters it."""

    class Checked(RaceMode):
        def __enter__(self) -> "Checked":
            self.below = mode()
            self.below.__enter__()
            return super().__enter__()

        def __exit__(self, *error: object) -> None:
            super().__exit__(*error)
            self.below.__exit__(*error)

    return Checked
