"""Which operations make the host wait, and `set_sync_debug_mode`, by PyTorch's own test."""

import warnings

import pytest
import torch
from programs import PACKAGE

import cudasim
from cudasim.session import session

WORDS = "called a synchronizing CUDA operation"


@pytest.fixture(params=[None, "modelled"])
def operands(request):
    """A vector, a number, indices and a mask on a GPU, with the machine's clock or another."""
    with cudasim.simulate(clock=request.param):
        x = torch.rand(4, device="cuda")
        y = torch.rand((), device="cuda")
        index = torch.tensor([0, 2, 3], device="cuda")
        mask = torch.tensor([True, False, True, True], device="cuda")
        yield x, y, index, mask


def put(x, index, value):
    x[index] = value


def move(tensor, device):
    return tensor.to(device, non_blocking=True)


WAITING = [
    lambda x, y, index, mask: put(x, mask, y),
    lambda x, y, index, mask: put(x, torch.tensor([0, 2]), y),
    lambda x, y, index, mask: x[mask],
    lambda x, y, index, mask: x[torch.tensor([0, 2])],
    lambda x, y, index, mask: x.nonzero(),
    lambda x, y, index, mask: 1 if y else 2,
    lambda x, y, index, mask: torch.nn.functional.one_hot(index),
    lambda x, y, index, mask: torch.repeat_interleave(
        x, torch.full((1,), 2, device="cuda")
    ),
    lambda x, y, index, mask: x.unique(),
    lambda x, y, index, mask: torch.equal(x, x),
    lambda x, y, index, mask: y.item(),
    lambda x, y, index, mask: torch.allclose(x, x),
    lambda x, y, index, mask: x.tolist(),
    lambda x, y, index, mask: repr(x),
    lambda x, y, index, mask: x.cpu(),
    lambda x, y, index, mask: x.masked_select(mask),
    lambda x, y, index, mask: torch.ones(2).cuda(),
    lambda x, y, index, mask: torch.ones(2).pin_memory().cuda(),
    lambda x, y, index, mask: x.copy_(torch.ones(4)),
    lambda x, y, index, mask: torch.empty(4).copy_(x),
    lambda x, y, index, mask: torch.tensor([1.0], device="cuda"),
    lambda x, y, index, mask: torch.cuda.current_stream().synchronize(),
]
SILENT = [
    lambda x, y, index, mask: put(x, mask, 1.0),
    lambda x, y, index, mask: put(x, torch.ones(4, dtype=torch.bool), y),
    lambda x, y, index, mask: put(x, index, y),
    lambda x, y, index, mask: x[torch.ones(4, dtype=torch.bool)],
    lambda x, y, index, mask: x[index],
    lambda x, y, index, mask: torch.nn.functional.one_hot(index, num_classes=4),
    lambda x, y, index, mask: torch.randperm(20000, device="cuda"),
    lambda x, y, index, mask: torch.repeat_interleave(x, 2, output_size=8),
    lambda x, y, index, mask: torch.any(y),
    lambda x, y, index, mask: torch.ones(2).cuda(non_blocking=True),
    lambda x, y, index, mask: x.to("cpu", non_blocking=True),
    lambda x, y, index, mask: x.to("cuda:1"),
    lambda x, y, index, mask: torch.ones(4)[torch.ones(4) > 0].nonzero().tolist(),
    lambda x, y, index, mask: torch.cuda.Event().synchronize(),  # which nobody recorded
    lambda x, y, index, mask: torch.cuda.current_stream().query(),
    lambda x, y, index, mask: move(torch.ones(2**14), x.device),  # few are staged
    lambda x, y, index, mask: move(torch.ones(4).pin_memory(), x.device),
    lambda x, y, index, mask: torch.ones(4).pin_memory().copy_(x, non_blocking=True),
]
UNTOLD = [  # what waits without a word
    lambda x, y, index, mask: torch.cuda.synchronize(),
    lambda x, y, index, mask: torch.accelerator.synchronize(),
    lambda x, y, index, mask: move(torch.ones(2**15), x.device),  # on a clock
]


def waits(work, operands):
    """Whether the host waits in `work` for a card that is busy for a while."""
    clock = session.clock
    if clock is None:
        torch.cuda._sleep(10**8)
        work(*operands)
        return torch.cuda.current_stream().query()
    torch.cuda._sleep(10**9)
    before = clock.now
    work(*operands)
    return clock.now - before > 10**9


@pytest.mark.parametrize("work", WAITING)
def test_what_waits_is_told_and_can_be_refused(operands, work):
    work(*operands)
    torch.cuda.set_sync_debug_mode("warn")
    with pytest.warns(UserWarning, match=WORDS) as told:
        work(*operands)
    assert not told[0].filename.startswith(str(PACKAGE))  # it names the line that waits
    torch.cuda.set_sync_debug_mode("error")
    assert torch.cuda.get_sync_debug_mode() == 2
    with pytest.raises(RuntimeError, match=f"^{WORDS}$"):
        work(*operands)
    torch.cuda.set_sync_debug_mode(0)
    assert waits(work, operands)


@pytest.mark.parametrize("work", SILENT + UNTOLD)
def test_what_does_not_wait_is_not_told(operands, work):
    torch.cuda.set_sync_debug_mode(2)
    work(*operands)
    torch.cuda.set_sync_debug_mode("warn")  # says once that it is a prototype
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        work(*operands)
    waiting = UNTOLD if session.clock else UNTOLD[:2]
    assert waits(work, operands) is (work in waiting)


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


SAYS = "synchronizes that device with the CPU"
DOCUMENTED = [
    name for name, value in vars(torch.linalg).items() if SAYS in (value.__doc__ or "")
]


def test_the_documentation_names_what_waits():
    assert {"svd", "eigh", "eig", "solve", "pinv", "matrix_rank"} <= set(DOCUMENTED)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_linear_algebra_waits_where_documented(two_gpus, name):
    matrix = 2 * torch.eye(3, device="cuda")
    matrices = [matrix, matrix] if name == "solve" else [matrix]
    torch.cuda.set_sync_debug_mode("error")
    with pytest.raises(RuntimeError, match=WORDS):
        getattr(torch.linalg, name)(*matrices)


def test_other_linear_algebra_does_not_wait(two_gpus):
    matrix = 2 * torch.eye(3, device="cuda")
    torch.cuda.set_sync_debug_mode("error")
    torch.linalg.qr(matrix)
    torch.linalg.inv_ex(matrix)
    torch.linalg.det(matrix)
