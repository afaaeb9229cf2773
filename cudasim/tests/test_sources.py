"""What PyTorch's sources and documentation say about CUDA, each with its source.

Paths are those of https://github.com/pytorch/pytorch. Output of real machines that others have
published is in `witnesses.toml`, and questions for a real card are in `fidelity/programs`.
"""

import copy
import pickle

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.cuda import comm

from fidelity.helpers import captured, in_a_group, places, raised

pytestmark = pytest.mark.usefixtures("two_gpus")

# Each call gets a matrix on the CPU, and its copy on the first GPU.
REFUSALS = [
    (
        "torch/csrc/cuda/comm.cpp",
        lambda x, y: comm.scatter(y, [0, 1], [4]),
        "RuntimeError: Expected devices and chunk_sizes to be of same length, but got "
        "len(devices) = 2 and len(chunk_sizes) = 1",
    ),
    (
        "torch/csrc/cuda/comm.cpp",
        lambda x, y: comm.gather([y, x]),
        "RuntimeError: Expected all input tensors to be CUDA tensors, but tensor at "
        "index 1 has device 'cpu'",
    ),
    (
        "torch/csrc/cuda/comm.cpp",
        lambda x, y: comm.scatter(y, out=[y[None]]),
        "RuntimeError: Output tensor at index 0 has incorrect shape: [1, 2, 2]. "
        "Expected same shape except for scatter dim 0 as the source tensor: [2, 2]",
    ),
    (
        "aten/src/ATen/cuda/CUDAGraph.cpp",
        lambda x, y: torch.cuda.CUDAGraph().replay(),
        "RuntimeError: Called CUDAGraph::replay without a preceding successful capture.",
    ),
    (
        "aten/src/ATen/cuda/CUDAGraph.cpp",
        lambda x, y: torch.cuda.CUDAGraph(keep_graph=True).instantiate(),
        "RuntimeError: capture_end() must have been called before calling instantiate",
    ),
    (
        "aten/src/ATen/cuda/CUDAGraph.cpp",
        lambda x, y: captured(lambda: y + 1)[0].instantiate(),
        "RuntimeError: instantiate() is intended to be called by the user only when "
        "keep_graph=true",
    ),
    (
        "aten/src/ATen/cuda/CUDAGeneratorImpl.cpp",
        lambda x, y: captured(lambda: torch.manual_seed(4)),
        "RuntimeError: CUDAGeneratorImpl::set_current_seed can be called during stream "
        "capture only if new seed is the same as the original seed.",
    ),
    (
        "aten/src/ATen/core/Generator.h",
        lambda x, y: torch.cuda.set_rng_state(torch.zeros(16)),
        "TypeError: RNG state must be a torch.ByteTensor",
    ),
    (
        "aten/src/ATen/cuda/CUDAGeneratorImpl.cpp",
        lambda x, y: torch.cuda.set_rng_state(torch.zeros(3, dtype=torch.uint8)),
        "RuntimeError: RNG state is wrong size",
    ),
    (
        "c10/cuda/CUDACachingAllocator.cpp",
        lambda x, y: torch.cuda.memory_allocated(99),
        "RuntimeError: Invalid device argument 99: did you call init?",
    ),
    (
        "aten/src/ATen/native/cuda/Indexing.cu",
        lambda x, y: y.masked_fill(x > 0, 0),
        "RuntimeError: expected self and mask to be on the same device, but got mask on "
        "cpu and self on cuda:0",
    ),
    (
        "aten/src/ATen/native/LinearAlgebraUtils.h",
        lambda x, y: torch.cholesky_solve(y, x),
        "RuntimeError: Expected b and A to be on the same device, but found b on cuda:0 "
        "and A on cpu instead.",
    ),
    (
        "aten/src/ATen/native/Convolution.cpp",
        lambda x, y: F.conv2d(y[None, None], y[None, None], torch.ones(1)),
        "RuntimeError: Input type (torch.cuda.FloatTensor) and bias type "
        "(torch.FloatTensor) should be the same",
    ),
    (
        "aten/src/ATen/cudnn/Types.cpp",
        lambda x, y: F.conv2d(y.long()[None, None], y.long()[None, None]),
        "RuntimeError: getCudnnDataTypeFromScalarType() not supported for Long",
    ),
    (
        "aten/src/ATen/native/cuda/linalg/BatchLinearAlgebraLib.cpp",
        lambda x, y: torch.linalg.svd(y, driver="x"),
        "RuntimeError: torch.linalg.svd: unknown svd driver x in svd_cusolver "
        "computation. Check doc at "
        "https://pytorch.org/docs/stable/generated/torch.linalg.svd.html",
    ),
    (
        "aten/src/ATen/native/LinearAlgebra.cpp",
        lambda x, y: torch.linalg.multi_dot([y, x, y]),
        "RuntimeError: multi_dot(): all tensors must be on the same device but tensor 0 "
        "is on cuda:0 and tensor 1 on cpu",
    ),
    (
        "aten/src/ATen/native/Linear.cpp",
        lambda x, y: torch.tensordot(y, y, 1, out=torch.empty(0)),
        "RuntimeError: tensordot: Expected the output and input tensors to be on the "
        "same device, but got the output tensor on cpu, input tensor a on cuda:0, and "
        "input tensor b on cuda:0",
    ),
    (
        "aten/src/ATen/native/TensorShape.cpp",
        lambda x, y: y.tensor_split(torch.tensor([1], device="cuda")),
        "RuntimeError: tensor_split expected tensor_indices_or_sections to be on cpu, "
        "but it's on cuda:0",
    ),
    (
        "aten/src/ATen/native/TensorShape.cpp",
        lambda x, y: torch.block_diag(y, y, x),
        "RuntimeError: torch.block_diag: input tensors must all be on the same device. "
        "Input 0 is on device cuda:0 and input 2 is on device cpu",
    ),
    (
        "aten/src/ATen/cuda/CUDAGraph.cpp",
        lambda x, y: torch.cuda.CUDAGraph().capture_begin(),
        "RuntimeError: CUDA graphs must be captured on a non-default stream. (However, "
        "after capture, it's ok to replay them on the default stream.)",
    ),
    (
        "torch/csrc/cuda/comm.cpp",
        lambda x, y: comm.broadcast_coalesced([y], [1, 0]),
        "RuntimeError: All tensors must be on devices[0]: 1",
    ),
    (
        "aten/src/ATen/native/cuda/Indexing.cu",
        lambda x, y: x.masked_fill(x > 0, y.sum()),
        "RuntimeError: masked_fill_: Expected inputs to be on same device",
    ),
    (
        "torch/_prims_common/__init__.py",
        lambda x, y: y + x.to("meta"),
        "RuntimeError: Tensor on device meta is not on the expected device cuda:0!",
    ),
    (
        "aten/src/ATen/native/sparse/cuda/SparseCUDATensorMath.cu",
        lambda x, y: y.long().to_sparse() @ y.long(),
        "NotImplementedError: \"addmm_sparse_cuda\" not implemented for 'Long'",
    ),
    (
        "aten/src/ATen/native/cudnn/Conv_v8.cpp",
        lambda x, y: F.conv2d(y.int()[None, None], y.int()[None, None]),
        "RuntimeError: GET was unable to find an engine to execute this computation",
    ),
    (
        "aten/src/ATen/core/adaption.cpp",
        lambda x, y: F.conv2d(x[None, None], y[None, None]),
        "RuntimeError: Expected all tensors to be on the same device, but got weight is "
        "on cuda:0, different from other tensors on cpu (when checking argument in method "
        "wrapper_CUDA___slow_conv2d_forward)",
    ),
    (
        "aten/src/ATen/native/PackedSequence.cpp",
        lambda x, y: nn.utils.rnn.pack_padded_sequence(y, y[0].long()),
        "RuntimeError: 'lengths' argument should be a 1D CPU int64 tensor, but got 1D "
        "cuda:0 Long tensor",
    ),
    (
        "torch/csrc/utils/tensor_new.cpp",
        lambda x, y: y.new([1], device="cpu"),
        "RuntimeError: legacy constructor expects device type: cuda but device type: "
        "cpu was passed",
    ),
    (
        "torch/csrc/utils/tensor_apply.cpp",
        lambda x, y: y.apply_(abs),
        "TypeError: apply_ is only implemented on CPU tensors",
    ),
]


