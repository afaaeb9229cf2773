"""Operators of which PyTorch has a kernel for one of the CPU and CUDA only.

The numbers of operators are those in the dispatch tables of PyTorch's builds for CUDA 13.0,
which list the kernels without a GPU: 2.11.0, 2.12.1 and 2.14.1. For 2.13.0 they are those
that torchgen reads from its `native_functions.yaml`.
"""

import pytest
import torch
from calls import raised
from torch.sparse import SparseSemiStructuredTensor, to_sparse_semi_structured

import cudasim
from cudasim.dispatch.absent import LAYOUTS, NOT_REFUSED, absent_layouts
from cudasim.dispatch.kernel_names import name_backend
from cudasim.dispatch.native_functions import backends_of
from cudasim.torch_private.dispatch import has_kernel, runs_on

VERSION = ".".join(torch.__version__.split(".")[:2])
# Operators that have a kernel for the CPU and none for CUDA, by the layout of tensors.
ABSENT = {"": 46, "Quantized": 39, "Sparse": 0, "SparseCsr": 2, "NestedTensor": 4}
ABSENT_DENSE = {"2.11": 44}
# Operators that have a kernel for dense tensors on CUDA and none on the CPU.
ALONE = {"2.11": 93, "2.12": 96, "2.13": 96, "2.14": 92}

CUDA = torch.device("cuda")
HALF = torch.float16


def operators():
    """Return all of PyTorch's operators that have kernels."""
    found = []
    for full_name in torch._C._dispatch_get_all_op_names():
        namespace, _, name = full_name.partition("::")
        if namespace == "aten" and torch._C._dispatch_has_kernel(full_name):
            packet, _, overload = name.partition(".")
            found.append(
                getattr(getattr(torch.ops.aten, packet), overload or "default")
            )
    return found


@pytest.fixture
def a100():
    with cudasim.simulate(card="A100"):
        yield


def has_no_kernel(name, backend):
    return f"Could not run '{name}' with arguments from the '{backend}' backend. "


@pytest.mark.parametrize("layout", LAYOUTS)
def test_operators_without_a_kernel_for_cuda(layout):
    expected = ABSENT[layout]
    if not layout:
        expected = ABSENT_DENSE.get(VERSION, expected) - len(NOT_REFUSED)
    refused = [func.name() for func in operators() if layout in absent_layouts(func)]
    assert len(refused) == expected, refused


@pytest.mark.usefixtures("two_gpus")
def test_operators_that_cuda_alone_has():
    alone = []
    for func in operators():
        name = func.name()
        if "CUDA" in backends_of(name) and not runs_on(name, "CPU"):
            alone.append(name)
            error = NotImplementedError(has_no_kernel(name, "CPU"))
            name_backend(error)
            assert str(error).startswith(f"cudasim has no kernel for '{name}'")
    assert len(alone) == ALONE[VERSION], alone


@pytest.mark.skipif(
    not torch.backends.cuda.is_built(), reason="only builds for CUDA list its kernels"
)
def test_the_list_of_kernels_is_the_dispatchers():
    for func in operators():
        name = func.name()
        for layout in LAYOUTS:
            key = f"{layout}CUDA"
            if key in backends_of(name):
                assert has_kernel(name, key), (name, key)
            is_absent = runs_on(name, f"{layout}CPU") and not runs_on(name, key)
            if is_absent and name not in NOT_REFUSED:
                assert layout in absent_layouts(func), (name, key)


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.filterwarnings("ignore:.*(quantize|quantized|nested|CSR)")
def test_a_kernel_that_cuda_lacks_is_refused():
    """aten/src/ATen/native/native_functions.yaml"""
    x = torch.ones(2, 3, device=CUDA)
    quantized = torch.quantize_per_tensor(x, 0.1, 0, torch.quint8)
    nested = torch.nested.nested_tensor([x, x[:1]])
    rows = x.to_sparse_csr()
    linear = torch.ops.mkldnn._linear_pointwise
    calls = {
        ("aten::to_mkldnn", "CUDA"): x.to_mkldnn,
        ("aten::histogram.bin_ct", "CUDA"): lambda: torch.histogram(x, 3),
        ("aten::from_file", "CUDA"): lambda: torch.from_file("none", device=CUDA),
        ("aten::mkldnn_linear", "CUDA"): lambda: torch.ops.aten.mkldnn_linear(x, x),
        ("mkldnn::_linear_pointwise", "CUDA"): lambda: linear(
            x, x, None, "none", [], ""
        ),
        ("aten::max", "QuantizedCUDA"): quantized.max,
        ("aten::sum.dim_IntList", "NestedTensorCUDA"): lambda: nested.sum(-1, True),
        ("aten::_sparse_mm_reduce_impl", "SparseCsrCUDA"): lambda: torch.sparse.mm(
            rows, x.t(), "sum"
        ),
    }
    for (name, backend), call in calls.items():
        said = raised(call, NotImplementedError)
        assert said.startswith(has_no_kernel(name, backend))


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.filterwarnings("ignore:.*(quantize|quantized)")
def test_what_a_layout_lacks_others_have():
    x = torch.tensor([1.0, 3.0, 2.0])
    assert x.cuda().max().item() == 3
    assert x.cuda().sum(0).item() == 6
    quantized = torch.quantize_per_tensor(x, 0.5, 0, torch.quint8)
    assert quantized.max().item() == 3  # on the CPU
    assert quantized.cuda().dequantize().max().item() == 3
    counts, _ = torch.histogram(x, 2)
    assert counts.tolist() == [1, 2]


