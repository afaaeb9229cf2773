"""Races: two accesses to one memory, one of them a write, that nothing puts in order.

Every stream, and the host, knows how far the others had come when it last waited for them
(vector clocks: Mattern, 1988), as in PyTorch's sanitizer. The sanitizer tells tensors apart by
their first address. Here two views may race where their bytes overlap. Pinned memory, and what
the allocator hands out again, are looked at, too.

Not seen are what runs within a CUDA graph, collectives that nobody waited for, and reads by
NumPy.
"""

import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor

from cudasim import config
from cudasim.device.gpu import GPU
from cudasim.dispatch.arguments import arguments_by_name, operands_of, tensors_in
from cudasim.dispatch.copies import COPIES, copy_of, host_waits
from cudasim.dispatch.mode import PLAIN, DeviceMode, is_traced, is_wrapper
from cudasim.dispatch.operators import written_by
from cudasim.dispatch.pinning import is_pinned
from cudasim.dispatch.regions import Region, region_of
from cudasim.dispatch.tags import TAG, gpu_of, storage_of
from cudasim.modes import LightMode, decompose, is_composite
from cudasim.session import StreamKey, session
from cudasim.torch_private.operators import has_schema, schema_of
from cudasim.torch_private.tensors import backward_id
from cudasim.tracebacks import Line, program_lines, release_operands
from cudasim.words import WORDS

MESSAGES = WORDS["races"]
ACCESSES = "_cudasim_accesses"  # the attribute of a storage that holds its `MemoryUses`

# Operators that do not read their operands, by how their names begin.
# Operators that write running statistics, of which their schemas say nothing.
UPDATING_STATISTICS = {
    "batch_norm_gather_stats",
    "batch_norm_gather_stats_with_counts",
    "cudnn_batch_norm",
    "native_batch_norm",
}
UNREAD = (
    "new_",
    "empty_like",
    "zeros_like",
    "ones_like",
    "full_like",
    "rand_like",
    "randn_like",
)
# The same for operators that do not write their results.
UNWRITTEN = ("empty", "new_empty")

# How many lines of the program an error shows for each of the two operations.
LINES = 3

# How many accesses to one memory are remembered; see `Order._shortened`.
MOST_USES = 500

# The host does one operation after the other, too. So it counts as a stream.
HOST: StreamKey = (-1, 0)


class DataRace(RuntimeError):
    """Two accesses to one memory that nothing puts in order."""


class Access(NamedTuple):
    """What an operation did to a region of a memory."""

    stream: StreamKey
    number: int  # among the operations of its stream
    region: Region
    name: str  # of the operation
    writes: bool
    shape: tuple[int, ...]
    lines: tuple[Line, ...]  # of the program, the last one first
    handed_out: bool = False  # since then, the memory has been handed out again


@dataclass(eq=False)
class MemoryUses:
    """Who has used which regions of a memory."""

    order: "Order"
    # The addresses of the block, on a GPU.
    begin: int = 0
    end: int = 0
    # The accesses that a later one may race with, in the order in which they were called. The
    # first ones may be of those who had the memory before.
    uses: list[Access] = field(default_factory=list)
    # The streams that `record_stream` named, for which the allocator waits.
    recorded: set[StreamKey] = field(default_factory=set)

    def overlaps(self, other: "MemoryUses") -> bool:
        return self.begin < other.end and other.begin < self.end

    def handed_out(self, begin: int, end: int) -> list[Access]:
        """Return what matters to the next one who gets the bytes from `begin` to `end`.

        These are the accesses that the allocator did not wait for.
        """
        handed_out = Region(begin, end)
        uses = []
        for use in self.uses:
            if use.stream not in self.recorded and use.region.overlaps(handed_out):
                uses.append(use._replace(handed_out=True))
        return uses

    def remember(self, access: Access, known: dict[StreamKey, int]) -> None:
        """Add an access that was checked, and forget those for which it stands.

        These are the earlier ones to its bytes, but no writes for a read, and no reads that
        nothing orders before it. `known` is what its stream knows.
        """
        covers = access.region.covers
        if access.writes:
            uses = [use for use in self.uses if not covers(use.region)]
        else:
            uses = []
            for use in self.uses:
                stays = use.writes or not covers(use.region)
                if stays or use.number > known.get(use.stream, 0):
                    uses.append(use)
        self.uses = [*uses, access]


