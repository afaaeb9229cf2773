"""`torch.distributed` with a process for each GPU: NCCL is asked for, gloo does the work."""

import warnings
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from programs import SCRIPTS, reports, run, run_script_as_ranks
from torch import nn
from torch.distributed._functional_collectives import all_reduce
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import distribute_tensor

from cudasim.installed import minor_version

BOTH = "cpu:gloo,cuda:nccl"


def test_collectives_of_two_ranks(tmp_path):
    results = run_script_as_ranks("ranks_collectives.py", cwd=tmp_path)
    assert [result.returncode for result in results] == [0, 0], results
    refused = "ValueError: Tensor input and output of {} must have the same number of"
    errors = {
        "gather": refused.format("_broadcast_oop"),
        "scatter": refused.format("_reduce_oop"),
        "cpu": "RuntimeError: No backend type associated with device type cpu",
    }
    got = reports(results)
    assert len(got) == 2 * len(errors)
    for (_, name), said in got.items():
        assert said.startswith(errors[name])


def test_reductions_and_messages_of_two_ranks(tmp_path):
    results = run_script_as_ranks("ranks_reducing.py", cwd=tmp_path)
    assert [result.returncode for result in results] == [0, 0], results


@pytest.mark.full
def test_the_end_of_python_does_not_meet_a_thread_of_gloo(tmp_path):
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    script = SCRIPTS / "ranks_ending.py"
    got = run("-m", "cudasim", *launcher, script, cwd=tmp_path)
    assert got.returncode == 0, got.stderr


@pytest.fixture
def alone(two_gpus):
    """Return a function that begins a process group of one."""

    def begin(*args, **kwargs):
        store = dist.HashStore()
        dist.init_process_group(*args, store=store, rank=0, world_size=1, **kwargs)

    yield begin
    if dist.is_initialized():
        dist.destroy_process_group()


@pytest.mark.parametrize(
    ("backend", "name"),
    [
        ("NCCL", "nccl"),
        (None, "undefined"),
        ("cuda:nccl", "cuda:nccl"),
        (BOTH, BOTH),
    ],
)
def test_backends(alone, backend, name):
    alone(backend)
    assert dist.get_backend() == name
    x = torch.ones(2, device="cuda:1")
    dist.all_reduce(x)
    assert x.device == torch.device("cuda:1")
    if backend == BOTH:
        dist.all_reduce(torch.ones(2))


@pytest.mark.parametrize(
    ("device", "message"),
    [
        (torch.device("cuda"), "Please use a device_id with index."),
        (2, "device_id cuda:2 is out of range"),
        (torch.device("cpu"), "device_id parameter must be an accelerator with an in"),
    ],
)
def test_a_gpu_that_the_process_cannot_have(alone, device, message):
    with pytest.raises(ValueError, match=message):
        alone("nccl", device_id=device)


def test_a_second_start_that_is_refused_changes_nothing(alone):
    """As in `init_process_group` of torch/distributed/distributed_c10d.py."""
    alone("nccl", device_id=torch.device("cuda:0"))
    with pytest.raises(ValueError, match="default process group twice!"):
        dist.init_process_group("nccl")
    with pytest.raises(RuntimeError, match="No backend type associated with device"):
        dist.all_reduce(torch.ones(2))
    assert dist.get_backend(dist.new_group([0])) == "nccl"


def test_a_group_that_is_bound_says_so(alone):
    """As `_new_process_group_helper` of torch/distributed/distributed_c10d.py sets it."""
    alone("nccl", device_id=torch.device("cuda:1"))
    for group in (dist.group.WORLD, dist.new_group([0])):
        assert group.name() == "nccl"
        assert group.bound_device_id == torch.device("cuda:1")
    replica = nn.parallel.DistributedDataParallel(nn.Linear(1, 1).to("cuda:1"))
    assert replica._get_ddp_logging_data()["backend_name"] == "nccl"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dist.barrier()


def test_a_barrier_passes_over_a_device_that_is_in_no_list(alone):
    """As `barrier` of torch/distributed/distributed_c10d.py does."""
    alone("nccl")
    assert dist.barrier(device_ids=1) is None


