"""Two ranks reduce, send and train in ways that gloo has not, or does otherwise."""

import torch
import torch.distributed as dist
from ranks import rank
from torch import nn
from torch.distributed._functional_collectives import all_reduce
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import (
    PowerSGDState,
    powerSGD_hook,
)
from torch.nn.parallel import DistributedDataParallel

other = 1 - rank
AVERAGES = [0.5, 1.5, 2.5, 3.5]


def own():
    """Return [0, 1, 2, 3] in rank 0, and [1, 2, 3, 4] in rank 1."""
    return torch.arange(4.0, device=gpu) + rank


def average_by_the_method_of_a_group():
    options = dist.AllreduceOptions()
    options.reduceOp = dist.ReduceOp.AVG
    x = own()
    future = dist.group.WORLD.allreduce([x], options).get_future()
    assert future.value()[0].device == gpu
    assert x.tolist() == future.value()[0].tolist() == AVERAGES
    assert options.reduceOp == dist.ReduceOp.AVG


def average_several_at_once():
    parts = [torch.empty(2, device=gpu), torch.empty(2, device=gpu)]
    with dist._coalescing_manager():
        for part in parts:
            dist.reduce_scatter_tensor(part, own(), op=dist.ReduceOp.AVG)
    for part in parts:
        assert part.tolist() == AVERAGES[2 * rank : 2 * rank + 2]


def average_integers():
    integers = torch.tensor([3, -5 * rank], device=gpu)
    assert all_reduce(integers, "avg", dist.group.WORLD).tolist() == [3, -2]


def average_halves_that_would_overflow():
    # NCCL divides before it adds.
    x = torch.full((1,), 60000.0, dtype=torch.float16, device=gpu)
    dist.all_reduce(x, op=dist.ReduceOp.AVG)
    assert x.item() == 60000


def reduce_to_one():
    x = own()
    dist.reduce(x, dst=1)
    assert x.tolist() == ([1, 3, 5, 7] if rank else [0, 1, 2, 3])


def send_in_the_order_of_memory():
    x = torch.arange(4.0, device=gpu).view(2, 2)
    if rank == 0:
        dist.send(x.t(), 1)
    else:
        received = torch.zeros(2, 2, device=gpu)
        dist.recv(received, 0)
        assert received.tolist() == x.tolist()


def send_with_tags():
    """NCCL ignores tags: what was sent first comes first (c10d/ProcessGroupNCCL.cpp)."""
    group = dist.new_group([0, 1], backend="cpu:gloo,cuda:nccl")
    first, second = torch.zeros(2, 4, device=gpu)
    on_cpu = torch.zeros(4)
    if rank == 0:
        work = dist.isend(own().cpu() + 2, 1, group)
        dist.send(own(), 1, group, tag=5)
        group.send([own() + 1], 1, 6).wait()
        work.wait()
    else:
        # The CPU's messages are no part of that order.
        dist.recv(first, 0, group)
        group.recv([second], 0, 5).wait()
        dist.recv(on_cpu, 0, group)
        assert first.tolist() == [0, 1, 2, 3]
        assert second.tolist() == [1, 2, 3, 4]
        assert on_cpu.tolist() == [2, 3, 4, 5]
    messages = [
        dist.P2POp(dist.isend, own(), other, tag=1 + rank),
        dist.P2POp(dist.irecv, first, other, tag=1 + rank),
    ]
    for work in dist.batch_isend_irecv(messages):
        work.wait()
    assert first.tolist() == (own() - rank + other).tolist()


def send_in_a_group_that_has_ended():
    group = dist.new_group([0, 1])

    def pass_on():
        if rank == 0:
            group.send([own()], 1, 0).wait()
        else:
            group.recv([own()], 0, 0).wait()

    pass_on()
    group.shutdown()
    try:
        pass_on()
    except dist.DistBackendError as error:  # of the communicator of these two
        assert str(error) == f"NCCL communicator was aborted on rank {rank}. "
    else:
        raise AssertionError("a group that has ended passed on a message")


def send_to_itself_in_a_batch():
    from_self, from_other = torch.zeros(2, 4, device=gpu)
    messages = [
        dist.P2POp(dist.isend, own(), rank),
        dist.P2POp(dist.irecv, from_self, rank),
        dist.P2POp(dist.isend, own(), other),
        dist.P2POp(dist.irecv, from_other, other),
    ]
    for work in dist.batch_isend_irecv(messages):
        work.wait()
    assert from_self.tolist() == own().tolist()
    assert from_other.tolist() == (own() - rank + other).tolist()


def capture_a_collective(communicate=lambda: dist.all_reduce(own())):
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            communicate()
    except NotImplementedError as error:
        assert "holds no collectives" in str(error)
    else:
        raise AssertionError("a collective was captured")


def capture_a_functional_collective():
    capture_a_collective(lambda: all_reduce(own(), "sum", dist.group.WORLD))


def reduce_in_place_what_has_gaps():
    gaps = torch.zeros(4, 2, device=gpu)[:, 0]
    group = dist.group.WORLD.group_name
    try:
        torch.ops._c10d_functional.all_reduce_(gaps, "sum", group)
    except ValueError as error:
        assert str(error) == "Tensors must be contiguous"
    else:
        raise AssertionError("a tensor with gaps was reduced")
    assert all_reduce(gaps, "sum", dist.group.WORLD).tolist() == [0] * 4


def replica(**options):
    """Return a replica of a small model, to train."""
    torch.manual_seed(0)
    layers = [nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 4)]
    model = nn.Sequential(*layers).to(gpu)
    # Its buckets have hooks that run in the same order on both ranks.
    return DistributedDataParallel(model, bucket_cap_mb=0.0005, **options)


def gradients_of(model):
    for step in range(2):
        model.zero_grad()
        model(torch.ones(1, 8, device=gpu) * (step + rank)).sum().backward()
    return [parameter.grad for parameter in model.parameters()]


def train_with_hooks():
    expected = gradients_of(replica())
    model = replica()
    # A rank of 8 leaves nothing out.
    state = PowerSGDState(None, matrix_approximation_rank=8, start_powerSGD_iter=2)
    model.register_comm_hook(state, powerSGD_hook)
    torch.testing.assert_close(gradients_of(model), expected)

    compressed = replica()
    hook = dist.BuiltinCommHookType.FP16_COMPRESS
    compressed._register_builtin_comm_hook(hook)
    torch.testing.assert_close(gradients_of(compressed), expected, atol=1e-3, rtol=1e-2)
    torch.testing.assert_close(gradients_of(replica(static_graph=True)), expected)


gpu = torch.device("cuda", rank)
dist.init_process_group("nccl")
# Both are on the first GPU, but PyTorch guesses one by the rank for a barrier.
dist.barrier()
torch.cuda.set_device(gpu)
average_by_the_method_of_a_group()
average_several_at_once()
average_integers()
average_halves_that_would_overflow()
reduce_to_one()
send_in_the_order_of_memory()
send_with_tags()
send_in_a_group_that_has_ended()
send_to_itself_in_a_batch()
capture_a_collective()
capture_a_functional_collective()
reduce_in_place_what_has_gaps()
train_with_hooks()
dist.barrier()
dist.destroy_process_group()
