"""Odd corners of torch: subclasses, modes, transforms, threads, sparse and nested tensors."""

import asyncio
import copy
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from programs import run
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

import cudasim

# torch.func.jvp scripts its rules, of which torch itself warns.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")

ZERO, ONE, HOST = torch.device("cuda:0"), torch.device("cuda:1"), torch.device("cpu")
BETA = pytest.mark.filterwarnings(
    "ignore:Sparse .* tensor support is in beta:UserWarning",
    "ignore:Sparse invariant checks:UserWarning",
    "ignore:The PyTorch API of nested tensors:UserWarning",
)


@pytest.fixture
def x(two_gpus):
    return torch.arange(9.0, device=ONE).reshape(3, 3)


def places(tensors):
    return [tensor.device for tensor in tensors]


# ---- subclasses


class Overriding(torch.Tensor):
    called: list = []  # noqa: RUF012

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.called.append(getattr(func, "__name__", str(func)))
        return super().__torch_function__(func, types, args, kwargs or {})


class Dispatching(torch.Tensor):
    """Has memory of its own, and sees each operation."""

    @staticmethod
    def __new__(cls, elements):
        return torch.Tensor._make_subclass(cls, elements)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return super().__torch_dispatch__(func, types, args, kwargs or {})


class Wrapping(torch.Tensor):
    """Has no memory: the numbers are in another tensor."""

    seen: list = []  # noqa: RUF012

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.size(), dtype=inner.dtype, device=inner.device, strides=inner.stride()
        )

    def __init__(self, inner):
        self.inner = inner

    def __repr__(self):
        return f"Wrapping({self.inner})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(str(func))

        def open_(value):
            return value.inner if isinstance(value, Wrapping) else value

        def close(value):
            return Wrapping(value) if isinstance(value, torch.Tensor) else value

        return tree_map(close, func(*tree_map(open_, args), **tree_map(open_, kwargs or {})))


@pytest.mark.parametrize("kind", [type("Plain", (torch.Tensor,), {}), Overriding])
def test_subclasses_keep_class_and_gpu(x, kind):
    mine = x.as_subclass(kind)
    for result in (mine + 1, mine.cuda(0), mine.cpu().cuda(1), mine.to(ZERO).to(ONE), mine[0]):
        assert type(result) is kind and result.is_cuda
    assert (mine.cuda(0) + 1).device == ZERO and mine.cpu().device == HOST
    with pytest.raises(RuntimeError, match="at least two devices"):
        mine + x.cuda(0)
    Overriding.called.clear()
    x.as_subclass(Overriding).cuda(0).to("cpu").cpu()
    assert [name for name in Overriding.called if name != "__get__"] == ["cuda", "to", "cpu"]


def test_a_subclass_that_dispatches_with_memory_of_its_own(x):
    mine = Dispatching(x)
    assert mine.device == (mine + 1).device == ONE and (mine + 1).sum() == 45
    assert mine.cuda(0).device == ZERO and mine.cpu().device == HOST


def test_wrappers_are_on_the_gpu_of_what_they_wrap_and_see_their_moves(x):
    before = torch.cuda.memory_allocated(1)
    mine = Wrapping(x)
    assert torch.cuda.memory_allocated(1) == before  # no memory of its own
    assert mine.device == ONE and mine.is_cuda and mine.get_device() == 1
    for result in (mine + 1, mine @ mine, mine + x, mine.clone(), torch.zeros_like(mine)):
        assert type(result) is Wrapping and result.device == result.inner.device == ONE
    assert "device='cuda:1'" in repr(mine)
    with pytest.raises(RuntimeError, match="at least two devices, cuda:1 and cuda:0"):
        mine + Wrapping(x.cuda(0))
    Wrapping.seen.clear()
    for target in (ZERO, HOST):
        moved = mine.to(target)
        assert type(moved) is Wrapping and moved.device == moved.inner.device == target
    assert Wrapping.seen.count("aten._to_copy.default") == 2
    assert moved.cuda(1).inner.device == ONE and torch.equal(moved.inner, x.cpu())


def test_parameters_buffers_and_lists(x):
    weight = nn.Parameter(x)
    assert weight.cuda(1) is weight and type(weight.cuda(0)) is torch.Tensor
    assert nn.Buffer(x).device == ONE
    listed = nn.ParameterList([weight, x.cuda(0)])
    assert places(listed) == [ONE, ZERO]
    assert places(listed.to("cuda:1")) == [ONE, ONE]
    assert places(nn.ParameterDict({"a": x}).cpu().values()) == [HOST]


# ---- modes


