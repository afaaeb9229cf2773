"""Which operations make the host wait, and `set_sync_debug_mode`, by PyTorch's own test."""

import warnings

import pytest
import torch
from programs import PACKAGE
from torch.nn import functional as F

import cudasim
from cudasim.session import session

MESSAGE = "called a synchronizing CUDA operation"


@pytest.fixture(params=[None, "modelled"])
def clock(request):
    """Simulate two GPUs, with the machine's clock or with the virtual one, which is returned."""
    with cudasim.simulate(clock=request.param):
        yield session.clock


@pytest.fixture
def x(clock):
    return torch.rand(4, device="cuda")


@pytest.fixture
def number(clock):
    return torch.rand((), device="cuda")


@pytest.fixture
def index(clock):
    return torch.tensor([0, 2, 3], device="cuda")


@pytest.fixture
def mask(clock):
    return torch.tensor([True, False, True, True], device="cuda")


def waits(work):
    """Return whether the host waits in `work` for a GPU that is busy for a while."""
    clock = session.clock
    if clock is None:
        torch.cuda._sleep(10**8)
        work()
        return torch.cuda.current_stream().query()

    torch.cuda._sleep(10**9)
    before = clock.now
    work()
    return clock.now - before > 10**9 / 1.59  # cycles of a T4, at 1590 MHz


def assert_waits(work):
    """Assert that `work` waits, that it is warned of, and that it can be refused."""
    work()
    torch.cuda.set_sync_debug_mode("warn")
    with pytest.warns(UserWarning, match=MESSAGE) as caught:
        work()
    # The warning names the line that waits.
    assert not caught[0].filename.startswith(str(PACKAGE))

    torch.cuda.set_sync_debug_mode("error")
    assert torch.cuda.get_sync_debug_mode() == 2
    with pytest.raises(RuntimeError, match=f"^{MESSAGE}$"):
        work()
    torch.cuda.set_sync_debug_mode("default")
    assert waits(work)


def run_watched(work):
    """Run `work`, which must be neither refused nor warned of."""
    torch.cuda.set_sync_debug_mode("error")
    work()
    torch.cuda.set_sync_debug_mode("warn")  # warns once that it is a prototype
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        work()


def assert_silent(work):
    """Assert that `work` does not wait, and that it is neither refused nor warned of."""
    run_watched(work)
    assert not waits(work)


# What waits.


def test_a_mask_waits_for_the_number_of_its_places(x, number, mask):
    def assign():
        x[mask] = number

    assert_waits(assign)
    assert_waits(lambda: x[mask])
    assert_waits(lambda: x.masked_select(mask))
    assert_waits(lambda: x.nonzero())


def test_an_index_on_the_host_is_copied_and_waits(x, number):
    on_host = torch.tensor([0, 2])

    def assign():
        x[on_host] = number

    assert_waits(assign)
    assert_waits(lambda: x[on_host])


def test_a_result_whose_size_depends_on_values_waits(x, index):
    twice = torch.full((1,), 2, device="cuda")
    assert_waits(lambda: F.one_hot(index))
    assert_waits(lambda: torch.repeat_interleave(x, twice))
    assert_waits(lambda: x.unique())


def test_a_result_written_to_out_waits_too(x, mask):
    places = torch.empty(0, dtype=torch.long, device="cuda")
    chosen = torch.empty(0, device="cuda")
    assert_waits(lambda: torch.nonzero(x, out=places))
    assert_waits(lambda: torch.masked_select(x, mask, out=chosen))


def test_what_python_reads_waits(x, number):
    assert_waits(lambda: bool(number))
    assert_waits(lambda: number.item())
    assert_waits(lambda: x.tolist())
    assert_waits(lambda: repr(x))
    assert_waits(lambda: torch.equal(x, x))
    assert_waits(lambda: torch.allclose(x, x))


def test_what_cpp_reads_of_its_arguments_waits(x, number, index, mask):
    # RangeFactories.cpp, TensorAdvancedIndexing.cpp, cuda/Indexing.cu, LossCTC.cpp and
    # DistributionTemplates.h in aten/src/ATen/native call `item` or copy to the host.
    assert_waits(lambda: torch.linspace(0, number, 3, device="cuda"))
    assert_waits(lambda: torch.logspace(number, 1, 3, device="cuda"))
    assert_waits(lambda: x.index_fill(0, index, number))
    assert_waits(lambda: x.masked_fill(mask, number))
    assert_waits(lambda: torch.normal(x, x))
    lengths = torch.tensor([2], device="cuda")
    scores = torch.rand(4, 1, 3, device="cuda").log_softmax(2)
    assert_waits(lambda: F.ctc_loss(scores, index[None, 1:] - 1, lengths * 2, lengths))


def test_what_cpp_counts_or_checks_waits(x):
    # `nonzero` in TensorConversions.cpp, `min().cpu()` in cuda/SummaryOps.cu, `item` in
    # BucketizationUtils.h and SegmentReduce.cpp.
    assert_waits(lambda: x.to_sparse())
    assert_waits(lambda: x[None].to_sparse_csr())
    assert_waits(lambda: torch.histc(x, 4))
    order = x.argsort()
    assert_waits(lambda: torch.searchsorted(x, x, sorter=order))
    lengths = torch.tensor([1, 3], device="cuda")
    assert_waits(lambda: torch.segment_reduce(x, "sum", lengths=lengths))


