"""Tests that the plugin runs: each gets fresh GPUs, and what its marker asks for."""

import pytest
import torch

MIB = 2**20
drawn = []


def empty_bytes(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda:1")


@pytest.mark.parametrize("time", [1, 2])
def test_fresh(time, gpus):
    assert gpus[1].allocated == 0
    assert gpus[1].peak == 0
    assert torch.cuda.memory_reserved(1) == 0
    assert torch.cuda.current_device() == 0
    assert torch.cuda.current_stream(1) == torch.cuda.default_stream(1)
    assert torch.cuda.get_sync_debug_mode() == 0
    assert torch.cuda.memory_stats(1)["allocated_bytes.all.allocated"] == 0

    # What the next test must not find.
    torch.cuda.set_device(1)
    torch.cuda.set_stream(torch.cuda.Stream())
    torch.cuda.set_sync_debug_mode("warn")
    drawn.append(torch.rand(2, device="cuda").tolist())
    torch.ones(MIB, device="cuda")
    assert gpus[1].peak == 4 * MIB
    assert drawn[0] == drawn[-1]


@pytest.fixture(scope="module")
def wide():
    return torch.ones(MIB, device="cuda:1")


@pytest.mark.parametrize("time", [1, 2])
def test_a_wider_fixture_is_still_there_and_counted(time, wide, gpus):
    if time == 2:
        assert gpus[1].allocated == 4 * MIB
        assert gpus[1].peak == 4 * MIB
    assert wide.sum() == MIB


@pytest.mark.gpus(2, memory="64MiB")
def test_small(gpus):
    empty_bytes(8 * MIB)
    with pytest.raises(torch.OutOfMemoryError):
        empty_bytes(128 * MIB)


def test_all(gpus):
    assert empty_bytes(128 * MIB).device.index == 1


@pytest.mark.gpus(1, memory="1TiB")
def test_more_memory_than_there_is():
    pass


@pytest.mark.gpus(1, memory="much")
def test_no_size_of_memory():
    pass


@pytest.mark.gpus(1, mem="1GiB")
def test_no_argument_of_a_marker():
    pass


@pytest.mark.world
def test_no_number_of_ranks():
    pass


def test_no_world(rank):
    pass
