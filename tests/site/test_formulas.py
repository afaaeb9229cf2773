"""The formulas that pages compute in JavaScript: the same seconds as `cudasim`."""

import functools
from typing import NamedTuple

import pytest
import torch
from browsing import opened, script

from cudasim.clock.costs import work_of
from cudasim.clock.estimate import estimate
from cudasim.timing import formulas
from cudasim.timing.formulas import Work
from cudasim.timing.scaling import Cluster, links
from cudasim.timing.sheets import find_sheet, sheet_names
from facts.training import Training, least_efficiency, step_of
from tools.site.models import PRECISIONS

CALCULATOR = "book/calculator.html"
SCALING = "book/scaling.html"
BUCKET = 25 * 2**20
aten = torch.ops.aten


def same(value, absolute=0.0):
    """Compare with a value that was computed in another order."""
    return pytest.approx(value, rel=1e-9, abs=absolute)


# The calculator.

LINKS = ("pinned", "pageable", "peer", "staged", "device")
LARGE = 2**53 - 1  # PyTorch describes no tensor of this size
SHAPES = [(1, 1), (4096, 4096), (7, 10**6), (2**28, 2**28), (LARGE, LARGE)]
SIZES = {
    "matmul": [
        (1, 1, 1, 1),
        (1, 4096, 4096, 4096),
        (3, 7, 5, 129),
        (64, 128, 64, 300),
        (1, 1, 10**6, 10**4),
        (1, 257, 129, 513),
        (LARGE, LARGE, LARGE, LARGE),
    ],
    "pointwise": SHAPES,
    "reduction": SHAPES,
    "softmax": [*SHAPES, (64, 12288), (64, 12289)],
    "convolution": [
        (1, 1, 1, 1, 1),
        (64, 64, 128, 56, 3),
        (256, 3, 6, 32, 5),
        (1, 512, 512, 7, 7),
        (8, 64, 32, 1, 1),
        (2**20, 2**10, 2**10, 2**10, 3),
        (LARGE, LARGE, LARGE, LARGE, 3),
    ],
    "copy": SHAPES,
}
# What the page calls these sizes.
NAMES = dict.fromkeys(SIZES, ("rows", "columns"))
NAMES["matmul"] = ("batch", "m", "n", "k")
NAMES["convolution"] = ("images", "channels", "filters", "side", "kernel")


class Case(NamedTuple):
    operation: str
    sizes: dict[str, int]
    precision: str


def cases_of(operation):
    """Yield the second size in every precision, and every other size in one of them."""
    for place, sizes in enumerate(SIZES[operation]):
        named = dict(zip(NAMES[operation], sizes, strict=True))
        precisions = [PRECISIONS[place % len(PRECISIONS)]]
        if place == 1:
            precisions = PRECISIONS
        for precision in precisions:
            yield Case(operation, named, precision)


CASES = []
for operation in SIZES:
    CASES += cases_of(operation)


@functools.cache
def calculate(browser, site):
    with opened(browser, site, CALCULATOR) as (page, _):
        return page.evaluate(script("calculated"), [CASES, LINKS])


@pytest.fixture
def calculated(browser, site):
    """Pairs of a case and what the calculator's page computes for it."""
    return list(zip(CASES, calculate(browser, site), strict=True))


def work_on_page(costs):
    fields = {name: costs[name] for name in Work._fields}
    if fields["shape"]:
        fields["shape"] = tuple(fields["shape"])
    return Work(**fields)


def expected_limit(work, sheet, kernel, shown):
    """Return what limits a call of the seconds that are shown, of which its kernel takes some."""
    if work.kind == "copy" or shown["moving"] > shown["computing"]:
        return "link"
    host_is_slower = shown["computing"] > kernel
    if host_is_slower or not formulas.fills(work, sheet):
        return "launch"
    computing, memory = formulas.bounds(work, sheet)
    return "compute" if computing > memory else "memory"


def test_the_calculator_computes_the_seconds_that_cudasim_does(calculated):
    for case, answer in calculated:
        work = work_on_page(answer["work"])
        assert [answer["card"] for answer in answer["cards"]] == sheet_names()
        for on_card in answer["cards"]:
            place = (case, on_card["card"])
            sheet = find_sheet(on_card["card"])
            assert on_card["bounds"] == same(formulas.bounds(work, sheet)), place
            kernel = formulas.kernel_seconds(work, sheet)
            assert on_card["kernel"] == same(kernel), place
            for link, shown in zip(LINKS, on_card["calls"], strict=True):
                moving = 0
                for size in answer["work"]["operands"]:
                    moving += formulas.copy_seconds(size, sheet, link)
                assert shown["moving"] == same(moving), (*place, link)


def test_the_calculator_names_the_limit(calculated):
    limits = set()
    for case, answer in calculated:
        work = work_on_page(answer["work"])
        for on_card in answer["cards"]:
            sheet = find_sheet(on_card["card"])
            for shown in on_card["calls"]:
                limit = expected_limit(work, sheet, on_card["kernel"], shown)
                assert shown["limit"] == limit, (case, on_card["card"])
                limits.add(limit)
    # Each of them was met.
    assert limits == {"launch", "memory", "compute", "link"}


# Operators of PyTorch and their arguments, which are tensors without data.


def batched_product(new, batch, m, n, k):
    return aten.bmm.default, [new(batch, m, k), new(batch, k, n)]


