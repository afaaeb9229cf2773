"""What cudasim answers: as it is kept, and asked once for each number of GPUs, card and order."""

import functools
import json
from pathlib import Path

import pytest
from programs import run_fidelity


@functools.cache
def simulate(gpus, card, *seed):
    """The answers of `cudasim` from a process of its own."""
    options = [
        "--gpus",
        gpus,
        "--card",
        card,
        *(option for n in seed for option in ("--seed", n)),
    ]
    done = run_fidelity("facts", "simulate", *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def simulated():
    """The function that asks cudasim."""
    return simulate


@pytest.fixture
def kept():
    """What two simulated GPUs answered when somebody last read it, with PyTorch 2.13."""
    return json.loads(
        Path(__file__).with_name("answers.json").read_text(encoding="utf-8")
    )
