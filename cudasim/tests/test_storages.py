"""Memory shared with other processes and libraries, and storages that are not on a GPU.

There is more in `test_sources.py`.
"""

import multiprocessing.reduction

import numpy as np
import pytest
import torch
import torch.multiprocessing as mp
from torch import nn

import cudasim
from fidelity.helpers import places, raised

pytestmark = pytest.mark.usefixtures("two_gpus")
held = torch.cuda.memory_allocated


def test_a_copied_host_storage_stays_on_the_host():
    host, on_gpu = torch.ones(3), torch.zeros(3, device="cuda")
    assert torch.UntypedStorage(3).device.type == "cpu"
    assert host.untyped_storage().device.type == "cpu"
    assert torch.UntypedStorage(3, device="meta").device.type == "meta"
    host.untyped_storage().clone()
    host.untyped_storage().copy_(on_gpu.untyped_storage())
    assert host.tolist() == [0, 0, 0]
    assert "at least two devices" in raised(lambda: host + on_gpu)


def receive(queue, answers):
    """In a process of its own: tell what comes, and add 1 to the first."""
    if not cudasim.is_enabled():
        cudasim.enable(2)
    tensor, weight, *others = (queue.get() for _ in range(4))
    answer = {
        "devices": places(tensor, weight, *others),
        "parameter": type(weight) is nn.Parameter,
        "values": tensor.tolist(),
        "held": held(1),
    }
    error = raised(tensor.untyped_storage()._share_cuda_)
    assert "received from another process" in error
    tensor += 1
    answers.put(answer)
    queue.get()  # until the sender has looked


@pytest.fixture
def sharing():
    """A function that chooses how memory is shared, until the test ends."""
    usual = mp.get_sharing_strategy()

    def choose(strategy):
        if strategy not in mp.get_all_sharing_strategies():
            pytest.skip(f"this system cannot share memory by {strategy}")
        mp.set_sharing_strategy(strategy)

    yield choose
    mp.set_sharing_strategy(usual)


@pytest.mark.parametrize(
    ("method", "strategy"),
    [
        ("fork", "file_system"),
        ("spawn", "file_descriptor"),
        pytest.param("spawn", "file_system", marks=pytest.mark.full),
    ],
)
def test_tensors_travel_through_a_queue(sharing, method, strategy):
    sharing(strategy)
    context = mp.get_context(method)
    queue, answers = context.Queue(), context.Queue()
    worker = context.Process(target=receive, args=(queue, answers))
    worker.start()
    try:
        tensor = torch.arange(4.0, device="cuda:1")
        ours = held(1)
        parameter = nn.Parameter(tensor * 2)
        empty = tensor[:0].cuda(0)
        for sent in (tensor, parameter, tensor[2:], empty):
            queue.put(sent)
        answer = answers.get(timeout=60)
        assert answer["devices"] == ["cuda:1", "cuda:1", "cuda:1", "cuda:0"]
        assert answer["parameter"]
        assert answer["values"] == [0, 1, 2, 3]
        # Memory opened is not the receiver's; a forked one inherits what there was.
        assert answer["held"] <= (ours if method == "fork" else 0)
        assert tensor.tolist() == [1, 2, 3, 4]  # one memory, two processes
        queue.put(None)
        worker.join(60)
        assert worker.exitcode == 0
    finally:
        worker.kill()


def test_dlpack_stays_within_torch():
    tensor = torch.ones(3, device="cuda")
    words = "cuda:0 is simulated: no other library can read"
    assert words in raised(lambda: np.from_dlpack(tensor))
    assert words in raised(lambda: torch.utils.dlpack.to_dlpack(tensor))
    assert torch.from_dlpack(np.ones(2)).device.type == "cpu"
    np.from_dlpack(torch.ones(2))


def test_windows_lacks_what_sends_descriptors(monkeypatch):
    cudasim.disable()
    monkeypatch.delattr(multiprocessing.reduction, "DupFd")
    with cudasim.simulate():
        assert torch.ones(1, device="cuda").is_cuda