BXOR = dist.ReduceOp(dist.ReduceOp.BXOR)
TWICE = dist._make_nccl_premul_sum(2.0)


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (dist.ReduceOp.BAND, "Cannot use ReduceOp.BAND with NCCL"),
        (BXOR, "Cannot use ReduceOp.BXOR with NCCL"),
        (TWICE, "PreMulSum Data type must be half, float, bfloat16"),
    ],
)
def test_reductions_that_nccl_does_not_know(alone, op, message):
    alone("nccl")
    integers = torch.ones(2, dtype=torch.int32, device="cuda:0")
    with pytest.raises((ValueError, TypeError), match=message):
        dist.all_reduce(integers, op=op)


# What versions of torch require of nvidia-nccl-cu13 (METADATA of their wheels).
NCCL_OF_WHEELS = {
    (2, 11): (2, 28, 9),
    (2, 12): (2, 29, 7),
    (2, 13): (2, 29, 7),
    (2, 14): (2, 30, 7),
}


def test_the_version_of_nccl_is_that_of_the_wheel(two_gpus):
    assert torch.cuda.nccl.version() == NCCL_OF_WHEELS[minor_version(torch.__version__)]


def test_float8_is_moved_by_old_cards_and_not_reduced(alone):
    """As in `taskAppend` of NCCL's src/enqueue.cc, since 2.28; a T4 is an sm75."""
    alone("nccl")
    numbers = torch.tensor([1.0, 2.0], device="cuda").to(torch.float8_e5m2)
    copy = torch.zeros_like(numbers)
    dist.all_gather([copy], numbers)
    dist.broadcast(copy, 0)
    assert copy.tolist() == [1, 2]
    for reduce in (dist.all_reduce, lambda x: dist.reduce(x, 0)):
        with pytest.raises(dist.DistBackendError, match=r"FP8 reduction .* sm90"):
            reduce(numbers)


def test_a_work_is_one_of_nccl(alone):
    """As `WorkNCCL::getDuration` of ProcessGroupNCCL.cpp says."""
    alone("nccl")
    work = dist.all_reduce(torch.ones(1, device="cuda"), async_op=True)
    work.block_current_stream()
    with pytest.raises(RuntimeError, match="only works if timing was enabled"):
        work._get_duration()


ENDED = r"^NCCL communicator was aborted on rank 0\. $"
ENDS = {
    "destroyed": dist.destroy_process_group,
    "aborted": lambda group: group.abort(),
    "shut down": lambda group: group.shutdown(),
    "aborted by its backend": lambda group: group._get_backend(
        torch.device("cuda")
    ).abort(),
}


@pytest.mark.parametrize("way", ENDS)
def test_a_group_that_has_ended_communicates_no_more(alone, way):
    """As `NCCLComm::getNcclComm` of NCCLUtils.cpp says."""
    alone("nccl")
    group = dist.new_group([0])
    x = torch.ones(1, device="cuda")
    calls = [
        lambda: group.allreduce([x]),
        lambda: group.broadcast(x, 0),
        lambda: group.allgather([[x]], [x]),
        lambda: group.alltoall_base(x, x, [], []),
        lambda: group.gather([[x]], [x]),
        lambda: group.barrier(),
    ]
    for call in calls:
        call()
    ENDS[way](group)
    for call in calls:
        with pytest.raises(dist.DistBackendError, match=ENDED):
            call()
    dist.all_reduce(x)  # other groups do, and those that are made now
    dist.all_reduce(x, group=dist.new_group([0]))


def test_what_a_group_has_not_made_does_not_end_with_it(alone):
    """NCCL's communicators are made as they are needed, one for each GPU."""
    alone("nccl")
    group = dist.new_group([0])
    group.allreduce([torch.ones(1, device="cuda:0")])
    group.abort()
    x = torch.ones(1, device="cuda:1")
    group.allreduce([x])
    with pytest.raises(dist.DistBackendError, match=ENDED):
        group.allreduce([torch.ones(1, device="cuda:0")])