@pytest.mark.parametrize(
    ("source", "call", "message"),
    REFUSALS,
    ids=[message[:50] for _, _, message in REFUSALS],
)
def test_what_is_refused(source, call, message):
    x = torch.ones(2, 2)
    y = x.cuda()
    assert raised(lambda: call(x, y)) == message


def test_collectives_refuse_what_does_not_fit():
    """torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp"""
    x = torch.ones(4, device="cuda")
    five = torch.ones(5, device="cuda")
    number = "Tensor list input to scatter/gather must match number of collective participants"
    messages = in_a_group(
        lambda: dist.all_gather([x, x], x),
        lambda: dist.reduce_scatter(x, [x, x]),
        lambda: dist.all_to_all([x], [x, x]),
        lambda: dist.all_gather_into_tensor(five, x),
        lambda: dist.reduce_scatter_tensor(five, x),
        lambda: dist.all_gather([x.to("cuda:1")], x),
    )
    assert messages == [
        f"ValueError: {number}",
        f"ValueError: {number}",
        f"ValueError: {number}",
        "ValueError: output tensor size must be equal to world_size times input tensor size",
        "ValueError: input tensor must be the same size as output size times world size",
        "ValueError: Expected list of tensors on the same device",
    ]


def test_autocast_bans_a_loss():
    """https://docs.pytorch.org/docs/stable/amp.html, "Prefer binary_cross_entropy_with_logits" """
    x = torch.ones(2, device="cuda")
    with torch.autocast("cuda"):
        message = raised(lambda: F.binary_cross_entropy(x, x))
    assert message.startswith(
        "RuntimeError: torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are "
        "unsafe to autocast.\n"
    )


