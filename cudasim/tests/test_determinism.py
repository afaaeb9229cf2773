"""`torch.use_deterministic_algorithms`: the documented list decides, whatever version runs."""

import pytest
import torch
from calls import raised


@pytest.mark.parametrize("strict", [True, False])
def test_what_the_pytorch_in_use_documents_decides(two_gpus, strict):
    refused = torch.use_deterministic_algorithms.__doc__.rpartition("will throw a")[2]
    work = torch.rand(3, device="cuda").kthvalue
    torch.use_deterministic_algorithms(strict)
    try:
        if strict and "kthvalue" in refused:
            assert raised(lambda: work(1)).startswith("kthvalue CUDA does not have")
        else:
            assert work(1).indices.device.type == "cuda"
    finally:
        torch.use_deterministic_algorithms(False)
