"""CUDA graphs and private pools of memory.

These are `torch.cuda.CUDAGraph` and `torch.cuda.MemPool`. The errors are those of
aten/src/ATen/cuda/CUDAGraph.cpp.
"""

import itertools
import threading
import warnings
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from weakref import WeakValueDictionary, ref

import torch
from torch import cuda

from cudasim.backends.accelerator import do_nothing, is_capturing, refuse
from cudasim.backends.cuda.streams import stand_in
from cudasim.backends.streams import key_of
from cudasim.device.allocator import Memory
from cudasim.device.generator import Generator
from cudasim.device.gpu import GPU, Allocation
from cudasim.device.pools import PoolId
from cudasim.device.types import cuda as runtime
from cudasim.dispatch.capture import Capture, refuse_segment
from cudasim.dispatch.host_memory import host_memory
from cudasim.dispatch.liveness import Inputs
from cudasim.dispatch.waiting import CAPTURING
from cudasim.patching import Patches
from cudasim.session import session
from cudasim.torch_private import Attribute
from cudasim.torch_private import devices as private
from cudasim.words import WORDS

MESSAGES = WORDS["graphs"]
MODES = ("global", "thread_local", "relaxed")
# Bytes of the seed, and of the offset, that a generator keeps on the GPU for graphs.
HOLDER = 8

# What the ids of pools are made of.
_graph_numbers = itertools.count(1)
_pool_numbers = itertools.count(1)


@dataclass(eq=False)
class Holder:
    """What a generator keeps on its GPU, its seed and its offset, while graphs draw from it."""

    state: list
    memory: tuple[Allocation, Allocation]


