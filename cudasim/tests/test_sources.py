"""What PyTorch's sources and documentation say about CUDA, each with its source.

Paths are those of https://github.com/pytorch/pytorch. Output of real machines that others have
published is in `witnesses.toml`, and questions for a real card are in `fidelity/programs`.
"""

import copy
import pickle
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.cuda import comm

from fidelity.helpers import captured, in_a_group, places, raised

pytestmark = pytest.mark.usefixtures("two_gpus")


@pytest.fixture
def host():
    """A matrix on the CPU."""
    return torch.ones(2, 2)


@pytest.fixture
def x(two_gpus):
    """A matrix on the first GPU."""
    return torch.ones(2, 2, device="cuda")


def image(matrix):
    """Return a matrix as a batch of one image with one channel."""
    return matrix[None, None]


# What PyTorch refuses.


def test_sparse_operands_apart_are_refused_by_their_own_kernels(x, host):
    """native/sparse/cuda/SparseCUDATensorMath.cu, and the wrappers that torchgen generates."""
    sparse = x.to_sparse()
    apart = "RuntimeError: Expected all tensors to be on the same device, but got "
    parts = raised(
        lambda: torch.sparse_coo_tensor(host[:1].long(), x[0], (2,), device=None)
    )
    assert parts == (
        f"{apart}values is on cuda:0, different from other tensors on cpu (when checking "
        "argument in method wrapper_SparseCUDA___sparse_coo_tensor_with_dims_and_tensors)"
    )
    assert raised(lambda: torch.sparse.mm(sparse, host)) == (
        f"{apart}mat1 is on cuda:0, different from other tensors on cpu (when checking "
        "argument in method wrapper_SparseCUDA__addmm)"
    )
    assert raised(lambda: sparse @ host).endswith("method wrapper_SparseCUDA__mm)")
    expected = "RuntimeError: {}: expected 'other' to be CUDA, but got CPU"
    assert raised(lambda: sparse + sparse.cpu()) == expected.format("add")
    assert raised(lambda: sparse * sparse.cpu()) == expected.format("mul")


def test_the_layout_is_looked_at_before_the_device(x):
    """`tensor_to_numpy` of torch/csrc/utils/tensor_numpy.cpp"""
    assert raised(x.to_sparse().numpy) == (
        "TypeError: can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first."
    )


def test_values_are_put_where_they_are_added_up(x, host):
    """`_index_put_impl_` of native/TensorAdvancedIndexing.cpp, which sorts the indices then."""
    first = (torch.tensor([0], device="cuda"),)
    words = "RuntimeError: expected device cuda:0 but got device cpu for value tensor"
    assert raised(lambda: x.index_put_(first, host[:1], accumulate=True)) == words
    x.index_put_(first, torch.tensor(1.0), accumulate=True)
    assert x.tolist() == [[2, 2], [1, 1]]


def test_arrays_of_other_libraries_share_their_memory(x):
    """`tensor_from_cuda_array_interface` of torch/csrc/utils/tensor_numpy.cpp"""
    array = SimpleNamespace(__cuda_array_interface__=x.__cuda_array_interface__)
    allocated = torch.cuda.memory_allocated()
    same = torch.as_tensor(array, device="cuda")
    assert torch.cuda.memory_allocated() == allocated
    same[0, 1] = 7
    assert (same.device, x[0, 1].item()) == (x.device, 7)


def test_communication_needs_lists_and_tensors_that_fit(x, host):
    """torch/csrc/cuda/comm.cpp"""
    assert raised(lambda: comm.scatter(x, [0, 1], [4])) == (
        "RuntimeError: Expected devices and chunk_sizes to be of same length, but got "
        "len(devices) = 2 and len(chunk_sizes) = 1"
    )
    assert raised(lambda: comm.gather([x, host])) == (
        "RuntimeError: Expected all input tensors to be CUDA tensors, but tensor at "
        "index 1 has device 'cpu'"
    )
    assert raised(lambda: comm.scatter(x, out=[x[None]])) == (
        "RuntimeError: Output tensor at index 0 has incorrect shape: [1, 2, 2]. "
        "Expected same shape except for scatter dim 0 as the source tensor: [2, 2]"
    )
    error = raised(lambda: comm.broadcast_coalesced([x], [1, 0]))
    assert error == "RuntimeError: All tensors must be on devices[0]: 1"


