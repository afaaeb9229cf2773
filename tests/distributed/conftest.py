"""Each test has a job of its own, whose processes are counted when it has ended."""

import pytest
from launch import MACHINES, Job


@pytest.fixture(params=sorted(MACHINES))
def machine(request):
    """What processes see: no GPU, or two simulated ones."""
    return request.param


@pytest.fixture
def job(tmp_path):
    """A job on this machine without GPUs; none of its processes outlives the test."""
    one = Job(tmp_path)
    yield one
    left = one.kill()
    assert left == 0, f"{left} processes were left behind"
