"""What C++ makes within backward, and where it goes; the rest: `fidelity/programs/training.py`."""

import io
import warnings
from typing import ClassVar

import pytest
import torch
import torch.utils.checkpoint
from calls import raised
from torch import nn

pytestmark = pytest.mark.usefixtures("two_gpus")

G0, G1 = torch.device("cuda:0"), torch.device("cuda:1")
CPU = torch.device("cpu")


def leaf(device):
    return torch.ones(3, device=device, requires_grad=True)


FUNCTIONS = {
    "sgn": lambda x: x.sgn(),
    "copysign": lambda x: x.copysign(torch.ones_like(x)),
    "repeat": lambda x: x.repeat(2),
    "cat": lambda x: torch.cat([x, x]),
    "cumprod": lambda x: x.cumprod(0),
    "clamp": lambda x: x.clamp(0, 1),
    "index": lambda x: x[torch.tensor([0, 0])],
    "where": lambda x: torch.where(x > 0, x, 0),
    "max_pool1d": lambda x: nn.functional.max_pool1d(x[None], 2),
    "normalize": lambda x: nn.functional.normalize(x, dim=0),
    "prod": lambda x: x.prod(),
    "diag": lambda x: x.diag().trace(),
    "pow": lambda x: x**2,
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_tensors_that_c_plus_plus_makes_within_backward(function):
    # In turn, as what the last backward left behind must not matter.
    for device, other in ((G1, G0), (CPU, G0), (G0, CPU)):
        x = leaf(device)
        function(x).sum().backward()
        assert x.grad.device == device
        total = x.grad + torch.ones(3, device=device)
        assert total.device == device
        elsewhere = torch.ones(3, device=other)
        with pytest.raises(RuntimeError, match="same device"):
            x.grad + elsewhere


def copy_all(target, x):
    target.copy_(x)


def assign_all(target, x):
    target[:] = x


def assign_one(target, x):
    target[0] = x[0]


def assign_at_an_index(target, x):
    index = torch.tensor([0])
    target[index] = x[0]


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (copy_all, [2, 2, 2]),
        (assign_all, [2, 2, 2]),
        (assign_one, [2, 1, 1]),
        (assign_at_an_index, [2, 1, 1]),
    ],
)
def test_the_gradient_of_what_is_written_goes_home(write, expected):
    """A leaf used twice: its gradients from both devices are added where it is."""
    x = leaf(CPU)
    target = torch.zeros(3, device=G1)
    write(target, x)
    loss = target.sum().cpu() + x.sum()
    loss.backward()
    assert target.device == G1
    assert x.grad.device == CPU
    assert x.grad.tolist() == expected


def test_the_node_of_a_copy_prints_as_that_of_c_plus_plus():
    copy = torch.ones(2, requires_grad=True).cuda()
    # As torch.ones(2, requires_grad=True).double().grad_fn of plain PyTorch does.
    assert repr(copy.grad_fn).startswith("<ToCopyBackward0 object at 0x")


def test_the_gradient_of_a_number_that_rides_along_goes_home():
    scale = torch.tensor(2.0, requires_grad=True)
    ones = torch.ones(3, device=G0)
    for _ in range(2):
        product = ones * scale * (scale * 1)
        product.sum().backward()
    assert scale.grad.device == CPU
    assert scale.grad.item() == 24
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.save(scale, io.BytesIO())


def test_a_function_may_keep_an_attribute_called_name():
    class Named(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.name = "mine"
            return x.detach()

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    x = leaf(G1)
    Named.apply(x).sum().backward()
    assert x.grad.device == G1


@pytest.mark.parametrize("options", [{"foreach": True}, {"foreach": False}, {}])
def test_a_step_between_two_backward_passes_is_noticed(options):
    """CUDA's kernels for lists count their changes: see ForeachFunctors.cuh."""
    first, second = nn.Linear(2, 2).to(G0), nn.Linear(2, 2).to(G0)
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], **options)
    x = torch.ones(1, 2, device=G0)
    losses = [second(first(x)).sum() for _ in range(2)]
    losses[0].backward()
    optimizer.step()
    assert "modified by an inplace operation" in raised(losses[1].backward)


def test_copies_of_lists_are_noticed():
    x = leaf(G0)
    square = x * x
    with torch.no_grad():
        torch._foreach_copy_([x], [torch.zeros(3)])
    assert "modified by an inplace operation" in raised(square.sum().backward)


class Recording(torch.autograd.Function):
    """The identity, whose backward notes the GPU and the stream that are current."""

    seen: ClassVar[list] = []

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        note()
        return gradient + torch.zeros(3, device="cuda")


