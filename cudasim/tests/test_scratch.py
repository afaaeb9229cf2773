"""What a program made on the CPU stays there; what C++ makes for itself goes where it computes."""

import copy
import functools
import io
from contextlib import nullcontext

import numpy
import pytest
import torch
from calls import raised
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

pytestmark = pytest.mark.usefixtures("two_gpus")

CPU, G0 = torch.device("cpu"), torch.device("cuda:0")

MADE_BY_THE_PROGRAM = {
    "torch.Tensor": lambda: torch.Tensor(3),
    "FloatTensor": lambda: torch.FloatTensor(3),
    "LongTensor": lambda: torch.LongTensor(3),
    "Tensor.new": lambda: torch.ones(1).new(3),
    "an operator": lambda: torch.ops.aten.zeros([3]),
    "its overload": lambda: torch.ops.aten.zeros.default([3]),
    "full": lambda: torch.ops.aten.full.default([3], 1.0),
}


@pytest.mark.parametrize("make", MADE_BY_THE_PROGRAM.values(), ids=MADE_BY_THE_PROGRAM)
@pytest.mark.parametrize("counting", [False, True])
def test_what_the_program_made_is_refused_and_stays(make, counting):
    x = torch.ones(3, device=G0)
    with FlopCounterMode(display=False) if counting else nullcontext():
        own = make()
        errors = [
            raised(lambda: x + own),
            raised(lambda: own + x),
            raised(lambda: x.add_(own)),
            raised(lambda: torch.stack([x, own])),
        ]
    for error in errors:
        assert "the same device" in error
        assert "cuda:0" in error
        assert "cpu" in error
    assert own.device == CPU
    assert isinstance(own.numpy(), numpy.ndarray)


def test_one_place_of_a_program_may_make_and_use_in_turn():
    x = torch.ones(3, device=G0)
    make_zeros = torch.ops.aten.zeros.default
    for make, size in ((make_zeros, [3]), (torch.FloatTensor, 3)):
        own = make(size)
        error = raised(functools.partial(torch.add, x, own))
        assert "two devices, cuda:0 and cpu" in error


def ctc_loss():
    scores = torch.randn(8, 2, 5, device=G0).log_softmax(2).requires_grad_()
    targets = torch.randint(1, 5, (2, 3), device=G0)
    return nn.functional.ctc_loss(scores, targets, [8, 8], [3, 3]), scores


def test_what_c_plus_plus_makes_is_on_the_gpu():
    loss, scores = ctc_loss()
    (gradient,) = torch.autograd.grad(loss, scores)
    assert loss.device == gradient.device == G0

    sparse = torch.eye(3, device=G0).to_sparse()
    total = (sparse + sparse).coalesce()
    assert total.indices().device == G0

    empty = torch.empty(2, 0, 0, device=G0)
    assert torch.linalg.matrix_rank(empty).device == G0
    index = torch.tensor([1], device=G0)
    assert nn.functional.one_hot(index).device == G0


class Watching(TorchDispatchMode):
    """A mode of the program: it makes a tensor of its own, and hands the call on."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.own = torch.ops.aten.zeros.default([3])
        return func(*args, **(kwargs or {}))


def test_what_a_mode_hands_on_is_still_made_by_c_plus_plus():
    x = torch.ones(3, device=G0)
    file = io.BytesIO()
    with Watching() as mode:
        torch.save(x, file)
        copied = copy.deepcopy(x)
        median = x.quantile(0.5)
        loss, _ = ctc_loss()
        own = torch.ops.aten.zeros.default([3])
    file.seek(0)
    loaded = torch.load(file)
    for result in (loaded, copied, median, loss):
        assert result.device == G0
    for tensor in (own, mode.own):
        error = raised(functools.partial(torch.add, x, tensor))
        assert "two devices, cuda:0 and cpu" in error
        assert tensor.device == CPU


def test_what_a_hook_makes_within_backward_is_on_the_cpu():
    x = torch.ones(3, device=G0, requires_grad=True)
    tensors = []
    y = (x * 2).sgn()
    y.grad_fn.register_hook(lambda inputs, outputs: tensors.append(torch.Tensor(3)))
    y.sum().backward()
    assert x.grad.device == G0
    (own,) = tensors
    assert own.device == CPU
    assert "two devices, cuda:0 and cpu" in raised(lambda: x + own)


def test_under_a_counter_scratch_is_still_not_the_programs():
    x = torch.ones(3, device=G0)
    with FlopCounterMode(display=False):
        padded = nn.utils.rnn.pad_sequence([x, x[:2]])
        total = padded + x[:, None]
        rank = torch.linalg.matrix_rank(torch.diag(x))
        median = x.quantile(0.5)
    for result in (total, rank, median):
        assert result.device == G0
