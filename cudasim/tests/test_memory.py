"""Memory: refused as CUDA refuses it, and given back exactly.

What is counted, kept in the cache and told is in `fidelity/programs/memory.py`.
"""

import gc
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from calls import MIB, block, raised

from cudasim.device.types.cuda import CUDA

pytestmark = pytest.mark.usefixtures("two_gpus")

allocated, reserved = torch.cuda.memory_allocated, torch.cuda.memory_reserved


def test_a_result_that_grows_is_counted():
    x = torch.ones(1000, device="cuda")
    out = torch.empty(0, device="cuda")
    held = allocated()
    torch.add(x, x, out=out)
    assert allocated() == held + 4096


# As PyTorch 2.13 has it in c10/cuda/CUDACachingAllocator.cpp.
ENDING = (
    "If reserved but unallocated memory is large try setting "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation "
    "for Memory Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html"
    "#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)"
)


def test_a_card_holds_no_tensor_where_its_context_is():
    torch.cuda.init()
    free, total = torch.cuda.mem_get_info(1)
    assert free == total - CUDA.context
    words = raised(lambda: block(free // MIB + 2, "cuda:1"), torch.OutOfMemoryError)
    assert (
        "GPU 1 has a total capacity of 14.56 GiB of which 14.43 GiB is free. Including non-PyTorch "
        "memory, this process has 135.00 MiB memory in use. Of the allocated memory 0 bytes is"
    ) in words
    assert words.endswith(ENDING)

    all_of_it = block(free // (2 * MIB) * 2, "cuda:1")
    left, _ = torch.cuda.mem_get_info(1)
    assert left == free - all_of_it.nbytes < 2 * MIB


def test_a_refused_request_changes_no_counts():
    torch.cuda.set_per_process_memory_fraction(0.011)  # of 14.56 GiB
    keep = block(100)

    def counts():
        return allocated(), reserved(), torch.cuda.max_memory_allocated()

    before = counts()
    words = r"in use\. 164\.03 MiB allowed; Of the"
    for refused in (lambda: block(100), lambda: keep + 1):
        with pytest.raises(torch.OutOfMemoryError, match=words):
            refused()
        gc.collect()
        assert counts() == before
    stats = torch.cuda.memory_stats()
    assert stats["num_ooms"] == 2
    assert stats["num_alloc_retries"] == 2
    more = block(50)
    assert allocated() == keep.nbytes + more.nbytes


def test_the_cache_is_given_up_before_a_request_is_refused():
    torch.cuda.set_per_process_memory_fraction(0.01)
    cached = block(100)
    del cached
    tensor = block(120)
    assert reserved() == tensor.nbytes
    assert torch.cuda.memory_stats()["num_ooms"] == 0
    assert torch.cuda.get_per_process_memory_fraction(1) == 1  # it is of its GPU


def test_figures_are_those_of_small_and_large_blocks():
    small = [torch.ones(10, device="cuda") for _ in range(2)]
    large = block(4)
    stats = torch.cuda.memory_stats()
    assert stats["allocation.small_pool.current"] == len(small)
    assert stats["requested_bytes.small_pool.current"] == 80
    assert stats["allocated_bytes.large_pool.current"] == large.nbytes
    assert stats["inactive_split_bytes.all.current"] == 22 * MIB - 4 * MIB - 1024
    assert "   4097 KiB" in torch.cuda.memory_summary()
    assert torch.cuda.host_memory_stats()["allocated_bytes.current"] == 0


def test_counts_are_exact_when_threads_allocate():
    def work(_):
        for _ in range(300):
            torch.ones(1000, device="cuda:1").add(1)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert allocated(1) == 0
    assert torch.cuda.memory_stats(1)["allocation.all.current"] == 0