class Logging(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.log = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.log.append((str(func), out.device if isinstance(out, torch.Tensor) else None))
        return out


def test_a_mode_above_sees_each_operation_once_with_its_device(x):
    with Logging() as logging:
        y = x @ x
        y.cuda(0)
        y.cpu()
        torch.ones(2) * 2
    found = [(name.split(".")[1], device) for name, device in logging.log]
    assert [pair for pair in found if pair[0] not in ("detach", "ones")] == [
        ("mm", ONE),
        ("_to_copy", ZERO),
        ("_to_copy", HOST),
        ("mul", HOST),
    ]


def test_a_mode_below_sees_the_cpu():
    with Logging() as logging, cudasim.simulate(2):
        y = torch.ones(2, device=ONE) + 1
        assert y.device == ONE
    assert ("aten.add.Tensor", HOST) in logging.log


def test_a_function_mode(x):
    class Names(TorchFunctionMode):
        names = set()  # noqa: RUF012

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.names.add(getattr(func, "__name__", str(func)))
            return func(*args, **(kwargs or {}))

    with Names() as mode:
        y = (x + 1).cuda(0)
        z = torch.ones(2, device=ONE)
        assert z.tolist() == [1, 1]
    assert (y.device, z.device) == (ZERO, ONE)
    assert {"add", "cuda", "ones", "tolist"} <= mode.names


def test_fake_tensors(x):
    held = torch.cuda.memory_allocated(1)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        made = torch.empty(2, 3)
        assert made.device == HOST and (made + 1).device == HOST
        assert torch.empty(2, device=ONE).device == (torch.ones(2, device=ONE) * 2).device == ONE
        assert torch.cuda.memory_allocated(1) == held  # fake tensors have no numbers
        like = mode.from_tensor(x)
        assert like.device == (like @ like).device == ONE and (like @ like).shape == (3, 3)
    assert (x + 1).device == ONE


# ---- torch.func


def test_vmap(x):
    batch = torch.stack([x, x + 1])
    mapped = torch.vmap(lambda one: (one @ one).sum() + torch.ones((), device=ONE))(batch)
    assert mapped.device == ONE
    assert torch.allclose(mapped.cpu(), torch.stack([(b @ b).sum() + 1 for b in batch.cpu()]))
    moved = torch.vmap(lambda one: one.to(ZERO) * 2)(batch)
    assert moved.device == ZERO and torch.equal(moved.cpu(), batch.cpu() * 2)
    assert torch.vmap(lambda one: one.sum())(batch.cpu()).device == HOST
    with pytest.raises(RuntimeError, match="at least two devices"):
        torch.vmap(lambda one: one + x.cuda(0))(batch)


def test_inside_a_transform_tensors_know_their_gpu(x):
    seen = []

    def look(one):
        seen.append((one.device, one.is_cuda))
        return one.sum()

    torch.vmap(look)(x)
    torch.func.grad(look)(x)
    torch.func.jvp(look, (x,), (x,))
    torch.func.functionalize(look)(x)
    assert seen == [(ONE, True)] * 4


def test_derivatives_across_devices(x):
    across = torch.func.grad(lambda one: (one.to(ZERO) * 3).sum())(x)
    assert across.device == ONE and torch.equal(across.cpu(), torch.full((3, 3), 3.0))
    value, tangent = torch.func.jvp(lambda one: one.to(ZERO) * 3, (x,), (torch.ones_like(x),))
    assert places([value, tangent]) == [ZERO, ZERO] and tangent.sum() == 27
    per_sample = torch.vmap(torch.func.grad(lambda one: (one.to(ZERO) ** 2).sum()))(x)
    assert per_sample.device == ONE and torch.equal(per_sample.cpu(), 2 * x.cpu())


# ---- threads


def test_threads_of_every_kind_see_the_gpus(x):
    found = []

    def compute():
        found.append((x + 1).device)
        return found[-1]

    class Own(threading.Thread):  # a run of its own, as many workers have
        def run(self):
            compute()

    async def wait():
        await asyncio.sleep(0)
        return compute(), await asyncio.to_thread(compute)

    for thread in (Own(), threading.Thread(target=compute), threading.Timer(0.001, compute)):
        thread.start()
        thread.join()
    assert asyncio.run(wait()) == (ONE, ONE) and found == [ONE] * 5
    with ThreadPoolExecutor(2) as pool:
        assert places(pool.map(lambda i: torch.ones(2, device=i) + 1, [0, 1])) == [ZERO, ONE]


def test_a_pool_older_than_the_simulation_sees_the_gpus():
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()  # the thread is there
        with cudasim.simulate(2):
            x = torch.ones(2, device=ONE)
            assert pool.submit(lambda: (x + 1).device).result() == ONE
        assert pool.submit(lambda: (torch.ones(2) + 1).device).result() == HOST


# ---- quantized, sparse and nested


@pytest.mark.filterwarnings("ignore")  # quantization is deprecated, and says so in many ways
def test_quantized_tensors(x):
    quantized = torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)
    results = [quantized, quantized.dequantize(), quantized.int_repr()]
    assert places(results) == [ONE] * 3
    assert quantized.cpu().device == HOST and quantized.cpu().cuda(0).device == ZERO


