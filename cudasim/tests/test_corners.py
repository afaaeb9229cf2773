"""Odd corners of torch: subclasses, modes, threads, and random programs."""

import asyncio
import copy
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

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
def test_subclasses_keep_their_gpu_and_their_class(x, kind):
    mine = x.as_subclass(kind)
    elsewhere = mine.cuda(0)
    on_host = x.cpu().as_subclass(kind)
    class_on_host = type(on_host + 1)
    for result in (mine + 1, mine[0], elsewhere, mine.cpu().cuda(1), elsewhere.to(ONE)):
        assert type(result) is class_on_host
        assert result.is_cuda
    assert (elsewhere + 1).device == ZERO
    assert mine.cpu().device == HOST
    assert "at least two devices" in raised(lambda: mine + x.cuda(0))


def test_a_subclass_sees_its_moves(x):
    Overriding.called.clear()
    x.as_subclass(Overriding).cuda(0).to("cpu").cpu()
    calls = [name for name in Overriding.called if name != "__get__"]
    assert calls == ["cuda", "to", "cpu"]


def test_wrappers_are_on_the_gpu_of_what_they_wrap(x):
    before = torch.cuda.memory_allocated(1)
    mine = LoggingTensor(x)
    assert torch.cuda.memory_allocated(1) == before  # it has no memory of its own
    assert mine.device == ONE
    assert mine.is_cuda
    assert mine.get_device() == 1
    assert "device='cuda:1'" in repr(mine)
    copied = mine.clone()
    zeros = torch.zeros_like(mine)
    for result in (mine + 1, mine @ mine, mine + x, copied, zeros):
        assert type(result) is LoggingTensor
        assert result.device == result.elem.device == ONE
    words = raised(lambda: mine + LoggingTensor(x.cuda(0)))
    assert "two devices, cuda:1 and cuda:0" in words


def test_wrappers_see_their_moves(x):
    mine = LoggingTensor(x)
    with capture_logs() as log:
        for target in (ZERO, HOST):
            moved = mine.to(target)
            assert type(moved) is LoggingTensor
            assert moved.device == moved.elem.device == target
    assert str(log).count("aten._to_copy.default") == 2
    assert moved.cuda(1).elem.device == ONE
    assert torch.equal(moved.elem, x.cpu())


class Detached(torch.Tensor):
    """A wrapper whose class alone says what a copy is: all else returns what it wraps."""

    def __new__(cls, data):
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, device=data.device)

    def __init__(self, data):
        self.held = data

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        args = [arg.held if isinstance(arg, cls) else arg for arg in args]
        out = func(*args, **(kwargs or {}))
        if func is torch.ops.aten._to_copy.default:
            return cls(out)
        return out


def test_a_wrapper_keeps_its_class_as_it_moves(x):
    mine = Detached(x)
    assert type(mine.detach()) is torch.Tensor
    for target in (ZERO, HOST):
        moved = mine.to(target)
        assert type(moved) is Detached
        assert moved.device == moved.held.device == target


def test_a_lazy_layer_loads_one_that_has_no_shape_yet(two_gpus):
    layer = nn.LazyLinear(8).to("cuda")
    layer.load_state_dict(nn.LazyLinear(8).state_dict())
    assert layer(torch.ones(2, 4, device="cuda")).shape == (2, 8)


# ---- modes


