"""Tests that need GPUs. `pytest --simulated-gpus=2` runs them on a machine that has none."""

import pytest
import torch
from torch import distributed, nn


@pytest.mark.gpus(1)
def test_a_module_moves_as_a_whole(kit, gpus):
    device = gpus[0].device
    module = kit.Distances(3).to(device)
    out = module(torch.ones(2, 3, device=device))
    assert out.tolist() == [[1, 0, -1], [1, 0, -1]]


@pytest.mark.gpus(2)
def test_a_classifier_grows_on_its_own_gpu(kit, gpus):
    device = gpus[1].device
    classifier = nn.Linear(4, 2, bias=False, device=device)
    wider = kit.widen(classifier, 3)
    assert wider.weight.shape == (5, 4)
    assert wider.weight.device == device


@pytest.mark.gpus(1)
def test_scores_may_be_on_a_gpu(kit, gpus):
    device = gpus[0].device
    scores = torch.tensor([[2.0, 1.0], [0.0, 1.0]], device=device)
    targets = torch.tensor([0, 0], device=device)
    assert kit.accuracy(scores, targets) == 0.5


@pytest.mark.gpus(1, memory="1GiB")
def test_an_epoch_leaves_nothing_behind(kit, gpus):
    device = gpus[0].device
    model = nn.Linear(8, 1, device=device)
    x = torch.ones(4, 8, device=device)
    y = torch.ones(4, 1, device=device)
    meter = kit.Meter()
    with gpus.no_leak():
        kit.epoch(model, [(x, y)] * 3, meter)
    assert meter.mean() >= 0


@pytest.mark.gpus(1)
def test_a_step_without_a_line_waits_for_nothing(kit, gpus):
    device = gpus[0].device
    model = nn.Linear(8, 1, device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.ones(4, 8, device=device)
    y = torch.ones(4, 1, device=device)
    with gpus.no_sync(), gpus.no_copies():
        assert kit.step(model, optimizer, x, y, number=1) is None
    assert kit.step(model, optimizer, x, y, number=10).startswith("step 10: loss ")


@pytest.mark.world(2, timeout=120)
def test_each_rank_restores_on_its_own_gpu(kit, gpus, rank, tmp_path):
    torch.cuda.set_device(rank)
    distributed.init_process_group("nccl")
    model = nn.Linear(256, 256, device=gpus[rank].device)
    # Each process has a temporary folder of its own: all take that of rank 0.
    paths = [str(tmp_path / "model.pt")]
    distributed.broadcast_object_list(paths)
    if rank == 0:
        torch.save(model.state_dict(), paths[0])
    distributed.barrier()
    kit.restore(model, paths[0])
    for index, gpu in enumerate(gpus):
        if index != rank:
            assert gpu.peak == 0
