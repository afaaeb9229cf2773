"""What NCCL refuses on one rank: the same is refused on simulated GPUs, in the same words."""

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from calls import raised

ReduceOp = dist.ReduceOp


@pytest.fixture
def begun(two_gpus):
    """Begins a process group of one: begun(device_id=None)."""
    yield lambda **kwargs: dist.init_process_group(
        "nccl", store=dist.HashStore(), rank=0, world_size=1, **kwargs
    )
    if dist.is_initialized():
        dist.destroy_process_group()


@pytest.fixture
def x(begun):
    """Four ones on the first GPU, in a process group of one."""
    begun()
    return torch.ones(4, device="cuda:0")


def every_other():
    return torch.ones(8, device="cuda:0")[::2]


def of(dtype):
    return torch.ones(4, device="cuda:0").to(dtype)


def average(tensor):
    return functional.all_reduce(tensor, "avg", dist.group.WORLD)


LIST = "Tensor list input to scatter/gather must match number of collective participants"
LACKING = "Input tensor data type is not supported for NCCL process group: "
CPU = "No backend type associated with device type cpu"
IN_PIECES = {
    "all_reduce": lambda x: dist.all_reduce(every_other()),
    "broadcast": lambda x: dist.broadcast(every_other(), 0),
    "reduce": lambda x: dist.reduce(every_other(), 0),
    "all_gather": lambda x: dist.all_gather([x], every_other()),
    "all_gather_into_tensor": lambda x: dist.all_gather_into_tensor(every_other(), x),
    "reduce_scatter": lambda x: dist.reduce_scatter(every_other(), [x]),
    "reduce_scatter_tensor": lambda x: dist.reduce_scatter_tensor(x, every_other()),
    "all_to_all": lambda x: dist.all_to_all_single(x, every_other()),
    "transposed": lambda x: dist.all_reduce(torch.ones(2, 3, device="cuda:0").t()),
}
# (call, error, words), or a call alone that is taken
CALLS = {
    **{name: (call, ValueError, "Tensors must be contiguous") for name, call in IN_PIECES.items()},
    "coalesced": (
        lambda x: dist.all_reduce_coalesced([x, every_other()]),
        ValueError,
        "Tensors must be non-overlapping and dense",
    ),
    "coalesced, dense": lambda x: dist.all_reduce_coalesced([x, torch.ones(2, 3, device=0)]),
    "sparse": (
        lambda x: dist.all_reduce(x.to_sparse()),
        ValueError,
        "Tensors must be CUDA and dense",
    ),
    "channels last": lambda x: dist.all_reduce(
        torch.ones(2, 3, 4, 5, device="cuda:0").to(memory_format=torch.channels_last)
    ),
    # types
    "int16": (lambda x: dist.all_reduce(of(torch.int16)), TypeError, f"{LACKING}Short"),
    "uint16": (
        lambda x: dist.all_gather([of(torch.uint16)], of(torch.uint16)),
        TypeError,
        f"{LACKING}UInt16",
    ),
    "uint32, pairwise": (
        lambda x: dist.all_to_all_single(of(torch.uint32), of(torch.uint32)),
        RuntimeError,
        "Unconvertible NCCL type UInt32",
    ),
    "functional": (lambda x: average(of(torch.int16)), TypeError, f"{LACKING}Short"),
    "float8 is not added": (
        lambda x: dist.all_reduce(of(torch.float8_e4m3fn)),
        RuntimeError,
        "Float8 dtypes are not currenlty supported for NCCL reductions",  # its spelling
    ),
    "complex numbers go as pairs": lambda x: dist.all_reduce(of(torch.complex64)),
    "but not pairwise": (
        lambda x: dist.gather(of(torch.complex64), [of(torch.complex64)]),
        RuntimeError,
        "Unconvertible NCCL type ComplexFloat",
    ),
    # reductions
    "BXOR": (
        lambda x: dist.all_reduce(of(torch.int32), op=ReduceOp.BXOR),
        ValueError,
        "Cannot use ReduceOp.BXOR with NCCL",
    ),
    "functional band": (
        lambda x: functional.all_reduce(of(torch.int32), "band", dist.group.WORLD),
        ValueError,
        "Cannot use ReduceOp.BAND with NCCL",
    ),
    "an average of truth values": (
        lambda x: dist.all_reduce(of(torch.bool), op=ReduceOp.AVG),
        TypeError,
        "Cannot use ReduceOp.AVG with boolean inputs",
    ),
    "a functional one": (
        lambda x: average(of(torch.bool)),
        TypeError,
        "Cannot use ReduceOp.AVG with boolean inputs",
    ),
    "a scaled sum": (
        lambda x: dist.all_reduce(x.int(), op=dist._make_nccl_premul_sum(2.0)),
        TypeError,
        "PreMulSum Data type must be half, float, bfloat16 or double",
    ),
    # lists and sizes
    "all_gather list": (lambda x: dist.all_gather([x, x], x), ValueError, LIST),
    "reduce_scatter list": (lambda x: dist.reduce_scatter(x, [x, x]), ValueError, LIST),
    "all_to_all list": (lambda x: dist.all_to_all([x], [x, x]), ValueError, LIST),
    "gather list": (
        lambda x: dist.gather(x, [x, x]),
        ValueError,
        "ProcessGroupNCCL::gather: Incorrect output list size 2. Output list size should be 1, "
        "same as size of the process group.",
    ),
    "gathered size": (
        lambda x: dist.all_gather_into_tensor(torch.ones(5, device="cuda:0"), x),
        ValueError,
        "output tensor size must be equal to world_size times input tensor size",
    ),
    "scattered size": (
        lambda x: dist.reduce_scatter_tensor(torch.ones(5, device="cuda:0"), x),
        ValueError,
        "input tensor must be the same size as output size times world size",
    ),
    "gathered type": (
        lambda x: dist.all_gather_into_tensor(of(torch.int32), x),
        TypeError,
        "output tensor must have the same type as input tensor",
    ),
    # devices
    "two GPUs": (
        lambda x: dist.all_gather([x.to("cuda:1")], x),
        ValueError,
        "Expected list of tensors on the same device",
    ),
    "the CPU": (lambda x: dist.all_reduce(torch.ones(4)), RuntimeError, CPU),
    "functional on the CPU": (lambda x: average(torch.ones(4)), RuntimeError, CPU),
    "any source": (
        lambda x: dist.recv(x),
        NotImplementedError,
        "ProcessGroupNCCL does not support recvAnysource",
    ),
}


