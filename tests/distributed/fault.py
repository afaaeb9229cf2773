"""Run a training script, unchanged, and let one of its ranks meet with a fault.

    torchrun ... fault.py FAULT train.py [arguments of train.py]

A fault strikes the last rank of a server, in its first life only, at its 30th step, in the
midst of the second epoch. Where SPARED is set, it strikes nobody. The hook on optimizers is
PyTorch's own, so that the script knows nothing of it.
"""

import itertools
import os
import runpy
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.optim.optimizer import register_optimizer_step_post_hook

STEP = 30


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def stopped() -> None:
    """Wait for what never comes; the file tells the test that it does."""
    Path("stopped").touch()
    time.sleep(3600)


def shape() -> None:
    """Take part in the next collective with a tensor of another shape."""
    dist.all_reduce(torch.ones(3))


def order() -> None:
    """Call one collective while the others call another."""
    dist.broadcast(torch.ones(3), src=0)


FAULTS = {"killed": killed, "stopped": stopped, "shape": shape, "order": order}


def is_struck() -> bool:
    """Return whether this rank is the one that meets with the fault."""
    if "SPARED" in os.environ:
        return False
    is_last = int(os.environ["LOCAL_RANK"]) == int(os.environ["LOCAL_WORLD_SIZE"]) - 1
    is_first_life = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    return is_last and is_first_life


def main(name: str, script: str, *arguments: str) -> None:
    steps = itertools.count(1)

    def after_step(*_: object) -> None:
        if next(steps) == STEP:
            FAULTS[name]()

    if is_struck():
        register_optimizer_step_post_hook(after_step)
    sys.argv = [script, *arguments]
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