def test_autocast_keeps_a_type_that_is_asked_for():
    """aten/src/ATen/autocast_mode.h: fp32_set_opt_dtype, fp32_append_dtype"""
    x = torch.ones(4, 4, device="cuda", dtype=torch.float16)
    with torch.autocast("cuda"):
        assert x.softmax(1, dtype=x.dtype).dtype == x.dtype
        assert x.sum(1, dtype=torch.float64).dtype == torch.float64
        assert x.norm(dim=1).dtype == torch.float32


def test_hooks_and_changed_values_are_named_by_their_type():
    """torch/csrc/autograd/custom_function.cpp, torch/csrc/autograd/saved_variable.cpp"""
    w = torch.ones(2, device="cuda", requires_grad=True)
    y = w.exp()
    y.add_(1)
    assert "inplace operation: [torch.cuda.FloatTensor [2]]" in raised(y.sum().backward)
    w.register_hook(lambda gradient: gradient.cpu())
    assert raised((w * 2).sum().backward) == (
        "RuntimeError: hook '<lambda>' has changed the type of value "
        "(was torch.cuda.FloatTensor got torch.FloatTensor)"
    )


def test_streams_and_events_print_and_have_priorities():
    """torch/cuda/streams.py, and c10/cuda/CUDAStream.h on priorities"""
    stream = torch.cuda.default_stream()
    assert repr(stream) == "<torch.cuda.Stream device=cuda:0 cuda_stream=0x0>"
    assert torch.cuda.Stream(priority=0).priority == 0
    assert torch.cuda.Stream(priority=-1).priority == -1
    assert torch.cuda.Stream(priority=1).priority == 0
    first = torch.cuda.Event()
    second = torch.cuda.Event()
    assert repr(first) == "<torch.cuda.Event uninitialized>"
    first.record()
    second.record()
    assert repr(first).startswith("<torch.cuda.Event 0x")
    assert raised(lambda: first.elapsed_time(second)) == (
        "ValueError: Both events must be created with argument 'enable_timing=True'."
    )


def test_ranges_of_a_profiler_have_a_depth():
    """https://docs.pytorch.org/docs/stable/generated/torch.cuda.nvtx.range_push.html"""
    nvtx = torch.cuda.nvtx
    assert (nvtx.range_push("outer"), nvtx.range_push("inner")) == (0, 1)
    assert (nvtx.range_pop(), nvtx.range_pop()) == (1, 0)


def test_a_generator_is_copied_and_pickled_with_its_state():
    """https://docs.pytorch.org/docs/stable/generated/torch.Generator.html"""
    generator = torch.Generator("cuda").manual_seed(9)
    torch.rand(5, device="cuda", generator=generator)
    copies = [generator.clone_state(), copy.deepcopy(generator)]
    copies.append(pickle.loads(pickle.dumps(generator)))
    x = torch.rand(5, device="cuda", generator=generator)
    for each in copies:
        assert (str(each.device), each.initial_seed()) == ("cuda", 9)
        assert torch.equal(x, torch.rand(5, device="cuda", generator=each))