class CUDAGraph:
    def __init__(self, keep_graph: bool = False) -> None:
        self._number = next(_graph_numbers)
        self._keep = keep_graph
        self._capture: Capture | None = None
        self._pool: PoolId = (0, 0)
        self._gpu: GPU | None = None
        self._captured = False
        self._instantiated = False  # whether it can be replayed
        self._dumps = False
        # By the identity of their states, those of the generators that it draws from.
        self._holders: dict[int, Holder] = {}

    def register_generator_state(self, generator: Generator) -> None:
        """Let the graph draw from `generator`, which then goes on with each replay."""
        state = generator._state
        holder = session.graph_generators.get(id(state))
        if holder is None:
            gpu = session.gpu(generator.device.index)
            holder = Holder(state, (Allocation(gpu, HOLDER), Allocation(gpu, HOLDER)))
        session.graph_generators[id(state)] = holder
        self._holders[id(state)] = holder

    def capture_begin(
        self,
        pool: PoolId | None = None,
        capture_error_mode: str = "global",
        check_input_liveness: bool = False,
    ) -> None:
        if self._instantiated:
            raise RuntimeError(MESSAGES["captured"])
        if self._captured:  # kept, and given up for another
            self.reset()
        if capture_error_mode not in MODES:
            raise RuntimeError(MESSAGES["mode"].format(capture_error_mode))
        gpu = session.current()
        key = key_of()
        index, stream_id = key
        if stream_id == 0:
            raise RuntimeError(MESSAGES["default stream"])
        if key in session.capturing:  # cudaStreamBeginCapture refuses it
            raise runtime.runtime_error(runtime.ILLEGAL_STATE)

        self.register_generator_state(gpu.generator)
        self._gpu = gpu
        self._pool = pool or (self._number, 0)
        inputs = Inputs() if check_input_liveness else None
        self._capture = capture = Capture(key, capture_error_mode, inputs)
        capture.graph = ref(self)
        for holder in self._holders.values():
            states = (holder.state, list(holder.state))
            capture.states.setdefault(id(holder.state), states)

        self._take_memory_from_pool(index)
        session.capturing[key] = capture
        session.sync_debug |= CAPTURING
        session.update_watching()
        for gpu in session.gpus:
            gpu.memory.before_segment = refuse_segment
        capture.__enter__()

    def _take_memory_from_pool(self, index: int) -> None:
        """Let what is captured have its memory from the graph's pool."""
        capture = self._capture

        def is_captured() -> bool:
            return session.capturing.get(session.stream_key(index)) is capture

        self._gpu.memory.begin_pool(self._pool, is_captured)

    def capture_end(self) -> None:
        capture = self._capture
        key = key_of()
        began_here = capture is not None and capture.origin == key
        if not began_here or session.capturing.get(key) != capture:
            raise RuntimeError("Capture must end on the same stream it began on.")
        is_elsewhere = capture.thread != threading.get_ident()
        if is_elsewhere and capture.error_mode != "relaxed":
            raise runtime.runtime_error(runtime.WRONG_THREAD)

        capture.end()
        self._leave_streams()
        self._gpu.memory.end_pool(self._pool)
        self._captured = True
        if capture.failed or capture.unjoined:
            result = runtime.CAPTURE_FAILED if capture.failed else runtime.UNJOINED
            self.reset()
            raise runtime.runtime_error(result)
        if not capture.steps:
            warnings.warn(MESSAGES["empty"], stacklevel=2)
        self._instantiated = not self._keep

    def _leave_streams(self) -> None:
        """Let the streams that this graph captures capture no more."""
        for key, capture in list(session.capturing.items()):
            if capture is self._capture:
                del session.capturing[key]
        if not session.capturing:
            session.sync_debug &= ~CAPTURING
            session.update_watching()
            for gpu in session.gpus:
                gpu.memory.before_segment = None

    def instantiate(self) -> None:
        if not self._captured:
            raise RuntimeError(
                "capture_end() must have been called before calling instantiate"
            )
        if not self._keep:
            raise RuntimeError(MESSAGES["not kept"])
        self._instantiated = True

    def replay(self) -> None:
        if not self._captured:
            raise RuntimeError(
                "Called CUDAGraph::replay without a preceding successful capture."
            )
        if self._capture.inputs is not None:
            self._capture.inputs.check(self._pool)
        self._instantiated = True  # at the latest now
        clock = session.clock
        with clock.graph(*key_of()) if clock else nullcontext():
            self._capture.replay()

    def reset(self) -> None:
        if self._captured:
            self._capture.release()
            self._gpu.memory.release_pool(self._pool)
            self._holders.clear()
        self._capture = None
        self._captured = False
        self._instantiated = False

    def __del__(self) -> None:
        if not self._captured:
            return
        if self._gpu.alive:
            self.reset()
        else:  # its pool is gone
            self._capture.release()

    def pool(self) -> PoolId:
        if not self._captured:
            raise RuntimeError(
                "Called CUDAGraph::pool() without a preceding successful capture."
            )
        return self._pool

    def enable_debug_mode(self) -> None:
        self._dumps = True

    def debug_dump(self, debug_path: str, *, verbose: bool = True) -> None:
        if not (self._dumps or self._keep):
            warnings.warn(MESSAGES["debug is off"], stacklevel=2)
        elif not self._captured:
            warnings.warn(MESSAGES["not dumped"], stacklevel=2)
        else:
            Path(debug_path).write_text(self._dump(), encoding="utf-8")

    def _dump(self) -> str:
        """Return the graph in the language of Graphviz."""
        lines = ["digraph {"]
        for number, step in enumerate(self._capture.steps):
            lines.append(f'  {number} [label="{step.func}"];')
        for number in range(len(self._capture.steps) - 1):
            lines.append(f"  {number} -> {number + 1};")
        lines.append("}")
        return "\n".join(lines) + "\n"

    def get_graph_data(self) -> NoReturn:
        self.raw_cuda_graph()

    def raw_cuda_graph(self) -> NoReturn:
        if not self._keep:
            raise RuntimeError(MESSAGES["raw is not kept"])
        if not self._captured:
            raise RuntimeError(MESSAGES["raw is not captured"])
        refuse(MESSAGES["raw"])

    def raw_cuda_graph_exec(self) -> NoReturn:
        if not self._instantiated:
            raise RuntimeError(MESSAGES["raw is not instantiated"])
        refuse(MESSAGES["raw"])

    @staticmethod
    def get_currently_capturing_graph() -> "CUDAGraph | None":
        if not is_capturing():
            raise RuntimeError("The current stream is not currently capturing.")
        return session.capturing[key_of()].graph()

    # `use_mem_pool` calls it since 2.14; here the graph's steps hold their tensors.
    _retain_pool = do_nothing


class AcceleratorGraph(CUDAGraph):
    """`torch.accelerator.Graph`, from 2.12: a graph that is captured in a `with` block."""

    def __init__(
        self,
        keep_graph: bool = False,
        *,
        pool: PoolId | None = None,
        capture_error_mode: str = "default",
    ) -> None:
        super().__init__(keep_graph)
        self.graph_pool = pool
        self.capture_error_mode = capture_error_mode

    def capture_begin(self) -> None:
        mode = self.capture_error_mode
        if mode not in ("default", *MODES):
            raise RuntimeError(MESSAGES["accelerator mode"].format(mode))
        super().capture_begin(self.graph_pool, "global" if mode == "default" else mode)

    def __enter__(self) -> None:
        torch.accelerator.synchronize()
        torch.accelerator.empty_cache()
        empty_host_cache()
        self.capture_begin()

    def __exit__(self, *error: object) -> None:
        self.capture_end()


