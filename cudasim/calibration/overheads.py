"""What a call costs beside its work: the host's call, the launch, the floor, the wait."""

import subprocess
import sys

import torch

from calibration import CannotCalibrate
from calibration.stopwatch import BACKLOG, Stopwatch

_FIRST = """
import time, torch
start = time.perf_counter()
x = torch.ones(64, 64, device="cuda")
torch.cuda.synchronize()
context = time.perf_counter()
x @ x
torch.cuda.synchronize()
print(context - start, time.perf_counter() - context)
"""


def overheads(watch: Stopwatch) -> dict[str, float]:
    """Seconds of `launch`, `floor` and `wait`, and of `submit`, a whole call on the GPU.

    A launch is what a call costs the host more than one without a GPU.
    """
    x, y = (torch.rand(64, device=watch.device) for _ in range(2))
    here = torch.rand(8)

    def small() -> None:
        x + y

    submit = watch.host(small)
    floor = watch.card(small, BACKLOG)

    def waited() -> None:
        x + y
        torch.cuda.synchronize(watch.device)

    wait = watch.both(waited, 50) - submit - floor
    return {
        "submit": submit,
        "launch": max(0.0, submit - watch.host(lambda: here + here)),
        "floor": floor,
        "wait": max(0.0, wait),
    }


def first_use() -> dict[str, float]:
    """Seconds of the first operation in a new process, and of its first matrix product.

    Raises CannotCalibrate where a second process is kept from the GPU.
    """
    ask = [sys.executable, "-c", _FIRST]
    done = subprocess.run(ask, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise CannotCalibrate(f"a second process cannot use this GPU: {said[-1]}")
    context, library = done.stdout.split()[-2:]
    return {"context": float(context), "library": float(library)}
