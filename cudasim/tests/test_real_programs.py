"""What programs that nobody here wrote needed, each reduced to plain PyTorch."""

import torch
from torch import nn

import cudasim
from fidelity.helpers import places


def test_device_context_is_the_same_whenever_torch_first_looks_up_its_factories():
    """Torch caches the factories that a device context serves: before, in, after. `from_pretrained`
    of transformers builds a model under `meta`, and fills what it finds there."""
    for _ in range(2):
        with torch.device("meta"):
            assert places(torch.ones(2)) == ["meta"]
        with cudasim.simulate(gpus=2):
            with torch.device("cuda:1"):
                named = [torch.ones(2, device=device) for device in ("cuda:0", "cpu")]
                made = places(torch.ones(2), torch.fft.fftfreq(3), *named)
            assert made == ["cuda:1", "cuda:1", "cuda:0", "cpu"]
            with torch.device("meta"):
                assert places(torch.arange(3.0), nn.Linear(2, 3).weight) == ["meta"] * 2


def test_empty_like_a_meta_tensor_takes_the_device_asked_for(two_gpus):
    """Device maps of accelerate."""
    nowhere = torch.ones(3, device="meta")
    for device in ("cpu", "cuda:0", "cuda:1"):
        filled = torch.empty_like(nowhere, device=device).copy_(torch.arange(3.0))
        assert places(filled) == [device] and filled.tolist() == [0.0, 1.0, 2.0]
