"""Where blocks lie: what c10/cuda/CUDACachingAllocator.cpp does with the same requests.

The expected layouts follow from its functions, which some comments name.
"""

import gc
import itertools
import random

import pytest
import torch
from calls import raised

import cudasim
from cudasim.backends.memory import stats
from cudasim.device.allocator import Memory
from cudasim.session import session

pytestmark = pytest.mark.usefixtures("two_gpus")

MIB = 2**20
GROWING, FIXED = "expandable_segments:True", "expandable_segments:False"


def allow(mib):
    """Limit PyTorch to so many MiB of the current card."""
    total = torch.cuda.get_device_properties().total_memory
    torch.cuda.set_per_process_memory_fraction((mib * MIB + 1) / total)


def block(mib, device="cuda"):
    return torch.empty(int(mib * MIB), dtype=torch.uint8, device=device)


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
    fixed = [sizes(each) for each in torch.cuda.memory_snapshot() if not each["is_expandable"]]
    split = [size for parts in fixed if len(parts) > 1 for size in parts if size < 0]
    stats = torch.cuda.memory_stats()
    assert stats["segment.all.current"] == len(fixed)
    assert stats["inactive_split.all.current"] == len(split)
    assert stats["inactive_split_bytes.all.current"] == -sum(split) * MIB


def story(*steps, mib=4096, retries=0):
    """Steps with so many MiB allowed. Each says what is set, or taken in MiB, or given back
    (-1: what was taken first), and the layout that this leads to."""
    return steps, mib, retries


STORIES = {
    "small and large requests share segments of their pool": story(
        ((0.5, 0.5, 4, 8, 6, 10), [(2, 0.5, 0.5, -1), (20, 4, 8, 6, -2), (10, 10)]),
    ),
    "a large rest is split off and a small one is not": story(
        ((12.5, 11), [(14, 12.5, -1.5), (12, 12)]),  # should_split: it must be above 1 MiB
    ),
    "the smallest free block that fits is taken": story(
        ((9, 5, 3, 1.5, -1, -3), [(20, -9, 5, -3, 1.5, -1.5)]),
        ((2,), [(20, -9, 5, 3, 1.5, -1.5)]),  # get_free_block; a rest of 1 MiB goes with it
    ),
    "neighbours that are free become one": story(
        ((4, 4, 4, 8, -1, -3), [(20, -4, 4, -4, 8)]),
        ((-2,), [(20, -12, 8)]),
        ((11,), [(20, 12, 8)]),
        ((-4, -5), [(20, -20)]),
    ),
    "an expandable segment grows and is cut closely": story(
        ((GROWING, 4, 12.25, 30), [(60, 4, 12.25, 30, -13.75)]),  # map_block: 20 MiB at a time
        ((-2, 12), [(60, 4, 12, -0.25, 30, -13.75)]),  # should_split: any rest
        ((20,), [(80, 4, 12, -0.25, 30, 20, -13.75)]),
        ((-1, -3, -4, -5), [(80, -80)]),
    ),
    "an expandable segment gives back whole pages, which then stand behind the others": story(
        ((GROWING, 20, 20, 20, 20, 20), [(100, 20, 20, 20, 20, 20)]),
        ((-2, -4, 40), [(20, 20), (20, 20), (60, 20, 40)]),  # unmap_block
        mib=100,
        retries=1,
    ),
    "small and large blocks have expandable segments of their own": story(
        ((GROWING, 0.5, 2), [(2, 0.5, -1.5), (20, 2, -18)]),
        ((FIXED, 2), [(2, 0.5, -1.5), (20, 2, -18), (20, 2, -18)]),  # get_free_block
    ),
    "blocks above the limit of splitting are kept whole": story(
        (("max_split_size_mb:50", 100, -1, 10), [(100, -100), (10, 10)]),
        ((90,), [(100, 100), (10, 10)]),  # within 20 MiB of it
        # release_available_cached_blocks: the 100 MiB would be 40 too many
        ((-3, 60), [(60, 60), (10, 10)]),
        mib=120,
    ),
    "what is too large to split is given back unless it can grow": story(
        ((f"{FIXED},max_split_size_mb:40", 40), [(40, 40)]),
        ((f"{GROWING},max_split_size_mb:40", 40), [(40, 40), (40, 40)]),
        ((f"{FIXED},max_split_size_mb:40", 40), [(40, 40), (40, 40), (40, 40)]),
        ((-1, -2, -3, 120), [(120, 120)]),
        mib=120,
        retries=1,
    ),
}


@pytest.mark.parametrize(("steps", "mib", "retries"), STORIES.values(), ids=STORIES)
def test_blocks_lie_where_pytorch_puts_them(steps, mib, retries):
    allow(mib)
    held = [None]  # so that the first is number 1
    for changes, expected in steps:
        for change in changes:
            if isinstance(change, str):
                settings(change)
            elif change > 0:
                held.append(block(change))
            else:
                held[-change] = None
        assert sorted(layout()) == sorted(expected)
        check_counts()
    assert torch.cuda.memory_stats()["num_alloc_retries"] == retries
    held.clear()
    torch.cuda.empty_cache()
    assert layout() == [] and torch.cuda.memory_reserved() == 0


def test_a_request_is_refused_though_as_much_is_free_in_pieces():
    allow(40)
    held = [block(5) for _ in range(8)]
    del held[::2]
    said = raised(lambda: block(15), torch.OutOfMemoryError)
    assert "Tried to allocate 16.00 MiB" in said
    assert "20.00 MiB is allocated by PyTorch" in said
    assert "20.00 MiB is reserved by PyTorch but unallocated" in said


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("expandable_segments:yes", ValueError, None),
        ("max_split_size_mb:20", ValueError, None),
        ("garbage_collection_threshold:2", ValueError, None),
        (
            f"{GROWING},roundup_power2_divisions:4",
            NotImplementedError,
            "roundup_power2_divisions:4",
        ),
    ],
)
def test_settings_that_are_refused(text, kind, said):
    with pytest.raises(kind, match=said):
        settings(text)


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
    ends = [(each["address"], each["address"] + each["total_size"]) for each in segments]
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
    assert sum(each["requested_size"] for each in used) == sum(each.nbytes for each in held)
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
        [(each.address, each.size, each.requested, each.used, each.stream) for each in blocks]
        for blocks in memory.segments()
    ]


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(1, 20))]
)
def test_blocks_that_wait_to_be_freed_change_nothing(seed):
    """A memory that is asked after every step frees each block when it is given back."""
    choice = random.Random(seed)
    waiting, asked = (Memory(0, 2048 * MIB, session.type) for _ in range(2))
    stream = [0]
    for memory in (waiting, asked):
        memory.stream = lambda: stream[0]
    held = []
    for _ in range(600):
        what = choice.random()
        if held and what < 0.45:
            place = -1 if choice.random() < 0.7 else choice.randrange(len(held))
            for memory, each in zip((waiting, asked), held.pop(place), strict=True):
                memory.give_back(each)
        elif what < 0.48:
            stream[0] = choice.randrange(2)
        elif what < 0.5:
            ask = choice.choice((Memory.empty_cache, Memory.reset_peaks, Memory.reset_totals))
            for memory in (waiting, asked):
                ask(memory)
        else:
            size = choice.choice((24, 24, 24, 600, 2**19, MIB, 3 * MIB, 8 * MIB, 12 * MIB))
            held.append((waiting.take(size), asked.take(size)))
        assert asked.counts.blocks == len(held)
    assert stats(waiting) == stats(asked)
    assert seen(waiting) == seen(asked)
