"""Autograd within a GPU and across devices."""

import io
import warnings

import pytest
import torch
from torch import nn

pytestmark = pytest.mark.usefixtures("two_gpus")

G0, G1 = torch.device("cuda:0"), torch.device("cuda:1")
CPU = torch.device("cpu")


def leaf(device, *shape):
    return torch.ones(*(shape or (3,)), device=device, requires_grad=True)


@pytest.mark.parametrize("source", [CPU, G0])
@pytest.mark.parametrize("target", [CPU, G1])
def test_a_gradient_goes_home(source, target):
    x = leaf(source)
    y = x.to(target) * 5
    y.sum().backward()
    assert y.device == target and x.grad.device == source
    assert x.grad.tolist() == [5, 5, 5]


def test_a_copy_prints_its_function():
    x = leaf(G0)
    assert repr(x.to("cuda:1")) == (
        "tensor([1., 1., 1.], device='cuda:1', grad_fn=<ToCopyBackward0>)"
    )
    assert x.to("cuda:0") is x and x.to("cuda:0").grad_fn is None


def test_a_type_that_changes_on_the_way_changes_back():
    x = leaf(G0)
    x.to("cuda:1", torch.float64).sum().backward()
    assert x.grad.dtype == torch.float32 and x.grad.device == G0


def test_nothing_is_recorded_where_nothing_is_to_be():
    x = leaf(G0)
    with torch.no_grad():
        assert not x.to("cuda:1").requires_grad
    assert not torch.arange(3, device=G0).to("cuda:1").requires_grad
    with torch.inference_mode():
        assert x.to("cuda:1").device == G1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sgn(),
        lambda x: x.copysign(torch.ones_like(x)),
        lambda x: x.repeat(2),
        lambda x: torch.cat([x, x]),
        lambda x: x.cumprod(0),
        lambda x: x.clamp(0, 1),
        lambda x: x[torch.tensor([0, 0])],
        lambda x: torch.where(x > 0, x, 0),
        lambda x: nn.functional.max_pool1d(x[None], 2),
        lambda x: nn.functional.normalize(x, dim=0),
        lambda x: x.prod(),
        lambda x: x.trace() if x.dim() == 2 else x.diag().trace(),
        lambda x: x**2,
    ],
)
def test_tensors_that_c_plus_plus_makes_within_backward(function):
    for device in (G1, CPU, G0):  # in turn: what the last backward left behind must not matter
        x = leaf(device)
        function(x).sum().backward()
        assert x.grad.device == device
        assert (x.grad + torch.ones(3, device=device)).device == device
        with pytest.raises(RuntimeError, match="same device"):
            x.grad + torch.ones(3, device=G0 if device != G0 else CPU)


