"""The work of operators, by hand; and that those programs call have a rule."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import cudasim
from cudasim.clock import costs
from cudasim.clock.costs import without_rule, work_of
from cudasim.clock.estimate import Estimate
from cudasim.timing.sheets import find_sheet

aten = torch.ops.aten


@pytest.fixture
def unknown(monkeypatch):
    """Nothing is known yet, nor unknown."""
    costs.rule_of.cache_clear()
    monkeypatch.setattr(costs, "_without_rule", set())


def works(function):
    """Return the work of each kernel of `function` on a T4."""
    with Estimate(find_sheet("T4")) as mode:
        function()
    return mode.works


def only(function):
    """Return the work of the one kernel of `function`."""
    (work,) = works(function)
    return work


def bytes_of(function):
    """Return the bytes that the one kernel of `function` reads and writes."""
    return only(function).bytes


def meta(*shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device="meta")


def test_pointwise_reads_its_inputs_and_writes_its_result():
    x, y = meta(1000, 1000), meta(1000, 1000)
    work = only(lambda: x + y)
    assert work.kind == "pointwise"
    assert work.flops == 1e6
    assert work.bytes == 12e6
    assert work.precision == "float32"
    assert bytes_of(lambda: x + 1) == 8e6
    assert bytes_of(lambda: x + x) == 8e6  # fetched once, though it is two operands
    assert bytes_of(lambda: x.add_(1)) == 8e6
    assert bytes_of(x.half) == 6e6
    assert bytes_of(lambda: x > 0) == 5e6
    assert only(x.exp).flops == 10e6
    assert only(x.relu).kind == "pointwise"


def test_an_operator_has_its_price_whatever_its_tags():
    x = meta(1000, dtype=torch.int32)
    assert only(lambda: x // 2)[:2] == ("pointwise", 4e3)
    gradient = meta(1000)
    backward = only(lambda: aten.elu_backward(gradient, 1, 1, 1, False, gradient))
    assert backward[:2] == ("pointwise", 10e3)


def test_a_broadcast_input_counts_what_it_holds():
    x, row = meta(1000, 1000), meta(1000)
    rows = row.expand(1000, 1000)
    assert bytes_of(lambda: x + row) == 8e6 + 4000
    assert bytes_of(lambda: x + rows) == 8e6 + 4000


def test_a_view_counts_what_it_shows():
    half = meta(1000, 1000)[:, ::2]
    assert bytes_of(half.exp) == 4e6


def test_memory_without_numbers_costs_nothing():
    x = meta(10, 10)

    def views():
        x.view(100)
        x.expand(5, 10, 10)
        x.split(5)
        x.detach()
        return x.T, x[3:]

    assert works(views) == []
    assert works(lambda: torch.empty_like(x)) == []


def test_products():
    a, b = meta(100, 200), meta(200, 300)
    work = only(lambda: a @ b)
    assert work == ("matmul", 12e6, 440_000, "float32", 1, (1, 100, 300, 200))

    x, weight, bias = meta(7, 100, 200), meta(300, 200), meta(300)
    work = only(lambda: F.linear(x, weight, bias))
    assert work.shape == (1, 700, 300, 200)


def test_products_of_batches():
    left, right = meta(5, 10, 20), meta(5, 20, 30)
    work = only(lambda: torch.bmm(left, right))
    assert work.shape == (5, 10, 30, 20)
    number = meta(1)
    work = only(lambda: torch.baddbmm(number, left, right))
    assert work.flops == 60_000
    matrices = meta(5, 100, 100)
    inverse, *_ = works(lambda: torch.linalg.inv_ex(matrices))
    assert inverse.flops == 5 * 2e6


def test_products_with_a_vector():
    matrix, vector = meta(100, 200), meta(200)
    work = only(lambda: torch.mv(matrix, vector))
    assert work.shape == (1, 100, 1, 200)
    work = only(lambda: torch.dot(vector, vector))
    assert work.flops == 400


def test_flops_are_those_of_the_flop_counter():
    from torch.utils.flop_counter import FlopCounterMode

    convolution = nn.Conv2d(3, 8, 3, stride=2)
    net = nn.Sequential(convolution, nn.Flatten(), nn.Linear(1800, 10)).to("meta")
    x = meta(4, 3, 32, 32)

    def train():
        net(x).sum().backward()

    with FlopCounterMode(display=False) as counter:
        train()
    products = [work for work in works(train) if work.shape]
    assert sum(work.flops for work in products) == counter.get_total_flops()


@pytest.fixture(params=[False, True])
def tf32(request):
    """Whether products in float32 may use tensor cores, as PyTorch is told."""
    torch.backends.cuda.matmul.allow_tf32 = request.param
    yield request.param
    torch.backends.cuda.matmul.allow_tf32 = False  # as it is from the start


def test_tf32_is_for_products_that_ask_and_for_convolutions(tf32):
    single, half = meta(64, 64), meta(64, 64, dtype=torch.float16)
    image, weight = meta(1, 8, 9, 9), meta(8, 8, 3, 3)
    work = only(lambda: single @ single)
    assert work.precision == ("tf32" if tf32 else "float32")
    work = only(lambda: half @ half)
    assert work.precision == "float16"
    work = only(lambda: F.conv2d(image, weight))
    assert work.precision == "tf32"


def test_a_convolution_is_a_product():
    images, weight = meta(16, 3, 224, 224), meta(64, 3, 7, 7)
    work = only(lambda: F.conv2d(images, weight, stride=2, padding=3))
    assert work.kind == "convolution"
    assert work.shape == (1, 16 * 112 * 112, 64, 3 * 49)
    result = meta(16, 64, 112, 112)
    assert work.bytes == images.nbytes + weight.nbytes + result.nbytes


def test_a_transposed_convolution_is_a_product():
    images, weight = meta(2, 8, 5, 5), meta(8, 4, 3, 3)
    work = only(lambda: F.conv_transpose2d(images, weight))
    assert work.shape == (1, 2 * 25, 4 * 9, 8)


def test_a_depthwise_convolution_is_no_product():
    images, weight = meta(1, 32, 9, 9), meta(32, 1, 3, 3)
    work = only(lambda: F.conv2d(images, weight, groups=32))
    assert work.kind == "pointwise"


def test_16_bit_convolutions_want_channels_last():
    x = meta(2, 64, 9, 9, dtype=torch.float16)
    weight = meta(64, 64, 3, 3, dtype=torch.float16)
    plain = only(lambda: F.conv2d(x, weight))
    last = x.to(memory_format=torch.channels_last)
    fast = only(lambda: F.conv2d(last, weight))
    assert plain.kernels == 3
    assert plain.bytes == 3 * fast.bytes
    assert plain.flops == fast.flops


def test_attention_is_one_kernel_and_half_the_work_if_causal():
    q = meta(2, 4, 128, 64, dtype=torch.float16)
    flash = aten._scaled_dot_product_flash_attention.default
    work = only(lambda: flash(q, q, q))
    assert work.kind == "attention"
    flops = 4 * 2 * 4 * 128 * 128 * 64
    assert work.flops == flops
    causal = only(lambda: flash(q, q, q, 0.0, True))
    assert causal.flops == flops / 2
    assert only(lambda: flash(q, q, q, is_causal=True)).flops == flops / 2


def test_attention_that_needs_gradients_is_not_taken_for_causal():
    """Whether the sums are kept for backward is an argument of its own."""
    q = meta(2, 4, 128, 64, dtype=torch.float16)
    efficient = aten._scaled_dot_product_efficient_attention.default
    flops = 4 * 2 * 4 * 128 * 128 * 64
    assert only(lambda: efficient(q, q, q, None, True)).flops == flops
    causal = only(lambda: efficient(q, q, q, None, True, 0.0, True))
    assert causal.flops == flops / 2


def test_packed_attention_is_worked_out_by_sequence():
    """Two products of 3 x 3 and of 5 x 5 scores, for 2 heads of 8 numbers."""
    q = torch.rand(8, 2, 8, dtype=torch.float16)
    begins = torch.tensor([0, 3, 8], dtype=torch.int32)
    out = torch.empty_like(q)
    flash = aten._flash_attention_forward.default
    arguments = (q, q, q, begins, begins, 5, 5, 0.0, False, False)
    work = work_of(flash, arguments, {}, out)
    assert work.flops == 2 * 2 * 2 * 8 * (3 * 3 + 5 * 5)
    causal = work_of(flash, (*arguments[:8], True, False), {}, out)
    assert causal.flops == work.flops / 2

    backward = aten._flash_attention_backward.default
    arguments = (q, q, q, q, out, out, begins, begins, 5, 5, 0.0, False, out, out)
    assert work_of(backward, arguments, {}, out).flops == 2.5 * work.flops

    efficient = aten._efficient_attention_forward.default
    batch = q.unsqueeze(0)
    arguments = (batch, batch, batch, None, begins, begins, 5, 5, 0.0, 1, False)
    assert work_of(efficient, arguments, {}, batch).flops == causal.flops
    without = (batch, batch, batch, None, None, None, None, None, 0.0, 0, False)
    assert work_of(efficient, without, {}, batch).flops == 2 * 2 * 2 * 8 * 8 * 8


def test_packed_attention_is_timed_by_its_lengths():
    """Of 4096 numbers, one sequence has four times the pairs of four sequences."""
    with cudasim.simulate(card="A100", clock="modelled"):
        q = torch.rand(4096, 1, 64, dtype=torch.float16, device="cuda")

        def duration(begins):
            begins = torch.tensor(begins, dtype=torch.int32, device="cuda")
            longest = int(begins.diff().max())
            with cudasim.timeline() as lanes:
                aten._flash_attention_forward(
                    q, q, q, begins, begins, longest, longest, 0.0, False, False
                )
            spans = [span.length for span in lanes.spans if span.kind == "kernel"]
            return spans[-1] - 1800  # a kernel's floor

        whole = duration([0, 4096])
        parts = duration([0, 1024, 2048, 3072, 4096])
        assert whole / parts == pytest.approx(4, rel=0.01)
        assert duration([0, 1, 2, 3, 4096]) > 3.9 * parts
        assert "aten._flash_attention_forward.default" not in without_rule()


def test_attention_with_its_gradients_costs_the_whole_work():
    """The same for a program that trains: causal attention takes half of the rest."""

    def flops_of_training(is_causal):
        with cudasim.simulate(gpus=1, force=True):
            q = torch.ones(1, 2, 64, 8, device="cuda", requires_grad=True)
            attention = partial(F.scaled_dot_product_attention, is_causal=is_causal)
            kernels = works(lambda: attention(q, q, q).sum().backward())
        return sum(work.flops for work in kernels if work.kind == "attention")

    flops = (4 + 10) * 2 * 64 * 64 * 8
    assert flops_of_training(is_causal=False) == flops
    assert flops_of_training(is_causal=True) == flops / 2


def test_recurrent_layers_multiply_once_for_each_weight():
    """Two products of 4 x 3 rows of gates, for each of 5 steps of 2 sequences."""
    with cudasim.simulate(gpus=1, force=True):
        lstm = nn.LSTM(3, 3, device="cuda")
        x = torch.ones(5, 2, 3, device="cuda")
        kernels = works(lambda: lstm(x)[0].sum().backward())
    products = [work for work in kernels if work.kind == "matmul"]
    flops = 2 * 5 * 2 * (2 * 12 * 3)
    assert [work.flops for work in products] == [flops, 2 * flops]
    assert [work.kernels for work in products] == [1 + 5, 2 * (1 + 5)]


@pytest.mark.parametrize("option", ["groups", "transposed", "is_causal", "mode"])
def test_the_places_of_arguments_are_those_of_the_schemas(option):
    """Options of this name are the places of arguments."""
    checked = 0
    for row in costs._data["rules"]:
        place = row.get("options", {}).get(option)
        if place is None:
            continue
        for name in row["operators"]:
            argument = getattr(aten, name).default._schema.arguments[place]
            assert argument.name == option, name
            checked += 1
    assert checked


def test_bytes_of_copies_and_sums():
    x = meta(1000, 64)
    size = 256_000
    assert bytes_of(lambda: torch.zeros(1000, device="meta")) == 4000
    assert bytes_of(x.clone) == 2 * size
    assert bytes_of(lambda: torch.cat([x, x])) == 4 * size
    assert bytes_of(x.sum) == size + 4


def test_bytes_of_normalisation():
    x = meta(1000, 64)
    size = 256_000
    statistics = 2 * 1000 * 4
    assert bytes_of(lambda: x.softmax(-1)) == 2 * size
    assert bytes_of(lambda: F.layer_norm(x, (64,))) == 2 * size + statistics

    # Rows that do not fit into one read.
    too_long = meta(4, 10**6)
    assert bytes_of(lambda: too_long.softmax(-1)) == 4 * too_long.nbytes

    images, mean, variance = meta(2, 3, 8, 8), meta(3), meta(3)
    inference = bytes_of(lambda: F.batch_norm(images, mean, variance))
    assert inference == pytest.approx(2 * images.nbytes, rel=0.1)


def test_bytes_of_indexing():
    x, index = meta(1000, 64), meta(10, dtype=torch.int64)
    rows = 10 * 64 * 4
    assert bytes_of(lambda: F.embedding(index, x)) == index.nbytes + 2 * rows
    assert bytes_of(lambda: x[index]) == index.nbytes + 2 * rows


def test_bytes_of_masks():
    """A mask becomes places first, of 8 bytes for each dimension, written and read."""
    x = torch.arange(12.0).view(3, 4)
    mask_of_rows = torch.tensor([True, False, True])
    places, rows = 2 * 8, 2 * 16
    assert bytes_of(lambda: x[mask_of_rows]) == 3 + 2 * places + 2 * rows

    mask = x > 9  # of two elements
    places, elements = 2 * 2 * 8, 2 * 4
    expected = 12 + 2 * places + 2 * elements
    assert bytes_of(lambda: x[mask]) == expected
    assert bytes_of(lambda: x.masked_select(mask)) == expected


def test_few_kernels_step_many_parameters():
    parameters, updates = ([meta(100, 100) for _ in range(100)] for _ in range(2))
    work = only(lambda: torch._foreach_add_(parameters, updates))
    assert work.kernels == 3
    assert work.bytes == 3 * 100 * 40_000

    parameters = [torch.zeros(10) for _ in range(100)]
    options = {
        "weight_decay": 0.0,
        "momentum": 0.0,
        "lr": 0.1,
        "dampening": 0.0,
        "nesterov": False,
        "maximize": False,
        "is_first_step": False,
    }
    fused = only(lambda: torch._fused_sgd_(parameters, parameters, [], **options))
    assert fused.kernels == 3


def test_every_name_in_the_table_is_an_operator():
    def known(name):
        return hasattr(aten, name) or hasattr(torch.ops.profiler, name)

    for name in costs.RULES:
        assert known(name) or known(name + "_"), name


def test_a_collective_is_not_the_operator_of_its_name(unknown):
    parts = [torch.ones(4)]
    arguments = ([parts], parts, None, 0, -1)
    c10d = torch.ops.c10d
    for collective in (c10d.gather_.default, c10d.scatter_.default):
        work = work_of(collective, arguments, {}, [parts])
        assert work.kind == "other"
    assert without_rule() == []


def test_an_operator_without_a_rule_counts_its_bytes(unknown):
    x = torch.eye(4)
    assert without_rule() == []
    results = [x.clone(), torch.zeros(())]
    work = work_of(aten.linalg_cholesky_ex.default, (x,), {}, results)
    assert work == ("other", 0.0, 64 + 64 + 4, "float32", 1, None)
    assert without_rule() == ["aten.linalg_cholesky_ex.default"]


def net_of_images():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.Sigmoid(),
        nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 64),
        nn.Dropout(),
        nn.Tanh(),
    )


def net_of_words():
    layer = nn.TransformerEncoderLayer(64, 4, 128, activation="gelu", batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return nn.Sequential(nn.Embedding(100, 64), encoder)


DEVICES = ["meta", "cuda", pytest.param("cpu", marks=pytest.mark.full)]
OPTIMIZERS = {
    "SGD with momentum": partial(torch.optim.SGD, momentum=0.9, foreach=True),
    "SGD": partial(torch.optim.SGD, foreach=False),
    "Adam": partial(torch.optim.Adam, foreach=True),
    "AdamW": partial(torch.optim.AdamW, foreach=False),
    "RMSprop": partial(torch.optim.RMSprop, foreach=True),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("make_optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_every_operator_of_a_training_step_has_a_rule(
    make_optimizer, device, unknown, two_gpus
):
    of_images = net_of_images().to(device)
    of_words = net_of_words().to(device)
    head = nn.Linear(64, 10).to(device)
    net = nn.ModuleList([of_images, of_words, head])
    images = torch.zeros(8, 1, 28, 28, device=device)
    words = torch.zeros(8, 16, dtype=torch.int64, device=device)
    optimizer = make_optimizer(net.parameters(), lr=0.1)

    def step():
        optimizer.zero_grad()
        scores = head(of_images(images) + of_words(words).mean(1))
        F.cross_entropy(scores, words[:, 0]).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()

    assert len(works(step)) > 10
    assert without_rule() == []
