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
    """(vector, number, indices, mask) on a simulated GPU, with the machine's clock or another."""
    with cudasim.simulate(clock=request.param):
        x = torch.rand(4, device="cuda")
        mask = torch.tensor([True, False, True, True], device="cuda")
        yield (
            x,
            torch.rand((), device="cuda"),
            torch.tensor([0, 2, 3], device="cuda"),
            mask,
        )


def put(x, index, value):
    """`x[index] = value`."""
    x[index] = value


WAITING = [
    lambda x, y, ind, mask: put(x, mask, y),
    lambda x, y, ind, mask: put(x, torch.tensor([0, 2]), y),
    lambda x, y, ind, mask: x[mask],
    lambda x, y, ind, mask: x[torch.tensor([0, 2])],
    lambda x, y, ind, mask: x.nonzero(),
    lambda x, y, ind, mask: 1 if y else 2,
    lambda x, y, ind, mask: torch.nn.functional.one_hot(ind),
    lambda x, y, ind, mask: torch.repeat_interleave(
        x, torch.full((1,), 2, device="cuda")
    ),
    lambda x, y, ind, mask: x.unique(),
    lambda x, y, ind, mask: torch.equal(x, x),
    lambda x, y, ind, mask: y.item(),
    lambda x, y, ind, mask: torch.allclose(x, x),
    lambda x, y, ind, mask: x.tolist(),
    lambda x, y, ind, mask: repr(x),
    lambda x, y, ind, mask: x.cpu(),
    lambda x, y, ind, mask: x.masked_select(mask),
    lambda x, y, ind, mask: torch.ones(2).cuda(),
    lambda x, y, ind, mask: torch.ones(2).pin_memory().cuda(),
    lambda x, y, ind, mask: x.copy_(torch.ones(4)),
    lambda x, y, ind, mask: torch.empty(4).copy_(x),
    lambda x, y, ind, mask: torch.tensor([1.0], device="cuda"),
    lambda x, y, ind, mask: torch.cuda.current_stream().synchronize(),
]
SILENT = [
    lambda x, y, ind, mask: put(x, mask, 1.0),
    lambda x, y, ind, mask: put(x, torch.ones(4, dtype=torch.bool), y),
    lambda x, y, ind, mask: put(x, ind, y),
    lambda x, y, ind, mask: x[torch.ones(4, dtype=torch.bool)],
    lambda x, y, ind, mask: x[ind],
    lambda x, y, ind, mask: torch.nn.functional.one_hot(ind, num_classes=4),
    lambda x, y, ind, mask: torch.randperm(20000, device="cuda"),
    lambda x, y, ind, mask: torch.repeat_interleave(x, 2, output_size=8),
    lambda x, y, ind, mask: torch.any(y),
    lambda x, y, ind, mask: torch.ones(2).cuda(non_blocking=True),
    lambda x, y, ind, mask: x.to("cpu", non_blocking=True),
    lambda x, y, ind, mask: x.to("cuda:1"),
    lambda x, y, ind, mask: torch.ones(4)[torch.ones(4) > 0].nonzero().tolist(),
    lambda x, y, ind, mask: torch.cuda.Event().synchronize(),  # which nobody recorded
    lambda x, y, ind, mask: torch.cuda.current_stream().query(),
    lambda x, y, ind, mask: torch.ones(2**14).to(
        x.device, non_blocking=True
    ),  # few are staged
    lambda x, y, ind, mask: torch.ones(4).pin_memory().to(x.device, non_blocking=True),
    lambda x, y, ind, mask: torch.ones(4).pin_memory().copy_(x, non_blocking=True),
]
UNTOLD = [  # what waits without a word
    lambda x, y, ind, mask: torch.cuda.synchronize(),
    lambda x, y, ind, mask: torch.accelerator.synchronize(),
    lambda x, y, ind, mask: torch.ones(2**15).to(
        x.device, non_blocking=True
    ),  # on a clock
]


def waits(work, operands):
    """Whether the host waits in `work` for a card that is busy for a while."""
    torch.cuda._sleep(10**9 if session.clock else 10**8)
    before = session.clock and session.clock.now
    work(*operands)
    if session.clock is None:
        return torch.cuda.current_stream().query()
    return session.clock.now - before > 10**9


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
    assert waits(work, operands) is (work in (UNTOLD if session.clock else UNTOLD[:2]))


def test_it_ends_with_the_simulation():
    with cudasim.simulate():
        torch.cuda.set_sync_debug_mode("error")
    with cudasim.simulate():
        assert torch.cuda.get_sync_debug_mode() == 0
        assert torch.ones(1, device="cuda").item() == 1
        with pytest.raises(RuntimeError, match="invalid value of debug_mode"):
            torch.cuda.set_sync_debug_mode("loud")
        with pytest.raises(RuntimeError, match="invalid value of debug_mode"):
            torch.cuda.set_sync_debug_mode(3)


SAYS = "synchronizes that device with the CPU"
DOCUMENTED = [
    name for name, value in vars(torch.linalg).items() if SAYS in (value.__doc__ or "")
]


def test_the_documentation_names_what_waits():
    assert {"svd", "eigh", "eig", "solve", "pinv", "matrix_rank"} <= set(DOCUMENTED)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_linear_algebra_waits_where_the_documentation_says_so(name):
    with cudasim.simulate():
        matrix = 2 * torch.eye(3, device="cuda")
        torch.cuda.set_sync_debug_mode("error")
        with pytest.raises(RuntimeError, match=WORDS):
            getattr(torch.linalg, name)(*[matrix] * (2 if name == "solve" else 1))
        for silent in (torch.linalg.qr, torch.linalg.inv_ex, torch.linalg.det):
            silent(matrix)
