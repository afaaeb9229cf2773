"""CUDA graphs and private pools of memory: `torch.cuda.CUDAGraph` and `torch.cuda.MemPool`. The
errors are those of aten/src/ATen/cuda/CUDAGraph.cpp."""

import itertools
import threading
import warnings
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary, ref

import torch
from torch import cuda

from cudasim.backends.accelerator import is_capturing, nothing, refuse
from cudasim.backends.cuda.streams import stand_in
from cudasim.backends.streams import place_of
from cudasim.device.allocator import Memory
from cudasim.device.generator import Generator
from cudasim.device.gpu import GPU, Allocation
from cudasim.device.pools import PoolId
from cudasim.device.types import cuda as runtime
from cudasim.dispatch.capture import Capture
from cudasim.dispatch.waiting import CAPTURING
from cudasim.patching import Patches
from cudasim.session import session
from cudasim.words import WORDS

SAID = WORDS["graphs"]
HOLDER = 8  # bytes of the seed, and of the offset, that a generator keeps on the GPU for graphs

_graphs, _pools = itertools.count(1), itertools.count(1)  # what ids are made of


@dataclass(eq=False)
class Holder:
    """What a generator keeps on its GPU, its seed and its offset, while graphs draw from it."""

    state: list
    memory: tuple[Allocation, Allocation]


class CUDAGraph:
    def __init__(self, keep_graph: bool = False) -> None:
        self._number, self._keep = next(_graphs), keep_graph
        self._capture: Capture | None = None
        self._pool: PoolId = (0, 0)
        self._gpu: GPU | None = None
        self._captured = self._dumps = False
        self._holders: dict[int, Holder] = {}  # of the generators that it draws from

    def register_generator_state(self, generator: Generator) -> None:
        """Let the graph draw from `generator`, which then goes on with each replay."""
        state, gpu = generator._state, session.gpu(generator.device.index)
        holder = session.states.get(id(state))
        if holder is None:
            holder = Holder(state, (Allocation(gpu, HOLDER), Allocation(gpu, HOLDER)))
        session.states[id(state)] = self._holders[id(state)] = holder

    def capture_begin(
        self,
        pool: PoolId | None = None,
        capture_error_mode: str = "global",
        check_input_liveness: bool = False,
    ) -> None:
        if check_input_liveness:
            raise NotImplementedError("cudasim: check_input_liveness is not known here")
        if self._captured:
            raise RuntimeError(SAID["captured"])
        if capture_error_mode not in ("global", "thread_local", "relaxed"):
            raise RuntimeError(SAID["mode"].format(capture_error_mode))
        gpu, place = session.current(), place_of()
        index, stream_id = place
        if stream_id == 0:
            raise RuntimeError(SAID["default stream"])
        self.register_generator_state(gpu.generator)
        self._gpu, self._pool = gpu, pool or (self._number, 0)
        self._capture = capture = Capture(place)
        capture.graph = ref(self)
        for holder in self._holders.values():
            capture.states.setdefault(
                id(holder.state), (holder.state, list(holder.state))
            )
        gpu.memory.begin_pool(
            self._pool,
            lambda: (
                session.capturing.get((index, session.current_stream(index))) is capture
            ),
        )
        session.capturing[place] = capture
        session.sync_debug |= CAPTURING
        session.watch()
        capture.__enter__()

    def capture_end(self) -> None:
        capture, place = self._capture, place_of()
        if (
            capture is None
            or capture.origin != place
            or session.capturing.get(place) != capture
        ):
            raise RuntimeError("Capture must end on the same stream it began on.")
        capture.end()
        for place in [
            each for each, mine in session.capturing.items() if mine is capture
        ]:
            del session.capturing[place]
        if not session.capturing:
            session.sync_debug &= ~CAPTURING
            session.watch()
        self._gpu.memory.end_pool(self._pool)
        self._captured = True
        if capture.failed or capture.unjoined:
            failed = runtime.CAPTURE_FAILED if capture.failed else runtime.UNJOINED
            self.reset()
            raise runtime.runtime_error(failed)
        if not capture.steps:
            warnings.warn(SAID["empty"], stacklevel=2)

    def instantiate(self) -> None:
        if not self._captured:
            raise RuntimeError(
                "capture_end() must have been called before calling instantiate"
            )
        if not self._keep:
            raise RuntimeError(SAID["not kept"])

    def replay(self) -> None:
        if not self._captured:
            raise RuntimeError(
                "Called CUDAGraph::replay without a preceding successful capture."
            )
        clock = session.clock
        with clock.graph(*place_of()) if clock else nullcontext():
            self._capture.replay()

    def reset(self) -> None:
        if self._captured:
            self._capture.release()
            self._gpu.memory.release_pool(self._pool)
            self._holders.clear()
        self._capture, self._captured = None, False

    def __del__(self) -> None:
        if self._captured and self._gpu.alive:
            self.reset()

    def pool(self) -> PoolId:
        if not self._captured:
            raise RuntimeError(
                "Called CUDAGraph::pool() without a preceding successful capture."
            )
        return self._pool

    def enable_debug_mode(self) -> None:
        self._dumps = True

    def debug_dump(self, debug_path: str, *, verbose: bool = True) -> None:
        if not (self._dumps and self._captured):
            words = SAID["not dumped" if self._dumps else "debug is off"]
            return warnings.warn(words, stacklevel=2)
        names = [str(step.func) for step in self._capture.steps]
        nodes = [f'  {number} [label="{name}"];' for number, name in enumerate(names)]
        edges = [f"  {number} -> {number + 1};" for number in range(len(names) - 1)]
        text = "\n".join(["digraph {", *nodes, *edges, "}", ""])
        Path(debug_path).write_text(text, encoding="utf-8")

    raw_cuda_graph = partial(
        refuse, "cudasim: a simulated GPU's graphs are no objects of CUDA"
    )
    raw_cuda_graph_exec = raw_cuda_graph
    get_currently_capturing_graph = staticmethod(
        lambda: session.capturing[place_of()].graph()
    )
    _retain_pool = (
        nothing  # its steps hold their tensors; `use_mem_pool` calls both since 2.14
    )


