"""What PYTORCH_ALLOC_CONF asks of the allocators.

The keys and the refusals are those of c10/core/AllocatorConfig.cpp and
c10/cuda/CUDAAllocatorConfig.cpp of PyTorch 2.13.
"""

import re
import sys
from collections.abc import Callable
from typing import NoReturn

from cudasim.device.sizes import BLOCK, INTERVALS, LARGE_SEGMENT, MIB, round_up
from cudasim.words import WORDS

MESSAGES = WORDS["allocator"]
BACKENDS = ("native", "cudaMallocAsync")
# Settings that PyTorch knows, and the simulation does not.
LEFT_OUT = (
    "expandable_segments_handle_type",
    "graph_capture_record_stream_reuse",
    "large_segment_size_mb",
    "max_non_split_rounding_mb",
    "pinned_free_catch_all",
    "pinned_max_cached_size_mb",
    "pinned_max_round_threshold_mb",
    "pinned_num_register_threads",
    "pinned_reserve_segment_size_mb",
    "pinned_use_background_threads",
    "pinned_use_cuda_host_register",
    "pinned_use_hip_host_register",
    "release_lock_on_cudamalloc",
    "release_lock_on_hipmalloc",
    "throw_on_cudamalloc_oom",
)


class Settings:
    """The settings of the allocators of all GPUs."""

    def __init__(self, text: str = "") -> None:
        self.expandable = False
        self.fraction = 1.0  # of a card, which a process may take
        self._has_grown = False
        self._read: dict[str, Callable[[list[str], int], None]] = {
            "backend": self._read_backend,
            "expandable_segments": self._read_expandable,
            "garbage_collection_threshold": self._read_threshold,
            "max_split_size_mb": self._read_split_size,
            "per_process_memory_fraction": self._read_fraction,
            "roundup_power2_divisions": self._read_divisions,
        }
        self.change(text)

    @property
    def max_split_size(self) -> int:
        """The same as PyTorch reports it: -1 for no limit."""
        return -1 if self.max_split == sys.maxsize else self.max_split

    def change(self, text: str) -> None:
        """Follow a text such as `expandable_segments:True,max_split_size_mb:200`.

        Raises ValueError for what PyTorch refuses, and NotImplementedError for what only
        the simulation lacks.
        """
        self.text = text
        self.plain = False
        self.max_split = sys.maxsize  # larger blocks are not split, nor this large
        self.threshold = 0.0
        # Into how many parts the space between two powers of 2 is divided, to one of
        # which a size is rounded up: by the lower power, from 1 MiB on.
        self.divisions = [0] * INTERVALS
        left_out = self._read_entries(re.findall(r"[,:\[\]]|[^,:\[\]\s]+", text))
        # Whether size alone chooses a block: all are split, no segment has ever grown,
        # and sizes are rounded as ever.
        is_usual = self.max_split == sys.maxsize and not any(self.divisions)
        self.plain = is_usual and not self._has_grown
        if left_out:
            raise NotImplementedError(MESSAGES["left out"].format(", ".join(left_out)))

    def _read_entries(self, tokens: list[str]) -> list[str]:
        """Follow the entries of a text; return those that are left out."""
        left_out = []
        position = 0
        while position < len(tokens):
            key = tokens[position]
            end = _end_of_value(tokens, position + 2)
            entry = "".join(tokens[position:end])
            if key not in LEFT_OUT and key not in self._read:
                raise ValueError(MESSAGES["unrecognized"].format(key))
            if position + 2 >= len(tokens):
                raise RuntimeError(MESSAGES["no value"])
            if key in LEFT_OUT or entry == f"backend:{BACKENDS[1]}":
                left_out.append(f"'{entry}'")
            else:
                self._read[key](tokens[:end], position + 2)
            position = end + 1  # after the comma
        return left_out

    def _read_backend(self, tokens: list[str], position: int) -> None:
        if tokens[position] not in BACKENDS:
            raise ValueError(MESSAGES["backend"])

    def _read_expandable(self, tokens: list[str], position: int) -> None:
        value = tokens[position]
        if value not in ("True", "False"):
            raise ValueError(MESSAGES["boolean"].format(position, value))
        self.expandable = value == "True"
        if self.expandable:
            self._has_grown = True

    def _read_threshold(self, tokens: list[str], position: int) -> None:
        # PyTorch heeds it only beside a memory fraction.
        self.threshold = _real(tokens[position])
        if not 0 < self.threshold < 1:
            raise ValueError(MESSAGES["threshold"])

    def _read_split_size(self, tokens: list[str], position: int) -> None:
        size = _number(tokens[position]) * MIB
        if size < LARGE_SEGMENT:
            raise ValueError(MESSAGES["split size"].format(LARGE_SEGMENT // MIB))
        self.max_split = size

    def _read_fraction(self, tokens: list[str], position: int) -> None:
        fraction = _real(tokens[position])
        if not 0 <= fraction <= 1:
            raise ValueError(MESSAGES["fraction"])
        self.fraction = fraction

    def _read_divisions(self, tokens: list[str], position: int) -> None:
        """Read one number of divisions, or those of some sizes (parseRoundUpPower2...)."""
        if tokens[position] != "[":
            number = _number(tokens[position])
            _require_power(number, "divisions")
            self.divisions = [number] * INTERVALS
            return

        before = None
        for begin in range(
            position + 1, len(tokens) - 1, 4
        ):  # as in `256`, `:`, `1`, `,`
            number = _number(tokens[begin + 2])
            if number:
                _require_power(number, "some divisions")
            if tokens[begin] == ">":
                first = before or 0
                self.divisions[first:] = [number] * (INTERVALS - first)
                continue
            size = _number(tokens[begin])
            _require_power(size, "intervals")
            index = min(size.bit_length() - 1, INTERVALS - 1)
            if before is None:
                self.divisions[:index] = [number] * index
            self.divisions[index] = number
            before = index

    def round(self, size: int) -> int:
        """Return the bytes that are taken for a request of `size` (round_size)."""
        lower = size.bit_length() - 1
        index = lower - MIB.bit_length() + 1
        divisions = self.divisions[min(max(index, 0), INTERVALS - 1)]
        if divisions > 1 and size > BLOCK * divisions:
            return round_up(size, 2**lower // divisions)
        return round_up(size, BLOCK) or BLOCK


def _end_of_value(tokens: list[str], position: int) -> int:
    """Return the position behind a value, which is one token or a list."""
    if tokens[position : position + 1] != ["["]:
        return position + 1
    if "]" not in tokens[position:]:
        raise RuntimeError(MESSAGES["bracket"])
    return tokens.index("]", position) + 1


def _number(token: str) -> int:
    """Read the digits with which a token begins, as C++ does."""
    digits = re.match(r"\d+", token)
    return int(digits[0]) if digits else _refuse("stoull")


def _real(token: str) -> float:
    digits = re.match(r"[+-]?\d*\.?\d+(e[+-]?\d+)?", token)
    return float(digits[0]) if digits else _refuse("stod")


def _refuse(function: str) -> NoReturn:
    """Raise what a function of C++'s library makes of a text that is no number."""
    raise RuntimeError(function)


def _require_power(number: int, what: str) -> None:
    if number.bit_count() != 1:
        raise ValueError(MESSAGES[what])
