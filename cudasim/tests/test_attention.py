"""Attention: the kernel that CUDA takes, its values and gradients, and its refusals.

What kernels refuse is in PyTorch's aten/src/ATen/native/transformers/cuda/sdp_utils.cpp and
sdp_utils_cpp.h, and tested by its test/test_transformers.py.
"""

import pytest
import torch
import torch.nn.attention.bias
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import cudasim

FLASH = SDPBackend.FLASH_ATTENTION
EFFICIENT = SDPBackend.EFFICIENT_ATTENTION
CUDNN = SDPBackend.CUDNN_ATTENTION
MATH = SDPBackend.MATH
NAMES = {
    FLASH: "ScaledDotProductFlashAttentionBackward0",
    EFFICIENT: "ScaledDotProductEfficientAttentionBackward0",
    CUDNN: "ScaledDotProductCudnnAttentionBackward0",
}
FLOAT, HALF = torch.float32, torch.float16


def attend(*args, **kwargs):
    """Call attention as a program does: by the name that it has during a simulation."""
    return torch.nn.functional.scaled_dot_product_attention(*args, **kwargs)


@pytest.fixture(autouse=True)
def a100():
    with cudasim.simulate(card="A100"):
        yield


def attention_of(inputs, **options):
    """Return the result of attention, and the gradients of the inputs."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    out = attend(*leaves, **options)
    weights = torch.linspace(0, 1, out.numel()).reshape(out.shape).to(out)
    (out * weights).sum().backward()
    return out, [leaf.grad for leaf in leaves]


CASES = {
    "plain": {},
    "causal": {"is_causal": True},
    "scale": {"scale": 0.3},
    "grouped": {"enable_gqa": True},
    "mask": {"attn_mask": torch.arange(36).reshape(6, 6) % 5 > 0},
    "bias": {"attn_mask": torch.arange(36.0).reshape(6, 6) / 36},
}


@pytest.mark.parametrize(
    ("kernel", "dtype", "cases"),
    [
        (FLASH, HALF, ["plain", "causal", "scale", "grouped"]),
        (EFFICIENT, FLOAT, ["plain", "causal", "scale", "mask", "bias"]),
        (CUDNN, HALF, ["plain", "causal", "scale", "bias"]),
    ],
)
def test_values_and_gradients_are_those_of_the_formula(kernel, dtype, cases):
    torch.manual_seed(0)
    inputs = [torch.rand(2, 4, 6, 16) for _ in range(3)]
    tolerance = 1e-5 if dtype == FLOAT else 5e-3
    for case in cases:
        options = dict(CASES[case])
        if case == "grouped":
            inputs[1:] = [tensor[:, :2] for tensor in inputs[1:]]
        with sdpa_kernel(MATH):
            expected, gradients = attention_of(inputs, **options)

        mask = options.pop("attn_mask", None)
        if mask is not None:
            mask_type = mask.dtype if mask.dtype == torch.bool else dtype
            options["attn_mask"] = mask.to("cuda", mask_type)
        with sdpa_kernel(kernel):
            out, ours = attention_of([x.to("cuda", dtype) for x in inputs], **options)
        assert out.grad_fn.name() == NAMES[kernel]
        for one, other in zip([expected, *gradients], [out, *ours], strict=True):
            assert other.device.type == "cuda"
            difference = (one - other.cpu().float()).abs().max()
            assert difference <= tolerance, case


def test_the_gradient_of_a_bias():
    inputs = [torch.rand(1, 2, 4, 8) for _ in range(3)]
    bias = torch.rand(4, 4, requires_grad=True)
    on_gpu = bias.detach().cuda().requires_grad_()
    with sdpa_kernel(MATH):
        attend(*inputs, attn_mask=bias).square().sum().backward()
    attend(*[x.cuda() for x in inputs], attn_mask=on_gpu).square().sum().backward()
    torch.testing.assert_close(on_gpu.grad.cpu(), bias.grad)


def test_dropout_drops_the_same_in_both_directions():
    torch.manual_seed(0)
    value = torch.rand(1, 1, 4, 8, device="cuda", requires_grad=True)
    query = torch.rand(1, 1, 4, 8, device="cuda")

    def result(value):
        torch.cuda.manual_seed(7)
        return attend(query, query, value, dropout_p=0.5)

    out = result(value)
    assert not torch.equal(out, attend(query, query, value))
    out.sum().backward()
    # The result is linear in the values, so a difference is the gradient.
    step = torch.zeros_like(value)
    step[0, 0, 2, 3] = 1.0
    with torch.no_grad():
        slope = (result(value + step) - result(value)).sum()
    assert slope.item() == pytest.approx(value.grad[0, 0, 2, 3].item(), rel=1e-4)


def test_which_kernel_is_taken():
    half = torch.rand(1, 2, 8, 16, device="cuda", dtype=HALF, requires_grad=True)
    assert attend(half, half, half).grad_fn.name() == NAMES[FLASH]
    mask = torch.ones(8, 8, dtype=HALF, device="cuda")
    masked = attend(half, half, half, attn_mask=mask)
    assert masked.grad_fn.name() == NAMES[EFFICIENT]
    double = half.double().detach().requires_grad_()
    assert "Attention" not in attend(double, double, double).grad_fn.name()


def test_the_number_of_the_kernel_that_would_be_taken():
    """`select_sdp_backend` in aten/src/ATen/native/transformers/cuda/sdp_utils.cpp"""
    choice = torch._fused_sdp_choice
    query = half(1, 2, 8, 16)
    single = query.float()
    mask = torch.ones(8, 8, dtype=torch.bool, device="cuda")
    assert choice(query, query, query) == FLASH.value
    assert choice(query, query, query, mask) == EFFICIENT.value
    assert choice(single, single, single) == EFFICIENT.value
    assert choice(*[single.double()] * 3) == SDPBackend.MATH.value
    assert choice(*[query.transpose(-1, -2)] * 3) == SDPBackend.MATH.value
    with sdpa_kernel(CUDNN):
        assert choice(query, query, query) == CUDNN.value
    on_host = single.cpu()
    assert choice(on_host, on_host, on_host) == FLASH.value
    with pytest.raises(RuntimeError, match="on the same device"):
        choice(single, on_host, single)
    with sdpa_kernel([]), pytest.raises(RuntimeError, match="No viable backend"):
        choice(single, single, single)


def test_a_second_derivative_is_refused_and_math_has_it():

    def second():
        x = torch.rand(1, 2, 8, 16, device="cuda", requires_grad=True)
        out = attend(x, x, x).sum()
        (slope,) = torch.autograd.grad(out, x, create_graph=True)
        slope.sum().backward()
        return x.grad

    words = "_scaled_dot_product_efficient_attention_backward is not implemented"
    with pytest.raises(RuntimeError, match=words):
        second()
    with sdpa_kernel(MATH):
        assert second().device.type == "cuda"


def test_flops_are_counted():
    """Two products of 2 x 16 x 16 x 8, at two operations each, for two heads."""
    x = torch.rand(1, 2, 16, 8, device="cuda")
    with FlopCounterMode(display=False) as counter:
        attend(x, x, x)
    assert counter.get_total_flops() == 2 * 2 * 2 * 16 * 16 * 8


def half(*shape):
    return torch.rand(*shape, device="cuda", dtype=HALF)


REFUSED = {
    "stride": (
        FLASH,
        lambda: [half(1, 2, 64, 8).transpose(-1, -2)] * 3,
        "All fused kernels require the last dimension of the input to have stride 1.",
    ),
    "empty": (
        FLASH,
        lambda: [half(1, 2, 0, 8), half(1, 2, 4, 8), half(1, 2, 4, 8)],
        "All fused kernels do not support zero seq_len_q or seq_len_kv.",
    ),
    "batches": (
        EFFICIENT,
        lambda: [half(2, 2, 4, 8), half(1, 2, 4, 8), half(1, 2, 4, 8)],
        "require query, key and value to have the same batch_size and num_heads",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_kernel_refuses(name):
    kernel, make, words = REFUSED[name]
    inputs = make()
    with (
        sdpa_kernel(kernel),
        pytest.warns(UserWarning, match=words),
        pytest.raises(RuntimeError, match="No available kernel"),
    ):
        attend(*inputs)


def test_cudnn_is_not_deterministic():
    x = half(1, 2, 8, 8)
    torch.use_deterministic_algorithms(True)
    try:
        with (
            sdpa_kernel(CUDNN),
            pytest.warns(UserWarning, match="cuDNN SDPA is not deterministic"),
            pytest.raises(RuntimeError, match="No available kernel"),
        ):
            attend(x, x, x)
    finally:
        torch.use_deterministic_algorithms(False)


def test_gradients_warn_that_they_are_not_deterministic():
    """attention_backward.cu: only a strict demand makes them so; once in a process."""
    x = torch.rand(1, 2, 8, 16, device="cuda", dtype=HALF, requires_grad=True)
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with pytest.warns(
            UserWarning, match="Flash Attention defaults to a non-determ"
        ):
            attend(x, x, x).sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)


def test_wide_heads_train_on_no_small_card():
    cudasim.disable()
    cudasim.enable(card="RTX 4090")
    x = half(1, 1, 8, 224).requires_grad_()
    with (
        sdpa_kernel(FLASH),
        pytest.warns(UserWarning, match="doesn't support training with head_dim"),
        pytest.raises(RuntimeError, match="No available kernel"),
    ):
        attend(x, x, x)
    with sdpa_kernel(FLASH), torch.no_grad():
        assert attend(x.detach(), x.detach(), x.detach()).shape == x.shape


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_tensors_attend_within_their_rows():
    rows = [torch.rand(length, 2, 8) for length in (3, 5, 2)]
    leaf = torch.nested.nested_tensor(
        rows, layout=torch.jagged, device="cuda", requires_grad=True
    )
    nested = leaf.transpose(1, 2)
    out = attend(nested, nested, nested).transpose(1, 2).values()
    out.square().sum().backward()

    dense = [row.clone().requires_grad_() for row in rows]
    parts = []
    for row in dense:
        heads = row.transpose(0, 1)
        parts.append(attend(heads, heads, heads).transpose(0, 1))
    expected = torch.cat(parts)
    expected.square().sum().backward()
    torch.testing.assert_close(out.cpu(), expected)
    gradients = torch.cat([row.grad for row in dense])
    torch.testing.assert_close(leaf.grad.values().cpu(), gradients)


@pytest.mark.parametrize("dtype", [FLOAT, HALF])
@pytest.mark.parametrize("variant", ["causal_upper_left", "causal_lower_right"])
def test_causal_biases_of_rectangles(variant, dtype):
    make_bias = getattr(torch.nn.attention.bias, variant)
    query, key = torch.rand(1, 2, 4, 16), torch.rand(1, 2, 6, 16)
    later = torch.ones(4, 6).triu(1 if variant == "causal_upper_left" else 3)
    expected = attend(query, key, key, attn_mask=later == 0)

    query, key = query.to("cuda", dtype), key.to("cuda", dtype)
    out = attend(query, key, key, attn_mask=make_bias(4, 6))
    assert out.device.type == "cuda"
    assert (out.cpu().float() - expected).abs().max() < (
        1e-5 if dtype == FLOAT else 2e-3
    )


def test_sequences_of_several_lengths():
    from torch.nn.attention.varlen import varlen_attn

    packed = half(8, 2, 16).requires_grad_()
    begins = torch.tensor([0, 3, 8], dtype=torch.int32, device="cuda")
    out = varlen_attn(packed, packed, packed, begins, begins, 5, 5)
    out.sum().backward()
    assert packed.grad.device.type == "cuda"
    for begin, end in ((0, 3), (3, 8)):
        heads = packed.detach()[begin:end].float().transpose(0, 1)
        with sdpa_kernel(MATH):
            expected = attend(heads, heads, heads).transpose(0, 1)
        assert (out[begin:end].float() - expected).abs().max() < 5e-3


# The device of the queries and the values, and that of the keys.
APART = [("cuda:0", "cuda:1"), ("cuda:0", "cpu"), ("cpu", "cuda:0")]


@pytest.mark.parametrize("kernel", [FLASH, EFFICIENT, CUDNN, MATH])
@pytest.mark.parametrize(("here", "there"), APART)
def test_operands_on_several_devices_are_refused(here, there, kernel):
    query = half(1, 2, 8, 8).to(here)
    key = half(1, 2, 8, 8).to(there)
    expected = (
        "Expected query, key, and value to have the same device type, but got "
        f"query.device: {here} key.device: {there} and value.device: {here} instead."
    )
    with sdpa_kernel(kernel), pytest.raises(RuntimeError) as refused:
        attend(query, key, query)
    assert str(refused.value) == expected


@pytest.mark.parametrize("there", ["cpu", "cuda:1"])
def test_a_layer_refuses_a_mask_on_another_device(there):
    layer = torch.nn.MultiheadAttention(16, 2, batch_first=True, device="cuda")
    x = torch.rand(2, 8, 16, device="cuda")
    mask = torch.zeros(8, 8, device=there)
    expected = (
        f"got attn_bias is on {there}, different from other tensors on cuda:0 (when checking "
        "argument in method wrapper_CUDA___scaled_dot_product_efficient_attention)"
    )
    with pytest.raises(RuntimeError) as refused:
        layer(x, x, x, attn_mask=mask, need_weights=False)
    assert expected in str(refused.value)


def test_packed_sequences_are_on_the_device_of_their_begins():
    x = half(8, 2, 16)
    begins = torch.tensor([0, 3, 8], dtype=torch.int32)
    with pytest.raises(RuntimeError, match="got cum_seq_q is on cpu, different from"):
        torch.ops.aten._flash_attention_forward(
            x, x, x, begins, begins, 5, 5, 0.0, False, False
        )


@pytest.mark.parametrize("low", [torch.float16, torch.bfloat16])
def test_autocast_casts_before_a_kernel_is_chosen(low):
    """`scaled_dot_product_attention` is in the list of lower precision of autocast_mode.h."""
    query = torch.rand(1, 2, 8, 16, device="cuda", requires_grad=True)
    with torch.autocast("cuda", dtype=low):
        out = attend(query, query, query)
    assert out.dtype is low
    assert type(out.grad_fn).__name__ == NAMES[FLASH]


def test_a_mask_of_numbers_has_the_dtype_of_the_query():
    """`_efficient_attention_forward` in transformers/cuda/attention.cu."""
    query = torch.rand(1, 2, 8, 16, device="cuda", dtype=HALF)
    mask = torch.zeros(8, 8, device="cuda")
    with pytest.raises(RuntimeError, match=r"invalid dtype for bias - should match"):
        attend(query, query, query, mask)
    with pytest.raises(
        RuntimeError, match="Expected attn_mask dtype to be bool or float"
    ):
        attend(query, query, query, mask.double())