class MemPool:
    def __init__(
        self, allocator: Any = None, use_on_oom: bool = False, no_split: bool = False
    ) -> None:
        if allocator is not None or use_on_oom or no_split:
            raise NotImplementedError(SAID["pool"])
        self.allocator, self.id = None, new_pool()
        self._gpu = session.current()
        self._gpu.memory.begin_pool(self.id, lambda: False)
        self._gpu.memory.end_pool(self.id)

    def use_count(self) -> int:
        return self._gpu.memory.private[self.id].users

    def snapshot(self, include_traces: bool = True) -> list:
        return cuda.memory_snapshot(self.id)

    def __del__(self) -> None:
        gpu = getattr(self, "_gpu", None)
        if gpu is not None and gpu.alive:
            gpu.memory.release_pool(self.id)
            gpu.memory.empty_cache()


def new_pool() -> PoolId:
    return 0, next(_pools)


def _memory(index: int) -> Memory:
    return session.gpu(index).memory


def checkpoint(index: int, pool: PoolId) -> tuple[PoolId, frozenset]:
    blocks = itertools.chain.from_iterable(_memory(index).segments())
    here = (block for block in blocks if block.pool.id == pool)
    return pool, frozenset((block.address, block.size, block.used) for block in here)


def set_checkpoint(
    index: int, state: tuple, stale: list[int], owners: list[int]
) -> None:
    if checkpoint(index, state[0]) != state:
        raise NotImplementedError(
            "cudasim: a pool of memory is not set back to what it was"
        )


def begin_pool_of_thread(index: int, pool: PoolId) -> None:
    thread = threading.get_ident()
    _memory(index).begin_pool(pool, lambda: threading.get_ident() == thread)


FUNCTIONS = {
    "_cuda_beginAllocateToPool": lambda index, pool: _memory(index).begin_pool(
        pool, lambda: True
    ),
    "_cuda_beginAllocateCurrentThreadToPool": begin_pool_of_thread,
    "_cuda_endAllocateToPool": lambda index, pool: _memory(index).end_pool(pool),
    "_cuda_releasePool": lambda index, pool: _memory(index).release_pool(pool),
    "_cuda_getCheckpointState": checkpoint,
    "_cuda_setCheckpointPoolState": set_checkpoint,
    "_cuda_isCurrentStreamCapturing": is_capturing,
    "_graph_pool_handle": new_pool,
    "_host_emptyCache": nothing,
}


def patch_graphs(patches: Patches) -> None:
    session.states = WeakValueDictionary()  # id of a generator's state -> Holder
    capturing = staticmethod(lambda: session.capturing and is_capturing())
    patches.replace(Generator, "is_capturing", capturing)
    for name, function in FUNCTIONS.items():
        for owner in (torch._C, cuda.memory, cuda.graphs):
            if owner is torch._C or hasattr(owner, name):
                patches.replace(owner, name, function)
    patches.replace(
        cuda.graphs.graph, "default_capture_stream", None
    )  # of another simulation
    stand_in(patches, CUDAGraph, "CUDAGraph", cuda.graphs)
    stand_in(patches, MemPool, "MemPool", cuda.memory)
    if hasattr(torch.accelerator, "Graph"):  # from 2.12
        words = "cudasim: torch.accelerator.Graph is not known here; use torch.cuda.CUDAGraph"
        patches.replace(
            torch.accelerator.Graph, "__new__", staticmethod(partial(refuse, words))
        )