class MemPool:
    def __init__(
        self, allocator: Any = None, use_on_oom: bool = False, no_split: bool = False
    ) -> None:
        if allocator is not None or use_on_oom or no_split:
            raise NotImplementedError(MESSAGES["pool"])
        self.allocator = None
        self.id = new_pool()
        self._gpu = session.current()
        self._gpu.memory.begin_pool(self.id, lambda: False)
        self._gpu.memory.end_pool(self.id)

    def use_count(self) -> int:
        return self._gpu.memory.private[self.id].users

    def snapshot(self, include_traces: bool = True) -> list:
        return cuda.memory_snapshot(self.id)

    def __del__(self) -> None:
        gpu = getattr(self, "_gpu", None)  # there is none if it was refused
        if gpu is not None and gpu.alive:
            gpu.memory.release_pool(self.id)
            gpu.memory.empty_cache()


def new_pool() -> PoolId:
    return 0, next(_pool_numbers)


def _memory(index: int) -> Memory:
    return session.gpu(index).memory


def checkpoint(index: int, pool: PoolId) -> tuple[PoolId, frozenset]:
    """Return what a pool holds."""
    blocks = itertools.chain.from_iterable(_memory(index).segments())
    return pool, frozenset(
        (block.address, block.size, block.used)
        for block in blocks
        if block.pool.id == pool
    )


def set_checkpoint(
    index: int, state: tuple, stale: list[int], owners: list[int]
) -> None:
    if checkpoint(index, state[0]) != state:
        raise NotImplementedError(
            "cudasim: a pool of memory is not set back to what it was"
        )


def begin_pool(index: int, pool: PoolId) -> None:
    _memory(index).begin_pool(pool, lambda: True)


def begin_pool_of_thread(index: int, pool: PoolId) -> None:
    thread = threading.get_ident()
    _memory(index).begin_pool(pool, lambda: threading.get_ident() == thread)


def begin_pool_of_stream(index: int, pool: PoolId) -> None:
    stream = session.stream_key(index)
    _memory(index).begin_pool(pool, lambda: session.stream_key(index) == stream)


def end_pool(index: int, pool: PoolId) -> None:
    _memory(index).end_pool(pool)


def release_pool(index: int, pool: PoolId) -> None:
    _memory(index).release_pool(pool)


def check_live_allocations(index: int, pool: PoolId, expected: set[int]) -> bool:
    """Return whether the blocks in use of a pool begin at the `expected` addresses.

    The addresses are those of `memory_snapshot` (`checkPoolLiveAllocations` in
    c10/cuda/CUDACachingAllocator.cpp).
    """
    memory = _memory(index)
    memory.settle()
    if pool not in memory.private:
        raise RuntimeError("Could not find pool of id")
    used = {block.address for block in memory.used.values() if block.pool.id == pool}
    return used == expected


def empty_host_cache() -> None:
    host_memory().empty_cache()


FUNCTIONS = {
    "beginAllocateToPool": begin_pool,
    "beginAllocateCurrentThreadToPool": begin_pool_of_thread,
    "beginAllocateCurrentStreamToPool": begin_pool_of_stream,
    "endAllocateToPool": end_pool,
    "releasePool": release_pool,
    "getCheckpointState": checkpoint,
    "setCheckpointPoolState": set_checkpoint,
    "checkPoolLiveAllocations": check_live_allocations,
    "isCurrentStreamCapturing": is_capturing,
}


def patch_graphs(patches: Patches) -> None:
    session.graph_generators = (
        WeakValueDictionary()
    )  # id of a generator's state -> Holder
    generator_is_capturing = staticmethod(lambda: session.capturing and is_capturing())
    patches.replace(Generator, "is_capturing", generator_is_capturing)

    for name, function in FUNCTIONS.items():
        _replace_everywhere(patches, private.POOLS.attribute(name), function)
    _replace_everywhere(patches, private.GRAPH_POOL_HANDLE, new_pool)
    _replace_everywhere(patches, private.EMPTY_HOST_CACHE, empty_host_cache)

    # The default stream of captures is that of another simulation.
    patches.replace(cuda.graphs.graph, "default_capture_stream", None)
    stand_in(patches, CUDAGraph, "CUDAGraph", cuda.graphs)
    stand_in(patches, MemPool, "MemPool", cuda.memory)
    if hasattr(torch.accelerator, "Graph"):  # from 2.12
        stand_in(patches, AcceleratorGraph, "Graph", torch.accelerator)


def _replace_everywhere(patches: Patches, attribute: Attribute, function: Any) -> None:
    """Replace a function of `torch._C`, also where `torch.cuda` has imported it."""
    patches.replace(*attribute, function)
    for module in (cuda.memory, cuda.graphs):
        if hasattr(module, attribute.name):
            patches.replace(module, attribute.name, function)
