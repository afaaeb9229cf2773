"""Fixtures of the simulator's tests."""

import pytest

import cudasim


@pytest.fixture
def two_gpus():
    """Two simulated GPUs for the length of a test."""
    with cudasim.simulate(gpus=2):
        yield
