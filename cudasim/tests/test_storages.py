"""Storages on simulated GPUs, and memory shared with other processes and libraries."""

import multiprocessing.reduction

import numpy as np
import pytest
import torch
import torch.multiprocessing as mp
from torch import nn

import cudasim
from fidelity.asking import places, raised

pytestmark = [
    pytest.mark.usefixtures("two_gpus"),
    pytest.mark.filterwarnings("ignore:TypedStorage is deprecated:UserWarning"),
]
GPU0, GPU1 = torch.device("cuda:0"), torch.device("cuda:1")


def held(index=0):
    return torch.cuda.memory_allocated(index)


def test_a_storage_knows_its_gpu_and_is_moved():
    host = torch.arange(4.0).untyped_storage()
    assert host.device == torch.device("cpu") and not host.is_cuda and not host.is_shared()
    one = host.cuda(1)
    assert one.device == GPU1 and one.get_device() == 1 and one.tolist() == host.tolist()
    assert one.is_cuda and one.is_shared() and len(one) == one.nbytes() == 16
    assert one.cuda(1) is one and host.cpu() is host
    assert one.cpu().device.type == "cpu" and one.cpu().data_ptr() != one.data_ptr()
    assert host.cuda().device == one.to(device="cuda").device == GPU0
    assert "invalid device ordinal" in raised(lambda: host.cuda(2))


def test_storages_are_made_on_a_gpu_and_counted_until_their_last_part_goes():
    storage = torch.UntypedStorage(1000, device="cuda:1")
    assert storage.device == GPU1 and held(1) == 1024
    part = storage[10:20]
    assert part.device == GPU1 and part.data_ptr() == storage.data_ptr() + 10
    del storage
    assert held(1) == 1024
    del part
    assert held(1) == 0
    assert torch.UntypedStorage([1, 2, 3], device="cuda").tolist() == [1, 2, 3]
    assert torch.UntypedStorage(3, device="meta").device.type == "meta"
    assert torch.UntypedStorage(3).device.type == "cpu"


def test_typed_storages():
    tensor = torch.arange(4.0, device="cuda:1")
    storage = tensor.storage()
    assert storage.device == tensor.device and storage.is_cuda
    assert storage.type() == "torch.cuda.FloatStorage"
    assert isinstance(storage, torch.cuda.FloatStorage)
    assert not isinstance(storage, torch.FloatStorage)
    assert storage[2] == 2.0 and storage.tolist() == [0, 1, 2, 3]
    assert storage.cpu().device.type == "cpu" and storage.cuda(0).get_device() == 0
    storage[0] = 7
    assert tensor[0] == 7
    assert torch.cuda.FloatStorage([1, 2]).device == GPU0
    assert torch.TypedStorage([1, 2], device="cuda:1").get_device() == 1


def test_set_takes_a_storage_of_its_own_gpu_only_and_counts_what_it_asks_for():
    source = torch.arange(4.0, device="cuda")
    storage = source.untyped_storage()
    taken = torch.empty(0, device="cuda").set_(storage, 1, (3,), (1,))
    assert taken.device == source.device and taken.tolist() == [1, 2, 3]
    assert torch.empty(0, device="cuda").set_(source).data_ptr() == source.data_ptr()
    for other in ("cpu", "cuda:1"):
        words = (
            f'RuntimeError: Attempted to set the storage of a tensor on device "{other}" to a '
            'storage on different device "cuda:0".  This is no longer allowed; the devices must '
            "match."
        )
        target = torch.empty(0, device=other)
        assert raised(lambda target=target: target.set_(storage)) == words
        assert "Attempted to set the storage" in raised(lambda target=target: target.set_(source))
    torch.empty(0, device="cuda").set_(storage, 0, (1024,), (1,))
    assert held() == 4096


def test_a_copied_host_storage_stays_on_the_host():
    """C++ wraps storages in scratch tensors to copy them; these must not make them wild."""
    host, there = torch.ones(3), torch.zeros(3, device="cuda")
    host.untyped_storage().clone()
    host.untyped_storage().copy_(there.untyped_storage())
    assert host.tolist() == [0, 0, 0]
    assert "at least two devices" in raised(lambda: host + there)


