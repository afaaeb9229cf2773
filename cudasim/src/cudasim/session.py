"""The state of a simulation. All of it is here, and is gone when the simulation ends."""

import itertools
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.library import Library
from torch.utils.weak import WeakIdKeyDictionary

from cudasim import config
from cudasim.clock.clock import Clock
from cudasim.device.gpu import GPU, Allocation, Machine
from cudasim.device.settings import Settings
from cudasim.device.stream_log import StreamLog
from cudasim.device.types import DEFAULT, DeviceType
from cudasim.notices import warn_program
from cudasim.patching import Patches
from cudasim.torch_private.dispatch import TorchDispatchMode
from cudasim.words import WORDS

# A stream: (index of its GPU, id of the stream). The id of a default stream is 0.
StreamKey = tuple[int, int]


class OperationState:
    """What each operation of a thread looks at.

    It is a plain object because the attributes of a thread-local one are slow.
    """

    __slots__ = ("factory_gpu", "last_gpu")

    def __init__(self) -> None:
        # The GPU of the last operation; None after one on the CPU.
        self.last_gpu: GPU | None = None
        # The GPU for which a factory makes a tensor.
        self.factory_gpu: GPU | None = None


class ThreadState(threading.local):
    """What a thread of the program is doing."""

    index = 0  # of its current GPU
    # Whether the operation that it runs books itself: a collective, or one made of others.
    skip_next_booking = False
    # Whether it runs the operations of a kernel of compiled code, which is booked as one.
    in_kernel = False
    # The GPU of the last operation that it traced for a graph; None after one on the CPU.
    traced_device: torch.device | None = None
    # Whether C++ now makes tensors that an object of its own keeps.
    makes_lasting = False
    below_autocast = False  # whether autocast has called what runs
    is_printing = False  # whether it prints a tensor, or lists its numbers
    # Whether it moves a tensor to the CPU in sight of other dispatch modes.
    to_host = False
    memory_metadata = ""  # of the events in the history of a GPU's memory

    def __init__(self) -> None:
        self.operation = OperationState()
        # The id of the current stream of each GPU, if that is not the default one.
        self.streams: dict[int, int] = {}
        # What these were before, for each GPU that had another one than the default one.
        self.stream_logs: dict[int, StreamLog] = defaultdict(StreamLog)
        # Makes the stream of the node current whose backward runs, if there are logs.
        self.follow_node: Callable[[], None] | None = None