@pytest.mark.usefixtures("two_gpus")
def test_a_kernel_that_the_cpu_lacks_is_named():
    x = torch.ones(2, 3, device=CUDA)
    said = raised(
        lambda: torch._cudnn_ctc_loss(x, x, [1], [1], 0, True, True),
        NotImplementedError,
    )
    assert said == (
        "cudasim has no kernel for 'aten::_cudnn_ctc_loss': PyTorch has one for CUDA but "
        "none for the CPU, where cudasim computes"
    )


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.filterwarnings("ignore:cudasim. inductor")
def test_an_assertion_is_compiled():
    """torch/_inductor/lowering.py: `_functional_assert_async`, which CUDA has no kernel for"""

    def assert_and_add(x):
        torch._assert_async((x > 0).all())
        return x + 1

    result = torch.compile(assert_and_add)(torch.ones(2, device="cuda:1"))
    assert result.tolist() == [2, 2]
    assert str(result.device) == "cuda:1"


@pytest.mark.usefixtures("two_gpus")
def test_products_have_the_dtype_that_is_asked_for():
    """2 * 1024 + 1 has one bit more than `float16` holds."""
    first = torch.tensor([[1024.0, 1]], dtype=HALF, device="cuda:1")
    second = torch.tensor([[2.0], [1]], dtype=HALF, device="cuda:1")
    bias = torch.ones(1, 1, dtype=HALF, device="cuda:1")
    dtype = torch.float32
    out = torch.empty(1, 1, device="cuda:1")
    assert torch.mm(first, second).item() == 2048
    assert torch.mm(first, second, out_dtype=dtype).item() == 2049
    assert torch.mm(first, second, out_dtype=dtype, out=out) is out
    assert out.item() == 2049
    assert torch.bmm(first[None], second[None], out_dtype=dtype).item() == 2049
    assert torch.addmm(bias, first, second, out_dtype=dtype).item() == 2050
    batches = (bias[None], first[None], second[None])
    product = torch.baddbmm(*batches, out_dtype=dtype, beta=2)
    assert product.item() == 2051
    assert str(product.device) == "cuda:1"


@pytest.mark.usefixtures("two_gpus")
def test_products_refuse_other_dtypes():
    """aten/src/ATen/native/cuda/Blas.cpp"""
    x = torch.ones(2, 2, dtype=HALF, device=CUDA)
    said = "out_dtype must be the same as input dtype or fp32 for fp16/bf16 inputs"
    for dtype in (torch.bfloat16, torch.float64):
        assert raised(lambda dtype=dtype: torch.mm(x, x, out_dtype=dtype)) == said
    other = torch.ones(2, 2, device=CUDA)
    refused = raised(lambda: torch.mm(x, other, out_dtype=HALF))
    assert refused == "input dtypes must be the same"


def two_in_four():
    """Return the matrix of the documentation's example."""
    return torch.tensor([0, 0, 1, 1]).tile((128, 32)).half().cuda()


@pytest.mark.usefixtures("a100")
@pytest.mark.filterwarnings("ignore:The PyTorch API of SparseSemi")
@pytest.mark.parametrize("by_cutlass", [True, False])
def test_a_matrix_is_compressed_as_documented(monkeypatch, by_cutlass):
    """torch/sparse/semi_structured.py: the example of `to_sparse_semi_structured`"""
    monkeypatch.setattr(SparseSemiStructuredTensor, "_FORCE_CUTLASS", by_cutlass)
    dense = two_in_four()
    compressed = to_sparse_semi_structured(dense)
    assert compressed.values().shape == (128, 64)
    assert (compressed.values() == 1).all()
    assert compressed.indices().shape == (128, 8)
    assert (compressed.indices() == -4370).all()
    assert torch.equal(compressed.to_dense(), dense)
    assert str(compressed.device) == "cuda:0"


