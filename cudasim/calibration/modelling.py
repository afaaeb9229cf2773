"""The workloads under a modelled clock, in a process of its own.

A simulation and a real GPU do not go together in one process.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile

import torch

import cudasim
from calibration import CannotCalibrate
from calibration.stopwatch import workload_seconds
from calibration.uncomputed import Uncomputed
from calibration.workloads import WORKLOADS

PROJECT = Path(__file__).resolve().parents[1]


def modelled(card: str, names: list[str], quick: bool) -> Iterator[tuple[str, float]]:
    """(name, seconds) of the workloads as modelled for `card`, one after another.

    Raises CannotCalibrate where the process that asks the model fails.
    """
    given = os.environ.items()
    variables = {name: text for name, text in given if not name.startswith("CUDASIM_")}
    paths = [str(PROJECT), str(PROJECT / "src"), os.environ.get("PYTHONPATH", "")]
    variables |= {
        **{"PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONUTF8": "1"},
        **{"CUDA_VISIBLE_DEVICES": "", "CUDASIM_QUIET": "1"},
    }
    ask = [sys.executable, "-m", __name__, card, "quick" if quick else "full", *names]
    with TemporaryFile("w+", encoding="utf-8") as errors:
        streams = {"stdout": subprocess.PIPE, "stderr": errors, "encoding": "utf-8"}
        with subprocess.Popen(ask, env=variables, **streams) as process:
            try:
                for line in process.stdout:
                    name, taken = json.loads(line)
                    yield name, taken
            except BaseException:  # an interruption must not wait for what nobody reads
                process.kill()
                raise
        errors.seek(0)
        said = errors.read().strip().splitlines()
    if process.returncode:
        raise CannotCalibrate(
            f"the model stopped: {said[-1] if said else process.returncode}"
        )


def main(card: str, size: str, *names: str) -> None:
    """Print [name, seconds] of each workload, a line of JSON each."""
    with (
        Uncomputed(),
        cudasim.simulate(gpus=1, card=card, force=True, clock="modelled"),
    ):
        for name in names:
            device = torch.device("cuda", 0)
            taken = workload_seconds(WORKLOADS[name], device, size == "quick", 1, 1)
            print(json.dumps([name, taken]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
