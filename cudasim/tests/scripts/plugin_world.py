"""Tests that the plugin runs in worlds of two ranks, most of which fail."""

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from cudasim.testing import world

HANGING = Path("hanging")
AGES = 10**6  # seconds


def monotonic():
    """Return the time, which jumps once a rank hangs."""
    if HANGING.exists():
        return time.monotonic() + AGES
    return time.monotonic()


# The process that waits for the ranks needs not wait for the end of a timeout, which must be
# so long that the ranks have begun on a busy machine.
world.time = SimpleNamespace(monotonic=monotonic, sleep=time.sleep)


@pytest.mark.world(2)
def test_fails(rank):
    print("this is rank", rank)
    assert rank == 0, "rank one says why"


@pytest.mark.world(2)
def test_skipped(rank):
    pytest.skip("not here")


@pytest.mark.world(2)
def test_dies(rank):
    if rank == 1:
        os._exit(7)


@pytest.mark.xfail(reason="known")
@pytest.mark.world(2)
def test_known(rank):
    raise AssertionError


@pytest.mark.world(2)
def test_sum(rank, gpus):
    assert os.environ["WORLD_SIZE"] == "2"
    assert os.environ["LOCAL_RANK"] == str(rank)
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl")
    x = torch.ones(1, device="cuda") * (rank + 1)
    torch.distributed.all_reduce(x)
    assert x.item() == 3
    assert x.device == gpus[rank].device


@pytest.mark.world(2, timeout=120)
def test_hangs(rank):
    if rank == 1:
        HANGING.touch()
        time.sleep(1000)