@pytest.mark.usefixtures("a100")
@pytest.mark.filterwarnings("ignore:The PyTorch API of SparseSemi")
@pytest.mark.parametrize("by_cutlass", [True, False])
def test_a_layer_with_a_compressed_weight(monkeypatch, by_cutlass):
    """test/test_sparse_semi_structured.py: `test_linear`"""
    monkeypatch.setattr(SparseSemiStructuredTensor, "_FORCE_CUTLASS", by_cutlass)
    layer = torch.nn.Linear(128, 128, dtype=HALF, device=CUDA)
    rows = torch.randn(3, 5, 128, dtype=HALF, device=CUDA)
    is_kept = torch.rand(128, 32, 4, device=CUDA).argsort(-1) < 2
    weight = (layer.weight * is_kept.view(128, 128)).detach()
    layer.weight = torch.nn.Parameter(weight)
    expected = layer(rows)
    layer.weight = torch.nn.Parameter(to_sparse_semi_structured(weight))
    with torch.inference_mode():
        result = layer(rows)
    assert torch.allclose(result, expected, rtol=1e-3, atol=1e-3)
    assert result.device == rows.device


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.filterwarnings("ignore:The PyTorch API of SparseSemi")
def test_old_cards_have_no_semi_structured_sparsity(monkeypatch):
    """https://github.com/pytorch/pytorch/issues/132009; SparseSemiStructuredOps.cu"""
    dense = two_in_four()
    assert raised(lambda: to_sparse_semi_structured(dense)) == (
        "CUDA error: architecture mismatch when calling `cusparseLtInit(&handle)`"
    )
    monkeypatch.setattr(SparseSemiStructuredTensor, "_FORCE_CUTLASS", True)
    compressed = to_sparse_semi_structured(dense)
    assert raised(lambda: compressed @ dense) == (
        "sparse_semi_structured_mad_op : Supported only on GPUs with compute "
        "capability 8.x"
    )


@pytest.mark.usefixtures("a100")
def test_a_product_with_weights_of_four_bits():
    """A weight of 9 stands for (9 - 8) * scale + zero: here 1 * 2 + 3."""
    weights = torch.full((8, 32), 0x99, dtype=torch.uint8, device=CUDA)
    packed = torch.ops.aten._convert_weight_to_int4pack(weights, 2)
    rows = torch.ones(3, 64, dtype=torch.bfloat16, device=CUDA)
    scales = torch.full((2, 8, 1), 2.0)
    zeros = torch.full((2, 8, 1), 3.0)
    scales_and_zeros = torch.cat([scales, zeros], -1).bfloat16().cuda()
    product = torch.ops.aten._weight_int4pack_mm(rows, packed, 32, scales_and_zeros)
    assert product.tolist() == [[64 * 5] * 8] * 3
    said = raised(
        lambda: torch.ops.aten._weight_int4pack_mm(
            rows.float(), packed, 32, scales_and_zeros
        )
    )
    assert said.startswith("Expected A.dtype() == at::kBFloat16 to be true, but got ")


@pytest.mark.usefixtures("two_gpus")
def test_convolutions_by_the_names_of_kernels():
    """aten/src/ATen/native/native_functions.yaml: a sum of four ones, each time"""
    image = torch.ones(1, 2, 3, 3, device="cuda:1")
    weight = torch.ones(2, 1, 2, 2, device="cuda:1")
    one, none = (1, 1), (0, 0)
    separate = torch.ops.aten._conv_depthwise2d(
        image, weight, (2, 2), None, one, none, one
    )
    clamped = torch.cudnn_convolution_relu(image, -weight, None, one, none, one, 2)
    added = torch.cudnn_convolution_add_relu(
        image, weight, separate, 2, None, one, none, one, 2
    )
    spread = torch.cudnn_convolution_transpose(
        separate, weight, none, none, one, one, 2, False, False, False
    )
    assert separate.tolist() == [[[[4, 4], [4, 4]]] * 2]
    assert clamped.tolist() == [[[[0, 0], [0, 0]]] * 2]
    assert added.tolist() == [[[[12, 12], [12, 12]]] * 2]
    assert spread.tolist() == [[[[4, 8, 4], [8, 16, 8], [4, 8, 4]]] * 2]
    assert str(spread.device) == "cuda:1"
