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
    """Return the sizes of a segment's blocks in MiB, free ones below 0."""
    signs = {"active_allocated": 1, "inactive": -1}
    sizes = []
    for part in segment["blocks"]:
        mib = part["size"] / MIB
        sizes.append(signs[part["state"]] * mib)
    return sizes


def layout(device=0):
    """Return for each segment its size and its blocks in MiB."""
    rows = []
    for segment in torch.cuda.memory_snapshot():
        if segment["device"] == device:
            rows.append((segment["total_size"] / MIB, *sizes(segment)))
    return rows


def settings(text):
    torch._C._accelerator_setAllocatorSettings(text)


def check_counts():
    """Segments that can grow are not counted, and neither is what is split in them."""
    segments = 0
    free = []
    for segment in torch.cuda.memory_snapshot():
        if segment["is_expandable"]:
            continue
        segments += 1
        parts = sizes(segment)
        if len(parts) > 1:
            free += [size for size in parts if size < 0]

    stats = torch.cuda.memory_stats()
    assert stats["segment.all.current"] == segments
    assert stats["inactive_split.all.current"] == len(free)
    assert stats["inactive_split_bytes.all.current"] == -sum(free) * MIB


def test_what_is_not_simulated_is_refused_by_name():
    with pytest.raises(NotImplementedError, match="pinned_num_register_threads:4"):
        settings(f"{GROWING},pinned_num_register_threads:4")


@pytest.mark.parametrize(
    ("text", "size"),
    [("4", 1280), ("[1:2,2:8,>:0]", 1536), ("[2:8,>:0]", 1152), ("[1:0,>:4]", 1280)],
)
def test_sizes_are_rounded_to_parts_of_powers_of_two(text, size):
    # https://docs.pytorch.org/docs/stable/notes/cuda.html: 1200 with 4 divisions is 1280
    settings(f"roundup_power2_divisions:{text}")
    held = torch.empty(1100 * 2**10, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_allocated() == size * 2**10
    del held


@pytest.mark.parametrize(
    ("text", "error"),
    [
        # A published log has the first; the others are in c10's AllocatorConfig.cpp.
        ("malloc_fraction=0.5", "Unrecognized key 'malloc_fraction=0.5' in CUDA "),
        ("max_split_size_mb:19", "max_split_size_mb too small, must be >= 20"),
        (f"{GROWING},backend:other", "options are native and cudaMallocAsync"),
    ],
)
def test_bad_settings_keep_cuda_from_beginning(monkeypatch, text, error):
    cudasim.disable()
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", text)
    cudasim.enable(gpus=2)
    for _ in range(2):
        with pytest.raises(ValueError, match=error):
            torch.ones(1, device="cuda")


def test_the_environment_limits_what_a_process_takes(monkeypatch):
    cudasim.disable()
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "per_process_memory_fraction:0.5")
    cudasim.enable(gpus=2)
    assert torch.cuda.get_per_process_memory_fraction(1) == 0.5


def test_the_environment_may_change_until_a_gpu_is_used(monkeypatch):
    """libc10 reads it when it is needed; of two variables the older name goes first."""
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "max_split_size_mb:19")
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", GROWING)
    block(2)
    assert torch.cuda.memory_snapshot()[0]["is_expandable"]
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:30")
    assert torch._C._accelerator_getAllocatorSettings() == GROWING


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
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        first = block(4)
    streams = [segment["stream"] for segment in torch.cuda.memory_snapshot()]
    assert streams == [0, side.cuda_stream]
    assert layout() == [(20, -20), (20, 4, -16)]
    second = block(4)
    assert layout() == [(20, 4, -16)] * 2
    del first, second


def check_addresses(areas, size):
    """Areas that follow each other in a snapshot do not overlap."""
    for area, following in itertools.pairwise(areas):
        assert area["address"] + area[size] <= following["address"]


