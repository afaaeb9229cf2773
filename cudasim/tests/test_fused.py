"""Kernels that CUDA has for what the CPU computes in several steps, or with more memory.

The bytes are those of the tensors that the kernels make: cuda/Dropout.cu, SoftMax.cpp,
cuda/Activation.cpp and cuda/layer_norm_kernel.cu in aten/src/ATen/native of PyTorch.
"""

import pytest
import torch
import torch.nn.functional as F

from cudasim.dispatch.autocast import casts

pytestmark = pytest.mark.usefixtures("two_gpus")

SIZE = 2**18  # numbers
FLOAT, HALF, MASK = 4, 2, 1  # bytes of a number


def numbers(dtype, device="cuda"):
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(256, 1024, generator=generator).to(device, dtype)
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


@pytest.mark.parametrize("dtype, width", [(torch.float32, FLOAT), (torch.half, HALF)])
@pytest.mark.parametrize("weighted", [False, True])
def test_rms_norm_is_one_kernel_that_keeps_a_number_for_each_row(
    dtype, width, weighted
):
    results = {}
    for device in ("cuda", "cpu"):
        x = numbers(dtype, device)
        weight = None
        if weighted:
            weight = torch.linspace(1, 2, 1024, dtype=dtype, device=device)
            weight.requires_grad_()
        held, peak, result = bytes_a_number(lambda x=x, w=weight: rms_norm(x, w))
        if device == "cuda":
            assert held == peak == width + FLOAT / 1024
            assert type(result.grad_fn).__name__ == "FusedRmsNormBackward0"

        leaves = [x] if weight is None else [x, weight]
        gradients = torch.autograd.grad(result.float().square().sum(), leaves)
        results[device] = [tensor.detach().cpu() for tensor in (result, *gradients)]
    torch.testing.assert_close(results["cuda"], results["cpu"])


def test_rms_norm_has_second_derivatives():
    results = []
    for device in ("cuda", "cpu"):
        x = numbers(torch.float32, device)
        loss = rms_norm(x).square().sum()
        (slope,) = torch.autograd.grad(loss, x, create_graph=True)
        (second,) = torch.autograd.grad(slope.square().sum(), x)
        results.append(second.cpu())
    torch.testing.assert_close(*results)


def rms_norm(x, weight=None):
    return F.rms_norm(x, (1024,), weight, 1e-5)


def test_rms_norm_is_not_fused_for_several_dtypes_or_with_its_channels_last():
    x = numbers(torch.half)
    with pytest.warns(UserWarning, match="Cannot dispatch to fused implementation"):
        mixed = rms_norm(x, torch.ones(1024, device="cuda"))
    image = torch.ones(2, 3, 4, 5, device="cuda", requires_grad=True)
    for_last = image.contiguous(memory_format=torch.channels_last)
    of_image = F.rms_norm(for_last, (5,))
    for result in (mixed, of_image):
        assert type(result.grad_fn).__name__ != "FusedRmsNormBackward0"
    assert type(F.rms_norm(image, (5,)).grad_fn).__name__ == "FusedRmsNormBackward0"
    with pytest.raises(RuntimeError, match="Given normalized_shape"):
        F.rms_norm(image, (4,))


def test_rms_norm_is_fused_under_autocast_and_in_inference_mode():
    x = numbers(torch.half)
    with torch.autocast("cuda"):
        result = rms_norm(x)
    assert result.dtype is (torch.float32 if casts("rms_norm") else torch.half)
    assert type(result.grad_fn).__name__ == "FusedRmsNormBackward0"
    x = x.detach().to(result.dtype)
    with torch.inference_mode():
        held, peak, inferred = bytes_a_number(lambda: rms_norm(x))
    assert held == x.itemsize
    assert peak == held + FLOAT / 1024
    assert torch.equal(inferred, result)


ROWS, LENGTH, WIDTH, HEADS = 64, 32, 64, 4


def layer_peak(norm_first, mask=None):
    """Return what a layer of a transformer needs at most, in sizes of its input."""
    layer = torch.nn.TransformerEncoderLayer(
        WIDTH, HEADS, 4 * WIDTH, norm_first=norm_first, batch_first=True, device="cuda"
    ).eval()
    x = torch.zeros(ROWS, LENGTH, WIDTH, device="cuda")
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    with torch.no_grad():
        layer(x, src_key_padding_mask=mask)
    return (torch.cuda.max_memory_allocated() - before) / x.nbytes


def test_a_layer_in_evaluation_needs_what_stands_between_its_kernels():
    """See transformer_encoder_layer_forward in transformers/transformer.cpp."""
    # The result of attention, its norm, the hidden numbers (four), and the result.
    assert layer_peak(norm_first=True) == 1 + 1 + 4 + 1
    # The norm has taken the place of attention's result.
    assert layer_peak(norm_first=False) == 1 + 4 + 1


def test_a_masked_layer_keeps_its_scores():
    """See native_multi_head_attention_cuda in transformers/cuda/attention.cu."""
    mask = torch.zeros(ROWS, LENGTH, dtype=torch.bool, device="cuda")
    # The norm; queries, keys and values; and twice the scores, which are as long as two inputs.
    peak = layer_peak(norm_first=True, mask=mask)
    assert HEADS * LENGTH == 2 * WIDTH
    assert peak == pytest.approx(1 + 3 + 2 * 2, abs=0.2)