def test_graphs_are_captured_then_instantiated_then_replayed(x):
    """aten/src/ATen/cuda/CUDAGraph.cpp"""
    graph = torch.cuda.CUDAGraph()
    assert raised(graph.capture_begin) == (
        "RuntimeError: CUDA graphs must be captured on a non-default stream. (However, "
        "after capture, it's ok to replay them on the default stream.)"
    )
    assert raised(graph.replay) == (
        "RuntimeError: Called CUDAGraph::replay without a preceding successful capture."
    )
    kept = torch.cuda.CUDAGraph(keep_graph=True)
    assert raised(kept.instantiate) == (
        "RuntimeError: capture_end() must have been called before calling instantiate"
    )
    instantiated, _ = captured(lambda: x + 1)
    assert raised(instantiated.instantiate) == (
        "RuntimeError: instantiate() is intended to be called by the user only when "
        "keep_graph=true"
    )


def test_a_capture_keeps_its_seed():
    """aten/src/ATen/cuda/CUDAGeneratorImpl.cpp"""
    assert raised(lambda: captured(lambda: torch.manual_seed(4))) == (
        "RuntimeError: CUDAGeneratorImpl::set_current_seed can be called during stream "
        "capture only if new seed is the same as the original seed."
    )


def test_the_state_of_a_generator_has_a_type_and_a_size():
    """aten/src/ATen/core/Generator.h, aten/src/ATen/cuda/CUDAGeneratorImpl.cpp"""
    floats = torch.zeros(16)
    error = raised(lambda: torch.cuda.set_rng_state(floats))
    assert error == "TypeError: RNG state must be a torch.ByteTensor"
    too_short = torch.zeros(3, dtype=torch.uint8)
    error = raised(lambda: torch.cuda.set_rng_state(too_short))
    assert error == "RuntimeError: RNG state is wrong size"


def test_memory_is_not_counted_for_a_gpu_that_is_not_there(x):
    """c10/cuda/CUDACachingAllocator.cpp"""
    error = raised(lambda: torch.cuda.memory_allocated(99))
    assert error == "RuntimeError: Invalid device argument 99: did you call init?"


def test_a_mask_and_its_values_are_where_the_tensor_is(x, host):
    """aten/src/ATen/native/cuda/Indexing.cu"""
    mask = host > 0
    assert raised(lambda: x.masked_fill(mask, 0)) == (
        "RuntimeError: expected self and mask to be on the same device, but got mask on "
        "cpu and self on cuda:0"
    )
    error = raised(lambda: host.masked_fill(mask, x.sum()))
    assert error == "RuntimeError: masked_fill_: Expected inputs to be on same device"


def test_linear_algebra_names_the_operands_that_are_apart(x, host):
    """aten/src/ATen/native: LinearAlgebraUtils.h, LinearAlgebra.cpp and Linear.cpp"""
    assert raised(lambda: torch.cholesky_solve(x, host)) == (
        "RuntimeError: Expected b and A to be on the same device, but found b on cuda:0 "
        "and A on cpu instead."
    )
    assert raised(lambda: torch.linalg.multi_dot([x, host, x])) == (
        "RuntimeError: multi_dot(): all tensors must be on the same device but tensor 0 "
        "is on cuda:0 and tensor 1 on cpu"
    )
    assert raised(lambda: torch.tensordot(x, x, 1, out=torch.empty(0))) == (
        "RuntimeError: tensordot: Expected the output and input tensors to be on the "
        "same device, but got the output tensor on cpu, input tensor a on cuda:0, and "
        "input tensor b on cuda:0"
    )


