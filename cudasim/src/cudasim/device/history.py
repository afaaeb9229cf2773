"""The history of a GPU's memory: what was taken and given back, when, and by which code. Names are
those of torch/csrc/cuda/Module.cpp (THCPModule_memorySnapshot). All frames are Python's."""

import sys
import time
from collections import deque
from pathlib import Path
from traceback import walk_stack
from typing import Any

Frames = tuple[dict[str, Any], ...]

# For which events the code is kept: what is held, taken, given back.
NEVER, STATE, ALLOC, ALL = 4, 1, 2, 3
LEVELS = {None: 0, "state": STATE, "alloc": ALLOC, "all": ALL}

PACKAGE = str(Path(__file__).resolve().parents[1])


class History:
    """The events of one GPU's memory since recording began, the latest `entries` of them."""

    def __init__(
        self, level: int, entries: int, skipped: frozenset[str] = frozenset()
    ) -> None:
        self.level, self.skipped = level, skipped
        self.events: deque[dict[str, Any]] = deque(maxlen=min(entries, sys.maxsize))

    def here(self, level: int) -> Frames:
        """The code that runs now, innermost first; nothing if it is not kept for that `level`."""
        if self.level < level:
            return ()
        return tuple(
            {
                "filename": frame.f_code.co_filename,
                "name": frame.f_code.co_name,
                "line": line,
            }
            for frame, line in walk_stack(sys._getframe(1))
            if not frame.f_code.co_filename.startswith(PACKAGE)
        )

    def add(
        self, action: str, at: int, size: int, stream: int, code: Frames, **more: int
    ) -> None:
        if action not in self.skipped:
            event = {"action": action, "addr": at, "size": size, "stream": stream}
            kept = list(code) if self.level >= ALLOC else []
            self.events.append(
                event | {"time_us": time.time_ns() // 1000, "frames": kept, **more}
            )