def note(*_):
    index = torch.cuda.current_device()
    Recording.seen.append((index, torch.cuda.current_stream().stream_id))


@pytest.fixture
def seen():
    Recording.seen.clear()
    return Recording.seen


def with_hooks():
    x = leaf(G1)
    x.register_hook(note)
    x.register_post_accumulate_grad_hook(note)
    module = nn.Linear(3, 3).to(G1)
    module.register_full_backward_hook(note)
    return module(x)


def unpacked():
    def unpack(packed):
        note()
        return packed.cuda()

    with torch.autograd.graph.saved_tensors_hooks(torch.Tensor.cpu, unpack):
        return leaf(G1).exp()


def computed_again():
    x = leaf(G1)
    run = torch.utils.checkpoint.checkpoint
    return run(lambda x: note() or x.exp(), x, use_reentrant=False)


ON_OTHER_GPUS = {
    "function": (lambda: Recording.apply(leaf(G1)), [0, 1]),
    "hooks": (with_hooks, [0, 1, 1, 1]),
    "unpacked": (unpacked, [0, 1]),
    "computed again": (computed_again, [0, 0, 1]),  # at first in forward
}


@pytest.mark.parametrize(("make", "gpus"), ON_OTHER_GPUS.values(), ids=ON_OTHER_GPUS)
def test_backward_runs_on_the_gpu_of_its_node(seen, make, gpus):
    """`thread_init` and `set_device` in torch/csrc/autograd/engine.cpp."""
    y = make().to(G0)
    Recording.apply(y).sum().backward()
    assert [index for index, _ in seen] == gpus
    assert torch.cuda.current_device() == 0


def test_backward_runs_on_the_stream_of_its_forward(seen):
    """As PyTorch's test_streaming_backwards_multiple_streams (test/test_cuda.py)."""
    first, second, third = (torch.cuda.Stream() for _ in range(3))
    used_first, used_last = leaf(G0), leaf(G0)
    with torch.cuda.stream(first):
        y = Recording.apply(used_first)
    with torch.cuda.stream(second):
        z = Recording.apply(y * used_first + used_last)

    used_first.register_hook(note)
    used_last.register_hook(note)
    z.register_hook(note)
    with torch.cuda.stream(third):
        z.sum().backward()
        assert torch.cuda.current_stream() == third
    streams = [second] * 3 + [first] * 2
    assert seen == [(0, stream.stream_id) for stream in streams]


def to_other(gradient):
    return gradient.to(G1)


def hook_of_tensor():
    y = leaf(G0) * 2
    y.register_hook(to_other)
    return y


def hook_of_module():
    module = nn.Tanh()
    module.register_full_backward_hook(lambda *args: (args[1][0].to(G1),))
    return module(leaf(G0) * 2)


def hook_of_function():
    class Twice(Recording):
        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    y = Twice.apply(leaf(G0))
    y.register_hook(to_other)
    return y


BLAMED = {
    hook_of_tensor: "MulBackward0",
    hook_of_module: "MulBackward0",
    hook_of_function: "TwiceBackward",
}


@pytest.mark.parametrize("make", BLAMED, ids=lambda make: make.__name__)
def test_the_node_after_a_hook_is_blamed_for_a_gradient_elsewhere(make):
    """`call_function` in torch/csrc/autograd/engine.cpp: hooks, node, `validate_outputs`."""
    assert raised(make().sum().backward) == (
        f"Function {BLAMED[make]} returned an invalid gradient at index 0 "
        "- expected device cuda:0 but got cuda:1"
    )


def test_gradients_from_hooks_that_the_engine_takes():
    """The last of two hooks counts; copies find their way back; numbers are moved.

    What accumulates a leaf's gradient asks for no GPU (accumulate_grad.h).
    """
    x = leaf(G0)
    twice = x * 2
    twice.register_hook(to_other)
    twice.register_hook(lambda gradient: gradient.to(G0))
    copy = x.to(G1)
    copy.register_hook(lambda gradient: gradient.to(G0))
    target = torch.zeros(3, device=G1).copy_(x)
    target.register_hook(lambda gradient: gradient.to(G0))
    number = x.sum() * 2
    number.register_hook(to_other)
    for y in (twice, copy, target, number):
        x.grad = None
        y.sum().backward(retain_graph=True)
        assert x.grad.device == G0

    x.grad = None
    x.register_hook(to_other)
    twice.sum().backward()
    assert x.grad.device == G1
