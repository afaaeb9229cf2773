"""What NCCL refuses on one rank: the same is refused on simulated GPUs, in the same words."""

import time

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from calls import raised

from cudasim.backends.cuda.distributed import collectives, errors, operators
from cudasim.backends.cuda.distributed.batch_norm import normalize, stats
from cudasim.backends.cuda.distributed.replicas import by_gpu

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


CONTIGUOUS = {
    "all_reduce": lambda x: dist.all_reduce(every_other()),
    "broadcast": lambda x: dist.broadcast(every_other(), 0),
    "reduce": lambda x: dist.reduce(every_other(), 0),
    "all_gather": lambda x: dist.all_gather([x], every_other()),
    "all_gather_into_tensor": lambda x: dist.all_gather_into_tensor(every_other(), x),
    "reduce_scatter": lambda x: dist.reduce_scatter(every_other(), [x]),
    "reduce_scatter_tensor": lambda x: dist.reduce_scatter_tensor(x, every_other()),
    "all_to_all_single": lambda x: dist.all_to_all_single(x, every_other()),
    "transposed": lambda x: dist.all_reduce(torch.ones(2, 3, device="cuda:0").t()),
}


@pytest.mark.parametrize("call", CONTIGUOUS.values(), ids=CONTIGUOUS)
def test_tensors_that_are_not_contiguous(x, call):
    assert raised(lambda: call(x), ValueError) == "Tensors must be contiguous"


def test_channels_last_is_an_order(x):
    images = torch.ones(2, 3, 4, 5, device="cuda:0").to(memory_format=torch.channels_last)
    dist.all_reduce(images)


def test_gloo_alone_would_take_what_is_refused(x, monkeypatch):
    monkeypatch.setattr(operators, "refuse", lambda *args: None)
    dist.all_reduce(every_other())
    dist.all_reduce(torch.ones(4, device="cuda:1"))


def test_sparse_tensors(x):
    for call in (lambda: dist.all_reduce(x.to_sparse()), lambda: dist.broadcast(x.to_sparse(), 0)):
        assert raised(call, ValueError) == "Tensors must be CUDA and dense"


@pytest.mark.parametrize("dtype", ["int16", "uint16", "uint32", "uint64"])
def test_types_that_nccl_lacks(x, dtype):
    lacking = torch.ones(4, device="cuda:0").to(getattr(torch, dtype))
    name = {"int16": "Short"}.get(dtype, dtype.replace("uint", "UInt"))
    said = f"Input tensor data type is not supported for NCCL process group: {name}"
    assert raised(lambda: dist.all_reduce(lacking), TypeError) == said
    assert raised(lambda: dist.all_gather([lacking], lacking), TypeError) == said
    world = dist.group.WORLD
    assert raised(lambda: functional.all_reduce(lacking, "sum", world), TypeError) == said
    pairwise = raised(lambda: dist.all_to_all_single(lacking.clone(), lacking))
    assert pairwise == f"Unconvertible NCCL type {name}"


def test_float8_is_sent_but_not_added(x):
    eighth = torch.full((4,), 0.125, device="cuda:0").to(torch.float8_e4m3fn)
    taken = torch.zeros_like(eighth)
    dist.all_gather_into_tensor(taken, eighth)
    assert torch.equal(taken.float(), eighth.float()) and taken.is_cuda
    said = raised(lambda: dist.all_reduce(eighth))
    assert said == "Float8 dtypes are not currenlty supported for NCCL reductions"  # its spelling


def test_complex_numbers_go_as_pairs(x):
    numbers = torch.full((4,), 1 + 2j, device="cuda:0")
    dist.all_reduce(numbers)
    dist.broadcast(numbers, 0)
    assert numbers.tolist() == [1 + 2j] * 4
    said = raised(lambda: dist.all_reduce(numbers, op=ReduceOp.MAX), ValueError)
    assert "does not support" in said and "complex" in said
    assert raised(lambda: dist.gather(numbers, [numbers])) == "Unconvertible NCCL type ComplexFloat"


@pytest.mark.parametrize("name", ["BAND", "BOR", "BXOR"])
def test_bitwise_reductions(x, name):
    whole = torch.ones(4, dtype=torch.int32, device="cuda:0")
    said = f"Cannot use ReduceOp.{name} with NCCL"
    assert raised(lambda: dist.all_reduce(whole, op=getattr(ReduceOp, name)), ValueError) == said
    named = raised(lambda: functional.all_reduce(whole, name.lower(), dist.group.WORLD), ValueError)
    assert named == said


def test_reductions_of_truth_values(x):
    truth = torch.tensor([True, False], device="cuda:0")
    dist.all_reduce(truth)
    assert truth.tolist() == [True, False] and truth.dtype is torch.bool
    said = "Cannot use ReduceOp.AVG with boolean inputs"
    assert raised(lambda: dist.all_reduce(truth, op=ReduceOp.AVG), TypeError) == said
    average = raised(lambda: functional.all_reduce(truth, "avg", dist.group.WORLD), TypeError)
    assert average == said


def test_premultiplied_sums(x):
    doubled = dist._make_nccl_premul_sum(2.0)
    dist.all_reduce(x, op=doubled)
    assert x.tolist() == [2.0] * 4
    assert "half, float" in raised(lambda: dist.all_reduce(x.int(), op=doubled), TypeError)


