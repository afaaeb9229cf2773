"""Two ranks call each collective, and check what they get and where it is."""

import torch
import torch.distributed as dist
from ranks import join, rank, report
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

gpu = torch.device("cuda", rank)


def check(tensor, values):
    assert tensor.device == gpu, tensor.device
    assert tensor.tolist() == values, tensor


def own():
    """Return [0, 1, 2, 3] in rank 0, and [1, 2, 3, 4] in rank 1."""
    return torch.arange(4.0, device=gpu) + rank


def empty(size):
    return torch.empty(size, device=gpu)


def all_reduce():
    for op, values in (
        (dist.ReduceOp.SUM, [1, 3, 5, 7]),
        (dist.ReduceOp.AVG, [0.5, 1.5, 2.5, 3.5]),
        (dist.ReduceOp.MAX, [1, 2, 3, 4]),
    ):
        x = own()
        dist.all_reduce(x, op=op)
        check(x, values)

    x = own()
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    check(x, [1, 3, 5, 7])


def broadcast_and_reduce():
    x = own()
    dist.broadcast(x, src=1)
    check(x, [1, 2, 3, 4])

    x = own()
    dist.reduce(x, dst=0)
    if rank == 0:
        check(x, [1, 3, 5, 7])


def all_gather():
    parts = [empty(4), empty(4)]
    dist.all_gather(parts, own())
    check(parts[0], [0, 1, 2, 3])
    check(parts[1], [1, 2, 3, 4])

    whole = empty(8)
    dist.all_gather_into_tensor(whole, own())
    check(whole, [0, 1, 2, 3, 1, 2, 3, 4])

    # As accelerate does: NCCL counts numbers, whatever the shape.
    whole.zero_()
    dist.all_gather_into_tensor(whole, own().view(2, 2))
    check(whole, [0, 1, 2, 3, 1, 2, 3, 4])


def reduce_scatter():
    sums = [[1, 3], [5, 7]]
    averages = [[0.5, 1.5], [2.5, 3.5]]
    x = empty(2)
    dist.reduce_scatter_tensor(x, own())
    check(x, sums[rank])

    x = empty(2)
    dist.reduce_scatter(x, list(own().chunk(2)))
    check(x, sums[rank])

    x = empty(2)
    dist.reduce_scatter_tensor(x, own(), op=dist.ReduceOp.AVG)
    check(x, averages[rank])


def all_to_all():
    first, second = [([0, 1], [1, 2]), ([2, 3], [3, 4])][rank]
    x = empty(4)
    dist.all_to_all_single(x, own())
    check(x, first + second)

    parts = list(empty(4).chunk(2))
    dist.all_to_all(parts, list(own().chunk(2)))
    check(parts[0], first)
    check(parts[1], second)


def send_and_receive():
    x = own()
    if rank == 0:
        dist.send(x, dst=1)
    else:
        dist.recv(x, src=0)
    check(x, [0, 1, 2, 3])


def gather_and_scatter():
    x = empty(4)
    if rank == 0:
        parts = [empty(4), empty(4)]
        dist.gather(own(), parts)
        check(parts[1], [1, 2, 3, 4])
        dist.scatter(x, parts)
        check(x, [0, 1, 2, 3])
    else:
        dist.gather(own())
        dist.scatter(x)
        check(x, [1, 2, 3, 4])


def objects():
    dicts = [None, None]
    dist.all_gather_object(dicts, {"rank": rank})
    assert dicts == [{"rank": 0}, {"rank": 1}]

    values = [rank, gpu]
    dist.broadcast_object_list(values, src=1)
    assert values == [1, torch.device("cuda:1")]


def other_groups():
    group = dist.new_group([0, 1])
    assert dist.get_backend(group) == "nccl"
    x = own()
    dist.all_reduce(x, group=group)
    check(x, [1, 3, 5, 7])

    gloo = dist.new_group([0, 1], backend="gloo")
    assert dist.get_backend(gloo) == "gloo"
    x = torch.ones(2)
    dist.all_reduce(x, group=gloo)
    assert x.device.type == "cpu"
    assert x.tolist() == [2, 2]


def groups_of_one():
    """A rank that is in no new group takes part in NCCL's split, and goes on."""
    groups = [dist.new_group([0]), dist.new_group([1])]
    assert groups[1 - rank] is dist.GroupMember.NON_GROUP_MEMBER
    same, _ = dist.new_subgroups(1)
    listed, _ = dist.new_subgroups_by_enumeration([[0], [1]])
    for group in (groups[rank], same, listed):
        x = own()
        dist.all_reduce(x, group=group)
        check(x, own().tolist())


def splits_of_ranks_in_different_groups():
    """Splits do not depend on what other groups each rank is in."""
    dist.new_group([0])
    for expected in (2, 4):
        group = dist.split_group(split_ranks=[[0, 1]])
        x = torch.full((1,), expected / 2, device=gpu)
        dist.all_reduce(x, group=group)
        check(x, [expected])


def dropout_on_a_mesh():
    """A mesh splits a group that is bound, and dropout takes an operator to run."""
    mesh = init_device_mesh("cuda", (2, 1), mesh_dim_names=("data", "model"))
    assert dist.get_backend(mesh["data"].get_group()) == "nccl"
    x = distribute_tensor(torch.ones(4, device=gpu), mesh["data"], [Shard(0)])
    check(torch.nn.functional.dropout(x, 1.0).to_local(), [0, 0])


assert dist.is_nccl_available()
join(device_id=gpu)
assert dist.get_backend() == "nccl"
assert dist.get_world_size() == 2
all_reduce()
broadcast_and_reduce()
all_gather()
reduce_scatter()
all_to_all()
send_and_receive()
gather_and_scatter()
dist.barrier()
dist.barrier(device_ids=[rank])
objects()
other_groups()
groups_of_one()
splits_of_ranks_in_different_groups()
dropout_on_a_mesh()
uneven = [empty(1), empty(2)]
report("gather", lambda: dist.all_gather(uneven, empty(3)))
report("scatter", lambda: dist.reduce_scatter(empty(3), uneven))
report("cpu", lambda: dist.all_reduce(torch.ones(2)))
dist.barrier()
dist.destroy_process_group()