def test_gradients_and_weight_norms_compare_devices_first(x, host):
    """aten/src/ATen/native: ReduceOps.cpp and WeightNorm.cpp"""
    assert raised(lambda: torch.gradient(x[0], spacing=(host[0],))) == (
        "RuntimeError: torch.gradient expected each tensor to be on the same device, but "
        "got devices cuda:0 and cpu!"
    )
    assert raised(lambda: torch._weight_norm(x, host[:, :1], 0)) == (
        "RuntimeError: weight_norm: expected v_in and g_in to be on the same device, but "
        "v_in is on cuda:0 and g_in is on cpu"
    )


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_the_layout_chooses_the_kernels_of_other_libraries(x):
    """c10/core/DispatchKeySet.cpp: a backend and a kind of tensor make a key."""
    quantized = torch.quantize_per_tensor(x, 0.5, 0, torch.quint8)
    words = raised(lambda: torch.ops.quantized.mul(quantized, quantized, 0.5, 0))
    assert "'quantized::mul' with arguments from the 'QuantizedCUDA' backend" in words


def test_a_driver_of_svd_is_one_that_cusolver_has(x):
    """aten/src/ATen/native/cuda/linalg/BatchLinearAlgebraLib.cpp"""
    assert raised(lambda: torch.linalg.svd(x, driver="x")) == (
        "RuntimeError: torch.linalg.svd: unknown svd driver x in svd_cusolver "
        "computation. Check doc at "
        "https://pytorch.org/docs/stable/generated/torch.linalg.svd.html"
    )


def test_a_convolution_needs_all_operands_on_one_device(x, host):
    """aten/src/ATen/native/Convolution.cpp, aten/src/ATen/core/adaption.cpp"""
    bias = torch.ones(1)
    assert raised(lambda: F.conv2d(image(x), image(x), bias)) == (
        "RuntimeError: Input type (torch.cuda.FloatTensor) and bias type "
        "(torch.FloatTensor) should be the same"
    )
    assert raised(lambda: F.conv2d(image(host), image(x))) == (
        "RuntimeError: Expected all tensors to be on the same device, but got weight is "
        "on cuda:0, different from other tensors on cpu (when checking argument in method "
        "wrapper_CUDA___slow_conv2d_forward)"
    )


def test_a_convolution_of_integers_is_refused(x):
    """aten/src/ATen/cudnn/Types.cpp, aten/src/ATen/native/cudnn/Conv_v8.cpp"""
    longs = image(x).long()
    assert raised(lambda: F.conv2d(longs, longs)) == (
        "RuntimeError: getCudnnDataTypeFromScalarType() not supported for Long"
    )
    ints = image(x).int()
    assert raised(lambda: F.conv2d(ints, ints)) == (
        "RuntimeError: GET was unable to find an engine to execute this computation"
    )


def test_tensors_are_split_and_joined_on_one_device(x, host):
    """aten/src/ATen/native/TensorShape.cpp"""
    sections = torch.tensor([1], device="cuda")
    assert raised(lambda: x.tensor_split(sections)) == (
        "RuntimeError: tensor_split expected tensor_indices_or_sections to be on cpu, "
        "but it's on cuda:0"
    )
    assert raised(lambda: torch.block_diag(x, x, host)) == (
        "RuntimeError: torch.block_diag: input tensors must all be on the same device. "
        "Input 0 is on device cuda:0 and input 2 is on device cpu"
    )


def test_a_meta_tensor_is_on_another_device(x, host):
    """torch/_prims_common/__init__.py"""
    error = raised(lambda: x + host.to("meta"))
    expected = (
        "RuntimeError: Tensor on device meta is not on the expected device cuda:0!"
    )
    assert error == expected