class Logging(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.log = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.log.append((func.overloadpacket.__name__, out.device))
        return out


class Naming(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.log = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.log.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_a_mode_above_sees_each_operation_once(x):
    with Logging() as operations, Naming() as functions:
        y = x @ x
        y.cuda(0)
        y.cpu()
        torch.ones(2) * 2
    seen = [pair for pair in operations.log if pair[0] not in ("detach", "ones")]
    assert seen == [("mm", ONE), ("_to_copy", ZERO), ("_to_copy", HOST), ("mul", HOST)]
    assert functions.log == ["matmul", "cuda", "cpu", "ones", "mul"]
    with torch.utils._python_dispatch._disable_current_modes():
        assert (x + 1).device == ONE


def test_a_mode_below_sees_the_cpu():
    with Logging() as below, cudasim.simulate(2):
        assert (torch.ones(2, device=ONE) + 1).device == ONE
    assert ("add", HOST) in below.log


def test_fake_tensors_leave_nothing_behind():
    # What C++ knows of CUDA without a simulation.
    before = registry()[session.type.number]
    with cudasim.simulate(2):
        x = torch.ones(2, device=ONE)
        with FakeTensorMode():
            torch.ones(2, device=ONE, requires_grad=True) * 2
        assert (x + 1).device == ONE
    assert registry()[session.type.number] == before


# ---- threads


def test_threads_of_every_kind_see_the_gpus():
    devices = []

    def compute():
        devices.append((torch.ones(2, device=ONE) + 1).device)

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
        assert devices == [ONE] * 5
        assert older.submit(lambda: (torch.ones(2) + 1).device).result() == HOST


# ---- random programs


def apply(name):
    """Return what calls a method on a tensor with those that it is given."""
    return lambda x, *others: getattr(x, name)(*others)


def zeroed_in_part(x):
    x[1:3, ::2].zero_()
    return x.reshape(2, 8).view(4, 4)


def softmax(x):
    return x.softmax(0)


def scaled_in_place(x):
    return x.mul_(0.5).add_(1)


def without_its_sum(x):
    return x - x.sum(0)


def sum_of_halves(x, y):
    first, second = torch.cat([x, y]).chunk(2)
    return first + second


def chosen_by_sign(x, y):
    return torch.where(x > 0, x, y)


UNARY_NAMES = "abs contiguous exp neg relu sigmoid sin t tanh".split()
UNARY = [scaled_in_place, softmax, zeroed_in_part, without_its_sum, copy.deepcopy]
UNARY += [apply(name) for name in UNARY_NAMES]
BINARY = [sum_of_halves, chosen_by_sign]
BINARY += [apply(name) for name in "add matmul maximum mul sub".split()]
PLACES = [ZERO, ONE, HOST]


class Value(NamedTuple):
    """A tensor, its twin on the CPU, and where the tensor must be."""

    tensor: torch.Tensor
    twin: torch.Tensor
    device: torch.device


class RandomProgram:
    """A random program on two GPUs and the CPU, beside its twin on the CPU alone.

    The model of where a tensor is has one line: a move goes where it is said, all else stays.
    """

    def __init__(self, seed):
        torch.manual_seed(seed)
        self.random = random.Random(seed)
        self.values = []
        for device in PLACES:
            twin = torch.randn(4, 4)
            self.keep(twin.to(device), twin, device)

    def keep(self, tensor, twin, device):
        assert tensor.device == device
        assert tensor.is_cuda == (device.type == "cuda")
        torch.testing.assert_close(tensor.cpu(), twin, rtol=0, atol=0, equal_nan=True)
        # Copies, so that what shares memory on one side shares it on the other.
        value = Value(tensor.detach().clone(), twin.detach().clone(), device)
        self.values.append(value)

    def unary(self, value, _):
        function = self.random.choice(UNARY)
        self.keep(function(value.tensor), function(value.twin), value.device)

    def binary(self, value, other):
        if value.device != other.device:
            words = "all tensors to be on the same device"
            with pytest.raises(RuntimeError, match=words):
                value.tensor + other.tensor
            return
        function = self.random.choice(BINARY)
        result = function(value.tensor, other.tensor)
        self.keep(result, function(value.twin, other.twin), value.device)

    def move(self, value, _):
        target = self.random.choice(PLACES)
        moved = value.tensor.to(target)
        assert (moved is value.tensor) == (target == value.device)
        self.keep(moved, value.twin, target)

    def index(self, value, _):
        rows = [self.random.randrange(4) for _ in range(4)]
        place = self.random.choice([value.device, HOST])
        index = torch.tensor(rows, device=place)
        self.keep(value.tensor[index], value.twin[rows], value.device)
        value.tensor[index] = 2.0
        value.twin[rows] = 2.0

    def copy(self, value, other):
        other.tensor.copy_(value.tensor)
        other.twin.copy_(value.twin)

    def gradient(self, value, _):
        target = self.random.choice(PLACES)
        leaf = value.tensor.clone().requires_grad_()
        twin = value.twin.clone().requires_grad_()
        ((leaf * 2).to(target).tanh() ** 2).sum().backward()
        ((twin * 2).tanh() ** 2).sum().backward()
        self.keep(leaf.grad, twin.grad, value.device)

    def make(self, _, __):
        target = self.random.choice(PLACES)
        tensor = torch.full((4, 4), 3.0, device=target)
        twin = torch.full((4, 4), 3.0)
        self.keep(tensor, twin, target)

    def run(self, steps):
        actions = [self.unary, self.unary, self.binary, self.binary, self.move]
        actions += [self.index, self.copy, self.gradient, self.make]
        for _ in range(steps):
            value, other = self.random.choices(self.values, k=2)
            action = self.random.choice(actions)
            action(value, other)
            if len(self.values) > 12:
                self.values.pop(self.random.randrange(len(self.values)))
        for value in [*self.values]:
            self.keep(*value)


MORE_SEEDS = range(20, 200, 20)
SEEDS = [0]
SEEDS += [pytest.param(seed, marks=pytest.mark.full) for seed in MORE_SEEDS]


@pytest.mark.parametrize("first", SEEDS)
def test_random_programs_agree_with_the_cpu(two_gpus, first):
    for seed in range(first, first + 20):
        RandomProgram(seed).run(20)
        held = torch.cuda.memory_allocated(0), torch.cuda.memory_allocated(1)
        assert held == (0, 0), f"the program of seed {seed} left {held} bytes"


def test_a_lazy_layer_is_loaded_under_a_modelled_clock():
    with cudasim.simulate(1, clock="modelled"):
        filled = nn.LazyLinear(8).to("cuda")
        filled(torch.ones(2, 4, device="cuda"))
        empty = nn.LazyLinear(8).to("cuda")
        empty.load_state_dict(filled.state_dict())
        assert torch.equal(empty.weight, filled.weight)


def test_quantiles_of_the_cpu_are_checked_as_ever(x):
    """`quantile_compute` of Sorting.cpp leaves the check out under a dispatch mode."""
    words = "quantile() q values must be in the range [0, 1]"
    host, beyond = torch.rand(4), torch.tensor([0.5, 1.5])
    assert raised(lambda: torch.quantile(host, beyond)) == words
    assert raised(lambda: host.nanquantile(-beyond)) == words


def test_least_squares_take_the_driver_of_cuda(x):
    """`get_default_lstsq_driver` of BatchLinearAlgebra.cpp: "gels" finds no rank.

    By hand, the best solution of [1, 2, 4] is [4/3, 7/3], and each is off by 1/3.
    """
    left = torch.tensor([[1.0, 0], [0, 1], [1, 1]], device=ONE)
    found = torch.linalg.lstsq(left, torch.tensor([[1.0], [2], [4]], device=ONE))
    assert found.solution.flatten().tolist() == pytest.approx([4 / 3, 7 / 3])
    assert found.residuals.tolist() == pytest.approx([1 / 3])
    assert found.rank.numel() == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_numbers_of_16_bits_are_clamped_in_float(x, dtype):
    """`launch_clamp_scalar` of native/cuda/TensorCompare.cu."""
    far = 1e9 if dtype is torch.float16 else 3.4e38
    numbers = torch.tensor([-1.0, 1.0], device=ONE, dtype=dtype)
    assert numbers.clamp(min=-far).tolist() == [-1, 1]
    assert numbers.clamp_(0, far).tolist() == [0, 1]
    assert numbers.clamp(min=far).tolist() == [float("inf")] * 2
    assert nn.functional.hardtanh(numbers, -far, far).tolist() == [0, 1]
    assert "without overflow" in raised(lambda: numbers.cpu().clamp(min=-far))


@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_a_compressed_matrix_of_halves_is_multiplied(x):
    """cuSPARSE adds 2048 and two ones up in float32; halves have only even numbers there."""
    rows = torch.tensor([[2048.0, 1, 1]], device=ONE).to_sparse_csr().half()
    product = rows @ torch.ones(3, 2, device=ONE).half()
    assert product.device == ONE
    assert product.dtype is torch.float16
    assert product.tolist() == [[2050, 2050]]
