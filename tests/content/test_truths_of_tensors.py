"""What *Tensors on GPUs* says of PyTorch, asked of PyTorch and of a simulated pair of GPUs."""

import inspect
import re

import numpy as np
import pytest
import torch
from helpers import ROOT, read

import cudasim

TEXT = "\n".join(
    cell.source
    for cell in read(ROOT / "notebooks" / "tensors-on-gpus.ipynb").cells
    if not cell.id == "setup"
)


@pytest.fixture(params=["cuda", "mps", "xpu"])
def kind(request):
    """The type of the simulated GPUs, for the length of a test."""
    gpus = 1 if request.param == "mps" else 2
    with cudasim.simulate(gpus=gpus, device_type=request.param):
        yield request.param


def test_pytorch_counts_the_memory_of_every_maker(kind):
    held = torch.zeros(64, 2**18, device=kind)
    assert (
        torch.accelerator.memory_allocated() == held.nbytes == torch.accelerator.memory_reserved()
    )
    free, total = torch.accelerator.get_memory_info()
    assert total - free >= held.nbytes


def test_a_device_as_a_context_steers_factories_alone(kind):
    X = torch.ones(2, 3)
    with torch.device(kind):
        steered = torch.zeros(3), torch.arange(3), torch.rand(2), torch.tensor([1]), X.new_ones(2)
        free = torch.zeros_like(X), X + 1, torch.from_numpy(np.ones(3)), X.clone()
        net = torch.nn.Linear(2, 2)
    assert [tensor.device.type for tensor in steered] == [kind] * 4 + ["cpu"]
    assert {tensor.device.type for tensor in free} == {"cpu"}
    assert net.weight.device.type == kind


def test_what_may_come_from_another_device():
    with cudasim.simulate(gpus=2):
        X, Y = torch.ones(2, 3, device="cuda:0"), torch.ones(2, 3, device="cuda:1")
        host, half, rows = torch.ones(2, 3), torch.tensor(0.5), torch.tensor([1])
        taken = X * half, X[rows], X[torch.tensor([True, False])], X.copy_(Y), X.copy_(host)
        X[0] = Y[0]
        X[1] = torch.zeros(3)
        assert {tensor.device for tensor in (*taken, X)} == {torch.device("cuda:0")}
        refused = (
            lambda: X + Y,
            lambda: X + host,
            lambda: X * torch.tensor([0.5]),
            lambda: host * half.to("cuda:0"),
            lambda: Y * half.to("cuda:0"),
            lambda: host[rows.to("cuda:0")],
        )
        for each in refused:
            with pytest.raises(RuntimeError, match="device"):
                each()


NOT_SO = (
    r"does not borrow",
    r"fit in that GPU's memory or they do not",
    r"Only tensors without dimensions",
    r"GPUs of other makers, this cell counts nothing",
    r"When a whole block shall work on one device",
    r"\b[Bb]orn\b",
    r"device\.type [!=]= 'cuda'",
)


def said(text):
    """What a text says that is not so."""
    return [words for words in NOT_SO if re.search(words, text)]


def test_the_chapter_says_none_of_what_is_not_so():
    assert said(TEXT) == []
    for words in ("536.40", "share the host's memory", "an index or a mask", "`X.copy_(...)`"):
        assert words in TEXT, words


def test_what_is_not_so_is_found():
    assert said("A GPU has its own memory and does not borrow the host's.") == [NOT_SO[0]]
    assert said("Only tensors without dimensions; on_gpu = device.type == 'cuda'") == [
        NOT_SO[2],
        NOT_SO[-1],
    ]
    assert said("A card has a memory of its own.") == []


def test_what_the_chapter_says_of_a_first_tensor_is_what_the_model_takes():
    from cudasim.device.sizes import SMALL_SEGMENT
    from cudasim.device.types.cuda import CUDA

    before, after = re.search(
        r"showed (\d+) MiB in use before .* and (\d+) MiB after", TEXT
    ).groups()
    context = int(re.search(r"(\d+) MiB are the context", TEXT)[1])
    assert (int(after) - int(before)) * 2**20 == CUDA.context + SMALL_SEGMENT
    assert context * 2**20 == CUDA.context


def test_memory_is_counted_by_functions_that_this_pytorch_has():
    for name in re.findall(r"torch\.accelerator\.(\w+)", TEXT):
        assert inspect.isfunction(getattr(torch.accelerator, name)), name
