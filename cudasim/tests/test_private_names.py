"""What is replaced of PyTorch is there in the version in use: another may have renamed it."""

import re
from pathlib import Path

import pytest
import torch

import cudasim
from cudasim.session import session

TORCH = Path(torch.__file__).parent
OTHERS = {
    "_get_device_properties",
    "ProcessGroupNCCL",
}  # builds, and versions, have them
OTHERS |= {"_accelerator_getDefaultGenerator"}  # since 2.14


@pytest.fixture(scope="module")
def named():
    """The names of functions of `torch._C` in PyTorch's own Python, and in its stubs."""
    pattern = re.compile(r"\b_\w+")
    paths = [*TORCH.rglob("*.py"), *(TORCH / "_C").glob("*.pyi")]
    return {
        name
        for path in paths
        for name in pattern.findall(path.read_text(errors="replace"))
    }


@pytest.mark.skipif(
    torch.__version__ < (2, 13), reason="this PyTorch lacks names of later ones"
)
@pytest.mark.parametrize("kind", ["cuda", "mps"])
def test_every_name_that_is_replaced_is_known_to_pytorch(kind, named):
    with cudasim.simulate(device_type=kind, force=True):
        replaced = [(owner, name) for owner, name, _ in session.patches._attributes]
    missing = [
        f"{owner.__name__}.{name}"
        for owner, name in replaced
        if not hasattr(owner, name) and name not in OTHERS
        if owner is not torch._C or name not in named
    ]
    assert missing == [], f"not in PyTorch {torch.__version__}"
