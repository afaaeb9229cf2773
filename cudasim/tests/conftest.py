"""Fixtures of the simulator's tests, and where they find what they test."""

import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(PROJECT / "src"), str(PROJECT)]  # `cudasim`, not installed, and `fidelity`


@pytest.fixture
def two_gpus():
    """Two simulated GPUs for the length of a test."""
    import cudasim

    with cudasim.simulate(gpus=2):
        yield