def test_every_gpu_has_addresses_of_its_own():
    held = []
    for mib in (0.5, 3, 18):
        held.append(block(mib, "cuda:0"))
        held.append(block(mib, "cuda:1"))
    check_addresses(torch.cuda.memory_snapshot(), "total_size")
    expected = [(2, 0.5, -1.5), (20, 3, -17), (18, 18)]
    assert layout(0) == expected
    assert layout(1) == expected
    del held


@pytest.mark.parametrize("text", [FIXED, GROWING])
def test_nothing_is_lost_or_overlaps_in_a_long_random_run(text):
    settings(text)
    allow(400)
    choice = random.Random(0)
    held = []
    for _ in range(1500):
        if held and choice.random() < 0.5:
            held.pop(choice.randrange(len(held)))
            continue
        mib = choice.choice([0.01, 0.4, 1, 1.5, 7, 15, 33])
        try:
            held.append(block(mib))
        except torch.OutOfMemoryError:
            held = held[::2]

    parts = []
    for segment in torch.cuda.memory_snapshot():
        parts += segment["blocks"]
    used = [part for part in parts if part["state"] == "active_allocated"]
    requested = sum(part["requested_size"] for part in used)
    assert len(used) == len(held)
    assert requested == sum(tensor.nbytes for tensor in held)
    assert sum(part["size"] for part in used) == torch.cuda.memory_allocated()
    assert sum(part["size"] for part in parts) == torch.cuda.memory_reserved()
    check_addresses(parts, "size")
    check_counts()

    held.clear()
    gc.collect()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == 0
    assert torch.cuda.memory_snapshot() == []


def described(memory):
    """Return what a snapshot tells of each block, by segment."""
    rows = []
    for number, blocks in enumerate(memory.segments()):
        for part in blocks:
            facts = part.address, part.size, part.requested, part.used, part.stream
            rows.append((number, *facts))
    return rows


SEEDS = [0]
SEEDS += [pytest.param(seed, marks=pytest.mark.full) for seed in range(1, 20)]
SIZES = (24, 24, 24, 600, 2**19, MIB, 3 * MIB, 8 * MIB, 12 * MIB)
REQUESTS = (Memory.empty_cache, Memory.reset_peaks, Memory.reset_totals)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_waits_in_the_log_changes_nothing(seed):
    """A memory that is asked after every step takes and frees each block at once."""
    choice = random.Random(seed)
    waiting = Memory(0, 2048 * MIB, session.type)
    immediate = Memory(0, 2048 * MIB, session.type)
    gpus = [SimpleNamespace(memory=memory) for memory in (waiting, immediate)]
    held = []
    stream = 0

    def current_stream():
        return stream

    logged = 0
    for step in range(600):
        if step == 300:  # from here on there are streams
            for memory in (waiting, immediate):
                memory.set_stream(current_stream)

        chance = choice.random()
        if held and chance < 0.45:
            newest = choice.random() < 0.7
            held.pop(-1 if newest else choice.randrange(len(held)))
        elif chance < 0.48 and step > 300:
            stream = choice.randrange(2)
        elif chance < 0.5:
            request = choice.choice(REQUESTS)
            for memory in (waiting, immediate):
                request(memory)
        else:
            size = choice.choice(SIZES)
            held.append([Allocation(gpu, size) for gpu in gpus])
        logged += len(waiting.log)
        assert immediate.counts.now[0] == len(held)

    assert logged > 300
    assert stats(waiting) == stats(immediate)
    assert described(waiting) == described(immediate)


def test_repeated_requests_are_counted_at_any_time():
    memory = Memory(0, 2048 * MIB, session.type)
    gpu = SimpleNamespace(memory=memory)
    Allocation(gpu, 24)  # from here on by way of the log
    taken = 1
    for number in range(2, 6):
        for _ in range(number):
            Allocation(gpu, 24)
        last = Allocation(gpu, 24)
        taken += number + 1
        count = memory.counts.stat("blocks")
        assert count["current"] == 1
        assert count["peak"] == 1
        assert count["allocated"] == taken
        assert count["freed"] == taken - 1
        del last
