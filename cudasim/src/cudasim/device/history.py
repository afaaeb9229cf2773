"""The history of a GPU's memory: what was taken and given back, when, and by which code.

The names are those of torch/csrc/cuda/Module.cpp (THCPModule_memorySnapshot). All frames
are Python's.
"""

import sys
import time
from collections import deque
from collections.abc import Callable
from traceback import walk_stack
from typing import Any

from cudasim.notices import PACKAGE

Frames = tuple[dict[str, Any], ...]

# For which events the code is kept. Each level includes those before it.
STATE = 1  # for what is held
ALLOC = 2  # for what is taken
ALL = 3  # for what is given back
NEVER = 4  # above all levels
LEVELS = {None: 0, "state": STATE, "alloc": ALLOC, "all": ALL}


class History:
    """The latest `entries` events of one GPU's memory since recording began.

    Each has the `metadata` that the thread has set then, and the actions in `skipped` are
    left out.
    """

    def __init__(
        self,
        level: int,
        entries: int,
        skipped: frozenset[str] = frozenset(),
        metadata: Callable[[], str] = str,
    ) -> None:
        self.level = level
        self.skipped = skipped
        self.metadata = metadata
        self.events: deque[dict[str, Any]] = deque(maxlen=min(entries, sys.maxsize))

    def here(self, level: int) -> Frames:
        """Return the frames of the code that runs now, innermost first.

        There are none if they are not kept for that `level`.
        """
        if self.level < level:
            return ()
        frames = []
        for frame, line in walk_stack(sys._getframe(1)):
            code = frame.f_code
            if not code.co_filename.startswith(PACKAGE):
                place = {"filename": code.co_filename, "name": code.co_name}
                frames.append(place | {"line": line})
        return tuple(frames)

    def add(
        self, action: str, at: int, size: int, stream: int, code: Frames, **more: Any
    ) -> None:
        if action in self.skipped:
            return
        event = {
            "action": action,
            "addr": at,
            "size": size,
            "stream": stream,
            "time_us": time.time_ns() // 1000,
            "user_metadata": self.metadata(),
            "frames": list(code) if self.level >= ALLOC else [],
        }
        self.events.append(event | more)