def test_gradients_of_gradients():
    x = leaf(G0)
    (first,) = torch.autograd.grad((x.to(G1) ** 3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert first.device == second.device == G0 and second.tolist() == [6, 6, 6]


def function_with(backward):
    """A function of the program's own that doubles, and goes back as `backward` does."""

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, number, x):
            return x * number

        @staticmethod
        def backward(ctx, gradient):
            return None, backward(gradient)

    return Doubled


@pytest.mark.parametrize("elsewhere", [CPU, G1])
def test_a_function_of_ones_own_returns_its_gradient_where_its_input_is(elsewhere):
    wrong = function_with(lambda gradient: gradient.to(elsewhere))
    for x in (leaf(G0), leaf(G0) * 1):
        with pytest.raises(RuntimeError) as error:
            wrong.apply(2, x).sum().backward()
        assert str(error.value) == (
            "Function DoubledBackward returned an invalid gradient at index 0 - expected device "
            f"cuda:0 but got {elsewhere}"
        )
    x = torch.ones((), device=G0, requires_grad=True)
    wrong.apply(2, x).backward()  # a single number is moved
    assert x.grad.device == G0
    function_with(lambda gradient: gradient.to(G0)).apply(2, leaf(G0)).sum().backward()


def test_a_hook_leaves_the_gradient_on_its_type_of_device():
    x = leaf(G0)
    x.register_hook(lambda gradient: gradient.cpu())
    with pytest.raises(RuntimeError) as error:
        (x * 2).sum().backward()
    assert str(error.value) == (
        "hook '<lambda>' has changed the type of value "
        "(was torch.cuda.FloatTensor got torch.FloatTensor)"
    )
    y = leaf(G0)
    y.register_hook(lambda gradient: gradient * 2)
    (y * 2).sum().backward()
    assert y.grad.tolist() == [4, 4, 4]


def test_a_gradient_from_another_device_is_refused():
    x = leaf(G0)
    with pytest.raises(RuntimeError, match="assign a gradient located on device with index '1' to"):
        x.grad = torch.ones(3, device=G1)
    with pytest.raises(RuntimeError, match="assign a gradient with device type 'cpu' to a tensor"):
        x.grad = torch.ones(3)
    x.grad = torch.ones(3, device=G0)
    x.grad = None


@pytest.mark.parametrize("write", ["copy_", "slice", "place", "chosen"])
def test_the_gradient_of_what_is_written_goes_home(write):
    """A leaf used twice: its gradients from both devices are added where it is."""
    x, target = leaf(CPU), torch.zeros(3, device=G1)
    if write == "copy_":
        target.copy_(x)
    elif write == "slice":
        target[:] = x
    elif write == "place":
        target[0] = x[0]
    else:
        target[torch.tensor([0])] = x[0]
    (target.sum().cpu() + x.sum()).backward()
    assert target.device == G1 and x.grad.device == CPU
    assert x.grad.tolist() == ([2, 2, 2] if write in ("copy_", "slice") else [2, 1, 1])


def test_chosen_places_still_take_no_vector_of_another_device():
    x, target = leaf(CPU), torch.zeros(3, device=G1)
    with pytest.raises(RuntimeError, match="at least two devices, cuda:1 and cpu"):
        target[torch.tensor([0, 1, 2])] = x


def test_the_gradient_of_a_number_that_rides_along_goes_home():
    scale = torch.tensor(2.0, requires_grad=True)
    for _ in range(2):
        (torch.ones(3, device=G0) * scale * (scale * 1)).sum().backward()
    assert scale.grad.device == CPU and scale.grad.item() == 24
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.save(scale, io.BytesIO())


def test_backward_begins_with_a_gradient_of_the_same_device():
    x = leaf(G0)
    words = "invalid gradient at index 0 - expected device cuda:0 but got {}".format
    for other in (CPU, G1):
        with pytest.raises(RuntimeError, match=words(other)):
            (x * 2).backward(torch.ones(3, device=other))
        with pytest.raises(RuntimeError, match=words(other)):
            torch.autograd.grad(x * 2, x, torch.ones(3, device=other))
    (x * 2).sum().backward(torch.tensor(3.0))  # a single number is moved
    assert x.grad.device == G0 and x.grad.tolist() == [6, 6, 6]


@pytest.mark.parametrize("reduction", ["sum", "mean", "max", "min", "prod"])
def test_gradients_in_a_batch_are_on_the_tensors_gpu(reduction):
    numbers, lengths = torch.tensor([1.0, 4.0, 2.0, 3.0]), torch.tensor([1, 3])
    batch = torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 3.0]])

    def gradients(device):
        x = numbers.to(device).requires_grad_()
        y = torch.segment_reduce(x, reduction, lengths=lengths.to(device))
        (found,) = torch.autograd.grad(y, x, batch.to(device), is_grads_batched=True)
        return found

    found = gradients(G1)
    assert found.device == G1 and torch.equal(found.cpu(), gradients(CPU))


def test_a_changed_value_is_named_by_its_type_on_the_gpu_where_that_is_certain():
    def changed(x, *move):
        y = x.exp()
        z = y.to(*move) if move else y * 1
        y.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation") as error:
            z.sum().backward()
        return str(error.value)

    assert "[torch.cuda.FloatTensor [3]]" in changed(leaf(G0))
    assert "[torch.FloatTensor [3]]" in changed(leaf(CPU))
    assert "[torch.FloatTensor [3]]" in changed(leaf(CPU), G0)


def test_the_zeros_of_a_result_that_is_not_used_are_on_its_gpu():
    class Two(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x.to(G1)

        @staticmethod
        def backward(ctx, first, second):
            seen.append((first.device, second.device))
            return first + second.to(first.device)

    seen, x = [], leaf(G0)
    Two.apply(x)[0].sum().backward()
    assert seen == [(G0, G1)] and x.grad.tolist() == [1, 1, 1]


def test_what_a_modules_hook_returns_is_of_its_gradients_type():
    net = nn.Linear(3, 2).to(G0)
    net.register_full_backward_hook(lambda *_: (torch.ones(1, 3),))
    with pytest.raises(RuntimeError, match=r"was torch.cuda.FloatTensor got torch.FloatTensor"):
        net(leaf(G0, 1, 3)).sum().backward()
