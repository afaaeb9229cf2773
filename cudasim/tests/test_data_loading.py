"""Data on their way to a simulated GPU: workers, pinned memory, copies that do not wait."""

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

pytestmark = [
    pytest.mark.usefixtures("two_gpus"),
    pytest.mark.filterwarnings(
        "error", "ignore:This process .* is multi-threaded:DeprecationWarning"
    ),
]

GPU1 = torch.device("cuda:1")
NUMBERS = torch.arange(12)
SQUARES = TensorDataset(NUMBERS.float(), NUMBERS**2)
SPAWNED = {"num_workers": 1, "pin_memory": True, "multiprocessing_context": "spawn"}
OPTIONS = [
    {},
    {"pin_memory": True},
    {"num_workers": 2, "pin_memory": True},
    pytest.param(SPAWNED, marks=pytest.mark.full),
]


def sum_of_cubes(loader, pinned=False):
    """Return the sum of n * n**2 of all batches, computed on a GPU."""
    total = torch.zeros((), device=GPU1)
    for x, y in loader:
        assert x.device.type == "cpu"
        assert x.is_pinned() == pinned
        x = x.to("cuda:1", non_blocking=True)
        y = y.to(1, non_blocking=True)
        assert x.device == y.device == GPU1
        total += (x * y).sum()
    return total.item()


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_batches_arrive(options):
    loader = DataLoader(SQUARES, batch_size=5, **options)
    pinned = options.get("pin_memory", False)
    assert sum_of_cubes(loader, pinned) == 4356


def test_batches_arrive_again_from_workers_that_stay():
    options = {"num_workers": 1, "persistent_workers": True}
    loader = DataLoader(SQUARES, batch_size=5, **options)
    assert sum_of_cubes(loader) == 4356
    assert sum_of_cubes(loader) == 4356


def test_a_pinned_copy_is_another_tensor_in_pinned_memory():
    x = torch.ones(3)
    pinned = x.pin_memory()
    assert pinned.is_pinned()
    assert pinned.data_ptr() != x.data_ptr()


def test_memory_may_be_pinned_from_the_start():
    zeros = torch.zeros(2, pin_memory=True)
    copied = torch.tensor([1], pin_memory=True)
    empty = torch.empty_like(zeros, pin_memory=True)
    ones = zeros.new_ones(2, pin_memory=True)
    for tensor in (zeros, copied, empty, ones):
        assert tensor.is_pinned()
        assert tensor[:1].is_pinned()
    with pytest.raises(RuntimeError, match="Only dense CPU tensors can be pinned"):
        torch.zeros(2, pin_memory=True, device="cuda")
