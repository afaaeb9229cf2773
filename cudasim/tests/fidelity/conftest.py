"""What cudasim answers, asked once for each number of GPUs, card and order."""

import functools
import json

import pytest
from programs import run_fidelity


@functools.cache
def simulate(gpus, card, seed=None):
    """The answers of `cudasim` from a process of its own."""
    options = ["--gpus", gpus, "--card", card, *(["--seed", seed] if seed is not None else [])]
    done = run_fidelity("facts", "simulate", *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="session")
def simulated():
    """The function that asks cudasim."""
    return simulate