@pytest.mark.parametrize(
    "setting",
    [
        "expandable_segments:yes",
        "max_split_size_mb:20",
        "garbage_collection_threshold:2",
    ],
)
def test_settings_of_the_allocator_have_bounds(setting):
    """https://docs.pytorch.org/docs/stable/notes/cuda.html, "Optimizing memory usage" """
    change = torch._C._accelerator_setAllocatorSettings
    assert raised(lambda: change(setting)).startswith("ValueError: ")


def test_the_classes_of_old_name_a_device_and_a_type():
    """https://docs.pytorch.org/docs/stable/tensors.html, the table of data types"""
    x = torch.ones(2)
    y = torch.ones(2, device="cuda")
    assert isinstance(y, torch.cuda.FloatTensor)
    assert not isinstance(y, torch.FloatTensor | torch.cuda.LongTensor)
    assert not isinstance(x, torch.cuda.FloatTensor)
    named = x.type("torch.cuda.FloatTensor")
    half = x.type(torch.cuda.HalfTensor)
    assert places(named, half, x.type_as(y)) == ["cuda:0", "cuda:0", "cuda:0"]
    assert half.dtype == torch.float16
    assert places(y.type("torch.FloatTensor")) == ["cpu"]
    assert places(y.new([1, 2]), y.new(2, 3), x.new([1])) == ["cuda:0", "cuda:0", "cpu"]
    expected, _, got = raised(lambda: torch.FloatTensor(y)).partition(" (got ")
    assert expected.startswith(
        "TypeError: expected TensorOptions(dtype=float, device=cpu"
    )
    assert got.startswith("TensorOptions(dtype=float, device=cuda:0")


def test_storages_have_a_type_and_grow():
    """https://docs.pytorch.org/docs/stable/storage.html"""
    x = torch.arange(4.0, device="cuda")
    storage = x.storage()
    storage[0] = 7
    assert storage.type() == "torch.cuda.FloatStorage"
    assert str(storage.device) == "cuda:0"
    assert x.tolist() == storage.tolist() == [7, 1, 2, 3]
    assert isinstance(storage, torch.cuda.FloatStorage)
    assert storage.is_shared()
    assert x.untyped_storage().cuda() is not None

    before = torch.cuda.memory_allocated()
    x.resize_(1000)
    assert torch.cuda.memory_allocated() - before == 4096 - 512
    x.untyped_storage().resize_(0)
    assert torch.cuda.memory_allocated() == before - 512


def test_copies_of_views_share_one_storage():
    """torch/storage.py: a storage notes its copy in the memo of `__deepcopy__`"""
    x = torch.zeros(4, device="cuda")
    whole, part = copy.deepcopy([x, x[2:]])
    whole[3] = 5
    assert part.tolist() == [0, 5]
    assert str(part.device) == "cuda:0"
    assert x.tolist() == [0, 0, 0, 0]


def test_dlpack_shares_unless_a_copy_is_asked_for():
    """https://docs.pytorch.org/docs/stable/dlpack.html"""
    x = torch.zeros(2, device="cuda")
    y = torch.from_dlpack(x)
    y += 1
    assert x.tolist() == [1, 1]
    assert str(y.device) == "cuda:0"
    assert [int(part) for part in x.__dlpack_device__()] == [2, 0]
    assert torch.from_dlpack(x, copy=True).data_ptr() != x.data_ptr()


def test_matrices_are_decomposed_without_pivots():
    """https://docs.pytorch.org/docs/stable/generated/torch.linalg.lu.html: CUDA alone has it"""
    for shape in ((2, 3, 4), (2, 4, 3)):
        numbers = torch.arange(24.0, device="cuda").reshape(shape)
        x = torch.eye(*shape[1:], device="cuda") + numbers / 9
        permutation, lower, upper = torch.linalg.lu(x, pivot=False)
        assert permutation.numel() == 0
        assert torch.allclose(lower @ upper, x, atol=1e-4)
        packed, pivots, info = torch.linalg.lu_factor_ex(x, pivot=False)
        assert torch.equal(packed.triu()[:, :3, :], upper.triu())
        assert (pivots.tolist(), info.tolist()) == ([[1, 2, 3]] * 2, [0, 0])