class Order:
    """What happens before what, on the streams of all GPUs and on the host."""

    def __init__(self, action: str) -> None:
        self.action = action
        # For each stream, how far it knows the others to be.
        self.known: dict[StreamKey, dict[StreamKey, int]] = defaultdict(dict)
        # The memories that were in use last, by GPU.
        self.areas: dict[int, list[MemoryUses]] = defaultdict(list)

    def learn(self, stream: StreamKey, known: dict[StreamKey, int]) -> None:
        """Let a stream know what is `known` elsewhere."""
        own = self.known[stream]
        for other, number in known.items():
            own[other] = max(number, own.get(other, 0))

    def wait(self, other: StreamKey, stream: StreamKey = HOST) -> None:
        """Let a stream wait for what another has done so far."""
        self.learn(stream, self.known[other])

    def wait_for_gpu(self, index: int) -> None:
        """Let the host wait for what all streams of a GPU have done so far."""
        streams = [stream for stream in self.known if stream[0] == index]
        for stream in streams:
            self.wait(stream)

    def record_stream(self, tensor: Tensor, stream: StreamKey) -> None:
        """Let the allocator wait for `stream` before it hands out the memory of `tensor`."""
        memory = self._memory(tensor)
        if memory is not None:
            memory.recorded.add(stream)

    def note_host_read(self, tensor: Tensor, name: str) -> None:
        """Check that the host may read the numbers of `tensor`, where no mode sees it."""
        if not session.capturing and is_pinned(tensor):
            self._check(name, HOST, [tensor], [])

    def note(self, func: Callable, args: tuple, kwargs: dict, out: Any) -> None:
        """Check that what `func` has read and written is in order.

        Raises DataRace, or warns.
        """
        if not has_schema(func) or session.capturing:
            return
        reads, writes = accesses(func, args, kwargs, out)
        streams = _current_streams([*writes, *reads])
        stream = streams[0] if streams else HOST

        is_peer_copy = func in COPIES and len(streams) == 2
        if is_peer_copy:
            self.wait(streams[1], stream)
        if stream != HOST:
            self.wait(HOST, stream)
        try:
            self._check(_name_of(func), stream, reads, writes)
        finally:  # what waits does so after a race that the program catches, too
            if is_peer_copy:
                self.wait(stream, streams[1])  # both GPUs wait for the copy
            elif func in COPIES and _host_waits_for_copy(func, args, kwargs, out):
                self.wait(stream)

    def _check(
        self,
        name: str,
        stream: StreamKey,
        reads: list[Tensor],
        writes: list[Tensor],
    ) -> None:
        """Check the accesses of one operation of a stream."""
        number = self.known[stream].get(stream, 0) + 1
        self.known[stream][stream] = number
        lines = program_lines(sys._getframe(), LINES)
        for tensors, is_write in ((reads, False), (writes, True)):
            for tensor in tensors:
                memory = self._memory(tensor)
                if memory is None:
                    continue
                region = region_of(tensor, memory.begin)
                if region is None:
                    continue
                shape = tuple(tensor.shape)
                access = Access(stream, number, region, name, is_write, shape, lines)
                self._use(memory, access)

    def _memory(self, tensor: Tensor) -> MemoryUses | None:
        """Return the memory of a tensor if it is a GPU's or pinned."""
        storage = storage_of(tensor)
        if storage is None:
            return None
        memory = getattr(storage, ACCESSES, None)
        if memory is not None and memory.order is self:
            return memory

        tag = getattr(storage, TAG, None)
        gpu = None if tag is None else tag.gpu
        if gpu is None and not is_pinned(tensor):
            return None
        memory = MemoryUses(self)
        if gpu is not None and tag.block is not None:
            memory.begin = tag.block.address
            memory.end = memory.begin + tag.block.size
            self._hand_out(memory, gpu)
        setattr(storage, ACCESSES, memory)
        return memory

    def _hand_out(self, memory: MemoryUses, gpu: GPU) -> None:
        """Let new memory know who had its addresses before."""
        areas = []
        for area in self.areas[gpu.index]:
            if not area.overlaps(memory):
                areas.append(area)
                continue
            memory.uses += area.handed_out(memory.begin, memory.end)
            # What is left of it, for those who get it later.
            for begin, end in ((area.begin, memory.begin), (memory.end, area.end)):
                if begin < end:
                    uses = area.handed_out(begin, end)
                    areas.append(MemoryUses(self, begin, end, uses))
        self.areas[gpu.index] = [*areas, memory]
        memory.uses = self._shortened(memory.uses)

    def _use(self, memory: MemoryUses, access: Access) -> None:
        """Check an access against the earlier ones, and remember it."""
        known = self.known[access.stream]
        settled = set()
        for other in reversed(memory.uses):
            # What settles a stream's last access settles those before it.
            if other.number <= known.get(other.stream, 0) or other.stream in settled:
                continue
            may_race = other.writes or access.writes or other.handed_out
            if not may_race or not other.region.overlaps(access.region):
                continue
            settled.add(other.stream)
            if backward_id() != -1:  # the engine of backward lets streams wait
                self.wait(other.stream, access.stream)
            else:
                self._report(access, other)

        memory.remember(access, known)
        memory.uses = self._shortened(memory.uses)

    def _shortened(self, uses: list[Access]) -> list[Access]:
        """Return `uses`, with the older half in few accesses if they are too many.

        Such an access stands for all of a stream's reads or writes, as the last of them, so
        it may race where none of them does. What the host waited for races with nothing.
        """
        if len(uses) <= MOST_USES:
            return uses
        known = self.known[HOST]
        uses = [use for use in uses if use.number > known.get(use.stream, 0)]
        if len(uses) <= MOST_USES // 2:
            return uses

        older = defaultdict(list)
        half = len(uses) // 2
        for use in uses[:half]:
            older[use.stream, use.writes, use.handed_out].append(use)
        merged = []
        for group in older.values():
            last = max(group, key=lambda use: use.number)
            begin = min(use.region.begin for use in group)
            end = max(use.region.end for use in group)
            merged.append(last._replace(region=Region(begin, end)))
        return [*merged, *uses[half:]]

    def _report(self, access: Access, other: Access) -> None:
        """Raise DataRace, or warn, for an access that is not ordered after another."""
        verb = "writes" if access.writes else "reads"
        other_verb = "wrote" if other.writes else "read"
        memory = "it"
        if other.handed_out:
            memory = "what was there before"
            remedy = "handed out"
        elif HOST in (access.stream, other.stream):
            remedy = "host"
        else:
            remedy = "stream"

        now = (access.name, verb, access.shape, _describe(access.stream))
        before = (other.name, other_verb, memory, _describe(other.stream))
        message = MESSAGES["race"].format(*now, *before, MESSAGES[remedy])
        message += _show_lines(access) + _show_lines(other)
        if self.action == "raise":
            raise DataRace(message)
        # In a thread of PyTorch's there may be no line of the program.
        file, number = access.lines[0][:2] if access.lines else ("sys", 1)
        warnings.warn_explicit(message, UserWarning, file, number)