PARTS = {  # of the layouts
    torch.sparse_coo: ("values", "indices"),
    torch.sparse_csr: ("values", "crow_indices", "col_indices"),
    torch.sparse_csc: ("values", "ccol_indices", "row_indices"),
    torch.sparse_bsr: ("values", "crow_indices", "col_indices"),
    torch.sparse_bsc: ("values", "ccol_indices", "row_indices"),
}


@BETA
@pytest.mark.parametrize("layout", PARTS, ids=str)
def test_sparse_layouts_move_with_all_their_parts(x, layout):
    def parts(sparse):
        return [getattr(sparse, name)() for name in PARTS[layout]]

    blocks = (1, 1) if layout in (torch.sparse_bsr, torch.sparse_bsc) else None
    sparse = x.to_sparse(layout=layout, blocksize=blocks)
    for target in (ZERO, ONE, HOST):
        before = torch.cuda.memory_allocated(0)
        moved = sparse.to(target)
        grown = torch.cuda.memory_allocated(0) - before  # the indices too, though unseen so far
        assert set(places([moved, *parts(moved), moved.to_dense()])) == {target}
        assert torch.equal(moved.to_dense().cpu(), x.cpu())
        expected = sum(-(-part.nbytes // 512) * 512 for part in parts(moved))
        assert grown == (expected if target == ZERO else 0)
        del moved
    assert set(places(parts(sparse))) == {ONE}


@BETA
def test_sparse_tensors_are_made_and_computed_with_where_their_values_are(x):
    indices, values = torch.tensor([[0, 1], [1, 0]]), torch.tensor([1.0, 2.0])
    made = [
        torch.sparse_coo_tensor(indices, values, (2, 2), device=ONE),
        torch.sparse_coo_tensor([[0, 1], [1, 0]], values.cuda(1), (2, 2)),  # indices follow
        torch.sparse_coo_tensor(indices.cuda(1), values.cuda(1)),
        torch.sparse_coo_tensor(indices=indices, values=values, size=(2, 2), device=ONE),
        torch.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], (2, 2), device=ONE),
        torch.sparse_coo_tensor((2, 2), device=ONE),
        torch.sparse_csr_tensor([0, 1, 2], [0, 1], [1.0, 2.0], (2, 2), device=ONE),
        torch.sparse_csc_tensor([0, 1, 2], [0, 1], values.cuda(1)),
    ]
    assert places([*made, made[0]._indices(), made[0]._values()]) == [ONE] * 10
    assert places([indices, values]) == [HOST, HOST]
    assert torch.sparse_coo_tensor(indices, values).device == HOST
    assert made[0].to_dense().tolist() == [[0, 1], [2, 0]]
    sparse = x.to_sparse()
    results = [sparse + sparse, sparse @ x, torch.sparse.mm(sparse, x), sparse * 2, sparse.t()]
    assert places([*results, x.to_sparse_csr() @ x]) == [ONE] * 6
    assert torch.equal((sparse @ x).cpu(), x.cpu().to_sparse() @ x.cpu())


@BETA
def test_sparse_gradients(two_gpus):
    table = nn.Embedding(5, 3, sparse=True).cuda(1)
    table(torch.tensor([1, 2], device=ONE)).sum().backward()
    gradient = table.weight.grad
    assert gradient.layout is torch.sparse_coo
    assert places([gradient, gradient._indices(), gradient._values()]) == [ONE] * 3


@BETA
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged], ids=str)
def test_nested_tensors(x, layout):
    nested = torch.nested.nested_tensor([x, x[:2]], layout=layout)
    results = [nested, nested * 2, nested.to_padded_tensor(0.0), *nested.unbind()]
    assert places(results) == [ONE] * 5
    assert nested.cuda(0).device == ZERO and nested.cpu().device == HOST
    made = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout, device=ONE)
    assert made.device == ONE and made.is_leaf
    assert torch.nested.as_nested_tensor([x, x[:2]], layout=layout).device == ONE


# ---- warnings


@pytest.mark.full
def test_enabling_warns_of_nothing_and_leaves_the_filters_alone(tmp_path):
    program = (
        "import warnings; warnings.simplefilter('error')\n"
        "import torch, cudasim\n"
        "before = list(warnings.filters)\n"
        "with cudasim.simulate(2):\n"
        "    x = torch.ones(2, 3, device='cuda', requires_grad=True)\n"
        "    (x.cuda(1) @ x.cuda(1).T).sum().backward()\n"
        "    repr(x.cpu()), x.tolist(), x.grad.device\n"
        "    torch.nn.Linear(3, 2).cuda()(x)\n"
        "    assert warnings.filters == before\n"
        "assert warnings.filters == before\n"
    )
    ran = run("-c", program, cwd=tmp_path, PYTHONWARNINGS=None)
    assert (ran.returncode, ran.stderr) == (0, "")