def test_distances_of_many_rows_compare_their_devices_themselves(x, host):
    """`cdist_impl` of native/Distance.cpp: matrices with more than 25 rows are multiplied."""
    many = torch.ones(26, 2)
    words = "RuntimeError: X1 and X2 must have the same device type. X1: {} X2: {}"
    assert raised(lambda: torch.cdist(x, many)) == words.format("cuda", "cpu")
    assert raised(lambda: torch.cdist(many, x)) == words.format("cpu", "cuda")
    assert raised(lambda: torch.cdist(x, many.to("cuda:1"))) == (
        "RuntimeError: device of X1 (0) must match device of X2 (1)"
    )
    few = raised(lambda: torch.cdist(x, host))
    assert few.endswith(
        "(when checking argument in method wrapper_CUDA___cdist_forward)"
    )


def test_the_types_of_a_sparse_product_are_those_of_its_kernel(x):
    """native/sparse/cuda: SparseCUDATensorMath.cu and SparseMatMul.cu"""
    batch = torch.stack([x, x])
    products = {
        "addmm_sparse_cuda": lambda dtype: x.to(dtype).to_sparse() @ x.to(dtype),
        "bmm_sparse_cuda": lambda dtype: torch.bmm(
            batch.to(dtype).to_sparse(), batch.to(dtype)
        ),
    }
    words = "NotImplementedError: \"{}\" not implemented for '{}'"
    for kernel, product in products.items():
        assert product(torch.float64).flatten()[0].item() == 2
        for dtype, name in (
            (torch.half, "Half"),
            (torch.bfloat16, "BFloat16"),
            (torch.long, "Long"),
        ):
            error = raised(lambda run=product, dtype=dtype: run(dtype))
            assert error == words.format(kernel, name)

    halves = x.half().to_sparse()
    for product in (torch.sparse.mm(halves, halves), halves @ halves):
        assert (product.dtype, product.layout) == (torch.half, torch.sparse_coo)
        assert places(product) == ["cuda:0"]
        assert product.to_dense().tolist() == [[2, 2], [2, 2]]
    compressed = x.half().to_sparse_csr()
    assert torch.sparse.mm(compressed, x.half()).tolist() == [[2, 2], [2, 2]]
    integers = x.long().to_sparse()
    error = raised(lambda: torch.sparse.mm(integers, integers))
    assert error == words.format("sparse_matmul", "Long")
    narrow = x.bfloat16().to_sparse()
    assert raised(lambda: torch.sparse.mm(narrow, narrow)) == (
        "RuntimeError: sparse_mm: CUDA BFloat16 requires compute capability >= 80 (current: 75)"
    )


def test_lengths_of_sequences_must_be_on_the_host(x):
    """aten/src/ATen/native/PackedSequence.cpp"""
    lengths = x[0].long()
    assert raised(lambda: nn.utils.rnn.pack_padded_sequence(x, lengths)) == (
        "RuntimeError: 'lengths' argument should be a 1D CPU int64 tensor, but got 1D "
        "cuda:0 Long tensor"
    )


def test_a_new_tensor_of_old_is_on_the_same_kind_of_device(x):
    """torch/csrc/utils/tensor_new.cpp"""
    assert raised(lambda: x.new([1], device="cpu")) == (
        "RuntimeError: legacy constructor expects device type: cuda but device type: "
        "cpu was passed"
    )


def test_a_python_function_is_applied_on_the_cpu_alone(x):
    """torch/csrc/utils/tensor_apply.cpp"""
    error = raised(lambda: x.apply_(abs))
    assert error == "TypeError: apply_ is only implemented on CPU tensors"


