"""Data on their way to a simulated GPU: workers, pinned memory, copies that do not wait."""

import pytest
import torch
from calls import raised
from torch.utils.data import DataLoader, Dataset, TensorDataset

pytestmark = [
    pytest.mark.usefixtures("two_gpus"),
    pytest.mark.filterwarnings(
        "error", "ignore:This process .* is multi-threaded:DeprecationWarning"
    ),
]

GPU1 = torch.device("cuda", 1)


class Squares(Dataset):
    """Pairs (n, n * n)."""

    def __len__(self):
        return 12

    def __getitem__(self, index):
        return torch.tensor([float(index)]), torch.tensor(index * index)


def total(loader):
    result = torch.zeros((), device="cuda:1")
    for x, y in loader:
        assert x.device.type == "cpu"
        x, y = x.to("cuda:1", non_blocking=True), y.to(1, non_blocking=True)
        assert x.device == y.device == GPU1
        result += (x.squeeze(1) * y).sum()
    return result.item()


RIGHT = sum(n**3 for n in range(12))


@pytest.mark.parametrize("pin", [False, True], ids=["plain", "pinned"])
@pytest.mark.parametrize("workers", [0, 2])
def test_batches_arrive(workers, pin):
    loader = DataLoader(Squares(), batch_size=5, num_workers=workers, pin_memory=pin)
    assert total(loader) == RIGHT
    assert all(x.is_pinned() == pin for x, _ in loader)


@pytest.mark.full
def test_workers_that_start_anew_see_what_they_need():
    loader = DataLoader(
        Squares(), batch_size=5, num_workers=2, multiprocessing_context="spawn", pin_memory=True
    )
    assert total(loader) == RIGHT


def test_workers_may_stay():
    loader = DataLoader(Squares(), batch_size=5, num_workers=1, persistent_workers=True)
    assert [total(loader), total(loader)] == [RIGHT, RIGHT]


def test_a_pinned_copy_is_another_tensor_in_pinned_memory():
    x = torch.ones(3)
    pinned = x.pin_memory()
    assert pinned.is_pinned() and not x.is_pinned()
    assert pinned is not x and pinned.device == torch.device("cpu")
    assert pinned.data_ptr() != x.data_ptr() and pinned.pin_memory() is pinned
    assert pinned.to("cuda:1", non_blocking=True).device == GPU1
    made = torch.zeros(2, pin_memory=True), torch.tensor([1], pin_memory=True)
    made += torch.empty_like(x, pin_memory=True), x.new_ones(2, pin_memory=True)
    assert all(tensor.is_pinned() and tensor[:1].is_pinned() for tensor in made)
    with pytest.raises(RuntimeError, match="Only dense CPU tensors can be pinned"):
        torch.zeros(2, pin_memory=True, device="cuda")


def test_what_is_on_a_gpu_cannot_be_pinned():
    assert raised(lambda: torch.ones(3, device="cuda").pin_memory()) == (
        "cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned"
    )


def test_a_data_set_may_live_on_the_gpu():
    data = TensorDataset(torch.arange(6.0, device="cuda:1"), torch.arange(6, device="cuda:1"))
    batches = list(DataLoader(data, batch_size=4, shuffle=True))
    assert {tensor.device for batch in batches for tensor in batch} == {GPU1}
    assert sorted(torch.cat([x for x, _ in batches]).tolist()) == [0, 1, 2, 3, 4, 5]


def test_a_generator_shuffles_alike_with_and_without_a_gpu():
    def order():
        chance = torch.Generator().manual_seed(3)
        loader = DataLoader(range(10), batch_size=None, shuffle=True, generator=chance)
        return list(loader)

    first = order()
    torch.rand(5, device="cuda")
    assert order() == first


def test_the_device_to_pin_for_is_deprecated():
    loader = DataLoader(Squares(), batch_size=5, pin_memory=True, pin_memory_device="cuda")
    with pytest.warns(UserWarning, match="pin_memory_device is deprecated"):
        assert total(loader) == RIGHT
