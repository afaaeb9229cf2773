"""What is kept of collectives in one process: 16 bits in 32, and no thread with their tensors."""

import pytest
import torch
import torch.distributed as dist


@pytest.fixture
def x(two_gpus):
    """Four ones on the first GPU, in a process group of one."""
    options = dist.ProcessGroupNCCL.Options(is_high_priority_stream=True)
    store = dist.HashStore()
    dist.init_process_group("nccl", store=store, rank=0, world_size=1, pg_options=options)
    yield torch.ones(4, device="cuda:0")
    dist.destroy_process_group()


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
        lambda: dist.all_reduce(x, op=dist.ReduceOp.AVG),
        lambda: dist.all_gather(outs, x),
        lambda: dist.all_to_all(outs, [x]),
    ):
        for _ in range(20):
            call()
            assert x._use_count() == outs[0]._use_count() == 1
