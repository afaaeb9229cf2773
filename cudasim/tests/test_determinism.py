"""`torch.use_deterministic_algorithms`: the documented list decides, whatever version runs."""

import pytest
import torch
from calls import raised


@pytest.mark.parametrize("strict", [True, False])
def test_what_the_pytorch_in_use_documents_decides(two_gpus, strict):
    documentation = torch.use_deterministic_algorithms.__doc__
    refused = documentation.rpartition("will throw a")[2]
    x = torch.rand(3, device="cuda")
    torch.use_deterministic_algorithms(strict)
    try:
        if strict and "kthvalue" in refused:
            words = raised(lambda: x.kthvalue(1))
            assert words.startswith("kthvalue CUDA does not have")
        else:
            assert x.kthvalue(1).indices.device.type == "cuda"
    finally:
        torch.use_deterministic_algorithms(False)
