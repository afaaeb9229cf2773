"""What PYTORCH_ALLOC_CONF asks of the allocators (c10/core/AllocatorConfig.cpp)."""

import sys

from cudasim.device.sizes import LARGE_SEGMENT, MIB
from cudasim.words import WORDS


class Settings:
    """The settings of the allocators of all GPUs."""

    def __init__(self, text: str = "") -> None:
        self.expandable = False
        self._has_grown = False
        self.change(text)

    @property
    def max_split_size(self) -> int:
        """The same as PyTorch reports it: -1 for no limit."""
        return -1 if self.max_split == sys.maxsize else self.max_split

    def change(self, text: str) -> None:
        """Follow a text such as `expandable_segments:True,max_split_size_mb:200`.

        Raises ValueError for what PyTorch refuses, and NotImplementedError for its
        other settings.
        """
        self.text = text
        self.plain = False
        self.max_split = sys.maxsize  # larger blocks are not split, nor this large
        for entry in text.split(","):
            if entry.strip():
                self._apply(entry.strip())
        # Whether size alone chooses a block: all are split, and no segment has ever grown.
        self.plain = not self._has_grown and self.max_split == sys.maxsize

    def _apply(self, entry: str) -> None:
        key, _, value = [part.strip() for part in entry.partition(":")]
        if key == "expandable_segments":
            if value not in ("True", "False"):
                raise ValueError(WORDS["allocator"]["boolean"].format(value))
            self.expandable = value == "True"
            if self.expandable:
                self._has_grown = True
        elif key == "max_split_size_mb":
            if not value.isdigit() or int(value) * MIB <= LARGE_SEGMENT:
                least = LARGE_SEGMENT // MIB
                raise ValueError(WORDS["allocator"]["split size"].format(least))
            self.max_split = int(value) * MIB
        elif key == "garbage_collection_threshold":
            # PyTorch heeds it only beside a memory fraction.
            if not 0 < float(value) < 1:
                raise ValueError("garbage_collect_threshold too small, set it 0.0-1.0")
        elif key != "backend" or value != "native":
            words = f"cudasim: the allocator has no setting '{entry}'"
            raise NotImplementedError(words)
