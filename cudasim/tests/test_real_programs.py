"""What programs that nobody here wrote needed, each reduced to plain PyTorch.

The name of each test says which program found the fault.
"""

import torch
from torch import nn

import cudasim

META = torch.device("meta")


def test_device_context_is_the_same_whenever_torch_first_looks_up_its_factories():
    """Torch caches the factories that a device context serves: before, in, after.

    `from_pretrained` of transformers builds a model under `meta`, and fills what it finds there.
    """
    for _ in range(2):
        with META:
            assert torch.ones(2).device == META
        with cudasim.simulate(gpus=2):
            with torch.device("cuda:1"):
                assert torch.ones(2).device == torch.device("cuda:1")
                assert torch.fft.fftfreq(3).device == torch.device("cuda:1")
                assert torch.ones(2, device="cuda:0").device == torch.device("cuda:0")
                assert torch.ones(2, device="cpu").device == torch.device("cpu")
            with META:
                assert torch.arange(3.0).device == nn.Linear(2, 3).weight.device == META


def test_empty_like_a_meta_tensor_takes_the_device_asked_for(two_gpus):
    """Device maps of accelerate."""
    nowhere = torch.ones(3, device="meta")
    for device in ("cpu", "cuda:0", "cuda:1"):
        filled = torch.empty_like(nowhere, device=device).copy_(torch.arange(3.0))
        assert filled.device == torch.device(device)
        assert filled.tolist() == [0.0, 1.0, 2.0]


def test_attributes_of_tensors_name_their_class_as_dynamo_of_torch_2_11_asks(two_gpus):
    """Importing `torch._dynamo` there looks at `Tensor.device.__get__.__self__.__objclass__`."""
    for name in ("device", "is_cuda", "is_cpu"):
        assert issubclass(torch.Tensor, getattr(torch.Tensor, name).__objclass__)
