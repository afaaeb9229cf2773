"""`torch.distributed` with a process for each GPU: NCCL is asked for, gloo does the work."""

import pytest
import torch
import torch.distributed as dist
from programs import run, write
from test_ranks import HEAD, launch

BOTH = "cpu:gloo,cuda:nccl"
COLLECTIVES = """
    here = torch.device("cuda", rank)
    torch.cuda.set_device(here)
    def check(tensor, values):
        assert tensor.device == here, tensor.device
        assert tensor.tolist() == values, tensor
    def mine():
        return torch.arange(4., device=here) + rank
    assert dist.is_nccl_available()
    dist.init_process_group("nccl", device_id=here)
    assert dist.get_backend() == "nccl" and dist.get_world_size() == 2
    x = mine(); dist.all_reduce(x); check(x, [1, 3, 5, 7])
    x = mine(); dist.all_reduce(x, op=dist.ReduceOp.AVG); check(x, [.5, 1.5, 2.5, 3.5])
    x = mine(); dist.all_reduce(x, op=dist.ReduceOp.MAX); check(x, [1, 2, 3, 4])
    x = mine(); work = dist.all_reduce(x, async_op=True); work.wait(); check(x, [1, 3, 5, 7])
    x = mine(); dist.broadcast(x, src=1); check(x, [1, 2, 3, 4])
    x = mine(); dist.reduce(x, dst=0); rank or check(x, [1, 3, 5, 7])
    all_of = [torch.empty(4, device=here) for _ in range(2)]
    dist.all_gather(all_of, mine()); check(all_of[0], [0, 1, 2, 3]); check(all_of[1], [1, 2, 3, 4])
    x = torch.empty(8, device=here); dist.all_gather_into_tensor(x, mine())
    check(x, [0, 1, 2, 3, 1, 2, 3, 4])
    x.zero_(); dist.all_gather_into_tensor(x, mine().view(2, 2))  # as accelerate does: NCCL counts
    check(x, [0, 1, 2, 3, 1, 2, 3, 4])
    half = [[1, 3], [5, 7]][rank]
    x = torch.empty(2, device=here); dist.reduce_scatter_tensor(x, mine()); check(x, half)
    x = torch.empty(2, device=here); dist.reduce_scatter(x, list(mine().chunk(2))); check(x, half)
    x = torch.empty(2, device=here)
    dist.reduce_scatter_tensor(x, mine(), op=dist.ReduceOp.AVG)
    check(x, [value / 2 for value in half])
    turned = [[0, 1, 1, 2], [2, 3, 3, 4]][rank]
    x = torch.empty(4, device=here); dist.all_to_all_single(x, mine()); check(x, turned)
    parts = list(torch.empty(4, device=here).chunk(2))
    dist.all_to_all(parts, list(mine().chunk(2)))
    check(parts[0], turned[:2]); check(parts[1], turned[2:])
    x = mine()
    dist.recv(x, src=0) if rank else dist.send(x, dst=1)
    check(x, [0, 1, 2, 3])
    if rank == 0:
        gathered = [torch.empty(4, device=here) for _ in range(2)]
        dist.gather(mine(), gathered); check(gathered[1], [1, 2, 3, 4])
        dist.scatter(x, gathered); check(x, [0, 1, 2, 3])
    else:
        dist.gather(mine()); dist.scatter(x); check(x, [1, 2, 3, 4])
    dist.barrier(); dist.barrier(device_ids=[rank])
    objects = [None, None]; dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": 0}, {"rank": 1}]
    objects = [rank, here]; dist.broadcast_object_list(objects, src=1)
    assert objects == [1, torch.device("cuda:1")]
    group = dist.new_group([0, 1]); assert dist.get_backend(group) == "nccl"
    x = mine(); dist.all_reduce(x, group=group); check(x, [1, 3, 5, 7])
    gloo = dist.new_group([0, 1], backend="gloo"); assert dist.get_backend(gloo) == "gloo"
    x = torch.ones(2); dist.all_reduce(x, group=gloo)
    assert (x.device.type, x.tolist()) == ("cpu", [2, 2])
    told("cpu", lambda: dist.all_reduce(torch.ones(2)))
    dist.barrier()
    dist.destroy_process_group()
"""


def test_collectives_of_two_ranks(tmp_path):
    results, messages = launch(tmp_path, COLLECTIVES)
    assert [result.returncode for result in results] == [0, 0], results
    words = "RuntimeError: No backend type associated with device type cpu"
    assert messages == {(0, "cpu"): words, (1, "cpu"): words}


ENDING = """
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    held = dist.group.WORLD  # so that the threads of gloo live on
    dist.barrier()
    x = torch.ones(4, device="cuda")
    sys.setswitchinterval(60)  # none of them gets Python's lock unless it is given to them
    for _ in range(20):
        dist.all_reduce(x.clone(), async_op=True)
    dist.destroy_process_group()
    end = time.perf_counter() + 0.2  # by now they want it, to let go of the tensors
    while time.perf_counter() < end:
        pass
"""


@pytest.mark.full
def test_the_end_of_python_does_not_meet_a_thread_of_gloo(tmp_path):
    script = write(tmp_path / "worker.py", HEAD + ENDING)
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
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
    ],
)
def test_a_gpu_that_the_process_cannot_have(alone, device, message):
    with pytest.raises(ValueError, match=message):
        alone("nccl", device_id=device)


TWICE = dist._make_nccl_premul_sum(2.0)


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (dist.ReduceOp.BAND, "Cannot use ReduceOp.BAND with NCCL"),
        (dist.ReduceOp(dist.ReduceOp.BXOR), "Cannot use ReduceOp.BXOR with NCCL"),
        (TWICE, "PreMulSum Data type must be half, float, bfloat16"),
    ],
)
def test_reductions_that_nccl_does_not_know(alone, op, message):
    alone("nccl")
    with pytest.raises((ValueError, TypeError), match=message):
        dist.all_reduce(torch.ones(2, dtype=torch.int32, device="cuda:0"), op=op)


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
    for call in (
        lambda: dist.all_reduce(x),
        lambda: dist.all_reduce(x, op=dist.ReduceOp.AVG),
        lambda: dist.all_gather(outs, x),
        lambda: dist.all_to_all(outs, [x]),
    ):
        for _ in range(20):
            call()
            assert x._use_count() == outs[0]._use_count() == 1