def addition(new, rows, columns):
    return aten.add.Tensor, [new(rows, columns), new(rows, columns)]


def sum_of_rows(new, rows, columns):
    return aten.sum.dim_IntList, [new(rows, columns), [1]]


def softmax(new, rows, columns):
    return aten._softmax.default, [new(rows, columns), 1, False]


def convolution(new, images, channels, filters, side, kernel):
    X = new(images, channels, side, side)
    W = new(filters, channels, kernel, kernel)
    settings = [None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1]
    return aten.convolution.default, [X, W, *settings]


def copy(new, rows, columns):
    return aten.clone.default, [new(rows, columns)]


CALLS = {
    "matmul": batched_product,
    "pointwise": addition,
    "reduction": sum_of_rows,
    "softmax": softmax,
    "convolution": convolution,
    "copy": copy,
}


@pytest.fixture
def set_precision():
    """Set the precision of PyTorch's products, until the test ends."""
    backends = torch.backends.cuda.matmul, torch.backends.cudnn.conv
    before = [backend.fp32_precision for backend in backends]

    def set_all(precision):
        for backend in backends:
            backend.fp32_precision = precision

    yield set_all
    for backend, precision in zip(backends, before, strict=True):
        backend.fp32_precision = precision


@pytest.fixture
def calls(calculated, set_precision):
    """The cases that PyTorch can describe: what the page says of each, and the same call.

    The precision of a case is set until the next one is taken.
    """

    def each():
        for case, answer in calculated:
            if LARGE in case.sizes.values():
                continue
            dtype = torch.float32
            if case.precision != "tf32":
                dtype = getattr(torch, case.precision)
            set_precision("tf32" if case.precision == "tf32" else "ieee")
            new = functools.partial(torch.empty, dtype=dtype, device="meta")
            operator, arguments = CALLS[case.operation](new, **case.sizes)
            yield case, answer, operator, arguments

    return each()


def test_the_calculator_counts_what_cudasim_books(calls):
    for case, answer, operator, arguments in calls:
        booked = work_of(operator, arguments, {}, operator(*arguments))
        counted = work_on_page(answer["work"])
        assert counted.flops == same(booked.flops), case
        assert counted.bytes == same(booked.bytes), case
        assert counted.kind == booked.kind, case
        assert counted.kernels == booked.kernels, case
        assert counted.shape == booked.shape, case
        # A copy computes nothing, in whatever precision.
        if case.operation != "copy":
            assert counted.precision == booked.precision, case
        tensors = [value for value in arguments if isinstance(value, torch.Tensor)]
        sizes = [tensor.nbytes for tensor in tensors]
        assert answer["work"]["operands"] == same(sizes), case


def test_the_calculator_shows_a_call_of_many_in_a_row(calls):
    for case, answer, operator, arguments in calls:
        if case.operation == "copy":
            continue
        call = functools.partial(operator, *arguments)
        for on_card in answer["cards"]:
            card = on_card["card"]
            # What ten more take, once there are ten.
            ten = 10 * estimate(call, card, repeat=10)
            twenty = 20 * estimate(call, card, repeat=20)
            expected = pytest.approx((twenty - ten) / 10, rel=1e-6)
            for shown in on_card["calls"]:
                assert shown["computing"] == expected, (case, card)


# How far it scales.

TRAININGS = [
    Training(0.144, 440_425_712, BUCKET),
    Training(1.0, 4, BUCKET),
    Training(30.0, 14e9, BUCKET),
    # The first bucket exactly, and more.
    Training(1e-3, 2**20, BUCKET),
    Training(0.01, 2**20 + 1, BUCKET),
    # Buckets smaller than the first.
    Training(0.25, 102_228_128, 2**19),
]
# Numbers of GPUs, of GPUs in a server, and of network cards in a server.
SERVERS = [
    (1, 8, 1),
    (2, 8, 1),
    (8, 8, 1),
    (9, 8, 1),
    (16, 8, 4),
    (3, 1, 1),
    (24, 8, 2),
    (1000, 8, 1),
    (1024, 8, 8),
    (1024, 1, 1),
    (1024, 1024, 1),
    (513, 4, 1),
]


class Joined(NamedTuple):
    """A cluster as the page's form describes it: with the names of its links."""

    gpus: int
    server: int
    cards: int
    inside: str
    between: str

    def cluster(self):
        inside = links("inside")[self.inside]
        between = links("between")[self.between]
        return Cluster(self.gpus, self.server, inside, between, self.cards)


CLUSTERS = []
for servers in SERVERS:
    for inside in links("inside"):
        for between in links("between"):
            CLUSTERS.append(Joined(*servers, inside, between))


def test_the_scaling_page_computes_what_cudasim_does(browser, site):
    with opened(browser, site, SCALING) as (page, _):
        answers = page.evaluate(script("scaled"), [TRAININGS, CLUSTERS])
    for training, row in zip(TRAININGS, answers, strict=True):
        for joined, shown in zip(CLUSTERS, row, strict=True):
            place = (training, joined)
            cluster = joined.cluster()
            expected = step_of(training, cluster)
            assert shown["step"] == same(expected.step), place
            assert shown["communication"] == same(expected.communication), place
            # What is not hidden is the small difference of two large numbers.
            exposed = same(expected.exposed, absolute=1e-9 * expected.step)
            assert shown["exposed"] == exposed, place
            assert shown["least"] == same(least_efficiency(training, cluster)), place
