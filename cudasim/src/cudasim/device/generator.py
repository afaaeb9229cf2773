"""Random number generators of simulated GPUs. As CUDA's, one is a seed and an offset: each
operation draws from a stream of its own that they determine, and moves the offset on. The numbers
are not those of a real GPU."""

import struct
import weakref
from collections.abc import Callable

import torch

STEP = 4  # what one operation adds to the offset: CUDA counts in steps of 4 too
_WORD = 2**64 - 1
_STATE = struct.Struct("<QQ")  # (seed, offset), as CUDA lays them out


class Generator(torch._C.Generator):
    """A generator whose `device` is a GPU. C++ hands it on without its class: see `find`."""

    device: torch.device | None = None  # for which it draws
    # Whether the current stream is captured: `backends.cuda.graphs` knows.
    is_capturing: Callable[[], bool] = staticmethod(lambda: False)

    def __new__(
        cls, device: torch.device, state: list[int] | None = None
    ) -> "Generator":
        self = super().__new__(cls, "cpu")
        self.device, self._state = device, state or [super().initial_seed(self), 0]
        self._draws = torch._C.Generator()  # what operations are given
        _known[self._cdata] = self
        _drawing[self._draws._cdata] = self
        return self

    def draw(self) -> torch._C.Generator:
        """The generator from which one operation on the CPU draws; the offset moves on."""
        seed, offset = self._state
        self._state[1] = offset + STEP
        return self._draws.manual_seed(mix(seed, offset))

    def manual_seed(self, seed: int) -> "Generator":
        """Restart with `seed`, which is the same in a capture (CUDAGeneratorImpl.cpp)."""
        seed = torch._C.Generator().manual_seed(seed).initial_seed()
        if not self.is_capturing():
            self._state[:] = [seed, 0]
        elif seed != self._state[0]:
            words = "CUDAGeneratorImpl::set_current_seed can be called during stream capture only"
            raise RuntimeError(f"{words} if new seed is the same as the original seed.")
        return self

    def seed(self) -> int:
        self._state[:] = [torch._C.Generator().seed(), 0]
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
        """Go on from what `get_state` returned, or from a seed of 8 bytes."""
        if not isinstance(state, torch.Tensor):
            raise TypeError(
                f"expected a torch.ByteTensor, but got {type(state).__name__}"
            )
        if state.dtype != torch.uint8 or state.device.type != "cpu":
            raise TypeError("RNG state must be a torch.ByteTensor")
        data = bytes(state.tolist())
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


def find(generator: torch._C.Generator) -> Generator | None:
    """The GPU's generator that C++ handed on as `generator`; None for one of the CPU."""
    return _known.get(generator._cdata)


def find_drawing(generator: torch._C.Generator | None) -> Generator | None:
    """The GPU's generator whose `draw` returned `generator`; None for any other."""
    return None if generator is None else _drawing.get(generator._cdata)


def mix(seed: int, offset: int) -> int:
    """A seed for one operation's stream: two rounds of SplitMix64 (Steele and others, 2014)."""
    value = seed
    for step in (offset, 0x9E3779B97F4A7C15):
        value = (value + step + 0x9E3779B97F4A7C15) & _WORD
        value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
        value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _WORD
        value ^= value >> 31
    return value
