"""`torch.func`, `torch.jit` and tensors of other kinds: what follows a GPU through them."""

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from fidelity.asking import gpus, places, raised


def derivatives_compute_on_the_gpu():
    def cube(x):
        return (x**3).sin() * 2

    def total(x):
        return cube(x).sum()

    def backwards(x):
        return torch.func.vjp(cube, x)[1](torch.ones_like(x))[0]

    func, x, told = torch.func, torch.arange(6.0).view(2, 3), []
    transforms = [func.jacrev(cube), func.jacfwd(cube), func.hessian(total), backwards]
    for transform in (*transforms, func.vmap(func.grad(total))):
        there = transform(x.cuda())
        told.append((str(there.device), torch.allclose(there.cpu(), transform(x))))
    return told


@gpus(2)
def maps_move_and_obey_devices():
    x = torch.eye(2, device="cuda:1")
    batch, one = torch.stack([x, x + 1]), torch.ones((), device="cuda:1")
    moved = torch.vmap(lambda each: (each @ each + one).to("cuda:0"))(batch)
    mixing = torch.vmap(lambda each: each + x.cuda(0))
    return (
        repr(moved),
        places(torch.vmap(torch.sum)(batch.cpu())),
        raised(lambda: mixing(batch)),
    )


@gpus(2)
def derivatives_travel():
    seen, x, func = set(), torch.arange(4.0, device="cuda:1").view(2, 2), torch.func

    def across(each):
        seen.add((str(each.device), each.is_cuda))
        return (each**2).to("cuda:0").sum()

    gradient = func.grad(across)
    value, tangent = func.jvp(across, (x,), (torch.ones_like(x),))
    found = [
        gradient(x),
        torch.vmap(gradient)(x),
        func.functionalize(gradient)(x),
        value,
        tangent,
    ]
    return sorted(seen), [repr(each) for each in found]


@gpus(2)
def traces_keep_the_device_of_what_they_make():
    functions = [
        lambda x: torch.arange(x.shape[0], device=x.device) * x,
        lambda x: torch.rand(3, device="cuda:1") * 0 + x,
        lambda x: torch.tensor([1.0, 2.0, 3.0], device=x.device) + x,
        lambda x: x.new_ones(3, device=x.device) - x,
        lambda x: torch.zeros_like(x, device=x.device) + x,
    ]
    x = torch.arange(3.0, device="cuda:1")
    return [repr(torch.jit.trace(function, x)(x)) for function in functions]


def tensors_that_are_fake():
    x = torch.ones(3, 3, device="cuda")
    held = torch.cuda.memory_allocated()
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        like, here = mode.from_tensor(x), torch.empty(2, 3)
        there = torch.ones(2, device="cuda", requires_grad=True) * 2
        found = places(here, here + 1, there, like, like @ like)
        return found, list((like @ like).shape), torch.cuda.memory_allocated() - held


@gpus(2)
def nested_tensors():
    x, told = torch.eye(3, device="cuda:1"), []
    for layout in (torch.strided, torch.jagged):
        parts = [torch.ones(2), torch.ones(3)]
        made = torch.nested.nested_tensor(parts, layout=layout, device="cuda:1")
        nested = torch.nested.nested_tensor([x, x[:2]], layout=layout)
        seen = torch.nested.as_nested_tensor([x, x[:2]], layout=layout)
        results = [
            made,
            nested,
            seen,
            nested * 2,
            nested.to_padded_tensor(0.0),
            *nested.unbind(),
        ]
        told.append((places(*results, nested.cuda(0), nested.cpu()), made.is_leaf))
    return told


@gpus(2)
def quantized_tensors():
    x = torch.quantize_per_tensor(torch.eye(3, device="cuda:1"), 0.1, 0, torch.qint8)
    return places(x, x.dequantize(), x.int_repr(), x.cpu(), x.cpu().cuda(0))