def test_what_cpp_knows_does_not_wait(x, index, mask):
    assert_silent(lambda: torch.histc(x, 4, 0, 1))
    assert_silent(lambda: x.masked_fill(mask, torch.tensor(2.0)))
    assert_silent(lambda: torch.linspace(0, torch.tensor(1.0), 3, device="cuda"))
    lengths = torch.tensor([1, 3], device="cuda")
    assert_silent(lambda: torch.segment_reduce(x, "sum", lengths=lengths, unsafe=True))


def test_a_copy_to_or_from_the_host_waits(x):
    host = torch.ones(4)
    pinned = torch.ones(4).pin_memory()
    assert_waits(lambda: x.cpu())
    assert_waits(lambda: host.copy_(x))
    assert_waits(lambda: host.cuda())
    assert_waits(lambda: pinned.cuda())
    assert_waits(lambda: x.copy_(host))
    assert_waits(lambda: torch.tensor([1.0], device="cuda"))


def test_synchronizing_a_stream_waits(clock):
    assert_waits(lambda: torch.cuda.current_stream().synchronize())


# What does not wait.


def test_an_assignment_of_known_size_is_silent(x, number, index, mask):
    mask_on_host = torch.ones(4, dtype=torch.bool)

    def fill():
        x[mask] = 1.0

    def assign_by_a_mask():
        x[mask_on_host] = number

    def assign_by_an_index():
        x[index] = number

    assert_silent(fill)
    assert_silent(assign_by_a_mask)
    assert_silent(assign_by_an_index)


def test_a_result_of_known_size_is_silent(x, number, index):
    mask_on_host = torch.ones(4, dtype=torch.bool)
    assert_silent(lambda: x[mask_on_host])
    assert_silent(lambda: x[index])
    assert_silent(lambda: F.one_hot(index, num_classes=4))
    assert_silent(lambda: torch.repeat_interleave(x, 2, output_size=8))
    assert_silent(lambda: torch.randperm(20000, device="cuda"))
    assert_silent(lambda: torch.any(number))


def test_a_copy_that_does_not_block_is_silent(x):
    few = torch.ones(2**14)  # so few that the driver stages them
    pinned = torch.ones(4).pin_memory()
    assert_silent(lambda: torch.ones(2).cuda(non_blocking=True))
    assert_silent(lambda: few.to("cuda", non_blocking=True))
    assert_silent(lambda: pinned.to("cuda", non_blocking=True))
    assert_silent(lambda: x.to("cpu", non_blocking=True))
    assert_silent(lambda: pinned.copy_(x, non_blocking=True))
    assert_silent(lambda: x.to("cuda:1"))


def test_the_cpu_alone_is_silent(clock):
    host = torch.ones(4)
    assert_silent(lambda: host[host > 0].nonzero().tolist())


def test_a_query_and_an_event_never_recorded_are_silent(clock):
    event = torch.cuda.Event()
    assert_silent(event.synchronize)
    assert_silent(lambda: torch.cuda.current_stream().query())


# What waits although PyTorch does not say so.


@pytest.mark.parametrize("module", [torch.cuda, torch.accelerator])
def test_synchronizing_a_gpu_waits_silently(clock, module):
    run_watched(module.synchronize)
    assert waits(module.synchronize)


def test_a_large_copy_from_pageable_memory_waits_silently(clock):
    many = torch.ones(2**15)

    def move():
        many.to("cuda", non_blocking=True)

    run_watched(move)
    # Without the virtual clock no copy goes through a staging buffer.
    assert waits(move) == (clock is not None)


# The mode.


@pytest.mark.parametrize("mode", ["loud", 3])
def test_an_unknown_mode_is_refused(two_gpus, mode):
    with pytest.raises(RuntimeError, match="invalid value of debug_mode"):
        torch.cuda.set_sync_debug_mode(mode)


def test_it_ends_with_the_simulation():
    with cudasim.simulate():
        torch.cuda.set_sync_debug_mode("error")
    with cudasim.simulate():
        assert torch.cuda.get_sync_debug_mode() == 0
        assert torch.ones(1, device="cuda").item() == 1


# Linear algebra.


def documented_as_waiting():
    """Return the names of the functions whose documentation says that they wait."""
    names = []
    for name, function in vars(torch.linalg).items():
        documentation = function.__doc__ or ""
        if "synchronizes that device with the CPU" in documentation:
            names.append(name)
    return names


DOCUMENTED = documented_as_waiting()


def test_the_documentation_names_what_waits():
    assert {"svd", "eigh", "eig", "solve", "pinv", "matrix_rank"} <= set(DOCUMENTED)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_linear_algebra_waits_where_documented(two_gpus, name):
    matrix = 2 * torch.eye(3, device="cuda")
    matrices = [matrix, matrix] if name == "solve" else [matrix]
    torch.cuda.set_sync_debug_mode("error")
    with pytest.raises(RuntimeError, match=MESSAGE):
        getattr(torch.linalg, name)(*matrices)


def test_other_linear_algebra_does_not_wait(two_gpus):
    matrix = 2 * torch.eye(3, device="cuda")
    torch.cuda.set_sync_debug_mode("error")
    torch.linalg.qr(matrix)
    torch.linalg.inv_ex(matrix)
    torch.linalg.det(matrix)