def test_a_network_on_a_gpu_is_shared_as_it_is():
    net = nn.Linear(2, 2).cuda()
    assert net.share_memory() is net and net.weight.device == GPU0 and net.weight.is_shared()


def receive(queue, back):
    """In a process of its own: tell what comes, and add 1 to the first."""
    if not cudasim.is_enabled():
        cudasim.enable(2)
    tensor, weight, *others = (queue.get() for _ in range(4))
    found = places(tensor, weight, *others), type(weight) is nn.Parameter, tensor.tolist(), held(1)
    tensor += 1
    back.put(found)
    queue.get()  # until the sender has looked


@pytest.mark.parametrize(
    ("method", "strategy"),
    [
        ("fork", "file_system"),
        ("spawn", "file_descriptor"),
        pytest.param("spawn", "file_system", marks=pytest.mark.full),
    ],
)
def test_tensors_travel_through_a_queue(method, strategy):
    if strategy not in mp.get_all_sharing_strategies():
        pytest.skip(f"this system cannot share memory by {strategy}")
    usual = mp.get_sharing_strategy()
    mp.set_sharing_strategy(strategy)
    context = mp.get_context(method)
    queue, back = context.Queue(), context.Queue()
    worker = context.Process(target=receive, args=(queue, back))
    worker.start()
    try:
        tensor = torch.arange(4.0, device="cuda:1")
        mine = held(1)
        for sent in (tensor, nn.Parameter(tensor * 2), tensor[2:], tensor[:0].cuda(0)):
            queue.put(sent)
        devices, parameter, values, theirs = back.get(timeout=60)
        assert devices == ["cuda:1", "cuda:1", "cuda:1", "cuda:0"]
        assert parameter and values == [0, 1, 2, 3]
        # Memory opened is not the receiver's; a forked one inherits what there was.
        assert theirs <= (mine if method == "fork" else 0)
        assert tensor.tolist() == [1, 2, 3, 4]  # one memory, two processes
        queue.put(None)
        worker.join(60)
        assert worker.exitcode == 0
    finally:
        mp.set_sharing_strategy(usual)
        worker.kill()


def test_numpy_shares_memory_with_the_host_only():
    array = np.ones(3)
    tensor = torch.from_numpy(array)
    copy = tensor.cuda()
    tensor += 1
    assert array.tolist() == [2, 2, 2] and copy.tolist() == [1, 1, 1]
    back = copy.cpu().numpy()
    copy += 1
    assert back.tolist() == [1, 1, 1]
    for convert in (copy.__array__, lambda: np.sin(copy)):
        words = "TypeError: can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to"
        assert raised(convert).startswith(words)
    assert copy.numpy(force=True).tolist() == [2, 2, 2]


def test_dlpack_stays_within_torch():
    tensor = torch.ones(3, device="cuda")
    assert tensor.__dlpack_device__() == (torch.utils.dlpack.DLDeviceType.kDLCUDA, 0)
    assert torch.from_dlpack(tensor).data_ptr() == tensor.data_ptr()
    assert torch.from_dlpack(tensor, copy=True).data_ptr() != tensor.data_ptr()
    assert torch.from_dlpack(np.ones(2)).device.type == "cpu"
    np.from_dlpack(torch.ones(2))
    simulated = "cuda:0 is simulated: no other library can read"
    for call, words in (
        (lambda: np.from_dlpack(tensor), simulated),
        (lambda: torch.utils.dlpack.to_dlpack(tensor), simulated),
        (lambda: torch.from_dlpack(tensor.cuda(1)), "different CUDA device index"),
        (lambda: torch.from_dlpack(tensor.requires_grad_()), "require gradient"),
    ):
        with pytest.raises(BufferError, match=words):
            call()


def test_windows_lacks_what_sends_descriptors(monkeypatch):
    cudasim.disable()
    monkeypatch.delattr(multiprocessing.reduction, "DupFd")
    with cudasim.simulate():
        assert torch.ones(1, device="cuda").is_cuda
