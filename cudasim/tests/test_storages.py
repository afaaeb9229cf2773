"""Storages on simulated GPUs, and memory shared with other processes and libraries."""

import multiprocessing.reduction

import numpy as np
import pytest
import torch
import torch.multiprocessing as mp
from calls import raised
from torch import nn

import cudasim

pytestmark = [
    pytest.mark.usefixtures("two_gpus"),
    pytest.mark.filterwarnings("ignore:TypedStorage is deprecated:UserWarning"),
]


def held(index=0):
    return torch.cuda.memory_allocated(index)


def test_a_storage_knows_its_gpu():
    storage = torch.arange(4.0, device="cuda:1").untyped_storage()
    assert storage.device == torch.device("cuda:1") and storage.get_device() == 1
    assert storage.is_cuda and storage.is_shared() and len(storage) == storage.nbytes() == 16
    host = torch.arange(4.0).untyped_storage()
    assert host.device == torch.device("cpu") and not host.is_cuda and not host.is_shared()


def test_moves_copy_and_the_host_keeps_what_it_has():
    host = torch.arange(4.0).untyped_storage()
    one = host.cuda(1)
    assert one.device == torch.device("cuda:1") and one.tolist() == host.tolist()
    assert one.cuda(1) is one and host.cpu() is host
    assert one.cpu().device.type == "cpu" and one.cpu().data_ptr() != one.data_ptr()
    assert host.cuda().device == one.to(device="cuda").device == torch.device("cuda:0")
    with pytest.raises(torch.AcceleratorError, match="invalid device ordinal"):
        host.cuda(2)


def test_storages_are_made_on_a_gpu_and_counted():
    before = held(1)
    storage = torch.UntypedStorage(1000, device="cuda:1")
    assert storage.device == torch.device("cuda:1") and held(1) - before == 1024
    assert torch.UntypedStorage([1, 2, 3], device="cuda").tolist() == [1, 2, 3]
    assert torch.UntypedStorage(3, device="meta").device.type == "meta"
    assert torch.UntypedStorage(3).device.type == "cpu"
    del storage
    assert held(1) == before


def test_a_part_of_a_storage_keeps_all_of_its_memory():
    before = held()
    storage = torch.UntypedStorage(1000, device="cuda")
    part = storage[10:20]
    assert part.device == storage.device and part.data_ptr() == storage.data_ptr() + 10
    assert held() - before == 1024
    del storage
    assert held() - before == 1024
    del part
    assert held() == before


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
    assert torch.cuda.FloatStorage([1, 2]).device == torch.device("cuda:0")
    assert torch.TypedStorage([1, 2], device="cuda:1").get_device() == 1


def test_set_takes_a_storage_of_its_own_gpu_only():
    source = torch.arange(4.0, device="cuda")
    taken = torch.empty(0, device="cuda").set_(source.untyped_storage(), 1, (3,), (1,))
    assert taken.device == source.device and taken.tolist() == [1, 2, 3]
    assert torch.empty(0, device="cuda").set_(source).data_ptr() == source.data_ptr()
    for other in ("cpu", "cuda:1"):
        with pytest.raises(RuntimeError) as error:
            torch.empty(0, device=other).set_(source.untyped_storage())
        assert str(error.value) == (
            f'Attempted to set the storage of a tensor on device "{other}" to a storage on '
            'different device "cuda:0".  This is no longer allowed; the devices must match.'
        )
        with pytest.raises(RuntimeError, match="Attempted to set the storage"):
            torch.empty(0, device=other).set_(source)


def test_set_that_asks_for_more_is_counted():
    source = torch.ones(4, device="cuda")
    before = held()
    torch.empty(0, device="cuda").set_(source.untyped_storage(), 0, (1024,), (1,))
    assert held() - before == 4096 - 512


def test_a_copied_host_storage_stays_on_the_host():
    # C++ wraps storages in scratch tensors to copy them; these must not make them wild.
    host = torch.ones(3)
    host.untyped_storage().clone()
    host.untyped_storage().copy_(torch.zeros(3, device="cuda").untyped_storage())
    assert host.tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="at least two devices"):
        host + torch.ones(3, device="cuda")


def test_sharing_is_a_matter_of_course_on_a_gpu():
    tensor = torch.ones(2, device="cuda")
    assert tensor.share_memory_() is tensor and tensor.is_shared()
    net = nn.Linear(2, 2).cuda()
    assert net.share_memory() is net and net.weight.device == torch.device("cuda:0")


def _receive(queue, back):
    if not cudasim.is_enabled():
        cudasim.enable(2)
    tensor, weight, part, empty = (queue.get() for _ in range(4))
    back.put(
        (
            [str(sent.device) for sent in (tensor, weight, part, empty)],
            type(weight) is nn.Parameter,
            tensor.tolist(),
            held(1),
        )
    )
    tensor += 1
    back.put("added")
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
    worker = context.Process(target=_receive, args=(queue, back))
    worker.start()
    try:
        tensor = torch.arange(4.0, device="cuda:1")
        mine = held(1)
        for sent in (tensor, nn.Parameter(tensor * 2), tensor[2:], tensor[:0].cuda(0)):
            queue.put(sent)
        places, parameter, values, theirs = back.get(timeout=60)
        assert places == ["cuda:1", "cuda:1", "cuda:1", "cuda:0"]
        assert parameter and values == [0, 1, 2, 3]
        # Memory opened is not the receiver's; a forked one inherits what there was.
        assert theirs <= (mine if method == "fork" else 0)
        assert back.get(timeout=60) == "added"
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
    assert torch.as_tensor(array, device="cuda").device == torch.device("cuda:0")
    words = (
        "can't convert cuda:0 device type tensor to numpy. "
        "Use Tensor.cpu() to copy the tensor to host memory first."
    )
    for convert in (copy.numpy, copy.__array__, lambda: np.asarray(copy), lambda: np.sin(copy)):
        assert raised(convert, TypeError) == words
    assert copy.numpy(force=True).tolist() == [2, 2, 2]


def test_the_cuda_array_interface_is_that_of_gpu_tensors():
    interface = torch.ones(2, 3, device="cuda").__cuda_array_interface__
    assert interface["shape"] == (2, 3) and interface["typestr"] == "<f4"
    assert not hasattr(torch.ones(2), "__cuda_array_interface__")


def test_dlpack_stays_within_torch():
    tensor = torch.ones(3, device="cuda")
    assert tensor.__dlpack_device__() == (torch.utils.dlpack.DLDeviceType.kDLCUDA, 0)
    shared = torch.from_dlpack(tensor)
    shared += 1
    assert shared.device == tensor.device and tensor.tolist() == [2, 2, 2]
    assert torch.from_dlpack(tensor, copy=True).data_ptr() != tensor.data_ptr()
    assert torch.from_dlpack(np.ones(2)).device.type == "cpu"
    for export in (np.from_dlpack, torch.utils.dlpack.to_dlpack):
        with pytest.raises(BufferError, match="cuda:0 is simulated: no other library can read"):
            export(tensor)
    with pytest.raises(BufferError, match="different CUDA device index"):
        torch.from_dlpack(tensor.cuda(1))
    with pytest.raises(BufferError, match="require gradient"):
        torch.from_dlpack(torch.ones(2, device="cuda", requires_grad=True))
    np.from_dlpack(torch.ones(2))


def test_windows_lacks_what_sends_descriptors(monkeypatch):
    cudasim.disable()
    monkeypatch.delattr(multiprocessing.reduction, "DupFd")
    with cudasim.simulate():
        assert torch.ones(1, device="cuda").is_cuda
