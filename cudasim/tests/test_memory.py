"""Memory: counted to the byte, given back exactly, and refused as CUDA refuses it."""

import gc
import threading

import pytest
import torch

from cudasim.device.types.cuda import CUDA

pytestmark = pytest.mark.usefixtures("two_gpus")

MIB = 2**20
allocated, reserved = torch.cuda.memory_allocated, torch.cuda.memory_reserved


def block(mib, device="cuda"):
    return torch.empty(mib * MIB, dtype=torch.uint8, device=device)


@pytest.mark.parametrize(
    "size, held", [(1, 512), (512, 512), (513, 1024), (2**20, 2**20), (2**20 + 1, 2**20 + 512)]
)
def test_requests_are_rounded_up_to_512_bytes(size, held):
    tensor = torch.empty(size, dtype=torch.uint8, device="cuda:1")
    assert allocated(1) == held and allocated(0) == 0
    del tensor
    assert allocated(1) == 0


def test_an_empty_tensor_takes_nothing():
    tensor = torch.empty(0, device="cuda")
    assert tensor.is_cuda and allocated() == 0 and reserved() == 0


def test_views_share_and_the_last_reference_frees():
    base = torch.zeros(1000, 1000, device="cuda")
    held = allocated()
    assert held == 4_000_256
    row, turned, flat = base[0], base.T, base.view(-1)
    detached, parameter = base.detach(), torch.nn.Parameter(base)
    assert allocated() == held
    del base, turned, flat, detached, parameter
    assert allocated() == held
    del row
    assert allocated() == 0


def test_a_result_that_grows_is_counted():
    x, out = torch.ones(1000, device="cuda"), torch.empty(0, device="cuda")
    held = allocated()
    torch.add(x, x, out=out)
    assert allocated() == held + 4096


def test_in_place_operations_take_nothing():
    tensor = torch.zeros(300, device="cuda")
    held, peak = allocated(), torch.cuda.max_memory_allocated()
    tensor.add_(1).mul_(2)
    tensor += 1
    assert (allocated(), torch.cuda.max_memory_allocated()) == (held, peak)


def test_the_peak_remembers_and_can_be_reset():
    tensor = block(4)
    del tensor
    assert allocated() == 0
    assert torch.cuda.max_memory_allocated() == 4 * MIB
    assert torch.cuda.max_memory_reserved() == 20 * MIB
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == 0
    assert torch.cuda.max_memory_reserved() == 20 * MIB  # still cached


def test_a_peak_sees_temporary_results():
    x = block(32).view(torch.float32)
    torch.cuda.reset_peak_memory_stats()
    y = (x + 1) * 2
    assert torch.cuda.max_memory_allocated() == 96 * MIB
    assert allocated() == 64 * MIB
    del x, y


def test_the_cache_keeps_what_is_freed_until_it_is_emptied():
    tensor = block(64)
    assert reserved() == 64 * MIB
    del tensor
    assert (allocated(), reserved()) == (0, 64 * MIB)
    again = block(64)
    assert reserved() == 64 * MIB  # taken from the cache
    small = torch.ones(1, device="cuda")
    assert reserved() == 66 * MIB  # small blocks have segments of 2 MiB
    torch.cuda.empty_cache()
    assert reserved() == 66 * MIB  # both are in use
    del again
    torch.cuda.empty_cache()
    assert reserved() == 2 * MIB
    assert small.item() == 1


def test_the_driver_counts_what_is_reserved():
    free, total = torch.cuda.mem_get_info(1)
    tensor = block(64, "cuda:1")
    assert torch.cuda.mem_get_info("cuda:1") == (free - 64 * MIB, total)
    assert torch.cuda.mem_get_info(0) == (total - CUDA.context, total)
    del tensor
    assert torch.cuda.mem_get_info(1) == (free - 64 * MIB, total)
    torch.cuda.empty_cache()
    assert torch.cuda.mem_get_info(1) == (free, total)
    assert torch.cuda.get_device_properties(1).total_memory == total


def test_out_of_memory_in_cudas_words_with_the_figures():
    keep = block(64)
    with pytest.raises(torch.OutOfMemoryError) as error:
        torch.empty(2**50, dtype=torch.uint8, device="cuda")
    assert str(error.value) == (
        "CUDA out of memory. Tried to allocate 1048576.00 GiB. GPU 0 has a total capacity of "
        "14.56 GiB of which 14.37 GiB is free. Including non-PyTorch memory, this process has "
        "199.00 MiB memory in use. Of the allocated memory 64.00 MiB is allocated by PyTorch, and "
        "0 bytes is reserved by PyTorch but unallocated. If reserved but unallocated memory is "
        "large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid "
        "fragmentation.  See documentation for Memory Management  "
        "(https://docs.pytorch.org/docs/stable/notes/cuda.html"
        "#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)"
    )
    assert isinstance(error.value, RuntimeError)
    assert torch.OutOfMemoryError is torch.cuda.OutOfMemoryError
    del keep


def test_a_card_holds_no_tensor_where_its_context_is():
    total = torch.cuda.get_device_properties(1).total_memory
    with pytest.raises(torch.OutOfMemoryError, match=r"of which 14\.43 GiB is free"):
        torch.empty(total - CUDA.context + 2 * MIB, dtype=torch.uint8, device="cuda:1")
    all_of_it = (total - CUDA.context) // (2 * MIB) * 2 * MIB
    whole = torch.empty(all_of_it, dtype=torch.uint8, device="cuda:1")
    assert torch.cuda.mem_get_info(1)[0] == total - CUDA.context - all_of_it < 2 * MIB
    del whole


