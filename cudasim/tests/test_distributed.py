"""`torch.distributed` with a process for each GPU: NCCL is asked for, gloo does the work."""

import pytest
import torch
import torch.distributed as dist
from programs import SCRIPTS, reports, run, run_script_as_ranks

BOTH = "cpu:gloo,cuda:nccl"


def test_collectives_of_two_ranks(tmp_path):
    results = run_script_as_ranks("ranks_collectives.py", cwd=tmp_path)
    assert [result.returncode for result in results] == [0, 0], results
    error = "RuntimeError: No backend type associated with device type cpu"
    assert reports(results) == {(0, "cpu"): error, (1, "cpu"): error}


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
    ],
)
def test_a_gpu_that_the_process_cannot_have(alone, device, message):
    with pytest.raises(ValueError, match=message):
        alone("nccl", device_id=device)


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
