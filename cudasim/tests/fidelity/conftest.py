"""The answers of cudasim: as they are kept, and as a process of its own gives them."""

import functools
import json
from pathlib import Path

import pytest
from programs import run_fidelity

ANSWERS = Path(__file__).with_name("answers.json")


@functools.cache
def simulate(gpus, card, seed=None):
    """Return the answers of `cudasim` from a process of its own."""
    options = ["--gpus", gpus, "--card", card]
    if seed is not None:
        options += ["--seed", seed]
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
    return json.loads(ANSWERS.read_text(encoding="utf-8"))