class Session:
    """The simulation, if `mode` is set; else what is left when none is running."""

    def __init__(self) -> None:
        self.gpus: list[GPU] = []
        self.reset(DEFAULT)

    def reset(self, type: DeviceType, clock: Clock | None = None) -> None:
        """Forget the simulation so far; without a `clock` times are the machine's own."""
        for gpu in self.gpus:
            gpu.alive = False
        self.type = type
        self.clock = clock
        self.patches = Patches()
        self.mode: TorchDispatchMode | None = None  # of the thread that began
        self.home_thread: int | None = None  # the thread that began
        # (number, card, clock), if the environment asked for them.
        self.inherited: tuple | None = None
        self.thread = ThreadState()

        # The GPUs.
        self.machine: Machine | None = None
        self.card: Any = None  # its name, or the file of its sheet
        self.gpus = []
        self.used = False  # whether the program has used one of them
        self.lost_one = False  # whether one of them ever lost its context
        self.forked = False  # whether this process was forked from one that had
        # Called when other GPUs become visible.
        self.when_gpus_change: list[Callable[[], None]] = []

        # Memory.
        self.settings = Settings()  # of the allocators
        self.has_read_settings = False  # from the environment, when CUDA began
        # What cudaHostRegister pinned: sizes in bytes, by address.
        self.registered_sizes: dict[int, int] = {}
        self.host_memory: Any = None  # the `HostMemory` of what is pinned, once used
        # What caching_allocator_alloc returned, by address.
        self.raw_allocations: dict[int, Allocation] = {}

        # Operations.
        self.factories: dict[Callable, Callable] = {}  # replacements of torch's own
        self.autocast: Library | None = None  # kernels that autocast has needed so far
        self.autocast_kept = WeakIdKeyDictionary()  # weights in half precision
        self.host_autocast: Library | None = None  # those needed on the CPU
        # The generators that graphs draw from, by the identity of their states.
        self.graph_generators: Any = None

        # Streams.
        # The numbers of new ones, by (index of the GPU, priority).
        self.stream_numbers: dict[tuple[int, int], itertools.count] = {}
        self.capturing: dict[StreamKey, Any] = {}  # the `Capture` of each
        self.asleep: dict[StreamKey, int] = {}  # when `_sleep` ends, in ns
        self.sync_debug = 0  # 1: warn of what waits for a GPU; 2: refuse it
        self.traced = False  # whether callbacks of torch.cuda._gpu_trace are called
        self.races: Any = None  # an `Order` of cudasim.dispatch.races looks for them
        # Whether waiting for a GPU matters, because one of the four above is set.
        self.watching = False

        # Groups of processes in which gloo stands for NCCL.
        # The `Roll` of each group, also of one that has ended.
        self.rolls: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        self.groups_made = 0  # so far
        self.group_starts = 0  # how often the default group was initialised

    def find_gpus(self) -> None:
        """Make a GPU of each card of the machine that CUDA_VISIBLE_DEVICES shows."""
        machine = self.machine
        if machine is None:
            return
        numbers = list(range(machine.number))
        if self.type is DEFAULT:
            numbers = config.visible_cards(machine.uuids, machine.number)
        if [gpu.number for gpu in self.gpus] == numbers:
            return
        self.gpus = machine.gpus(numbers)
        for gpu in self.gpus:
            gpu.memory.settings = self.settings
        for action in self.when_gpus_change:
            action()

    def count(self) -> int:
        """Return how many GPUs there are.

        Asking does not use them, so the variable may still change.
        """
        if not self.used:
            self.find_gpus()
        return len(self.gpus)

    def use(self) -> None:
        """Begin to use the GPUs. Raises PyTorch's error if there are none, and after a fork."""
        if self.forked:
            raise self.type.cannot_fork()
        if not self.count():
            raise RuntimeError(WORDS["devices"]["none"].format(self.type.key))
        self.read_settings()
        self.used = True
        module = getattr(torch, self.type.name)
        if hasattr(module, "_initialized"):  # `torch.utils.checkpoint` reads it
            module._initialized = True

    def read_settings(self) -> None:
        """Let the allocators follow the environment, once: PyTorch asks when it needs them.

        Raises as `Settings.change` does for what PyTorch refuses.
        """
        if self.has_read_settings:
            return
        try:
            self.settings.change(config.allocator_settings())
        except NotImplementedError as error:
            warn_program(f"{error}; it is left out")
        except (RuntimeError, ValueError):
            if self.type is DEFAULT:
                raise  # of other types PyTorch reads no such settings
        self.has_read_settings = True
        if self.settings.fraction != 1:
            for gpu in self.gpus:
                gpu.memory.set_fraction(self.settings.fraction)

    def update_watching(self) -> None:
        """Find out whether waiting for a GPU matters."""
        reasons = (self.sync_debug, self.traced, self.asleep, self.races)
        self.watching = any(reasons)

    def look_for_races(self, order: Any) -> None:
        """Tell `order` from now on what streams do; None looks for no races."""
        self.races = order
        self.update_watching()

    def current(self) -> GPU:
        if not self.used:
            self.use()
        index = self.thread.index
        return self.gpus[index if index < len(self.gpus) else 0]

    def set_current(self, index: int) -> None:
        self.thread.index = self.gpu(index).index

    def current_stream(self, index: int) -> int:
        thread = self.thread
        if thread.follow_node is not None:
            thread.follow_node()
        return thread.streams.get(index, 0)

    def stream_key(self, index: int) -> StreamKey:
        """Return the key of the current stream of GPU `index`."""
        return index, self.current_stream(index)

    def set_stream(self, index: int, stream: int) -> None:
        thread = self.thread
        if thread.follow_node is not None:
            thread.follow_node()
        thread.streams[index] = stream
        thread.stream_logs[index].change(stream)
        # Until now each thread was on the default one, and memory had no need to ask.
        self.gpu(index).memory.set_stream(lambda: self.thread.streams.get(index, 0))

    def change_settings(self, text: str) -> None:
        """Let the allocators follow a text such as that of PYTORCH_ALLOC_CONF.

        Raises as `Settings.change` does.
        """
        self.read_settings()
        for gpu in self.gpus:
            gpu.memory.settle()  # by the settings so far
        try:
            self.settings.change(text)
        finally:
            for gpu in self.gpus:
                gpu.memory.settle()

    def gpu(self, index: int | None) -> GPU:
        """Return GPU number `index`, or the current one.

        Raises PyTorch's error if there is none.
        """
        if not self.used:
            self.use()
        if index is None:
            return self.current()
        if 0 <= index < len(self.gpus):
            return self.gpus[index]
        if self.type.most == 1:
            # MPS never looks at the index (ATen's mps/MPSGuardImpl.h).
            return self.gpus[0]
        raise self.type.no_such_device(index, len(self.gpus))


session = Session()