def test_collectives_refuse_what_does_not_fit():
    """torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp"""
    x = torch.ones(4, device="cuda")
    five = torch.ones(5, device="cuda")
    messages = in_a_group(
        lambda: dist.all_gather([x, x], x),
        lambda: dist.reduce_scatter(x, [x, x]),
        lambda: dist.all_to_all([x], [x, x]),
        lambda: dist.all_gather_into_tensor(five, x),
        lambda: dist.reduce_scatter_tensor(five, x),
        lambda: dist.all_gather([x.to("cuda:1")], x),
    )
    of_lists = (
        "ValueError: Tensor list input to scatter/gather must match number of collective "
        "participants"
    )
    assert messages == [
        of_lists,
        of_lists,
        of_lists,
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
    """torch/csrc/autograd/custom_function.cpp, torch/csrc/autograd/saved_variable.cpp

    Of the types' names torch/csrc/Exceptions.cpp translates some.
    """
    w = torch.ones(2, device="cuda", requires_grad=True)
    y = w.exp()
    y.add_(1)
    assert "inplace operation: [torch.cuda.FloatTensor [2]]" in raised(y.sum().backward)
    results = {
        "torch.FloatTensor": lambda gradient: gradient.cpu(),
        "torch.cuda.HalfTensor": lambda gradient: gradient.half(),
        "torch.cuda.sparse.FloatTensor": lambda gradient: gradient.to_sparse(),
        "CUDABFloat16Type": lambda gradient: gradient.bfloat16(),
        "CPUBFloat16Type": lambda gradient: gradient.bfloat16().cpu(),
    }
    for name, hook in results.items():
        handle = w.register_hook(hook)
        assert raised((w * 2).sum().backward) == (
            "RuntimeError: hook '<lambda>' has changed the type of value "
            f"(was torch.cuda.FloatTensor got {name})"
        )
        handle.remove()


def test_kthvalue_returns_the_smallest_index_of_equal_numbers():
    """`gatherKthValue` in aten/src/ATen/native/cuda/Sorting.cu, since pull request 165762"""
    x = torch.tensor([1.0, 1, 1, 2, 2], device="cuda")
    assert x.kthvalue(1).indices == 0
    assert x.kthvalue(5).indices == 3
    rows = torch.tensor([[torch.nan, 1, torch.nan], [3, 3, 3]], device="cuda")
    assert rows.kthvalue(3).indices.tolist() == [0, 0]
    assert rows.kthvalue(2, dim=0, keepdim=True).indices.tolist() == [[0, 1, 0]]


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
    assert nvtx.range_push("outer") == 0
    assert nvtx.range_push("inner") == 1
    assert nvtx.range_pop() == 1
    assert nvtx.range_pop() == 0


def test_a_generator_is_copied_and_pickled_with_its_state():
    """https://docs.pytorch.org/docs/stable/generated/torch.Generator.html"""
    generator = torch.Generator("cuda").manual_seed(9)
    torch.rand(5, device="cuda", generator=generator)
    clone = generator.clone_state()
    copied = copy.deepcopy(generator)
    unpickled = pickle.loads(pickle.dumps(generator))

    expected = torch.rand(5, device="cuda", generator=generator)
    for twin in (clone, copied, unpickled):
        assert str(twin.device) == "cuda"
        assert twin.initial_seed() == 9
        numbers = torch.rand(5, device="cuda", generator=twin)
        assert torch.equal(numbers, expected)


@pytest.mark.parametrize(
    "setting",
    [
        "expandable_segments:yes",
        "max_split_size_mb:19",
        "garbage_collection_threshold:2",
    ],
)
def test_settings_of_the_allocator_have_bounds(setting):
    """https://docs.pytorch.org/docs/stable/notes/cuda.html, "Optimizing memory usage" """
    change = torch._C._accelerator_setAllocatorSettings
    assert raised(lambda: change(setting)).startswith("ValueError: ")


def test_the_classes_of_old_name_a_device_and_a_type(x, host):
    """https://docs.pytorch.org/docs/stable/tensors.html, the table of data types"""
    assert isinstance(x, torch.cuda.FloatTensor)
    assert not isinstance(x, torch.FloatTensor | torch.cuda.LongTensor)
    assert not isinstance(host, torch.cuda.FloatTensor)

    named = host.type("torch.cuda.FloatTensor")
    half = host.type(torch.cuda.HalfTensor)
    like_x = host.type_as(x)
    assert places(named, half, like_x) == ["cuda:0", "cuda:0", "cuda:0"]
    assert half.dtype == torch.float16
    back = x.type("torch.FloatTensor")
    assert places(back) == ["cpu"]

    of_values = x.new([1, 2])
    of_a_shape = x.new(2, 3)
    assert places(of_values, of_a_shape) == ["cuda:0", "cuda:0"]
    assert places(host.new([1])) == ["cpu"]

    error = raised(lambda: torch.FloatTensor(x))
    assert error.startswith("TypeError: expected TensorOptions(dtype=float, device=cpu")
    assert " (got TensorOptions(dtype=float, device=cuda:0" in error


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
        matrices = torch.eye(*shape[1:], device="cuda") + numbers / 9
        permutation, lower, upper = torch.linalg.lu(matrices, pivot=False)
        assert permutation.numel() == 0
        assert torch.allclose(lower @ upper, matrices, atol=1e-4)

        packed, pivots, info = torch.linalg.lu_factor_ex(matrices, pivot=False)
        assert torch.equal(packed.triu()[:, :3, :], upper.triu())
        assert pivots.tolist() == [[1, 2, 3], [1, 2, 3]]
        assert info.tolist() == [0, 0]


def test_a_convolution_by_cudnns_name():
    """aten/src/ATen/native/native_functions.yaml: cudnn_convolution"""
    images = torch.ones(1, 1, 3, 3, device="cuda")
    weight = torch.ones(1, 1, 2, 2, device="cuda", requires_grad=True)
    padding, stride, dilation, groups = (0, 0), (1, 1), (1, 1), 1
    benchmark, deterministic, allow_tf32 = False, False, False
    choices = (benchmark, deterministic, allow_tf32)
    arguments = (images, weight, padding, stride, dilation, groups, *choices)
    result = torch.cudnn_convolution(*arguments)
    result.sum().backward()
    assert weight.grad.tolist() == [[[[4, 4], [4, 4]]]]
    # aten/src/ATen/autocast_mode.cpp; a T4 has no such kernel for bfloat16.
    with torch.autocast("cuda"):
        assert torch.cudnn_convolution(*arguments).dtype is torch.float16
    with torch.autocast("cuda", dtype=torch.bfloat16):
        words = raised(lambda: torch.cudnn_convolution(*arguments))
    assert words.startswith("RuntimeError: GET was unable to find an engine")


def test_half_precision_of_complex_numbers_is_computed():
    """aten/src/ATen/native/cuda: `angle` in UnaryComplexKernels.cu, `exp` in UnaryOpsKernel.cu,
    `nansum` in ReduceSumProdKernel.cu
    """
    numbers = torch.tensor([1 + 2j, -3 + 0.5j])
    half = numbers.cuda().to(torch.complex32)
    assert half.angle().dtype == torch.float16
    powers = half.exp().cpu().to(numbers.dtype)
    assert torch.allclose(powers, numbers.exp(), rtol=1e-2, atol=1e-2)
    nothing = (numbers * torch.nan).cuda()
    assert nothing.nansum().item() == 0


def test_sequences_keep_their_lengths_on_the_host():
    """https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.rnn.pack_padded_sequence.html"""
    sequences = torch.ones(3, 2, 4, device="cuda")
    lengths = torch.tensor([3, 2])
    packed = nn.utils.rnn.pack_padded_sequence(sequences, lengths)
    assert places(packed.data, packed.batch_sizes) == ["cuda:0", "cpu"]

    net = nn.LSTM(4, 5).cuda()
    output, _ = net(packed)
    padded, lengths = nn.utils.rnn.pad_packed_sequence(output)
    assert places(padded, lengths) == ["cuda:0", "cpu"]


def test_sparse_tensors_are_made_with_all_their_parts():
    """https://docs.pytorch.org/docs/stable/sparse.html"""
    index = torch.tensor([[0, 1], [1, 0]])
    values = torch.tensor([1.0, 2.0])
    coo = torch.sparse_coo_tensor(index, values, (2, 2), device="cuda")
    assert places(coo._indices(), coo._values()) == ["cuda:0", "cuda:0"]
    csr = torch.sparse_csr_tensor([0, 1, 2], [0, 1], [1.0, 2.0], device="cuda")
    assert places(csr.crow_indices(), csr.values()) == ["cuda:0", "cuda:0"]
    assert places(torch.sparse_coo_tensor(index, values)) == ["cpu"]


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged], ids=str)
def test_nested_tensors_are_made_and_moved_with_all_their_parts(layout):
    """https://docs.pytorch.org/docs/stable/nested.html"""
    parts = [torch.ones(2), torch.ones(3)]
    nested = torch.nested.nested_tensor(parts, layout=layout, device="cuda:1")
    assert places(nested, nested * 2) == ["cuda:1", "cuda:1"]

    rows = torch.eye(3, device="cuda:1")
    view = torch.nested.as_nested_tensor([rows, rows[:2]], layout=layout)
    assert places(view, *view.unbind()) == ["cuda:1", "cuda:1", "cuda:1"]
    assert places(view.cuda(0), view.cpu()) == ["cuda:0", "cpu"]


