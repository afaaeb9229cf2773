"""Odd corners of torch: subclasses, modes, threads, and random programs."""

import asyncio
import copy
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from calls import raised
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.testing._internal.logging_tensor import LoggingTensor, capture_logs
from torch.utils._python_dispatch import TorchDispatchMode

import cudasim
from cudasim.patches.guards import registry
from cudasim.session import session

ZERO, ONE, HOST = torch.device("cuda:0"), torch.device("cuda:1"), torch.device("cpu")


@pytest.fixture
def x(two_gpus):
    return torch.arange(9.0, device=ONE).reshape(3, 3)


# ---- subclasses


class Overriding(torch.Tensor):
    called: list = []  # noqa: RUF012

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.called.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


class Plain(torch.Tensor):
    """Adds nothing."""


class Dispatching(torch.Tensor):
    __torch_dispatch__ = torch.Tensor.__torch_dispatch__


@pytest.mark.parametrize("kind", [Plain, Overriding, Dispatching])
def test_subclasses_keep_their_gpu_and_the_class_that_they_keep_on_the_cpu(x, kind):
    mine, kept = x.as_subclass(kind), type(x.cpu().as_subclass(kind) + 1)
    for result in (
        mine + 1,
        mine.cuda(0),
        mine.cpu().cuda(1),
        mine.to(ZERO).to(ONE),
        mine[0],
    ):
        assert type(result) is kept and result.is_cuda
    assert (mine.cuda(0) + 1).device == ZERO and mine.cpu().device == HOST
    assert "at least two devices" in raised(lambda: mine + x.cuda(0))
    Overriding.called.clear()
    x.as_subclass(Overriding).cuda(0).to("cpu").cpu()
    assert [name for name in Overriding.called if name != "__get__"] == [
        "cuda",
        "to",
        "cpu",
    ]


def test_wrappers_are_on_the_gpu_of_what_they_wrap_and_see_their_moves(x):
    before = torch.cuda.memory_allocated(1)
    mine = LoggingTensor(x)
    assert torch.cuda.memory_allocated(1) == before  # it has no memory of its own
    assert mine.device == ONE and mine.is_cuda and mine.get_device() == 1
    for result in (
        mine + 1,
        mine @ mine,
        mine + x,
        mine.clone(),
        torch.zeros_like(mine),
    ):
        assert (
            type(result) is LoggingTensor and result.device == result.elem.device == ONE
        )
    assert "device='cuda:1'" in repr(mine)
    assert "two devices, cuda:1 and cuda:0" in raised(
        lambda: mine + LoggingTensor(x.cuda(0))
    )
    with capture_logs() as seen:
        for target in (ZERO, HOST):
            moved = mine.to(target)
            assert (
                type(moved) is LoggingTensor
                and moved.device == moved.elem.device == target
            )
    assert sum("aten._to_copy.default" in line for line in seen) == 2
    assert moved.cuda(1).elem.device == ONE and torch.equal(moved.elem, x.cpu())


class Detached(torch.Tensor):
    """A wrapper whose class alone says what a copy is: all else returns what it wraps."""

    def __new__(cls, data):
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, device=data.device)

    def __init__(self, data):
        self.held = data

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        args = [each.held if isinstance(each, cls) else each for each in args]
        out = func(*args, **(kwargs or {}))
        return cls(out) if func is torch.ops.aten._to_copy.default else out


def test_a_wrapper_keeps_its_class_as_it_moves_though_not_as_it_is_detached(x):
    mine = Detached(x)
    assert type(mine.detach()) is torch.Tensor
    for target in (ZERO, HOST):
        moved = mine.to(target)
        assert type(moved) is Detached and moved.device == moved.held.device == target


def test_a_lazy_layer_loads_one_that_has_no_shape_yet(two_gpus):
    layer = nn.LazyLinear(8).to("cuda")
    layer.load_state_dict(nn.LazyLinear(8).state_dict())
    assert layer(torch.ones(2, 4, device="cuda")).shape == (2, 8)


# ---- modes


