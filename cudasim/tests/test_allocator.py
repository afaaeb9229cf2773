"""Blocks of memory in the long run; where single ones lie asks `fidelity/programs/memory.py`."""

import gc
import itertools
import random
from types import SimpleNamespace

import pytest
import torch
from calls import MIB, block

import cudasim
from cudasim.backends.memory import stats
from cudasim.device.allocator import Memory
from cudasim.device.gpu import Allocation
from cudasim.session import session

pytestmark = pytest.mark.usefixtures("two_gpus")

GROWING, FIXED = "expandable_segments:True", "expandable_segments:False"


def allow(mib):
    """Limit PyTorch to so many MiB of the current card."""
    total = torch.cuda.get_device_properties().total_memory
    torch.cuda.set_per_process_memory_fraction((mib * MIB + 1) / total)


def sizes(segment):
    """The sizes of a segment's blocks in MiB, free ones below 0."""
    signs = {"active_allocated": 1, "inactive": -1}
    return [signs[each["state"]] * each["size"] / MIB for each in segment["blocks"]]


def layout(device=0):
    """For each segment its size and its blocks in MiB."""
    found = [each for each in torch.cuda.memory_snapshot() if each["device"] == device]
    return [(each["total_size"] / MIB, *sizes(each)) for each in found]


def settings(text):
    torch._C._accelerator_setAllocatorSettings(text)


def check_counts():
    """Segments that can grow are not counted, and neither is what is split in them."""
    fixed = [
        sizes(each)
        for each in torch.cuda.memory_snapshot()
        if not each["is_expandable"]
    ]
    split = [size for parts in fixed if len(parts) > 1 for size in parts if size < 0]
    stats = torch.cuda.memory_stats()
    assert stats["segment.all.current"] == len(fixed)
    assert stats["inactive_split.all.current"] == len(split)
    assert stats["inactive_split_bytes.all.current"] == -sum(split) * MIB


def test_what_is_not_simulated_is_refused_by_name():
    with pytest.raises(NotImplementedError, match="roundup_power2_divisions:4"):
        settings(f"{GROWING},roundup_power2_divisions:4")


def test_the_environment_is_followed(monkeypatch):
    cudasim.disable()
    text = f"{GROWING},max_split_size_mb:50"
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", text)
    cudasim.enable(gpus=2)
    block(2)
    assert torch.cuda.memory_snapshot()[0]["is_expandable"]
    assert torch.cuda.memory_stats()["max_split_size"] == 50 * MIB
    assert torch._C._accelerator_getAllocatorSettings() == text


def test_a_stream_uses_the_blocks_that_were_freed_on_it():
    tensor = block(4)
    del tensor
    aside = torch.cuda.Stream()
    with torch.cuda.stream(aside):
        other = block(4)
    streams = [each["stream"] for each in torch.cuda.memory_snapshot()]
    assert streams == [0, aside.cuda_stream]
    assert layout() == [(20, -20), (20, 4, -16)]
    again = block(4)
    assert layout() == [(20, 4, -16)] * 2
    del other, again


def test_every_gpu_has_addresses_of_its_own_that_do_not_overlap():
    held = [block(size, f"cuda:{gpu}") for size in (0.5, 3, 18) for gpu in (0, 1)]
    segments = torch.cuda.memory_snapshot()
    ends = [
        (each["address"], each["address"] + each["total_size"]) for each in segments
    ]
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(ends))
    assert layout(0) == layout(1) == [(2, 0.5, -1.5), (20, 3, -17), (18, 18)]
    del held


@pytest.mark.parametrize("text", [FIXED, GROWING])
def test_nothing_is_lost_or_overlaps_in_a_long_random_run(text):
    settings(text)
    allow(400)
    draw, held = random.Random(0), []
    for _ in range(1500):
        if held and draw.random() < 0.5:
            held.pop(draw.randrange(len(held)))
        else:
            try:
                held.append(block(draw.choice([0.01, 0.4, 1, 1.5, 7, 15, 33])))
            except torch.OutOfMemoryError:
                held = held[::2]
    blocks = [each for one in torch.cuda.memory_snapshot() for each in one["blocks"]]
    used = [each for each in blocks if each["state"] == "active_allocated"]
    assert len(used) == len(held)
    assert sum(each["requested_size"] for each in used) == sum(
        each.nbytes for each in held
    )
    assert sum(each["size"] for each in used) == torch.cuda.memory_allocated()
    assert sum(each["size"] for each in blocks) == torch.cuda.memory_reserved()
    for one, other in itertools.pairwise(blocks):
        assert one["address"] + one["size"] <= other["address"]
    check_counts()
    held.clear()
    gc.collect()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == 0 and torch.cuda.memory_snapshot() == []


def seen(memory):
    """What a snapshot tells of each block."""
    return [
        [
            (each.address, each.size, each.requested, each.used, each.stream)
            for each in blocks
        ]
        for blocks in memory.segments()
    ]


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(1, 20))]
)
def test_what_waits_in_the_log_changes_nothing(seed):
    """A memory that is asked after every step takes and frees each block at once."""
    choice = random.Random(seed)
    waiting, asked = (Memory(0, 2048 * MIB, session.type) for _ in range(2))
    stream = [0]
    gpus = [SimpleNamespace(memory=memory) for memory in (waiting, asked)]
    held, logged = [], 0
    for step in range(600):
        if step == 300:  # from here on there are streams
            for memory in (waiting, asked):
                memory.change(stream=lambda: stream[0])
        what = choice.random()
        if held and what < 0.45:
            place = -1 if choice.random() < 0.7 else choice.randrange(len(held))
            held.pop(place)
        elif what < 0.48 and step > 300:
            stream[0] = choice.randrange(2)
        elif what < 0.5:
            ask = choice.choice(
                (Memory.empty_cache, Memory.reset_peaks, Memory.reset_totals)
            )
            for memory in (waiting, asked):
                ask(memory)
        else:
            size = choice.choice(
                (24, 24, 24, 600, 2**19, MIB, 3 * MIB, 8 * MIB, 12 * MIB)
            )
            held.append([Allocation(gpu, size) for gpu in gpus])
        logged += len(waiting.log)
        assert asked.counts.now[0] == len(held)
    assert logged > 300
    assert stats(waiting) == stats(asked)
    assert seen(waiting) == seen(asked)


def test_what_is_taken_again_and_again_is_counted_whenever_it_is_asked():
    memory = Memory(0, 2048 * MIB, session.type)
    gpu = SimpleNamespace(memory=memory)
    Allocation(gpu, 24)  # from here on by way of the log
    for number in range(2, 6):
        for _ in range(number):
            Allocation(gpu, 24)
        here = Allocation(gpu, 24)
        taken = sum(range(3, number + 2)) + 1
        assert memory.counts.stat("blocks") == {
            "current": 1,
            "peak": 1,
            "allocated": taken,
            "freed": taken - 1,
        }
        del here
