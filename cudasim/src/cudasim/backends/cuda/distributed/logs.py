"""Warnings that PyTorch's C++ writes to standard error, where Python sees none of them.

The methods of a group are bound without a handler that would turn `TORCH_WARN_ONCE` into
Python's warnings. So `WarningHandler::process` (c10/util/Exception.cpp) logs them, in the
form of c10/util/Logging.cpp. We leave out the number of the line.
"""

import os
import sys
from datetime import datetime

import torch
import torch.distributed as dist

from cudasim.words import WORDS

FILE = "ProcessGroupNCCL.cpp"
LEVEL = "TORCH_CPP_LOG_LEVEL"  # environment variable: the least that is logged
ABOVE_WARNINGS = ("2", "ERROR", "3", "FATAL")
NO = ("0", "n", "no", "f", "false")  # `getCvarBool` of c10d/Utils.hpp, lower case
warned: set[str] = set()  # the names of the warnings that this process has given


def is_on(variable: str) -> bool:
    """Tell whether no environment variable of that name switches it off."""
    return os.environ.get(variable, "").lower() not in NO


def warn_once(name: str, *values: object) -> None:
    """Log the warning `name`, for these values, unless this process has given it before."""
    if name in warned and not torch.is_warn_always_enabled():
        return
    warned.add(name)
    if os.environ.get(LEVEL, "").upper() in ABOVE_WARNINGS:
        return
    rank = f"[rank{dist.get_rank()}]:" if dist.is_initialized() else ""
    now = datetime.now()
    when = f"{now.month}{now.day:02} {now:%H:%M:%S.%f}000"
    message = WORDS["NCCL"][name].format(*values)
    # The macro logs within a function that has no name.
    line = f"{rank}[W{when} {FILE}] Warning: {message} (function operator())\n"
    sys.stderr.write(line)
    sys.stderr.flush()
