"""Run a training script, unchanged, and let one of its ranks meet with a fault.

    torchrun ... fault.py FAULT train.py [arguments of train.py]

A fault strikes the last rank of a server, in its first life only, unless SPARED is set there: at
its 30th step, in the midst of the second epoch. The hook on optimizers is PyTorch's own, so that
the script knows nothing of it.
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
    """Waits for what never comes; the file tells the test that it does."""
    Path("stopped").touch()
    time.sleep(3600)


def shape() -> None:
    """Takes part in the next collective with a tensor of another shape."""
    dist.all_reduce(torch.ones(3))


def order() -> None:
    """Calls one collective while the others call another."""
    dist.broadcast(torch.ones(3), src=0)


def main(name: str, script: str, *arguments: str) -> None:
    fault, steps = globals()[name], itertools.count(1)
    last = os.environ["LOCAL_RANK"] == str(int(os.environ["LOCAL_WORLD_SIZE"]) - 1)
    first_life = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    if last and first_life and "SPARED" not in os.environ:
        register_optimizer_step_post_hook(lambda *_: next(steps) == STEP and fault())
    sys.argv = [script, *arguments]
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
