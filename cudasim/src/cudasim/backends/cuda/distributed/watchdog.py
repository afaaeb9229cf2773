"""PyTorch's watchdog of NCCL: it ends the process of a collective that takes too long.

See `ProcessGroupNCCL::ncclCommWatchdog` and `WorkNCCL::handleException` in
torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp.
"""

import os
import sys
from typing import NoReturn

import torch.distributed as dist

from cudasim.session import session
from cudasim.words import WORDS

MESSAGES = WORDS["NCCL"]
# With it no watchdog is there, and a collective that is waited for raises its error.
BLOCKING_WAIT = "TORCH_NCCL_BLOCKING_WAIT"
# What the watchdog does; 0 and 2 do not end the process (`ErrorHandlingMode`).
ERROR_HANDLING = "TORCH_NCCL_ASYNC_ERROR_HANDLING"
ENDING = ("1", "3")
YES = ("1", "y", "yes", "true", "on")  # `check_env` in c10/util/env.h, lower case


def ends_process() -> bool:
    """Tell whether a collective that takes too long ends the process."""
    if os.environ.get(BLOCKING_WAIT, "").lower() in YES:
        return False
    return os.environ.get(ERROR_HANDLING, "3") in ENDING


def prefix_of(group: dist.ProcessGroup) -> str:
    """Return what stands before each line about a new group (`createLogPrefix`)."""
    number = session.groups_made  # before it
    name = group.group_name
    if group.group_desc not in ("", "undefined"):
        name += f"({group.group_desc})"
    return f"[PG ID {number} PG GUID {name} Rank {group.rank()}]"


def end_process(prefix: str, error: dist.DistBackendError) -> NoReturn:
    """Print what the watchdog and C++ print of an error, and abort.

    Each line about the group begins with `prefix`. Our notes on the error come last.
    """
    rank = dist.get_rank()
    text = f"{prefix} {error}"
    ending = MESSAGES["watchdog"].format(prefix, text)
    lines = [
        f"[rank{rank}]: {text}",
        f"[rank{rank}]: {prefix} {MESSAGES['corrupted']}",
        f"[rank{rank}]: {prefix} {MESSAGES['taken down']}",
        MESSAGES["terminate"].format("c10::DistBackendError", ending),
        *getattr(error, "__notes__", []),
    ]
    sys.stderr.write("\n".join(lines) + "\n")
    sys.stderr.flush()
    os.abort()
