"""What programs that nobody here wrote needed, each reduced to plain PyTorch."""

import torch
from torch import nn

import cudasim
from fidelity.helpers import places


def test_torch_looks_up_its_factories_at_any_time():
    """Torch caches the factories that a device context serves: before, in and after.

    `from_pretrained` of transformers builds a model under `meta`, and fills what it finds there.
    """
    for _ in range(2):
        with torch.device("meta"):
            assert places(torch.ones(2)) == ["meta"]
        with cudasim.simulate(gpus=2):
            with torch.device("cuda:1"):
                assert places(torch.ones(2), torch.fft.fftfreq(3)) == ["cuda:1"] * 2
                for device in ("cuda:0", "cpu"):
                    assert places(torch.ones(2, device=device)) == [device]
            with torch.device("meta"):
                assert places(torch.arange(3.0), nn.Linear(2, 3).weight) == ["meta"] * 2


def test_empty_like_a_meta_tensor_takes_the_device_asked_for(two_gpus):
    """Device maps of accelerate."""
    nowhere = torch.ones(3, device="meta")
    for device in ("cpu", "cuda:0", "cuda:1"):
        filled = torch.empty_like(nowhere, device=device).copy_(torch.arange(3.0))
        assert places(filled) == [device]
        assert filled.tolist() == [0.0, 1.0, 2.0]