def test_an_aborted_world_is_not_the_next_one(alone):
    alone("nccl", device_id=torch.device("cuda:0"))  # its communicator is made at once
    world = dist.group.WORLD
    world.abort()
    x = torch.ones(1, device="cuda:0")
    calls = [
        lambda: dist.all_reduce(x),
        lambda: dist.broadcast(x, 0),
        lambda: all_reduce(x, "sum", world),
        lambda: nn.parallel.DistributedDataParallel(nn.Linear(1, 1).cuda()),
    ]
    for call in calls:
        with pytest.raises(dist.DistBackendError, match=ENDED):
            call()
    dist.destroy_process_group()
    alone("nccl")
    dist.all_reduce(x)
    with pytest.raises(dist.DistBackendError, match=ENDED):
        world.allreduce([x])


def wide(*shape):
    return torch.ones(*shape, device="cuda:0")


def sparse():
    return torch.eye(2, device="cuda:0").to_sparse()


def broadcast(tensor):
    return lambda: dist.broadcast(tensor(), 0)


NO_CPU = "No backend type associated with device type cpu"


def test_a_group_of_one_is_captured_by_a_graph(alone):
    alone("nccl")
    x = torch.ones(3, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        doubled = all_reduce(x, "sum", dist.group.WORLD) * 2
    x.fill_(5)
    graph.replay()
    assert doubled.tolist() == [10, 10, 10]


# What ProcessGroupNCCL.cpp and ProcessGroup.hpp of PyTorch say.
REFUSED = {
    "a module on the CPU": (
        RuntimeError,
        NO_CPU,
        lambda: nn.parallel.DistributedDataParallel(nn.Linear(2, 2)),
    ),
    "a method of the group": (
        RuntimeError,
        NO_CPU,
        lambda: dist.group.WORLD.allreduce([torch.ones(2)]),
    ),
    "a CPU tensor among others": (
        ValueError,
        "Tensors must be CUDA and dense",
        lambda: dist.all_gather([wide(2)], torch.ones(2)),
    ),
    "a sparse sum": (
        RuntimeError,
        "NCCL does not support all_reduce with sparse tensors",
        lambda: dist.all_reduce(sparse()),
    ),
    "a sparse broadcast": (
        NotImplementedError,
        "Could not run 'c10d::broadcast_' with arguments from the 'SparseCUDA'",
        broadcast(sparse),
    ),
    "a column": (
        ValueError,
        "Tensors must be contiguous",
        broadcast(lambda: wide(2, 2)[:, 0]),
    ),
    "columns for each rank": (
        ValueError,
        "Tensors must be contiguous",
        lambda: dist.all_to_all([wide(2)], [wide(2, 2)[:, 0]]),
    ),
    "a message with gaps": (
        ValueError,
        "Tensors for P2P must be non-overlapping and dense",
        lambda: dist.isend(wide(2, 2)[:, 0], 0),
    ),
    "a message to itself": (
        dist.DistBackendError,
        "Trying to send to self without a matching recv",
        lambda: dist.isend(wide(2), 0),
    ),
    "a message from anyone": (
        NotImplementedError,
        "ProcessGroupNCCL does not support recvAnysource",
        lambda: dist.recv(wide(2)),
    ),
    "a type": (
        TypeError,
        "Input tensor data type is not supported for NCCL process group: UInt16",
        broadcast(lambda: wide(2).to(torch.uint16)),
    ),
    "a type of four bits": (
        TypeError,
        "Input tensor data type is not supported for NCCL process group: UInt4",
        broadcast(lambda: torch.empty(2, dtype=torch.uint4, device="cuda")),
    ),
    # c10d/Ops.cpp has no kernel for QuantizedCUDA.
    "quantized numbers": (
        NotImplementedError,
        "Could not run 'c10d::broadcast_' with arguments from the 'QuantizedCUDA'",
        broadcast(lambda: torch.quantize_per_tensor(wide(2), 1, 0, torch.qint8)),
    ),
    "parts of another size": (
        ValueError,
        r"ProcessGroupNCCL::gather: invalid tensor size at index 0 \(expected \(2\), "
        r"got \(3\)\)",
        lambda: dist.gather(wide(2), [wide(3)]),
    ),
    "two tensors of one process": (
        RuntimeError,
        "Expecting one tensor only but got multiple. You are probably using multiple",
        lambda: dist.group.WORLD.allreduce([wide(2), wide(2)]),
    ),
    "two parts of one process": (
        RuntimeError,
        "Expecting one tensor only but got multiple",
        lambda: dist.group.WORLD.allgather([[wide(2)], [wide(2)]], [wide(2), wide(2)]),
    ),
    "a root that is not there, to broadcast": (
        dist.DistBackendError,
        r"(?s)invalid argument .*\nBroadcast : invalid root 5 "
        r"\(root should be in the 0\.\.1 range\)",
        lambda: dist.broadcast(wide(2), 5),
    ),
    "a root that is not there, to reduce": (
        dist.DistBackendError,
        r"Reduce : invalid root -1 \(root should be in the 0\.\.1 range\)",
        lambda: dist.reduce(wide(2), -1),
    ),
    "a root that is not there, to gather": (
        ValueError,
        "ProcessGroupNCCL::gather: invalid root rank: 5",
        lambda: dist.gather(wide(2), None, 5),
    ),
    "a root that is not there, to scatter": (
        ValueError,
        "ProcessGroupNCCL::scatter: invalid root rank: 5",
        lambda: dist.scatter(wide(2), None, 5),
    ),
    "a message to a rank that is not there": (
        dist.DistBackendError,
        r"Send : invalid root 5 \(root should be in the 0\.\.1 range\)",
        lambda: dist.send(wide(2), 5),
    ),
    "a message from a rank that is not there": (
        dist.DistBackendError,
        "Recv : invalid root 5",
        lambda: dist.irecv(wide(2), 5),
    ),
    "a batch for a rank that is not there": (
        dist.DistBackendError,
        "Send : invalid root 5",
        lambda: dist.batch_isend_irecv([dist.P2POp(dist.isend, wide(2), 5)]),
    ),
    "objects for a rank that is not there": (
        dist.DistBackendError,
        "Send : invalid root 5",
        lambda: dist.send_object_list([1], 5, device=torch.device("cuda")),
    ),
    "gathering several at once": (
        NotImplementedError,
        "ProcessGroupNCCL does not support allgather_coalesced",
        lambda: dist.all_gather_coalesced([[wide(2)]], [wide(2)]),
    ),
    "a monitored barrier": (
        RuntimeError,
        NO_CPU,
        lambda: dist.group.WORLD.monitored_barrier(),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_nccl_refuses(alone, case):
    alone("nccl")
    kind, message, call = REFUSED[case]
    with pytest.raises(kind, match=message):
        call()


def test_a_batch_takes_a_list_of_messages_in_one_group(alone):
    alone("nccl")
    x = torch.ones(1, device="cuda")
    for wrong in ([x], (), {}):
        with pytest.raises(ValueError, match="Invalid ``p2p_op_list``"):
            dist.batch_isend_irecv(wrong)
    with pytest.raises(IndexError):
        dist.batch_isend_irecv([])
    groups = [dist.group.WORLD, dist.new_group([0])]
    messages = [dist.P2POp(dist.isend, x, 0, group) for group in groups]
    with pytest.raises(ValueError, match=r"All ops need to use the same group."):
        dist.batch_isend_irecv(messages)


def test_a_mesh_has_the_default_group(alone):
    alone("nccl")
    mesh = init_device_mesh("cuda", (1,))
    assert mesh.get_group() is dist.group.WORLD
    assert dist.get_backend(mesh.get_group()) == "nccl"


def test_a_mesh_makes_the_default_group(alone, monkeypatch):
    variables = {"RANK": 0, "LOCAL_RANK": 0, "WORLD_SIZE": 1, "MASTER_PORT": 0}
    for name, value in variables.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    mesh = init_device_mesh("cuda", (1,))
    part = distribute_tensor(torch.ones(2), mesh).to_local()
    assert part.device == torch.device("cuda:0")
    assert mesh.get_group() is dist.group.WORLD


def test_groups_of_a_mesh_refuse_the_cpu(alone):
    alone("nccl")
    mesh = init_device_mesh("cuda", (1, 1), mesh_dim_names=("data", "model"))
    group = mesh["model"].get_group()
    with pytest.raises(RuntimeError, match=NO_CPU):
        dist.all_reduce(torch.ones(2), group=group)


def test_a_dtensor_moves_to_the_cpu_and_back(alone):
    alone("nccl")
    mesh = init_device_mesh("cuda", (1,))
    parameter = distribute_tensor(torch.ones(2), mesh).requires_grad_()
    on_cpu = parameter.cpu()
    assert on_cpu.device == on_cpu.to_local().device == torch.device("cpu")
    assert on_cpu.cuda().to_local().device == torch.device("cuda:0")

    on_cpu.sum().backward()
    assert parameter.grad.device == torch.device("cuda:0")


def test_a_shard_without_data_trains_once_it_has_some(alone):
    alone("nccl")
    layer = nn.Linear(2, 1, device="meta")
    fully_shard(layer, mesh=init_device_mesh("cuda", (1,)))
    layer.to_empty(device="cuda")
    layer(wide(1, 2)).sum().backward()
    assert layer.weight.grad.to_local().tolist() == [[1, 1]]


def test_a_group_can_be_split(alone):
    alone("nccl", device_id=torch.device("cuda:0"))
    group = dist.split_group(split_ranks=[[0]])
    assert dist.get_backend(group) == "nccl"
    assert dist.get_process_group_ranks(group) == [0]


def test_statistics_of_16_bits_are_in_32(two_gpus):
    numbers = torch.randn(8, 3, dtype=torch.float16, device="cuda:1")
    mean, invstd = torch.batch_norm_stats(numbers, 1e-5)
    assert mean.dtype is invstd.dtype is torch.float32
    assert mean.device == numbers.device

    out = torch.batch_norm_elemt(numbers, None, None, mean, invstd, 1e-5)
    assert out.dtype is torch.float16
    assert out.device == numbers.device
    batch_norm = torch.nn.functional.batch_norm
    expected = batch_norm(numbers.float(), None, None, training=True)
    torch.testing.assert_close(out.float(), expected, atol=2e-3, rtol=0)

    of_ranks = torch.ones(2, 3, device="cuda:1")
    means, scales = torch.batch_norm_gather_stats(
        out, of_ranks, of_ranks, None, None, 0.1, 1e-5, 2
    )
    assert means.tolist() == [1, 1, 1]
    assert scales.tolist() == pytest.approx([1, 1, 1])
    with pytest.raises(NotImplementedError):  # the CPU has no such operator
        torch.batch_norm_stats(numbers.cpu(), 1e-5)


def test_after_a_collective_no_thread_holds_its_tensors(alone):
    options = dist.ProcessGroupNCCL.Options(is_high_priority_stream=True)
    alone("nccl", pg_options=options)
    x = torch.ones(4, device="cuda:0")
    outs = [torch.empty(4, device="cuda:0")]

    def assert_lets_go(call):
        for _ in range(20):
            call()
            assert x._use_count() == 1
            assert outs[0]._use_count() == 1

    assert_lets_go(lambda: dist.all_reduce(x))
    assert_lets_go(lambda: dist.all_reduce(x, op=dist.ReduceOp.AVG))
    assert_lets_go(lambda: dist.all_gather(outs, x))
    assert_lets_go(lambda: dist.all_to_all(outs, [x]))


@pytest.mark.parametrize("as_view", [False, True])
def test_replicas_have_their_buckets_from_the_start(alone, as_view):
    """As `initialize_buckets` of torch/csrc/distributed/c10d/reducer.cpp makes them."""
    alone("nccl")
    size = 2**22  # bytes of the layer
    layer = nn.Linear(2**10, 2**10, bias=False, device="cuda")
    replica = nn.parallel.DistributedDataParallel(
        layer, gradient_as_bucket_view=as_view
    )
    assert torch.cuda.memory_allocated() == 2 * size

    gradients = 0 if as_view else size  # those that are not in a bucket
    numbers = torch.ones(1, 2**10, device="cuda")
    expected = torch.cuda.memory_allocated() + gradients
    for _ in range(2):  # the buckets are rebuilt in between
        out = replica(numbers).sum()
        out.backward()
        del out
        assert torch.cuda.memory_allocated() == expected


def test_the_default_timeout_is_that_of_nccl(two_gpus):
    from torch.distributed.constants import default_pg_nccl_timeout

    assert default_pg_nccl_timeout == timedelta(minutes=10)
