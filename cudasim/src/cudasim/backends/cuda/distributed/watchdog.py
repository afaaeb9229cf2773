"""PyTorch's watchdog of NCCL: it ends the process of a collective that takes too long.

See `ProcessGroupNCCL::ncclCommWatchdog` and `WorkNCCL::handleException` in
torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp.
"""

import os
import sys
from typing import NamedTuple, NoReturn, Self

import torch
import torch.distributed as dist

from cudasim.installed import minor_version
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


class Prefixes(NamedTuple):
    """What stands before lines of the log."""

    group: str  # about a group (`ProcessGroupNCCL::createLogPrefix`)
    work: str  # about one of its works (`WorkNCCL::logPrefix`)

    @classmethod
    def of(cls, group: dist.ProcessGroup) -> Self:
        """Return those of a new group."""
        number = session.groups_made  # before it
        name = group.group_name
        if group.group_desc not in ("", "undefined"):
            name += f"({group.group_desc})"
        rank = f"Rank {group.rank()}"
        # https://github.com/pytorch/pytorch/issues/191305
        names_group = minor_version(torch.__version__) >= (2, 14)
        work = f"[PG GUID {name} {rank}]" if names_group else f"[{rank}]"
        return cls(f"[PG ID {number} PG GUID {name} {rank}]", work)


def end_process(prefixes: Prefixes, error: dist.DistBackendError) -> NoReturn:
    """Print what the watchdog and C++ print of an error, and abort.

    Our notes on the error come last.
    """
    rank = dist.get_rank()
    ending = MESSAGES["watchdog"].format(prefixes.group, error)
    lines = [
        f"[rank{rank}]: {error}",
        f"[rank{rank}]: {prefixes.work} {MESSAGES['corrupted']}",
        f"[rank{rank}]: {prefixes.work} {MESSAGES['taken down']}",
        MESSAGES["terminate"].format("c10::DistBackendError", ending),
        *getattr(error, "__notes__", []),
    ]
    sys.stderr.write("\n".join(lines) + "\n")
    sys.stderr.flush()
    os.abort()
