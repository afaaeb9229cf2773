"""What PYTORCH_ALLOC_CONF asks of the allocators (c10/core/AllocatorConfig.cpp)."""

import sys

from cudasim.device.sizes import LARGE_SEGMENT, MIB
from cudasim.words import WORDS


class Settings:
    def __init__(self, text: str = "") -> None:
        self.expandable = self._has_grown = False
        self.change(text)

    @property
    def max_split_size(self) -> int:
        return -1 if self.max_split == sys.maxsize else self.max_split

    def change(self, text: str) -> None:
        """Follow a `text` such as `expandable_segments:True,max_split_size_mb:200`. Raises
        ValueError for what PyTorch refuses, NotImplementedError for its other settings."""
        self.text, self.plain = text, False
        self.max_split = sys.maxsize  # blocks of so many bytes or more are not split
        for entry in filter(None, (part.strip() for part in text.split(","))):
            key, _, value = (part.strip() for part in entry.partition(":"))
            if key == "expandable_segments":
                if value not in ("True", "False"):
                    raise ValueError(WORDS["allocator"]["boolean"].format(value))
                self.expandable = value == "True"
                self._has_grown |= self.expandable
            elif key == "max_split_size_mb":
                if not value.isdigit() or int(value) * MIB <= LARGE_SEGMENT:
                    raise ValueError(
                        WORDS["allocator"]["split size"].format(LARGE_SEGMENT // MIB)
                    )
                self.max_split = int(value) * MIB
            elif (
                key == "garbage_collection_threshold"
            ):  # heeded only beside a memory fraction
                if not 0 < float(value) < 1:
                    raise ValueError(
                        "garbage_collect_threshold too small, set it 0.0-1.0"
                    )
            elif key != "backend" or value != "native":
                raise NotImplementedError(
                    f"cudasim: the allocator has no setting '{entry}'"
                )
        # Whether size alone chooses a block: each is split, and no segment has ever grown.
        self.plain = not self._has_grown and self.max_split == sys.maxsize