def test_derivatives_travel_between_gpus():
    """https://docs.pytorch.org/docs/stable/func.html"""
    numbers = torch.tensor([[0.0, 1.0], [2.0, 3.0]], device="cuda:1")

    def sum_of_squares_elsewhere(x):
        return (x**2).to("cuda:0").sum()

    direction = torch.ones_like(numbers)
    value, tangent = torch.func.jvp(sum_of_squares_elsewhere, (numbers,), (direction,))
    assert places(value, tangent) == ["cuda:0", "cuda:0"]

    gradient = torch.func.grad(sum_of_squares_elsewhere)
    functionalized = torch.func.functionalize(gradient)
    for function in (gradient, functionalized, torch.vmap(gradient)):
        result = function(numbers)
        assert result.tolist() == [[0, 2], [4, 6]]
        assert str(result.device) == "cuda:1"


@pytest.mark.filterwarnings("ignore:cudasim. inductor", "ignore:flex_attention called")
@pytest.mark.parametrize("backend", [None, "aot_eager", "inductor"])
def test_flex_attention_has_gradients(backend):
    """Those of what its function captures too, which flex attention adds up.

    https://docs.pytorch.org/docs/stable/nn.attention.flex_attention.html
    """
    from torch.nn.attention.flex_attention import flex_attention

    if backend is not None:
        flex_attention = torch.compile(flex_attention, backend=backend, fullgraph=True)
    torch.manual_seed(0)
    query, key, value = torch.rand(3, 1, 2, 16, 8, device="cuda:1").unbind()
    bias = torch.rand(2, device="cuda:1")
    inputs = [tensor.requires_grad_() for tensor in (query, key, value, bias)]

    def score_mod(score, batch, head, row, column):
        return score.tanh() + bias[head] * (row - column)

    result = flex_attention(query, key, value, score_mod=score_mod)
    gradients = torch.autograd.grad(result.square().sum(), inputs)
    assert set(places(result, *gradients)) == {"cuda:1"}

    positions = torch.arange(16, device="cuda:1")
    distances = positions[:, None] - positions
    scores = (query @ key.mT / 8**0.5).tanh() + bias[:, None, None] * distances
    expected = scores.softmax(-1) @ value
    assert torch.allclose(result, expected, atol=1e-5)
    for gradient, right in zip(
        gradients, torch.autograd.grad(expected.square().sum(), inputs), strict=True
    ):
        assert torch.allclose(gradient, right, atol=1e-4)