def test_a_convolution_by_cudnns_name():
    """aten/src/ATen/native/native_functions.yaml: cudnn_convolution"""
    x = torch.ones(1, 1, 3, 3, device="cuda")
    weight = torch.ones(1, 1, 2, 2, device="cuda", requires_grad=True)
    shape = (0, 0), (1, 1), (1, 1), 1
    torch.cudnn_convolution(x, weight, *shape, False, False, False).sum().backward()
    assert weight.grad.tolist() == [[[[4, 4], [4, 4]]]]


def test_half_precision_of_complex_numbers_is_computed():
    """aten/src/ATen/native/cuda: `angle` in UnaryComplexKernels.cu, `exp` in UnaryOpsKernel.cu,
    `nansum` in ReduceSumProdKernel.cu
    """
    x = torch.tensor([1 + 2j, -3 + 0.5j])
    half = x.cuda().to(torch.complex32)
    assert half.angle().dtype == torch.float16
    assert torch.allclose(half.exp().cpu().to(x.dtype), x.exp(), 1e-2, 1e-2)
    assert (x * torch.nan).cuda().nansum().item() == 0


def test_sequences_keep_their_lengths_on_the_host():
    """https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.rnn.pack_padded_sequence.html"""
    x = torch.ones(3, 2, 4, device="cuda")
    lengths = torch.tensor([3, 2])
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths)
    assert places(packed.data, packed.batch_sizes) == ["cuda:0", "cpu"]
    output, _ = nn.LSTM(4, 5).cuda()(packed)
    assert places(*nn.utils.rnn.pad_packed_sequence(output)) == ["cuda:0", "cpu"]


def test_sparse_and_nested_tensors_move_with_all_their_parts():
    """https://docs.pytorch.org/docs/stable/sparse.html, .../nested.html"""
    index = torch.tensor([[0, 1], [1, 0]])
    values = torch.tensor([1.0, 2.0])
    coo = torch.sparse_coo_tensor(index, values, (2, 2), device="cuda")
    assert places(coo._indices(), coo._values()) == ["cuda:0", "cuda:0"]
    csr = torch.sparse_csr_tensor([0, 1, 2], [0, 1], [1.0, 2.0], device="cuda")
    assert places(csr.crow_indices(), csr.values()) == ["cuda:0", "cuda:0"]
    assert places(torch.sparse_coo_tensor(index, values)) == ["cpu"]

    x = torch.eye(3, device="cuda:1")
    for layout in (torch.strided, torch.jagged):
        options = {"layout": layout, "device": "cuda:1"}
        nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], **options)
        seen = torch.nested.as_nested_tensor([x, x[:2]], layout=layout)
        assert set(places(nested, nested * 2, seen, *seen.unbind())) == {"cuda:1"}
        assert places(seen.cuda(0), seen.cpu()) == ["cuda:0", "cpu"]


def test_derivatives_travel_between_gpus():
    """https://docs.pytorch.org/docs/stable/func.html"""
    x = torch.arange(4.0, device="cuda:1").view(2, 2)

    def across(row):
        return (row**2).to("cuda:0").sum()

    gradient = torch.func.grad(across)
    value, tangent = torch.func.jvp(across, (x,), (torch.ones_like(x),))
    assert places(value, tangent) == ["cuda:0", "cuda:0"]
    functionalized = torch.func.functionalize(gradient)
    for function in (gradient, functionalized, torch.vmap(gradient)):
        result = function(x)
        assert result.tolist() == (2 * x).tolist()
        assert str(result.device) == "cuda:1"


def test_flex_attention_has_gradients():
    """https://docs.pytorch.org/docs/stable/nn.attention.flex_attention.html"""
    from torch.nn.attention.flex_attention import flex_attention

    torch.manual_seed(0)
    query, key, value = torch.rand(3, 1, 2, 16, 8, device="cuda").unbind()
    query.requires_grad_()
    bias = torch.rand(2, device="cuda")
    out = flex_attention(
        query, key, value, score_mod=lambda score, b, h, i, j: score.tanh() + bias[h]
    )
    scores = (query @ key.mT / 8**0.5).tanh() + bias[:, None, None]
    expected = scores.softmax(-1) @ value
    (ours,) = torch.autograd.grad(out.sum(), query)
    (theirs,) = torch.autograd.grad(expected.sum(), query)
    assert places(out, ours) == ["cuda:0", "cuda:0"]
    assert torch.allclose(out, expected, atol=1e-5)
    assert torch.allclose(ours, theirs, atol=1e-5)
