"""Kernels that CUDA has for what the CPU computes in several steps, or with more memory.

The bytes are those of the tensors that the kernels make: cuda/Dropout.cu, SoftMax.cpp and
cuda/Activation.cpp in aten/src/ATen/native of PyTorch.
"""

import pytest
import torch
import torch.nn.functional as F

pytestmark = pytest.mark.usefixtures("two_gpus")

SIZE = 2**20  # numbers
FLOAT, HALF, MASK = 4, 2, 1  # bytes of a number


def numbers(dtype, device="cuda"):
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(1024, 1024, generator=generator).to(device, dtype)
    return values.requires_grad_()


def bytes_a_number(work):
    """Return what a call holds and what it needs at most, and its result."""
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    result = work()
    held = torch.cuda.memory_allocated() - before
    peak = torch.cuda.max_memory_allocated() - before
    return held / SIZE, peak / SIZE, result


@pytest.mark.parametrize("dtype, width", [(torch.float32, FLOAT), (torch.half, HALF)])
def test_dropout_keeps_a_byte_for_each_number(dtype, width):
    x = numbers(dtype)
    held, peak, dropped = bytes_a_number(lambda: F.dropout(x, 0.25))
    assert held == peak == width + MASK
    assert type(dropped.grad_fn).__name__ == "NativeDropoutBackward0"

    dropped.sum().backward()
    kept = x.grad != 0
    assert kept.float().mean().item() == pytest.approx(0.75, abs=0.01)
    torch.testing.assert_close(dropped, torch.where(kept, x / 0.75, 0.0))


def test_dropout_without_a_choice_makes_no_mask():
    x = numbers(torch.float32)
    assert F.dropout(x, 0.5, training=False) is x
    assert bytes_a_number(lambda: F.dropout(x, 0.0))[0] == 0
    assert type(F.dropout(x, 1.0).grad_fn).__name__ == "MulBackward0"
    assert type(F.dropout(x.cpu(), 0.5).grad_fn).__name__ == "MulBackward0"


def test_dropout_takes_real_numbers():
    with pytest.raises(NotImplementedError, match=r"^\"fused_dropout\" .* 'Long'$"):
        F.dropout(torch.ones(4, dtype=torch.int64, device="cuda"))


# Looked up when they are called: a simulation replaces them.
SOFTMAXES = {
    "functional.softmax": lambda *args, **dtype: F.softmax(*args, **dtype),
    "functional.log_softmax": lambda *args, **dtype: F.log_softmax(*args, **dtype),
    "softmax": lambda *args, **dtype: torch.softmax(*args, **dtype),
    "log_softmax": lambda *args, **dtype: torch.special.log_softmax(*args, **dtype),
}


@pytest.mark.parametrize("name", SOFTMAXES)
@pytest.mark.parametrize("autocast", [False, True])
def test_softmax_of_halves_in_float_makes_no_copy(name, autocast):
    softmax = SOFTMAXES[name]
    x, on_host = numbers(torch.half), numbers(torch.half, "cpu")
    arguments = {} if autocast else {"dtype": torch.float32}
    with torch.autocast("cuda", enabled=autocast):
        held, peak, result = bytes_a_number(lambda: softmax(x, -1, **arguments))
    assert held == peak == FLOAT
    (node, _), *_ = result.grad_fn.next_functions
    assert type(node).__name__ == "AccumulateGrad"

    expected = softmax(on_host, -1, dtype=torch.float32)
    torch.testing.assert_close(result.cpu(), expected)
    for output in (result, expected):
        output.square().sum().backward()
    assert x.grad.dtype is torch.half
    torch.testing.assert_close(x.grad.cpu(), on_host.grad)


def test_log_sigmoid_has_an_empty_buffer():
    x, on_host = numbers(torch.float32), numbers(torch.float32, "cpu")
    held, peak, result = bytes_a_number(lambda: F.logsigmoid(x))
    assert held == peak == FLOAT
    torch.testing.assert_close(result.cpu(), F.logsigmoid(on_host))

    result.sum().backward()
    F.logsigmoid(on_host).sum().backward()
    torch.testing.assert_close(x.grad.cpu(), on_host.grad)
