"""Pinned memory: of which tensors, and the figures of PyTorch's allocator for it.

The expected figures follow ATen/core/CachingHostAllocator.h by hand.
"""

import warnings

import pytest
import torch

import cudasim

pytestmark = pytest.mark.usefixtures("two_gpus")

ROWS = [torch.ones(2), torch.ones(3)]
SLEEP = 10**9  # cycles of a clock of 1 GHz


@pytest.fixture
def modelled():
    """Two simulated GPUs with modelled time, in place of those without."""
    cudasim.disable()
    with cudasim.simulate(clock="modelled"):
        yield


def sparse_constructor():
    indices = torch.tensor([[0]])
    return torch.sparse_coo_tensor(indices, torch.ones(1), (2,), pin_memory=True)


def nested_constructor():
    return torch.nested.nested_tensor(ROWS, layout=torch.jagged, pin_memory=True)


# `_pin_memory` has kernels for SparseCPU, SparseCsrCPU and NestedTensorCPU
# (native_functions.yaml).
PINNED = {
    "coo": lambda: torch.eye(2).to_sparse().pin_memory(),
    "csr": lambda: torch.eye(2).to_sparse_csr().pin_memory(),
    "bsr": lambda: torch.eye(4).to_sparse_bsr((2, 2)).pin_memory(),
    "coo constructor": sparse_constructor,
    "nested": lambda: torch.nested.nested_tensor(ROWS).pin_memory(),
    "jagged constructor": nested_constructor,
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("make", PINNED.values(), ids=PINNED)
def test_tensors_of_every_layout_are_pinned(make):
    pinned = make()
    assert pinned.is_pinned()
    assert pinned.device.type == "cpu"
    assert pinned.pin_memory() is pinned or pinned.layout is torch.jagged


def test_the_parts_of_a_sparse_tensor_are_pinned_copies():
    indices, values = torch.tensor([[0, 1]]), torch.ones(2)
    pinned = torch.sparse_coo_tensor(indices, values, (2,), pin_memory=True)
    assert pinned._indices().is_pinned()
    assert pinned._values().is_pinned()
    assert not indices.is_pinned()
    assert not values.is_pinned()


def test_what_has_no_memory_or_shares_it_is_not_pinned():
    assert not torch.empty(0).pin_memory().is_pinned()
    shared = torch.ones(2).pin_memory().share_memory_()
    assert not shared.is_pinned()


def figures(*names):
    torch.cuda.init()
    stats = torch.cuda.host_memory_stats()
    return [stats[name] for name in names]


OWNED = ("num_host_alloc", "allocations.current", "allocated_bytes.current")
ACTIVE = ("active_requests.current", "active_bytes.current")


def test_blocks_have_powers_of_two_and_are_used_again():
    first = torch.empty(100, pin_memory=True)  # 400 bytes
    assert figures(*OWNED, *ACTIVE) == [1, 1, 512, 1, 512]
    del first
    assert figures(*OWNED, *ACTIVE) == [1, 1, 512, 0, 0]
    second = torch.empty(128, pin_memory=True)
    third = torch.ones(129).pin_memory()
    assert figures(*OWNED, *ACTIVE) == [2, 2, 512 + 1024, 2, 512 + 1024]
    assert figures("active_requests.allocated", "active_requests.freed") == [3, 1]
    del second, third


def test_the_cache_of_the_host_is_emptied():
    kept = torch.empty(100, pin_memory=True)
    freed = torch.empty(1000, pin_memory=True)
    del freed
    torch._C._host_emptyCache()
    names = ("num_host_free", "allocated_bytes.current", "allocated_bytes.freed")
    assert figures(*names) == [1, 512, 4096]
    del kept


def test_peaks_and_totals_are_reset():
    both = [torch.empty(100, pin_memory=True) for _ in range(2)]
    both.pop()
    torch.cuda.reset_peak_host_memory_stats()
    assert figures("active_bytes.peak", "active_bytes.allocated") == [512, 1024]
    torch.cuda.reset_accumulated_host_memory_stats()
    names = ("active_bytes.allocated", "active_bytes.freed", "num_host_alloc")
    assert figures(*names) == [0, 0, 0]
    assert figures("active_bytes.current") == [512]
    both.clear()


@pytest.mark.parametrize("to_gpu", [True, False])
def test_a_block_waits_for_the_stream_that_copies(modelled, to_gpu):
    pinned = torch.empty(100, pin_memory=True)
    there = torch.zeros(100, device="cuda")
    torch.cuda._sleep(SLEEP)
    if to_gpu:
        there.copy_(pinned, non_blocking=True)
    else:
        pinned.copy_(there, non_blocking=True)
    del pinned
    second = torch.empty(100, pin_memory=True)
    assert figures(*OWNED, *ACTIVE) == [2, 2, 1024, 2, 1024]
    torch.cuda.synchronize()
    third = torch.empty(100, pin_memory=True)  # takes what has come back
    assert figures(*OWNED, *ACTIVE) == [2, 2, 1024, 2, 1024]
    del second, third


def test_a_copy_to_the_host_that_does_not_wait_takes_pinned_memory():
    host = torch.ones(100, device="cuda").to("cpu", non_blocking=True)
    assert host.is_pinned()
    assert figures(*ACTIVE) == [1, 512]
    del host
    torch.cuda.synchronize()


@pytest.mark.parametrize("name", ["is_pinned", "pin_memory"])
def test_the_device_to_pin_for_need_not_be_named(name):
    # The words of ATen/native/Memory.cpp of PyTorch 2.13.
    words = f"The argument 'device' of Tensor.{name}\\(\\) is deprecated. Please do not pass"
    tensor = torch.ones(3)
    with pytest.warns(DeprecationWarning, match=words):
        getattr(tensor, name)("cuda")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        getattr(tensor, name)()
