"""Random number generators of simulated GPUs.

As with CUDA, a generator is a seed and an offset. They determine the stream that an
operation draws from, and each operation moves the offset on. The numbers are not those
of a real GPU.
"""

import struct
import weakref
from collections.abc import Callable

import torch

from cudasim.torch_private.tensors import CppGenerator, address_of

STEP = 4  # what one operation adds to the offset: CUDA counts in steps of 4 too
_WORD = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15  # SplitMix64's increment
_STATE = struct.Struct("<QQ")  # (seed, offset), as CUDA lays them out


class Generator(CppGenerator):
    """A generator whose `device` is a GPU.

    C++ passes it on without its class; `find` returns the object again.
    """

    device: torch.device | None = None
    # Whether the current stream is captured; `backends.cuda.graphs` replaces it.
    is_capturing: Callable[[], bool] = staticmethod(lambda: False)

    def __new__(
        cls, device: torch.device, state: list[int] | None = None
    ) -> "Generator":
        self = super().__new__(cls, "cpu")
        self.device = device
        self._state = state or [super().initial_seed(self), 0]  # seed, offset
        self._draws = CppGenerator()  # the one that operations get
        _known[address_of(self)] = self
        _drawing[address_of(self._draws)] = self
        return self

    def draw(self) -> CppGenerator:
        """Return the CPU's generator for one operation, and move the offset on."""
        seed, offset = self._state
        self._state[1] = offset + STEP
        return self._draws.manual_seed(mix(seed, offset))

    def manual_seed(self, seed: int) -> "Generator":
        """Start again with `seed`.

        In a capture it has to be the same as before (CUDAGeneratorImpl.cpp).
        """
        seed = CppGenerator().manual_seed(seed).initial_seed()
        if not self.is_capturing():
            self._state[:] = [seed, 0]
        elif seed != self._state[0]:
            words = "CUDAGeneratorImpl::set_current_seed can be called during stream capture only"
            raise RuntimeError(f"{words} if new seed is the same as the original seed.")
        return self

    def seed(self) -> int:
        self._state[:] = [CppGenerator().seed(), 0]
        return self._state[0]

    def initial_seed(self) -> int:
        return self._state[0]

    def get_offset(self) -> int:
        return self._state[1]

    def set_offset(self, offset: int) -> None:
        if offset % STEP:
            raise RuntimeError("offset must be a multiple of 4")
        self._state[1] = offset

    def get_state(self) -> torch.Tensor:
        return torch.frombuffer(bytearray(_STATE.pack(*self._state)), dtype=torch.uint8)

    def set_state(self, state: torch.Tensor) -> "Generator":
        """Continue from what `get_state` returned, or from a seed of 8 bytes."""
        if not isinstance(state, torch.Tensor):
            got = type(state).__name__
            raise TypeError(f"expected a torch.ByteTensor, but got {got}")
        check_state(state)
        data = bytes(state.flatten().tolist())
        if len(data) not in (_STATE.size, _STATE.size // 2):
            raise RuntimeError("RNG state is wrong size")
        self._state[:] = _STATE.unpack(data.ljust(_STATE.size, b"\0"))
        return self

    def clone_state(self) -> "Generator":
        return Generator(self.device, list(self._state))

    def graphsafe_get_state(self) -> "Generator":
        return Generator(self.device, self._state)

    def graphsafe_set_state(self, other: "Generator") -> "Generator":
        self._state = other._state
        return self

    def __reduce__(self) -> tuple:
        return torch.Generator, (str(self.device),), tuple(self._state)

    def __setstate__(self, state: tuple[int, int]) -> None:
        self._state[:] = state


_known: weakref.WeakValueDictionary[int, Generator] = weakref.WeakValueDictionary()
_drawing: weakref.WeakValueDictionary[int, Generator] = weakref.WeakValueDictionary()


def check_state(state: torch.Tensor) -> None:
    """Refuse what is no state of a generator (`check_rng_state` in ATen/core/Generator.h).

    The states of all generators, also those of GPUs, are tensors on the CPU.
    """
    if (
        state.layout is not torch.strided
        or state.device.type != "cpu"
        or state.dtype is not torch.uint8
        or not state.is_contiguous()
    ):
        raise TypeError("RNG state must be a torch.ByteTensor")


def find(generator: CppGenerator) -> Generator | None:
    """Return the GPU's generator that C++ passed on as `generator`; None for the CPU's."""
    return _known.get(address_of(generator))


def find_drawing(generator: CppGenerator | None) -> Generator | None:
    """Return the GPU's generator whose `draw` returned `generator`; None for any other."""
    if generator is None:
        return None
    return _drawing.get(address_of(generator))


def mix(seed: int, offset: int) -> int:
    """Return the seed of one operation's stream.

    Two rounds of SplitMix64 (Steele and others, 2014) mix seed and offset.
    """
    value = seed
    for step in (offset, _GOLDEN):
        value = (value + step + _GOLDEN) & _WORD
        value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
        value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _WORD
        value ^= value >> 31
    return value