LISTS = {
    "all_gather": lambda x: dist.all_gather([x, x], x),
    "reduce_scatter": lambda x: dist.reduce_scatter(x, [x, x]),
    "all_to_all": lambda x: dist.all_to_all([x], [x, x]),
}


@pytest.mark.parametrize("call", LISTS.values(), ids=LISTS)
def test_lists_without_a_tensor_for_each_rank(x, call):
    said = "Tensor list input to scatter/gather must match number of collective participants"
    assert raised(lambda: call(x), ValueError) == said


def test_results_that_do_not_fit(x):
    five = torch.ones(5, device="cuda:0")
    for call, said in (
        (
            lambda: dist.all_gather_into_tensor(five, x),
            "output tensor size must be equal to world_size times input tensor size",
        ),
        (
            lambda: dist.reduce_scatter_tensor(five, x),
            "input tensor must be the same size as output size times world size",
        ),
        (
            lambda: dist.gather(x, [x, x]),
            "ProcessGroupNCCL::gather: Incorrect output list size 2. Output list size should be 1, "
            "same as size of the process group.",
        ),
    ):
        assert raised(call, ValueError) == said
    whole = torch.ones(4, dtype=torch.int32, device="cuda:0")
    said = raised(lambda: dist.all_gather_into_tensor(whole, x), TypeError)
    assert said == "output tensor must have the same type as input tensor"


def test_tensors_of_one_call_on_several_gpus(x):
    other = torch.ones(4, device="cuda:1")
    said = "Expected list of tensors on the same device"
    assert raised(lambda: dist.all_gather([other], x), ValueError) == said


def test_tensors_on_another_gpu_than_that_of_the_group(begun):
    begun(device_id=torch.device("cuda:0"))
    dist.all_reduce(torch.ones(4, device="cuda:0"))
    said = "Attempt to perform collective on tensor not on device passed to init_process_group"
    other = torch.ones(4, device="cuda:1")
    assert raised(lambda: dist.all_reduce(other), dist.DistBackendError) == said


def test_tensors_on_the_cpu(x):
    said = "No backend type associated with device type cpu"
    assert raised(lambda: dist.all_reduce(torch.ones(4))) == said
    world = dist.group.WORLD
    assert raised(lambda: functional.all_reduce(torch.ones(4), "sum", world)) == said


def test_a_receiver_names_its_sender(x):
    said = raised(lambda: dist.recv(x), NotImplementedError)
    assert said == "ProcessGroupNCCL does not support recvAnysource"


def test_coalesced_tensors(x):
    said = raised(lambda: dist.all_reduce_coalesced([x, every_other()]), ValueError)
    assert said == "Tensors must be non-overlapping and dense"
    dist.all_reduce_coalesced([x, torch.ones(2, 3, device="cuda:0")])


def test_names_of_ranks():
    assert [errors.ranks(list(range(n))) for n in (1, 2, 3)] == [
        "Rank 0",
        "Ranks 0 and 1",
        "Ranks 0, 1 and 2",
    ]


def test_statistics_of_16_bits_are_in_32(two_gpus):
    numbers = torch.randn(8, 3, dtype=torch.float16, device="cuda:1")
    mean, invstd = torch.batch_norm_stats(numbers, 1e-5)
    assert mean.dtype is invstd.dtype is torch.float32 and mean.device == numbers.device
    out = torch.batch_norm_elemt(numbers, None, None, mean, invstd, 1e-5)
    assert out.dtype is torch.float16 and out.device == numbers.device
    expected = torch.nn.functional.batch_norm(numbers.float(), None, None, training=True)
    torch.testing.assert_close(out.float(), expected, atol=2e-3, rtol=0)
    with pytest.raises(NotImplementedError):  # the CPU has no such operator
        torch.batch_norm_stats(numbers.cpu(), 1e-5)
    assert normalize(numbers.cpu(), None, None, *stats(numbers.cpu(), 1e-5), 1e-5).shape == (8, 3)


def test_tensors_by_their_gpus(two_gpus):
    devices = ["cuda:1", "cuda:0", "cuda:1", "cpu"]
    assert by_gpu([torch.ones(1, device=device) for device in devices]) == [[0, 2], [1], [3]]


class Held:
    """A tensor that a thread holds for so many looks."""

    def __init__(self, looks):
        self.looks = looks

    def _use_count(self):
        self.looks -= 1
        return 2 if self.looks > 0 else 1


def test_when_a_collective_returns_no_thread_holds_its_tensors(x, monkeypatch):
    outs = [torch.empty(4, device="cuda:0")]
    monkeypatch.setattr(collectives, "LETTING_GO", 30)
    for call in (
        lambda: dist.all_reduce(x),
        lambda: dist.all_reduce(x, op=ReduceOp.AVG),
        lambda: dist.broadcast(x, 0),
        lambda: dist.all_gather(outs, x),
        lambda: dist.reduce_scatter(outs[0], [x]),
        lambda: dist.all_to_all(outs, [x]),
    ):
        begun = time.monotonic()
        for _ in range(20):
            call()
            assert x._use_count() == outs[0]._use_count() == 1
        assert time.monotonic() - begun < 20  # nothing else holds them


def test_tensors_that_something_else_holds_are_not_waited_for_in_vain(monkeypatch):
    late, kept = Held(50), Held(10**9)
    collectives.let_go([late], [1])
    assert late.looks == 0
    monkeypatch.setattr(collectives, "LETTING_GO", 0.01)
    collectives.let_go([kept], [1])
    assert kept.looks > 0
