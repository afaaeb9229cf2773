"""NVML for simulated GPUs: an object in place of NVIDIA's library `libnvidia-ml.so.1`.

Python programs reach NVML through ctypes, most of them by the package nvidia-ml-py
(`import pynvml`). While a simulation runs, `ctypes.CDLL("libnvidia-ml.so.1")` makes a
`Library`, whose functions have the signatures of nvml.h, so that such packages remain as
they are. The figures are those of our `nvidia-smi`. A function about something that a
simulation does not know, such as a temperature, returns NVML_ERROR_NOT_SUPPORTED, as
NVIDIA's does for cards that lack a sensor.
"""

import ctypes
import os
import sys
import traceback
from collections.abc import Callable
from ctypes import c_char, c_char_p, c_uint, c_ulong, c_ulonglong, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cudasim.backends.cuda.api import COMPILED_VERSION
from cudasim.backends.cuda.nvidia_smi import (
    DRIVER,
    FOLDER,
    CardState,
    Process,
    Refusal,
    published,
)
from cudasim.patching import Patches
from cudasim.session import session

LIBRARIES = ("libnvidia-ml.so.1", "libnvidia-ml.so", "nvml.dll")  # names of its file
# What packages such as pynvml call the library that they have loaded, and its functions.
LOADED, LOADED_FUNCTIONS = "nvmlLib", "_nvmlGetFunctionPointer_cache"

# Results, as in nvml.h, and what nvmlErrorString says of them.
SUCCESS = 0
UNINITIALIZED = 1
INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NOT_FOUND = 6
INSUFFICIENT_SIZE = 7
DRIVER_NOT_LOADED = 9
LIBRARY_NOT_FOUND = 12
UNKNOWN = 999
RESULTS = {
    SUCCESS: b"The operation was successful",
    UNINITIALIZED: b"Uninitialized",
    INVALID_ARGUMENT: b"Invalid Argument",
    NOT_SUPPORTED: b"Not Supported",
    NOT_FOUND: b"Not Found",
    INSUFFICIENT_SIZE: b"Insufficient Size",
    DRIVER_NOT_LOADED: b"Driver Not Loaded",
    LIBRARY_NOT_FOUND: b"NVML Shared Library Not Found",
    UNKNOWN: b"Unknown Error",
}

# Constants of nvml.h.
CLOCK_GRAPHICS, CLOCK_SM, CLOCK_MEMORY = range(3)
NO_INSTANCE = 0xFFFFFFFF  # of a process on a card without MIG
NVIDIA_VENDOR = 0x10DE  # in the lower half of `pciDeviceId`
WORD = 8 * ctypes.sizeof(c_ulong)  # bits in each number of a set of CPUs
# NVML_DEVICE_ARCH_* by capability: Volta, Turing, Ampere, Ada and Hopper.
ARCHITECTURES = {(7, 0): 5, (7, 5): 6, (8, 0): 7, (8, 6): 7, (8, 9): 8, (9, 0): 9}