def test_out_of_memory_leaves_the_counts_and_the_next_request_is_served():
    torch.cuda.set_per_process_memory_fraction(0.011)  # of 14.56 GiB
    keep = block(100)
    before = allocated(), reserved(), torch.cuda.max_memory_allocated()
    with pytest.raises(torch.OutOfMemoryError, match=r"in use\. 164\.03 MiB allowed; Of the"):
        block(100)
    assert (allocated(), reserved(), torch.cuda.max_memory_allocated()) == before
    stats = torch.cuda.memory_stats()
    assert (stats["num_ooms"], stats["num_alloc_retries"]) == (1, 1)
    more = block(50)
    assert allocated() == 150 * MIB
    del keep, more


def test_results_of_operations_are_refused_too():
    torch.cuda.set_per_process_memory_fraction(0.01)
    x = block(100)
    before = allocated()
    with pytest.raises(torch.OutOfMemoryError):
        x + 1
    gc.collect()
    assert allocated() == before


def test_the_cache_is_given_up_before_a_request_is_refused():
    torch.cuda.set_per_process_memory_fraction(0.01)
    cached = block(100)
    del cached
    tensor = block(120)
    assert reserved() == 120 * MIB
    assert torch.cuda.memory_stats()["num_ooms"] == 0
    del tensor


def test_a_fraction_is_of_its_gpu_and_is_checked():
    torch.cuda.set_per_process_memory_fraction(0.5, 1)
    assert torch.cuda.get_per_process_memory_fraction(1) == 0.5
    assert torch.cuda.get_per_process_memory_fraction(0) == 1.0
    with pytest.raises(ValueError, match="Invalid fraction value: 2"):
        torch.cuda.set_per_process_memory_fraction(2.0)


def test_cycles_are_freed_by_the_garbage_collector():
    class Node:
        pass

    gc.collect()
    node = Node()
    node.self, node.tensor = node, block(4)
    del node
    assert allocated() == 4 * MIB
    gc.collect()
    assert allocated() == 0


def test_resize_counts_anew():
    tensor = torch.zeros(128, device="cuda")
    assert allocated() == 512
    assert tensor.resize_(1000).device == torch.device("cuda:0")
    assert allocated() == 4096
    assert torch.cuda.max_memory_allocated() == 512 + 4096  # CUDA copies to a new block
    assert tensor.untyped_storage().resize_(0).device == torch.device("cuda:0")
    assert allocated() == 0
    tensor.untyped_storage().resize_(4000)
    assert allocated() == 4096
    del tensor
    assert allocated() == 0


def test_stats_have_the_names_and_figures_of_cudas():
    tensors = [torch.ones(10, device="cuda") for _ in range(3)]
    large = block(4)
    del tensors[0]
    stats = torch.cuda.memory_stats()
    for group in ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes"):
        for pool in ("all", "small_pool", "large_pool"):
            for figure in ("current", "peak", "allocated", "freed"):
                assert f"{group}.{pool}.{figure}" in stats
    assert stats["allocation.small_pool.current"] == 2
    assert stats["allocation.all.peak"] == 4
    assert stats["allocated_bytes.small_pool.freed"] == 512
    assert stats["allocated_bytes.large_pool.current"] == 4 * MIB
    assert stats["requested_bytes.small_pool.current"] == 80
    assert stats["segment.all.current"] == 2
    assert stats["inactive_split_bytes.all.current"] == 22 * MIB - 4 * MIB - 1024
    assert stats == torch.accelerator.memory_stats()
    torch.cuda.reset_accumulated_memory_stats()
    stats = torch.cuda.memory_stats()
    assert stats["allocation.all.allocated"] == stats["allocated_bytes.all.freed"] == 0
    assert stats["allocated_bytes.all.current"] == 4 * MIB + 1024
    del large


def test_summaries_and_snapshots_are_made():
    tensor = block(4)
    summary = torch.cuda.memory_summary()
    assert "PyTorch CUDA memory summary, device ID 0" in summary and "4096 KiB" in summary
    (segment,) = torch.cuda.memory_snapshot()
    assert (segment["total_size"], segment["allocated_size"]) == (20 * MIB, 4 * MIB)
    assert {"segments", "device_traces"} <= set(torch.cuda.memory._snapshot())
    assert torch.cuda.host_memory_stats()["allocated_bytes.current"] == 0
    del tensor


def test_raw_allocations_are_counted():
    address = torch.cuda.caching_allocator_alloc(3 * MIB, device=1)
    assert allocated(1) == 3 * MIB
    torch.cuda.caching_allocator_delete(address)
    assert allocated(1) == 0


def test_counts_are_exact_when_threads_allocate():
    def work():
        for _ in range(300):
            torch.ones(1000, device="cuda:1").add(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert allocated(1) == 0
    assert torch.cuda.memory_stats(1)["allocation.all.current"] == 0


def test_training_gives_back_all_but_weights_and_gradients():
    net = torch.nn.Linear(1000, 1000).to("cuda")
    x = torch.ones(64, 1000, device="cuda")
    for _ in range(3):
        net.zero_grad(set_to_none=True)
        net(x).sum().backward()
    held = allocated()
    net(x).sum().backward()
    assert allocated() == held
    net.zero_grad(set_to_none=True)
    weights = 4_000_256 + 4096
    assert allocated() == weights + 256_000
    del net, x
    assert allocated() == 0