def _show_lines(access: Access) -> str:
    """Return the lines of the program that called an operation, as a traceback has them."""
    lines = [str(line) for line in reversed(access.lines)]
    return "\n".join(["", MESSAGES["called"].format(access.name), *lines])


def _current_streams(tensors: list[Tensor]) -> list[StreamKey]:
    """Return the current stream of each GPU that one of `tensors` is on."""
    streams = []
    for tensor in tensors:
        gpu = gpu_of(tensor)
        if gpu is None:
            continue
        stream = session.stream_key(gpu.index)
        if stream not in streams:
            streams.append(stream)
    return streams


def _host_waits_for_copy(func: Callable, args: tuple, kwargs: dict, out: Any) -> bool:
    """Return whether an operator in COPIES made the host wait for a GPU.

    It does not if the copy was between two GPUs, or within one device.
    """
    copy = copy_of(func, args, kwargs, out)
    from_host = gpu_of(copy.source) is None
    to_host = gpu_of(copy.target) is None
    if from_host is to_host:
        return False
    host = copy.source if from_host else copy.target
    return host_waits(host, from_host, copy.size, copy.non_blocking)


def _describe(stream: StreamKey) -> str:
    if stream == HOST:
        return "the host"
    index, stream_id = stream
    return f"{session.gpu(index).device} stream {stream_id}"


def _name_of(func: Callable) -> str:
    return schema_of(func).name.partition("::")[2]


def accesses(
    func: Callable, args: tuple, kwargs: dict, out: Any
) -> tuple[list[Tensor], list[Tensor]]:
    """Return the tensors that an operation reads, and those that it writes.

    A view does neither.
    """
    schema = schema_of(func)
    name = _name_of(func)
    arguments = arguments_by_name(func, args, kwargs)
    reads = []
    if not name.startswith(UNREAD):
        for argument in schema.arguments:
            if argument.alias_info is None:
                reads += tensors_in((arguments.get(argument.name),))

    writes = tensors_in(written_by(func, args, kwargs))
    if name in UPDATING_STATISTICS and arguments.get("training", True):
        for statistic in ("running_mean", "running_var"):
            writes += tensors_in((arguments.get(statistic),))
    if not name.startswith(UNWRITTEN):
        results = out if len(schema.returns) > 1 else (out,)
        for declared, result in zip(schema.returns, results, strict=False):
            if declared.alias_info is None:
                writes += tensors_in((result,))
    return reads, writes


class RaceMode(LightMode):
    """The dispatch mode that shows each operation to the `Order` of the session."""

    supports_higher_order_operators = True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        try:
            if is_composite(func):
                return decompose(self, func, args, kwargs)
            if types and types != PLAIN:
                if is_traced(types):
                    return func(*args, **kwargs)
                if any(map(is_wrapper, operands_of(args, kwargs))):
                    return NotImplemented
            out = func(*args, **kwargs)
            if session.races is not None and out is not NotImplemented:
                session.races.note(func, args, kwargs, out)
            return out
        except BaseException as error:
            release_operands(error)
            args = kwargs = out = None
            raise


@contextmanager
def races(action: str = "raise") -> Iterator[None]:
    """Look for races in this thread within a `with` block.

    `action` is "raise", or "warn" for warnings in the place of errors. What was done before
    the block counts as waited for. Raises RuntimeError where no GPUs are simulated.
    """
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


def with_race_mode(mode: type[DeviceMode]) -> type[RaceMode]:
    """Return a mode that simulates as `mode` does and looks for races in each thread."""

    class RaceModeAbove(RaceMode):
        def __enter__(self) -> "RaceModeAbove":
            self.below = mode()
            self.below.__enter__()
            return super().__enter__()

        def __exit__(self, *error: object) -> None:
            super().__exit__(*error)
            self.below.__exit__(*error)

    return RaceModeAbove