class Memory(ctypes.Structure):
    """nvmlMemory_t: `used` includes what the driver reserves."""

    _fields_ = [("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong)]


class MemoryV2(ctypes.Structure):
    """nvmlMemory_v2_t: `used` is what processes have taken."""

    _fields_ = [
        ("version", c_uint),
        ("total", c_ulonglong),
        ("reserved", c_ulonglong),
        ("free", c_ulonglong),
        ("used", c_ulonglong),
    ]


class PciInfoV2(ctypes.Structure):
    """What nvmlPciInfo_t begins with in every version."""

    _fields_ = [
        ("bus_id_legacy", c_char * 16),
        ("domain", c_uint),
        ("bus", c_uint),
        ("device", c_uint),
        ("device_id", c_uint),
        ("subsystem_id", c_uint),
    ]


class PciInfo(PciInfoV2):
    """nvmlPciInfo_t."""

    _fields_ = [("bus_id", c_char * 32)]


class ProcessInfoV1(ctypes.Structure):
    """nvmlProcessInfo_v1_t."""

    _fields_ = [("pid", c_uint), ("used", c_ulonglong)]


class ProcessInfo(ProcessInfoV1):
    """nvmlProcessInfo_v2_t, and that of version 3."""

    _fields_ = [("gpu_instance", c_uint), ("compute_instance", c_uint)]


class Failure(Exception):
    """A function of NVML cannot do what it is asked, and returns `result`."""

    def __init__(self, result: int) -> None:
        super().__init__(RESULTS[result].decode())
        self.result = result


@dataclass(frozen=True)
class Function:
    """One function of NVML: what answers it, and the types of its arguments.

    Every result goes to an address that the caller passes.
    """

    answer: Callable[..., None]
    arguments: tuple
    takes_card: bool  # as its first argument, by its handle
    # Whether its last arguments are the length of an array, by its address, and the array.
    takes_array: bool = False

    def lacks(self, values: tuple) -> bool:
        """Tell whether an argument is NULL that must not be.

        An array may be if its length is 0: so a caller asks how many elements there are.
        """
        if not self.takes_array:
            return None in values
        *others, array = values
        if None in others:
            return True
        length = c_uint.from_address(others[-1]).value
        return array is None and length != 0


FUNCTIONS: dict[str, Function] = {}


def of_card(*names: str, takes: tuple, takes_array: bool = False) -> Callable:
    """Register what answers functions of a card, which take `takes` after its handle."""

    def register(answer: Callable) -> Callable:
        for name in names:
            FUNCTIONS[name] = Function(answer, (c_void_p, *takes), True, takes_array)
        return answer

    return register


def of_system(*names: str, takes: tuple) -> Callable:
    """Register what answers functions that concern no single card."""

    def register(answer: Callable) -> Callable:
        for name in names:
            FUNCTIONS[name] = Function(answer, takes, False)
        return answer

    return register


def cards() -> list[CardState]:
    """Return the cards that the simulation publishes, as `nvidia-smi` sees them."""
    return _published()[0]


def processes_on(card: CardState) -> list[Process]:
    return [process for process in _published()[1] if process.index == card.index]


def _published() -> tuple[list[CardState], list[Process]]:
    try:
        return published(os.environ.get(FOLDER))
    except Refusal:
        raise Failure(DRIVER_NOT_LOADED) from None


def put_number(address: int, value: int) -> None:
    c_uint.from_address(address).value = value


def put_text(address: int, length: int, text: str) -> None:
    """Write `text` to a buffer. Raises Failure if it has no room."""
    content = text.encode() + b"\0"
    if len(content) > length:
        raise Failure(INSUFFICIENT_SIZE)
    ctypes.memmove(address, content, len(content))


def put_handle(address: int, found: list[CardState], missing: int) -> None:
    """Write the handle of the card that was found. Raises Failure(`missing`) for none.

    A handle is the number of the card, counted from 1.
    """
    if not found:
        raise Failure(missing)
    c_void_p.from_address(address).value = found[0].index + 1


def card_of(handle: int | None) -> CardState:
    for card in cards():
        if card.index + 1 == handle:
            return card
    raise Failure(INVALID_ARGUMENT)


@of_system("nvmlDeviceGetCount", "nvmlDeviceGetCount_v2", takes=(c_void_p,))
def count_cards(address: int) -> None:
    put_number(address, len(cards()))


@of_system(
    "nvmlDeviceGetHandleByIndex",
    "nvmlDeviceGetHandleByIndex_v2",
    takes=(c_uint, c_void_p),
)
def find_by_index(index: int, address: int) -> None:
    found = [card for card in cards() if card.index == index]
    put_handle(address, found, INVALID_ARGUMENT)


@of_system("nvmlDeviceGetHandleByUUID", takes=(c_char_p, c_void_p))
def find_by_uuid(uuid: bytes, address: int) -> None:
    found = [card for card in cards() if card.uuid.encode() == uuid]
    put_handle(address, found, NOT_FOUND)


@of_system(
    "nvmlDeviceGetHandleByPciBusId",
    "nvmlDeviceGetHandleByPciBusId_v2",
    takes=(c_char_p, c_void_p),
)
def find_by_bus(bus: bytes, address: int) -> None:
    # The domain has four or eight digits.
    wanted = bus.upper().zfill(len("00000000:00:00.0"))
    found = [card for card in cards() if card.bus.encode() == wanted]
    put_handle(address, found, NOT_FOUND)


@of_system("nvmlSystemGetDriverVersion", takes=(c_void_p, c_uint))
def tell_driver(address: int, length: int) -> None:
    put_text(address, length, DRIVER)


@of_system("nvmlSystemGetNVMLVersion", takes=(c_void_p, c_uint))
def tell_nvml_version(address: int, length: int) -> None:
    put_text(address, length, f"{COMPILED_VERSION // 1000}.{DRIVER}")


@of_system(
    "nvmlSystemGetCudaDriverVersion",
    "nvmlSystemGetCudaDriverVersion_v2",
    takes=(c_void_p,),
)
def tell_cuda_version(address: int) -> None:
    put_number(address, COMPILED_VERSION)


@of_system("nvmlSystemGetProcessName", takes=(c_uint, c_void_p, c_uint))
def tell_process_name(pid: int, address: int, length: int) -> None:
    for process in _published()[1]:
        if process.pid == pid:
            put_text(address, length, process.program)
            return
    raise Failure(NOT_FOUND)


@of_card("nvmlDeviceGetName", takes=(c_void_p, c_uint))
def tell_name(card: CardState, address: int, length: int) -> None:
    put_text(address, length, card.name)


@of_card("nvmlDeviceGetUUID", takes=(c_void_p, c_uint))
def tell_uuid(card: CardState, address: int, length: int) -> None:
    put_text(address, length, card.uuid)


@of_card("nvmlDeviceGetMemoryInfo", takes=(c_void_p,))
def tell_memory(card: CardState, address: int) -> None:
    free = card.memory - card.used
    memory = Memory.from_address(address)
    memory.total, memory.free, memory.used = card.total, free, card.total - free


@of_card("nvmlDeviceGetMemoryInfo_v2", takes=(c_void_p,))
def tell_memory_v2(card: CardState, address: int) -> None:
    memory = MemoryV2.from_address(address)
    memory.total = card.total
    memory.reserved = card.total - card.memory
    memory.free = card.memory - card.used
    memory.used = card.used


@of_card("nvmlDeviceGetPciInfo", "nvmlDeviceGetPciInfo_v2", takes=(c_void_p,))
def tell_bus_v2(card: CardState, address: int) -> None:
    info = PciInfoV2.from_address(address)
    info.bus_id_legacy = card.bus[4:].encode()  # with a domain of four digits
    info.domain, info.bus, info.device = 0, card.bus_number, 0
    info.device_id, info.subsystem_id = NVIDIA_VENDOR, 0


@of_card("nvmlDeviceGetPciInfo_v3", takes=(c_void_p,))
def tell_bus(card: CardState, address: int) -> None:
    tell_bus_v2(card, address)
    PciInfo.from_address(address).bus_id = card.bus.encode()


@of_card(
    "nvmlDeviceGetComputeRunningProcesses",
    takes=(c_void_p, c_void_p),
    takes_array=True,
)
def tell_processes_v1(card: CardState, count: int, address: int | None) -> None:
    put_processes(card, count, address, ProcessInfoV1)


@of_card(
    "nvmlDeviceGetComputeRunningProcesses_v2",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    takes=(c_void_p, c_void_p),
    takes_array=True,
)
def tell_processes(card: CardState, count: int, address: int | None) -> None:
    for info in put_processes(card, count, address, ProcessInfo):
        info.gpu_instance = info.compute_instance = NO_INSTANCE


def put_processes(
    card: CardState, count: int, address: int | None, kind: type[ProcessInfoV1]
) -> list[Any]:
    """Write what runs on a card to an array of `kind`, and its length to `count`.

    Returns the elements that were written. Raises Failure if the array, whose length
    `count` holds, is too short.
    """
    running = processes_on(card)
    room = c_uint.from_address(count).value
    put_number(count, len(running))
    if len(running) > room:
        raise Failure(INSUFFICIENT_SIZE)

    infos = []
    for position, process in enumerate(running):
        info = kind.from_address(address + position * ctypes.sizeof(kind))
        info.pid, info.used = process.pid, process.used
        infos.append(info)
    return infos


@of_card(
    "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetGraphicsRunningProcesses_v2",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetMPSComputeRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses_v2",
    "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    takes=(c_void_p, c_void_p),
    takes_array=True,
)
def tell_no_processes(card: CardState, count: int, address: int | None) -> None:
    put_number(count, 0)


@of_card("nvmlDeviceGetCudaComputeCapability", takes=(c_void_p, c_void_p))
def tell_capability(card: CardState, major: int, minor: int) -> None:
    for address, number in zip((major, minor), capability_of(card), strict=True):
        put_number(address, number)


def capability_of(card: CardState) -> tuple[int, ...]:
    return tuple(int(number) for number in card.capability.split("."))


@of_card("nvmlDeviceGetMigMode", takes=(c_void_p, c_void_p))
def tell_mig_mode(card: CardState, current: int, pending: int) -> None:
    if not card.has_mig:
        raise Failure(NOT_SUPPORTED)
    for address in (current, pending):
        put_number(address, 0)  # disabled


@of_card("nvmlDeviceGetMaxClockInfo", takes=(c_uint, c_void_p))
def tell_highest_clock(card: CardState, kind: int, address: int) -> None:
    clocks = {
        CLOCK_GRAPHICS: card.clock,
        CLOCK_SM: card.clock,
        CLOCK_MEMORY: card.memory_clock,
    }
    put_known(address, clocks.get(kind))


@of_card("nvmlDeviceGetCpuAffinity", takes=(c_uint, c_void_p))
def tell_affinity(card: CardState, length: int, address: int) -> None:
    """Write the set of CPUs that are near a card: on a machine with one node, all of them."""
    number = os.cpu_count() or 1
    if number > length * WORD:
        raise Failure(INSUFFICIENT_SIZE)
    cpus = (1 << number) - 1
    for position in range(length):
        word = cpus >> position * WORD & (1 << WORD) - 1
        c_ulong.from_address(address + position * ctypes.sizeof(c_ulong)).value = word


def put_known(address: int, value: int | None) -> None:
    """Write a number. Raises Failure if it is not known: None, or 0 for a rating."""
    if not value:
        raise Failure(NOT_SUPPORTED)
    put_number(address, value)


def tell_rating(rating: Callable[[CardState], int | None]) -> Callable:
    """Return what answers with one number of a card, if that is known."""

    def tell(card: CardState, address: int) -> None:
        put_known(address, rating(card))

    return tell


def tell_constant(number: Callable[[CardState], int]) -> Callable:
    """Return what answers with one number of a card, which may be 0."""

    def tell(card: CardState, address: int) -> None:
        put_number(address, number(card))

    return tell


of_card("nvmlDeviceGetIndex", "nvmlDeviceGetMinorNumber", takes=(c_void_p,))(
    tell_constant(lambda card: card.index)
)
of_card(
    "nvmlDeviceGetComputeMode",
    "nvmlDeviceGetMultiGpuBoard",
    "nvmlDeviceIsMigDeviceHandle",
    "nvmlDeviceGetMaxMigDeviceCount",
    takes=(c_void_p,),
)(
    tell_constant(lambda card: 0)  # the default mode; one GPU per board, not divided
)
of_card("nvmlDeviceGetArchitecture", takes=(c_void_p,))(
    tell_rating(lambda card: ARCHITECTURES.get(capability_of(card)))
)
of_card("nvmlDeviceGetMemoryBusWidth", takes=(c_void_p,))(
    tell_rating(lambda card: card.bus_width)
)
of_card(
    "nvmlDeviceGetPowerManagementLimit",
    "nvmlDeviceGetPowerManagementDefaultLimit",
    "nvmlDeviceGetEnforcedPowerLimit",
    takes=(c_void_p,),
)(tell_rating(lambda card: 1000 * card.power))  # in milliwatts


class Library(ctypes.CDLL):
    """What stands for the library that ctypes loads.

    A program may keep it after the simulation; `nvmlInit` then fails as on a machine
    without the library.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._handle = 0
        self._users = 0  # calls of nvmlInit without one of nvmlShutdown yet

    def __getattr__(self, name: str) -> Callable:
        """Return a function of NVML as ctypes would; it is looked up once."""
        if not name.startswith("nvml"):
            raise AttributeError(f"libnvidia-ml.so.1: undefined symbol: {name}")
        function = self._function(name)
        setattr(self, name, function)
        return function

    def _function(self, name: str) -> Callable:
        if name.startswith("nvmlInit"):
            return lambda *flags: self._begin()
        if name == "nvmlShutdown":
            return lambda: self._end()
        if name == "nvmlErrorString":
            return lambda result: tell_result(result)
        if name not in FUNCTIONS:
            return lambda *arguments: NOT_SUPPORTED if self._users else UNINITIALIZED

        function = FUNCTIONS[name]
        prototype = ctypes.CFUNCTYPE(ctypes.c_int, *function.arguments)
        return prototype(lambda *arguments: self._call(function, arguments))

    def _begin(self) -> int:
        if session.mode is None:
            return LIBRARY_NOT_FOUND
        self._users += 1
        return SUCCESS

    def _end(self) -> int:
        if not self._users:
            return UNINITIALIZED
        self._users -= 1
        return SUCCESS

    def _call(self, function: Function, arguments: tuple) -> int:
        if not self._users:
            return UNINITIALIZED
        if function.lacks(arguments):
            return INVALID_ARGUMENT
        try:
            if function.takes_card:
                arguments = (card_of(arguments[0]), *arguments[1:])
            function.answer(*arguments)
        except Failure as failure:
            return failure.result
        except Exception:
            # ctypes would print it, too, but return whatever lies in memory.
            traceback.print_exc()
            return UNKNOWN
        return SUCCESS


def tell_result(result: Any) -> bytes:
    """Return what nvmlErrorString says of a result, which may be a number of ctypes."""
    number = getattr(result, "value", result)
    return RESULTS.get(number, RESULTS[UNKNOWN])


def load(
    original: Callable, library: ctypes.CDLL, name: Any = None, *args, **kwargs
) -> None:
    """Stand for the constructor of `ctypes.CDLL`: make ours of what is to be NVIDIA's."""
    if isinstance(name, str) and Path(name).name in LIBRARIES:
        library.__class__ = Library
        library.__init__(name)
    else:
        original(library, name, *args, **kwargs)


def patch_nvml(patches: Patches) -> None:
    """Let ctypes load our library in place of NVIDIA's, while the simulation runs."""
    # Packages may have loaded NVIDIA's before, and must not keep ours afterwards.
    _unload()
    patches.finally_do(_unload)
    patches.wrap(ctypes.CDLL, "__init__", load)


def _unload() -> None:
    """Let packages such as pynvml load the library anew."""
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", {})
        if LOADED in names and LOADED_FUNCTIONS in names:
            names[LOADED] = None
            names[LOADED_FUNCTIONS].clear()