class Logging(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.log.append((func.overloadpacket.__name__, out.device))
        return out


class Naming(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.log.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_a_mode_above_sees_each_operation_once_with_its_device_and_one_below_the_cpu(x):
    with Logging() as above, Naming() as names:
        above.log, names.log = [], []
        y = x @ x
        y.cuda(0), y.cpu()
        torch.ones(2) * 2
    seen = [pair for pair in above.log if pair[0] not in ("detach", "ones")]
    assert seen == [("mm", ONE), ("_to_copy", ZERO), ("_to_copy", HOST), ("mul", HOST)]
    assert names.log == ["matmul", "cuda", "cpu", "ones", "mul"]
    with torch.utils._python_dispatch._disable_current_modes():
        assert (x + 1).device == ONE
    cudasim.disable()
    with Logging() as below:
        below.log = []
        with cudasim.simulate(2):
            assert (torch.ones(2, device=ONE) + 1).device == ONE
    assert ("add", HOST) in below.log


def test_fake_tensors_leave_nothing_behind():
    known = registry()[
        session.type.number
    ]  # what C++ knows of CUDA without a simulation
    with cudasim.simulate(2):
        x = torch.ones(2, device=ONE)
        with FakeTensorMode():
            torch.ones(2, device=ONE, requires_grad=True) * 2
        assert (x + 1).device == ONE
    assert registry()[session.type.number] == known


# ---- threads


def test_threads_of_every_kind_see_the_gpus():
    found = []

    def compute():
        found.append((torch.ones(2, device=ONE) + 1).device)

    class Own(threading.Thread):  # a run of its own, as many workers have
        def run(self):
            compute()

    with ThreadPoolExecutor(1) as older:
        older.submit(int).result()  # the thread is there before the simulation
        with cudasim.simulate(2):
            older.submit(compute).result()
            for thread in (
                Own(),
                threading.Thread(target=compute),
                threading.Timer(0, compute),
            ):
                thread.start()
                thread.join()
            asyncio.run(asyncio.to_thread(compute))
        assert found == [ONE] * 5
        assert older.submit(lambda: (torch.ones(2) + 1).device).result() == HOST


# ---- random programs


def zeroed_in_part(x):
    x[1:3, ::2].zero_()
    return x.reshape(2, 8).view(4, 4)


ALONE = "abs contiguous exp neg relu sigmoid sin t tanh".split()
SAME = [  # what is done to a tensor, and another beside it, as to their twins
    *(lambda x, _, name=name: getattr(x, name)() for name in ALONE),
    *(
        lambda x, y, name=name: getattr(x, name)(y)
        for name in "add matmul maximum mul sub".split()
    ),
    lambda x, _: x.softmax(0),
    lambda x, _: x.mul_(0.5).add_(1),
    lambda x, _: zeroed_in_part(x),
    lambda x, _: x - x.sum(0),
    lambda x, y: sum(torch.cat([x, y]).chunk(2)),
    lambda x, _: copy.deepcopy(x),
    lambda x, y: torch.where(x > 0, x, y),
]


def run_program(seed):
    """A random program on two GPUs and the CPU, beside its twin on the CPU alone. The model of
    where a tensor is has one line: a move goes where it is said, all else stays."""
    chance = random.Random(seed)
    torch.manual_seed(seed)
    values = []  # (tensor, its twin, where it must be)

    def keep(tensor, twin, device):
        assert tensor.device == device and tensor.is_cuda == (device.type == "cuda")
        torch.testing.assert_close(tensor.cpu(), twin, rtol=0, atol=0, equal_nan=True)
        # Copies, so that what shares memory on one side shares it on the other.
        values.append((tensor.detach().clone(), twin.detach().clone(), device))

    for device in (ZERO, ONE, HOST):
        twin = torch.randn(4, 4)
        keep(twin.to(device), twin, device)
    for _ in range(20):
        (tensor, twin, device), (other, other_twin, there) = chance.choices(values, k=2)
        target = chance.choice([ZERO, ONE, HOST])
        match chance.choice(
            "both both both both move index copy gradient make".split()
        ):
            case "both" if device == there:
                function = chance.choice(SAME)
                keep(function(tensor, other), function(twin, other_twin), device)
            case "both":
                with pytest.raises(
                    RuntimeError, match="all tensors to be on the same device"
                ):
                    tensor + other
            case "move":
                moved = tensor.to(target)
                assert (moved is tensor) == (target == device)
                keep(moved, twin, target)
            case "index":
                chosen = [chance.randrange(4) for _ in range(4)]
                index = torch.tensor(chosen, device=chance.choice([device, HOST]))
                keep(tensor[index], twin[chosen], device)
                tensor[index], twin[chosen] = 2.0, 2.0
            case "copy":
                other.copy_(tensor)
                other_twin.copy_(twin)
            case "gradient":
                leaf, leaf_twin = (
                    tensor.clone().requires_grad_(),
                    twin.clone().requires_grad_(),
                )
                ((leaf * 2).to(target).tanh() ** 2).sum().backward()
                ((leaf_twin * 2).tanh() ** 2).sum().backward()
                keep(leaf.grad, leaf_twin.grad, device)
            case "make":
                keep(
                    torch.full((4, 4), 3.0, device=target),
                    torch.full((4, 4), 3.0),
                    target,
                )
        if len(values) > 12:
            values.pop(chance.randrange(len(values)))
    for value in [*values]:
        keep(*value)


@pytest.mark.parametrize(
    "first",
    [0, *(pytest.param(first, marks=pytest.mark.full) for first in range(20, 200, 20))],
)
def test_random_programs_agree_with_the_cpu_and_give_all_memory_back(two_gpus, first):
    for seed in range(first, first + 20):
        run_program(seed)
        held = torch.cuda.memory_allocated(0), torch.cuda.memory_allocated(1)
        assert held == (0, 0), f"the program of seed {seed} left {held} bytes"


def test_a_parameter_without_a_shape_is_filled_under_a_modelled_clock():
    with cudasim.simulate(1, clock="modelled"):
        made, empty = nn.LazyLinear(8).to("cuda"), nn.LazyLinear(8).to("cuda")
        made(torch.ones(2, 4, device="cuda"))
        empty.load_state_dict(made.state_dict())
        assert torch.equal(empty.weight, made.weight)
