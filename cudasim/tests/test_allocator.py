"""Where blocks lie: what c10/cuda/CUDACachingAllocator.cpp does with the same requests.

The expected layouts follow from its functions, which each test names: `get_free_block`,
`should_split`, `try_merge_blocks`, `release_cached_blocks`, `map_block` and `unmap_block`.
"""

import gc
import itertools
import random
from types import SimpleNamespace

import pytest
import torch

from cudasim.backends.memory import stats
from cudasim.device.allocator import Memory
from cudasim.device.gpu import Allocation
from cudasim.session import session

pytestmark = pytest.mark.usefixtures("two_gpus")

MIB = 2**20


def allow(mib):
    """Limit PyTorch to so many MiB of the current card."""
    total = torch.cuda.get_device_properties().total_memory
    torch.cuda.set_per_process_memory_fraction((mib * MIB + 1) / total)


def block(mib, device="cuda"):
    return torch.empty(int(mib * MIB), dtype=torch.uint8, device=device)


def layout(device=0):
    """For each segment its size and its blocks in MiB, free ones below 0."""
    return [
        (
            segment["total_size"] / MIB,
            *(
                each["size"] / MIB * (1 if each["state"] == "active_allocated" else -1)
                for each in segment["blocks"]
            ),
        )
        for segment in torch.cuda.memory_snapshot()
        if segment["device"] == device
    ]


def settings(text):
    torch._C._accelerator_setAllocatorSettings(text)


def split_stats():
    stats = torch.cuda.memory_stats()
    return (
        stats["inactive_split.all.current"],
        stats["inactive_split_bytes.all.current"] / MIB,
    )


def test_small_and_large_requests_share_segments_of_their_pool():
    held = [block(0.5), block(0.5), block(4), block(8), block(6), block(10)]
    assert layout() == [(2, 0.5, 0.5, -1), (20, 4, 8, 6, -2), (10, 10)]
    assert split_stats() == (2, 3)
    del held


def test_a_large_rest_is_split_off_and_a_small_one_is_not():
    held = [block(12.5), block(11)]  # should_split: the rest must be above 1 MiB
    assert layout() == [(14, 12.5, -1.5), (12, 12)]
    del held


def test_the_smallest_free_block_that_fits_is_taken():
    a, b, c, d = block(9), block(5), block(3), block(1.5)
    del a, c
    assert layout() == [(20, -9, 5, -3, 1.5, -1.5)]
    e = block(2)  # get_free_block: 3 fits better than 9; a rest of 1 MiB is not split off
    assert layout() == [(20, -9, 5, 3, 1.5, -1.5)]
    del b, d, e


def test_neighbours_that_are_free_become_one():
    a, b, c, d = block(4), block(4), block(4), block(8)
    del a, c
    assert layout() == [(20, -4, 4, -4, 8)]
    assert split_stats() == (2, 8)
    del b
    assert layout() == [(20, -12, 8)]
    assert split_stats() == (1, 12)
    e = block(11)
    assert layout() == [(20, 12, 8)]  # a rest of 1 MiB goes with it
    assert split_stats() == (0, 0)
    del d, e
    assert layout() == [(20, -20)]
    assert split_stats() == (0, 0)


def test_a_request_is_refused_though_as_much_is_free_in_pieces():
    allow(40)
    held = [block(5) for _ in range(8)]
    del held[::2]
    with pytest.raises(torch.OutOfMemoryError) as error:
        block(15)
    assert "Tried to allocate 16.00 MiB" in str(error.value)
    assert "20.00 MiB is allocated by PyTorch" in str(error.value)
    assert "20.00 MiB is reserved by PyTorch but unallocated" in str(error.value)
    del held


def test_an_expandable_segment_grows_and_is_cut_closely():
    settings("expandable_segments:True")
    a, b, c = block(4), block(12.25), block(30)
    (segment,) = torch.cuda.memory_snapshot()
    assert segment["is_expandable"]
    assert layout() == [(60, 4, 12.25, 30, -13.75)]  # map_block: 20 MiB at a time
    del b
    d = block(12)
    assert layout() == [(60, 4, 12, -0.25, 30, -13.75)]  # should_split: any rest
    e = block(20)
    assert layout() == [(80, 4, 12, -0.25, 30, 20, -13.75)]
    assert split_stats() == (0, 0)  # not counted in expandable segments
    assert torch.cuda.memory_stats()["segment.all.current"] == 0
    del a, c, d, e
    assert layout() == [(80, -80)]
    torch.cuda.empty_cache()
    assert layout() == [] and torch.cuda.memory_reserved() == 0


