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

GPU1 = torch.device("cuda", 1)
SQUARES = TensorDataset(torch.arange(12.0)[:, None], torch.arange(12) ** 2)
SPAWNED = {"num_workers": 1, "pin_memory": True, "multiprocessing_context": "spawn"}
OPTIONS = [
    {},
    {"pin_memory": True},
    {"num_workers": 2, "pin_memory": True},
    {"num_workers": 1, "persistent_workers": True},
    pytest.param(SPAWNED, marks=pytest.mark.full),
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_batches_arrive(options):
    loader = DataLoader(SQUARES, batch_size=5, **options)
    pinned = options.get("pin_memory", False)
    for _ in range(2 if options.get("persistent_workers") else 1):
        result = torch.zeros((), device="cuda:1")
        for x, y in loader:
            assert x.device.type == "cpu"
            assert x.is_pinned() == pinned
            x = x.to("cuda:1", non_blocking=True)
            y = y.to(1, non_blocking=True)
            assert x.device == y.device == GPU1
            result += (x.squeeze(1) * y).sum()
        assert result.item() == sum(n**3 for n in range(12))


def test_a_pinned_copy_is_another_tensor_in_pinned_memory():
    x = torch.ones(3)
    assert x.pin_memory().data_ptr() != x.data_ptr()
    for tensor in (
        torch.zeros(2, pin_memory=True),
        torch.tensor([1], pin_memory=True),
        torch.empty_like(x, pin_memory=True),
        x.new_ones(2, pin_memory=True),
    ):
        assert tensor.is_pinned()
        assert tensor[:1].is_pinned()
    with pytest.raises(RuntimeError, match="Only dense CPU tensors can be pinned"):
        torch.zeros(2, pin_memory=True, device="cuda")