# ---- random programs


def zeroed_in_part(x):
    x[1:3, ::2].zero_()
    return x.reshape(2, 8).view(4, 4)


SAME = [  # what is done to a tensor, and another beside it, as to their twins
    *(lambda x, _, name=name: getattr(x, name)() for name in "sin tanh relu neg abs t".split()),
    *(lambda x, _, name=name: getattr(x, name)() for name in "exp sigmoid contiguous".split()),
    *(lambda x, y, name=name: getattr(x, name)(y) for name in "add sub mul maximum".split()),
    lambda x, y: x @ y,
    lambda x, _: x.softmax(0),
    lambda x, _: x.mul_(0.5).add_(1),
    lambda x, _: zeroed_in_part(x),
    lambda x, _: x - x.sum(0),
    lambda x, y: sum(torch.cat([x, y]).chunk(2)),
    lambda x, _: copy.deepcopy(x),
    lambda x, y: torch.where(x > 0, x, y),
]


def are_equal(tensor, twin):
    """To the last digit: a number that is none is equal to itself."""
    return torch.allclose(tensor.detach().cpu(), twin.detach(), rtol=0, atol=0, equal_nan=True)


class Program:
    """A random program on two GPUs and the CPU, run beside its twin on the CPU alone.

    `values` holds (tensor, its twin, where it must be); the last follows a model of four
    lines: a move goes where it is said, all else stays where its operands are.
    """

    def __init__(self, seed):
        self.random = random.Random(seed)
        torch.manual_seed(seed)
        self.values = []
        for device in (ZERO, ONE, HOST):
            twin = torch.randn(4, 4)
            self.values.append((twin.clone().to(device), twin, device))

    def step(self):
        tensor, twin, device = self.random.choice(self.values)
        beside = [value for value in self.values if value[2] == device]
        other, other_twin, _ = self.random.choice(beside)
        kind = self.random.choice("same same same move index copy across gradient make".split())
        getattr(self, kind)(tensor, twin, device, other, other_twin)
        if len(self.values) > 12:
            self.values.pop(self.random.randrange(len(self.values)))

    def keep(self, tensor, twin, device):
        assert tensor.device == device, (tensor.device, device)
        assert tensor.is_cuda == (device.type == "cuda")
        assert are_equal(tensor, twin)
        # Copies, so that what shares memory on one side shares it on the other.
        self.values.append((tensor.detach().clone(), twin.detach().clone(), device))

    def move(self, tensor, twin, device, *_):
        target = self.random.choice([ZERO, ONE, HOST])
        moved = tensor.to(target)
        assert (moved is tensor) == (target == device)
        self.keep(moved.clone(), twin.clone(), target)

    def same(self, tensor, twin, device, other, other_twin):
        function = self.random.choice(SAME)
        self.keep(function(tensor, other), function(twin, other_twin), device)

    def index(self, tensor, twin, device, *_):
        chosen = [self.random.randrange(4) for _ in range(4)]
        index = torch.tensor(chosen, device=self.random.choice([device, HOST]))
        self.keep(tensor[index], twin[chosen], device)
        tensor[index] = 2.0
        twin[chosen] = 2.0

    def copy(self, tensor, twin, device, *_):
        target, target_twin, _ = self.random.choice(self.values)
        if target is not tensor:
            target.copy_(tensor)
            target_twin.copy_(twin)

    def across(self, tensor, twin, device, *_):
        strangers = [value for value in self.values if value[2] != device]
        if strangers:
            with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
                tensor + self.random.choice(strangers)[0]

    def gradient(self, tensor, twin, device, *_):
        target = self.random.choice([ZERO, ONE, HOST])
        leaf, leaf_twin = tensor.clone().requires_grad_(), twin.clone().requires_grad_()
        ((leaf * 2).to(target).tanh() ** 2).sum().backward()
        ((leaf_twin * 2).tanh() ** 2).sum().backward()
        self.keep(leaf.grad, leaf_twin.grad, device)

    def make(self, *_):
        device = self.random.choice([ZERO, ONE, HOST])
        self.keep(torch.full((4, 4), 3.0, device=device), torch.full((4, 4), 3.0), device)


def run_program(seed, steps=20):
    program = Program(seed)
    for _ in range(steps):
        program.step()
    for tensor, twin, device in program.values:
        assert tensor.device == device and are_equal(tensor, twin)


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(first, marks=pytest.mark.full) for first in range(20, 200, 20))]
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
