"""The state of a simulation: all of it is here, and all of it is gone when the simulation ends."""

import functools
import itertools
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.library import Library
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakIdKeyDictionary

from cudasim import config
from cudasim.clock.clock import Clock
from cudasim.device.gpu import GPU, Allocation, Machine
from cudasim.device.settings import Settings
from cudasim.device.types import DEFAULT, DeviceType
from cudasim.patching import Patches


class Doing:
    """What each operation of a thread looks at: a plain object, as those of threads are slow."""

    __slots__ = ("last_gpu", "making")

    def __init__(self) -> None:
        self.last_gpu: GPU | None = (
            None  # of its last operation; None after one on the CPU
        )
        self.making: GPU | None = None  # for which a factory makes a tensor


class ThreadState(threading.local):
    index = 0  # of its current GPU
    met = False  # whether its last operation has been booked: a collective, one made of others
    lasting = False  # whether C++ now makes what an object of its own keeps
    telling = False  # whether it prints a tensor, or lists its numbers
    to_host = (
        False  # while it moves a tensor to the CPU in sight of other dispatch modes
    )

    def __init__(self) -> None:
        self.doing = Doing()
        self.streams: dict[
            int, int
        ] = {}  # GPU -> id of its current stream, if not the default one


class Session:
    def __init__(self) -> None:
        self.gpus: list[GPU] = []
        self.reset(DEFAULT)

    def reset(self, type: DeviceType, clock: Clock | None = None) -> None:
        """Forget the simulation so far; without a `clock` times are the machine's own."""
        for gpu in self.gpus:
            gpu.alive = False
        self.type, self.clock = type, clock
        self.thread = ThreadState()
        self.settings = Settings()  # of the allocators
        self.used = False  # whether the program has used one of the GPUs
        self.forked = False  # whether this process was forked from one that had
        self.machine: Machine | None = None
        self.card: Any = None  # its name, or the file of its sheet
        self.when_placed: list[
            Callable[[], None]
        ] = []  # what to do when other GPUs are there
        self.gpus = []
        self.patches = Patches()
        self.mode: TorchDispatchMode | None = None  # of the thread that began
        self.home: int | None = None  # the thread that began
        self.inherited: tuple | None = (
            None  # (number, card, clock) asked for by the environment
        )
        self.factories: dict[
            Callable, Callable
        ] = {}  # torch's own -> the one that replaces it
        self.autocast: Library | None = (
            None  # the kernels that autocast has needed so far
        )
        self.autocast_kept = WeakIdKeyDictionary()  # weight -> itself in half precision
        self.host_autocast: Library | None = None  # those that it has needed on the CPU
        self.streams: dict[
            tuple[int, int], itertools.count
        ] = {}  # (GPU, priority) -> taken
        self.sync_debug = 0  # 1: warn of what waits for a GPU; 2: refuse it
        self.traced = False  # whether callbacks of torch.cuda._gpu_trace are called
        self.races: Any = (
            None  # what looks for them: an `Order` of cudasim.dispatch.races
        )
        self.asleep: dict[
            tuple[int, int], int
        ] = {}  # (GPU, stream) -> when `_sleep` ends, in ns
        self.watching = (
            False  # whether what waits for a GPU matters: one of these four is set
        )
        self.capturing: dict[
            tuple[int, int], Any
        ] = {}  # (GPU, stream) -> what it is captured by
        self.states: Any = None  # the generators that graphs draw from
        self.registered: dict[
            int, int
        ] = {}  # address -> size, of memory that a program pinned
        self.raw: dict[
            int, Allocation
        ] = {}  # address -> what caching_allocator_alloc gave
        self.rolls: dict[
            str, Any
        ] = {}  # name of a group where gloo stands for NCCL -> its `Roll`
        self.lives = 0  # of the processes' groups: how often they began

    def look(self) -> None:
        """See which of the machine's cards CUDA_VISIBLE_DEVICES shows."""
        if self.machine is None:
            return
        numbers = range(self.machine.number)
        if self.type is DEFAULT:
            numbers = config.shown(self.machine.uuids, self.machine.number)
        if [gpu.number for gpu in self.gpus] == [*numbers]:
            return
        self.gpus = self.machine.gpus(numbers)
        for gpu in self.gpus:
            gpu.memory.settings = self.settings
        for action in self.when_placed:
            action()

    def count(self) -> int:
        """How many GPUs there are. To ask is no use of them: the variable may yet change."""
        if not self.used:
            self.look()
        return len(self.gpus)

    def use(self) -> None:
        """Begin to use the GPUs. Raises PyTorch's error if there are none, and after a fork."""
        if self.forked:
            raise self.type.cannot_fork()
        if not self.count():
            raise RuntimeError(f"No {self.type.key} GPUs are available")
        self.used = True
        module = getattr(torch, self.type.name)
        if hasattr(module, "_initialized"):  # which `torch.utils.checkpoint` reads
            module._initialized = True

    def watch(self) -> None:
        self.watching = bool(
            self.sync_debug or self.traced or self.asleep or self.races
        )

    def look_for_races(self, order: Any) -> None:
        self.races = order  # is told what streams do; None looks for no races
        self.watch()

    def current(self) -> GPU:
        if not self.used:
            self.use()
        index = self.thread.index
        return self.gpus[index if index < len(self.gpus) else 0]

    def set_current(self, index: int) -> None:
        self.thread.index = self.gpu(index).index

    def current_stream(self, index: int) -> int:
        return self.thread.streams.get(index, 0)

    def set_stream(self, index: int, stream: int) -> None:
        self.thread.streams[index] = stream
        # Until now each thread was on the default one, and memory had no need to ask.
        self.gpu(index).memory.change(
            stream=functools.partial(self.current_stream, index)
        )

    def change_settings(self, text: str) -> None:
        """Let the allocators follow a text of PYTORCH_ALLOC_CONF. Raises as `Settings.change`."""
        for gpu in self.gpus:
            gpu.memory.settle()  # by the settings so far
        try:
            self.settings.change(text)
        finally:
            for gpu in self.gpus:
                gpu.memory.settle()

    def gpu(self, index: int | None) -> GPU:
        """GPU number `index`, or the current one. Raises PyTorch's error if there is none."""
        if not self.used:
            self.use()
        if index is None:
            return self.current()
        if 0 <= index < len(self.gpus):
            return self.gpus[index]
        if (
            self.type.most == 1
        ):  # MPS never looks at the index (ATen's mps/MPSGuardImpl.h)
            return self.gpus[0]
        raise self.type.no_such_device(index, len(self.gpus))


session = Session()