def test_what_an_expandable_segment_holds_in_pieces_is_given_back_in_whole_pages():
    allow(100)
    settings("expandable_segments:True")
    held = [block(20) for _ in range(5)]
    assert layout() == [(100, 20, 20, 20, 20, 20)]
    del held[1::2]
    more = block(40)  # unmap_block gives 2 times 20 MiB back, which then stand behind the others
    assert layout() == [(20, 20), (20, 20), (60, 20, 40)]
    assert torch.cuda.memory_stats()["num_alloc_retries"] == 1
    del held, more
    torch.cuda.empty_cache()
    assert layout() == []


def test_small_and_large_blocks_have_expandable_segments_of_their_own():
    settings("expandable_segments:True")
    small, large = block(0.5), block(2)
    assert sorted(layout()) == [(2, 0.5, -1.5), (20, 2, -18)]
    settings("expandable_segments:False")
    other = block(2)  # get_free_block: not from an expandable segment
    assert sorted(layout()) == [(2, 0.5, -1.5), (20, 2, -18), (20, 2, -18)]
    del small, large, other
    torch.cuda.empty_cache()
    assert layout() == []


def test_blocks_above_the_limit_of_splitting_are_kept_whole():
    settings("max_split_size_mb:50")
    tensor = block(100)
    del tensor
    small = block(10)  # not from the free 100 MiB
    assert layout() == [(100, -100), (10, 10)]
    tensor = block(90)  # within 20 MiB of it
    assert layout() == [(100, 100), (10, 10)]
    assert torch.cuda.memory_stats()["max_split_size"] == 50 * MIB
    del tensor
    allow(120)
    tensor = block(60)  # release_available_cached_blocks: the 100 MiB would be 40 too many
    assert layout() == [(60, 60), (10, 10)]
    assert torch.cuda.memory_stats()["num_alloc_retries"] == 0
    del small, tensor


REFUSED = ["expandable_segments:yes", "max_split_size_mb:20", "garbage_collection_threshold:2"]


@pytest.mark.parametrize("text", REFUSED)
def test_settings_that_pytorch_refuses(text):
    with pytest.raises(ValueError):
        settings(text)


def test_settings_that_are_not_simulated_are_refused_by_name():
    with pytest.raises(NotImplementedError, match="roundup_power2_divisions:4"):
        settings("expandable_segments:True,roundup_power2_divisions:4")


def test_the_environment_is_followed(monkeypatch):
    import cudasim

    cudasim.disable()
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    cudasim.enable(gpus=2)
    tensor = block(2)
    assert torch.cuda.memory_snapshot()[0]["is_expandable"]
    assert torch._C._accelerator_getAllocatorSettings() == "expandable_segments:True"
    del tensor


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


@pytest.mark.parametrize("text", ["expandable_segments:False", "expandable_segments:True"])
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
    held_bytes = sum(each.untyped_storage().nbytes() for each in held)
    blocks = [each for one in torch.cuda.memory_snapshot() for each in one["blocks"]]
    used = [each for each in blocks if each["state"] == "active_allocated"]
    assert len(used) == len(held)
    assert sum(each["requested_size"] for each in used) == held_bytes
    assert sum(each["size"] for each in used) == torch.cuda.memory_allocated()
    assert sum(each["size"] for each in blocks) == torch.cuda.memory_reserved()
    for one, other in itertools.pairwise(blocks):
        assert one["address"] + one["size"] <= other["address"]
    stats = torch.cuda.memory_stats()
    if text.endswith("False"):
        free = [each for each in torch.cuda.memory_snapshot() if len(each["blocks"]) > 1]
        pieces = [b["size"] for each in free for b in each["blocks"] if b["state"] == "inactive"]
        assert stats["inactive_split.all.current"] == len(pieces)
        assert stats["inactive_split_bytes.all.current"] == sum(pieces)
    held.clear()
    gc.collect()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == 0 and torch.cuda.memory_snapshot() == []


def test_what_is_too_large_to_split_is_given_back_unless_it_can_grow():
    memory = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(120 * MIB / memory)
    held = []  # release_available_cached_blocks
    for expandable in (False, True, False):
        settings(f"expandable_segments:{expandable},max_split_size_mb:40")
        held.append(block(40))
    with pytest.raises(torch.OutOfMemoryError):
        block(40)
    held.clear()
    assert block(120).numel() == 120 * MIB


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
            ask = choice.choice((Memory.empty_cache, Memory.reset_peaks, Memory.reset_totals))
            for memory in (waiting, asked):
                ask(memory)
        else:
            size = choice.choice((24, 24, 24, 600, 2**19, MIB, 3 * MIB, 8 * MIB, 12 * MIB))
            held.append([Allocation(gpu, size) for gpu in gpus])
        logged += len(waiting.log)
        assert asked.counts.blocks == len(held)
    assert logged > 300
    assert stats(waiting) == stats(asked)
    assert seen(waiting) == seen(asked)


def seen(memory):
    """What a snapshot tells of each block."""
    return [
        [(each.address, each.size, each.requested, each.used, each.stream) for each in blocks]
        for blocks in memory.segments()
    ]