@pytest.mark.parametrize("case", CALLS.values(), ids=CALLS)
def test_what_nccl_refuses_is_refused_in_its_words(x, case):
    if callable(case):
        case(x)
    else:
        call, error, words = case
        assert raised(lambda: call(x), error) == words


def test_tensors_on_another_gpu_than_that_of_the_group(begun):
    begun(device_id=torch.device("cuda:0"))
    dist.all_reduce(torch.ones(4, device="cuda:0"))
    said = "Attempt to perform collective on tensor not on device passed to init_process_group"
    other = torch.ones(4, device="cuda:1")
    assert raised(lambda: dist.all_reduce(other), dist.DistBackendError) == said


def test_what_nccl_does_and_gloo_lacks(x):
    eighth = torch.full((4,), 0.125, device="cuda:0").to(torch.float8_e4m3fn)
    taken = torch.zeros_like(eighth)
    dist.all_gather_into_tensor(taken, eighth)
    assert torch.equal(taken.float(), eighth.float()) and taken.is_cuda
    truth = torch.tensor([True, False], device="cuda:0")
    dist.all_reduce(truth)
    assert truth.tolist() == [True, False] and truth.dtype is torch.bool
    dist.all_reduce(x, op=dist._make_nccl_premul_sum(2.0))
    assert x.tolist() == [2.0] * 4
    given = torch.arange(4.0, device="cuda:1").view(2, 2)
    parts = [torch.empty_like(given)]
    dist.all_to_all(parts, [given])
    assert torch.equal(parts[0], given)


def test_statistics_of_16_bits_are_in_32(two_gpus):
    numbers = torch.randn(8, 3, dtype=torch.float16, device="cuda:1")
    mean, invstd = torch.batch_norm_stats(numbers, 1e-5)
    assert mean.dtype is invstd.dtype is torch.float32 and mean.device == numbers.device
    out = torch.batch_norm_elemt(numbers, None, None, mean, invstd, 1e-5)
    assert out.dtype is torch.float16 and out.device == numbers.device
    expected = torch.nn.functional.batch_norm(numbers.float(), None, None, training=True)
    torch.testing.assert_close(out.float(), expected, atol=2e-3, rtol=0)
    means, scales = torch.ones(2, 3, device="cuda:1"), torch.ones(2, 3, device="cuda:1")
    gathered = torch.batch_norm_gather_stats(out, means, scales, None, None, 0.1, 1e-5, 2)
    assert [each.tolist() for each in gathered] == [[1, 1, 1], pytest.approx([1, 1, 1])]
    with pytest.raises(NotImplementedError):  # the CPU has no such operator
        torch.batch_norm_stats(numbers.cpu(), 1e-5)


def test_when_a_collective_returns_no_thread_holds_its_tensors(x):
    outs = [torch.empty(4, device="cuda:0")]
    for call in (
        lambda: dist.all_reduce(x),
        lambda: dist.all_reduce(x, op=ReduceOp.AVG),
        lambda: dist.all_gather(outs, x),
        lambda: dist.all_to_all(outs, [x]),
    ):
        for _ in range(20):
            call()
            assert x._use_count() == outs[0]._use_count() == 1
