"""Work with which the modelled clock is checked against a card.

None of it is what `calibration` measures. `WORKLOADS` holds each under its name; `PAIRS` holds
those whose order matters to a reader, the faster first. Each runs alike on a real GPU and on a
simulated one.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

Work = Callable[[], object]

TYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "tf32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}


@dataclass(frozen=True)
class Workload:
    """One piece of work: `prepare(device, size)` returns it, ready to be called and timed.

    It is called `calls` times between two waits for the card. What one call does is the `unit`.
    `quick` is a size at which the CPU computes it in an instant. `group` is what kind of work it
    is; that of the group `host` runs on the CPU.
    """

    name: str
    group: str
    prepare: Callable[[torch.device, int], Work]
    size: int
    quick: int
    calls: int = 1
    unit: str = "call"
    precision: str = "float32"


WORKLOADS: dict[str, Workload] = {}


def _add(
    group: str, name: str, prepare: Callable, size: int, quick: int, **more
) -> None:
    if name in WORKLOADS:
        raise ValueError(f"two workloads are called {name!r}")
    WORKLOADS[name] = Workload(name, group, prepare, size, quick, **more)


def select(precisions: Iterable[str]) -> list[Workload]:
    """The workloads for a card that computes with these `precisions`."""
    return [each for each in WORKLOADS.values() if each.precision in set(precisions)]


# Matrix products.


def product(
    m: float, n: float, k: float, batch: int = 0, precision: str = "float32"
) -> Callable:
    """Products of (m, k) by (k, n), each a multiple of the size; `batch` of them at once."""

    def prepare(device: torch.device, size: int) -> Work:
        rows, columns, inner = (max(1, round(each * size)) for each in (m, n, k))
        more = (batch,) if batch else ()
        a = torch.rand(*more, rows, inner, device=device).to(TYPES[precision])
        b = torch.rand(*more, inner, columns, device=device).to(TYPES[precision])
        return lambda: a @ b

    return prepare


for _size in (256, 1024, 2048, 4096):
    _add(
        *("products", f"product of {_size} x {_size}", product(1, 1, 1), _size, 16),
        calls=10 if _size < 2048 else 2,
    )
for _precision, _sizes in {
    "float64": (1024,),
    "tf32": (2048, 4096),
    "float16": (512, 1024),
    "bfloat16": (1024, 4096),
}.items():
    for _size in _sizes:
        _add(
            *("products", f"product of {_size} x {_size}, {_precision}"),
            *(product(1, 1, 1, precision=_precision), _size, 16),
            **{"calls": 2, "precision": _precision},
        )
for _name, _prepare, _size, _quick in (
    ("product of 4096 x 4096 with 64 columns", product(1, 1 / 64, 1), 4096, 128),
    ("product of 64 rows with 4096 x 4096", product(1 / 64, 1, 1), 4096, 128),
    ("product of 4096 x 4096 with a vector", product(1, 0, 1), 4096, 16),
    ("product of 256 x 16384 with 16384 x 256", product(1, 1, 64), 256, 2),
    ("product of 1000 x 1000", product(1, 1, 1), 1000, 15),
    ("64 products of 256 x 256 at once", product(1, 1, 1, batch=64), 256, 8),
    ("8 products of 1024 x 1024 at once", product(1, 1, 1, batch=8), 1024, 8),
):
    _add("products", _name, _prepare, _size, _quick, calls=4)


def linear(device: torch.device, size: int) -> Work:
    """A fully connected layer with its activation, on as many rows as it has inputs."""
    layer = nn.Linear(size, size, device=device)
    x = torch.rand(size, size, device=device)

    @torch.no_grad()
    def work() -> Tensor:
        return layer(x).relu()

    return work


_add("products", "linear layer of 2048 with ReLU", linear, 2048, 16, calls=2)


# Elementwise work, reductions, and what is made of both.


def elements(work: Callable[[Tensor], object], columns: int = 0) -> Callable:
    """`work` on as many random numbers as the size says, in rows of `columns`."""

    def prepare(device: torch.device, size: int) -> Work:
        x = torch.rand(size, device=device)
        x = x.view(-1, columns) if columns else x
        return lambda: work(x)

    return prepare


def repeat(times: int, work: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """`work` on its own result, so many times."""

    def chain(x: Tensor) -> Tensor:
        for _ in range(times):
            x = work(x)
        return x

    return chain


_MIB = 2**20
for _name, _work, _size in (
    ("addition of 64 elements", lambda x: x + x, 64),
    ("addition of 1 Mi elements", lambda x: x + x, _MIB),
    ("addition of 16 Mi elements", lambda x: x + x, 16 * _MIB),
    ("exponential of 16 Mi elements", torch.exp, 16 * _MIB),
    ("comparison of 16 Mi elements", lambda x: x > 0.5, 16 * _MIB),
    (
        "choice by a condition, 8 Mi elements",
        lambda x: torch.where(x > 0.5, x, 0),
        8 * _MIB,
    ),
    ("cast of 16 Mi elements to float16", lambda x: x.half(), 16 * _MIB),
    (
        "chain of 5 operations on 4 Mi elements",
        lambda x: ((x * 2 + 1).sin() - x) / 3,
        4 * _MIB,
    ),
    ("chain of 100 operations on 64 elements", repeat(100, lambda x: x * 2), 64),
    ("GELU of 8 Mi elements", functional.gelu, 8 * _MIB),
    ("zeros like 16 Mi elements", torch.zeros_like, 16 * _MIB),
):
    _add("elementwise", _name, elements(_work), _size, min(_size, 256), calls=10)
for _name, _work in (
    ("row added to 4096 x 4096", lambda x: x + x[0]),
    ("transpose of 4096 x 4096, made contiguous", lambda x: x.t().contiguous()),
):
    _add("elementwise", _name, elements(_work, 4096), 4096 * 4096, 4096, calls=10)
for _name, _work, _columns in (
    ("sum of 16 Mi elements", torch.sum, 0),
    ("greatest of 16 Mi elements", torch.max, 0),
    ("norm of 16 Mi elements", lambda x: x.norm(), 0),
    ("mean of each of 4096 rows", lambda x: x.mean(1), 4096),
    ("sum of each of 4096 columns", lambda x: x.sum(0), 4096),
    ("place of the greatest in each of 4096 rows", lambda x: x.argmax(1), 4096),
    ("running sum of 4096 rows", lambda x: x.cumsum(1), 4096),
):
    _add("reductions", _name, elements(_work, _columns), 16 * _MIB, 4096, calls=10)
for _name, _work, _columns in (
    ("softmax of 16 Mi elements in rows of 512", lambda x: x.softmax(-1), 512),
    ("softmax of 16 Mi elements in rows of 32768", lambda x: x.softmax(-1), 2**15),
    ("layer norm, rows of 4096", lambda x: functional.layer_norm(x, (4096,)), 4096),
):
    _add(
        "softmax and norms",
        _name,
        elements(_work, _columns),
        16 * _MIB,
        2**15,
        calls=10,
    )


# Convolutions and gathers.


def convolution(
    inputs: int,
    outputs: int,
    side: int,
    kernel: int,
    stride: int = 1,
    precision: str = "float32",
) -> Callable:
    """A convolution of `size` images of shape (inputs, side, side), padded."""

    def prepare(device: torch.device, size: int) -> Work:
        type = TYPES[precision]
        x = torch.rand(size, inputs, side, side, device=device).to(type)
        w = torch.rand(outputs, inputs, kernel, kernel, device=device).to(type)
        return lambda: functional.conv2d(x, w, stride=stride, padding=kernel // 2)

    return prepare


for _name, _prepare, _size in (
    ("3 x 3 convolution, 64 channels, 56 x 56", convolution(64, 64, 56, 3), 16),
    ("1 x 1 convolution, 256 channels, 28 x 28", convolution(256, 256, 28, 1), 16),
    ("7 x 7 convolution of images, stride 2", convolution(3, 64, 224, 7, 2), 16),
    ("5 x 5 convolution of LeNet", convolution(1, 6, 28, 5), 256),
):
    _add("convolutions", _name, _prepare, _size, 1, calls=4)


def embedding(device: torch.device, size: int) -> Work:
    """Rows of 512 numbers looked up in a table of 4 x `size` rows."""
    table = torch.rand(4 * size, 512, device=device)
    words = torch.randint(4 * size, (size,), device=device)
    return lambda: functional.embedding(words, table)


def scatter(device: torch.device, size: int) -> Work:
    """`size` rows of 512 numbers added to those of a table."""
    table, rows = (
        torch.zeros(4 * size, 512, device=device),
        torch.rand(size, 512, device=device),
    )
    places = torch.randint(4 * size, (size,), device=device)
    return lambda: table.index_add_(0, places, rows)


def mask(device: torch.device, size: int) -> Work:
    """The numbers above a half, which the host has to wait for: it needs their count."""
    x = torch.rand(size, device=device)
    return lambda: x[x > 0.5]


_add("gathers", "embedding of 16384 words", embedding, 2**14, 16, calls=10)
_add("gathers", "addition of 16384 rows at their places", scatter, 2**14, 16, calls=10)
_add("gathers", "selection by a mask, 4 Mi elements", mask, 4 * _MIB, 256)


# Copies.


def copy(direction: str, pinned: bool = False, non_blocking: bool = False) -> Callable:
    """A copy of `size` bytes `in` to the card, `out` of it, or `within` it."""

    def prepare(device: torch.device, size: int) -> Work:
        there, here = torch.rand(size // 4, device=device), torch.rand(size // 4)
        here = here.pin_memory() if pinned else here
        if direction == "within":
            return lambda: there.clone()
        to, source = (there, here) if direction == "in" else (here, there)
        return lambda: to.copy_(source, non_blocking=non_blocking)

    return prepare


for _label, _size in (("4 KiB", 2**12), ("1 MiB", 2**20), ("96 MiB", 96 * 2**20)):
    for _direction in ("in", "out"):
        _add("copies", f"{_label} {_direction}, pageable", copy(_direction), _size, 256)
        _add(
            *("copies", f"{_label} {_direction}, pinned", copy(_direction, True, True)),
            *(_size, 256),
        )
_add("copies", "96 MiB in, pinned, waiting", copy("in", True), 96 * 2**20, 256)
_add("copies", "96 MiB within the card", copy("within"), 96 * 2**20, 256, calls=4)


def many_copies(device: torch.device, size: int) -> Work:
    """`size` bytes brought to the card as 64 tensors."""
    parts = torch.rand(64, max(1, size // 256)).unbind()
    return lambda: [part.to(device) for part in parts]


def made_there(device: torch.device, size: int) -> Work:
    """`size` bytes of zeros made on the card."""
    return lambda: torch.zeros(size // 4, device=device)


def made_here(device: torch.device, size: int) -> Work:
    """`size` bytes of zeros made on the CPU and brought to the card."""
    return lambda: torch.zeros(size // 4).to(device)


def sum_there(device: torch.device, size: int) -> Work:
    """The sum of `size` bytes that are on the card."""
    x = torch.rand(size // 4, device=device)
    return lambda: x.sum()


def chunks(overlapping: bool) -> Callable:
    """8 chunks of `size` bytes each, copied and multiplied: in turn, or on two streams."""

    def prepare(device: torch.device, size: int) -> Work:
        side = max(1, int((size // 4) ** 0.5))
        here = [torch.rand(side, side).pin_memory() for _ in range(8)]
        other, main = torch.cuda.Stream(device), torch.cuda.current_stream(device)

        def work() -> list[Tensor]:
            results = []
            for part in here:
                with torch.cuda.stream(other if overlapping else main):
                    there = part.to(device, non_blocking=True)
                main.wait_stream(other)
                there.record_stream(main)
                results.append(there @ there)
            return results

        return work

    return prepare


_add("copies", "1 MiB in as 64 tensors", many_copies, 2**20, 2**14)
_add("copies", "32 MiB of zeros made on the card", made_there, 2**25, 256)
_add("host", "32 MiB of zeros made on the CPU and brought", made_here, 2**25, 256)
_add("reductions", "sum of 96 MiB on the card", sum_there, 96 * 2**20, 256)
_add("streams", "8 chunks of 4 MiB, in turn", chunks(False), 2**22, 2**12)
_add("streams", "8 chunks of 4 MiB, overlapping", chunks(True), 2**22, 2**12)


# One large piece of work against many small ones.


def pieces(count: int, work: Callable[[Tensor], object]) -> Callable:
    """`work` on `count` parts of as many random numbers as the size says, one after another."""

    def prepare(device: torch.device, size: int) -> Work:
        parts = torch.rand(size, device=device).view(count, -1).unbind()
        return lambda: [work(part) for part in parts]

    return prepare


def one_by_one(device: torch.device, size: int) -> Work:
    """64 products of `size` x `size`, one after another."""
    a = torch.rand(64, size, size, device=device).unbind()
    return lambda: [each @ each for each in a]


_add(
    "many",
    "addition of 1 Mi elements in 512 parts",
    pieces(512, lambda x: x + x),
    _MIB,
    512,
)
_add("many", "64 products of 256 x 256 one by one", one_by_one, 256, 8)


# Training.


def mlp() -> nn.Module:
    """A perceptron for images of 28 x 28."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)
    )


def lenet() -> nn.Module:
    """LeNet (LeCun et al., Proc. IEEE 86(11), 1998), as d2l.ai writes it, for 28 x 28."""
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.Sigmoid(), nn.AvgPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.Sigmoid(), nn.AvgPool2d(2), nn.Flatten()),
        *(nn.Linear(400, 120), nn.Sigmoid(), nn.Linear(120, 84), nn.Sigmoid()),
        nn.Linear(84, 10),
    )


def cnn() -> nn.Module:
    """Three convolutions with batch norm, for 28 x 28."""
    return nn.Sequential(
        *(
            nn.Conv2d(1, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
        ),
        *(
            nn.Conv2d(32, 64, 3, padding=1),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.MaxPool2d(2),
        ),
        *(nn.Conv2d(64, 128, 3, padding=1), nn.BatchNorm2d(128), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)),
    )


class Transformer(nn.Module):
    """Two layers of an encoder of width 256, on the 28 rows of an image."""

    def __init__(self) -> None:
        """Fresh weights."""
        super().__init__()
        self.widen = nn.Linear(28, 256)
        layer = nn.TransformerEncoderLayer(256, 8, 1024, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.choose = nn.Linear(256, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Scores of shape (batch, 10) for images of shape (batch, 1, 28, 28)."""
        return self.choose(self.layers(self.widen(images.squeeze(1))).mean(1))


def training(
    make: Callable[[], nn.Module],
    optimizer: type[torch.optim.Optimizer],
    watch: str = "",
) -> Callable:
    """A step of training on `size` images; with `watch`, a loop of 20 that logs the loss.

    `each step`: the host asks for it at every step. `end`: it is kept on the card until the end.
    """

    def prepare(device: torch.device, size: int) -> Work:
        net = make().to(device)
        images = torch.rand(size, 1, 28, 28, device=device)
        labels = torch.arange(size, device=device) % 10
        steps = optimizer(net.parameters(), lr=0.01)

        def step() -> Tensor:
            steps.zero_grad()
            loss = functional.cross_entropy(net(images), labels)
            loss.backward()
            steps.step()
            return loss.detach()

        def logged() -> list[float]:
            if watch == "each step":
                return [step().item() for _ in range(20)]
            return torch.stack([step() for _ in range(20)]).tolist()

        return logged if watch else step

    return prepare


SGD, Adam = torch.optim.SGD, torch.optim.Adam
for _name, _make, _optimizer, _size in (
    ("MLP, 256 images, SGD", mlp, SGD, 256),
    ("MLP, 4096 images, Adam", mlp, Adam, 4096),
    ("LeNet, 64 images, SGD", lenet, SGD, 64),
    ("LeNet, 1024 images, SGD", lenet, SGD, 1024),
    ("CNN, 128 images, Adam", cnn, Adam, 128),
    ("transformer, 64 images, Adam", Transformer, Adam, 64),
):
    _add(
        *("training", f"step of {_name}", training(_make, _optimizer), _size, 2),
        **{"calls": 5, "unit": "step"},
    )
for _watch in ("each step", "end"):
    _add(
        *("logging", f"20 steps of an MLP, loss asked for at {_watch}"),
        *(training(mlp, SGD, _watch), 256, 2),
        unit="loop",
    )


def norms(at_once: bool) -> Callable:
    """50 norms of `size` x `size` products: asked for one by one, or all at the end."""

    def prepare(device: torch.device, size: int) -> Work:
        a = torch.rand(size, size, device=device)

        def work() -> list[float]:
            found = [
                (a @ a).norm() if at_once else (a @ a).norm().item() for _ in range(50)
            ]
            return torch.stack(found).tolist() if at_once else found

        return work

    return prepare


_add(
    "logging", "50 norms of products, each asked for", norms(False), 128, 8, unit="loop"
)
_add(
    "logging",
    "50 norms of products, asked for at the end",
    norms(True),
    128,
    8,
    unit="loop",
)


# The CPU beside the card.


def on_cpu(prepare: Callable) -> Callable:
    """The same work on the CPU, whatever the device."""
    return lambda device, size: prepare(torch.device("cpu"), size)


for _size in (32, 2048):
    _add(
        "host",
        f"product of {_size} x {_size} on the CPU",
        on_cpu(product(1, 1, 1)),
        _size,
        16,
    )
_add("products", "product of 32 x 32", product(1, 1, 1), 32, 16)

# (the faster, the slower)
PAIRS = (
    ("product of 2048 x 2048", "product of 2048 x 2048 on the CPU"),
    ("product of 32 x 32 on the CPU", "product of 32 x 32"),
    ("product of 4096 x 4096, tf32", "product of 4096 x 4096"),
    ("product of 1024 x 1024, float16", "product of 1024 x 1024"),
    ("product of 4096 x 4096, bfloat16", "product of 4096 x 4096, tf32"),
    ("64 products of 256 x 256 at once", "64 products of 256 x 256 one by one"),
    ("addition of 1 Mi elements", "addition of 1 Mi elements in 512 parts"),
    ("96 MiB in, pinned", "96 MiB in, pageable"),
    ("96 MiB out, pinned", "96 MiB out, pageable"),
    ("96 MiB within the card", "96 MiB in, pinned"),
    ("sum of 96 MiB on the card", "96 MiB in, pinned"),
    ("4 KiB in, pageable", "96 MiB in, pageable"),
    ("1 MiB in, pageable", "1 MiB in as 64 tensors"),
    ("32 MiB of zeros made on the card", "32 MiB of zeros made on the CPU and brought"),
    ("8 chunks of 4 MiB, overlapping", "8 chunks of 4 MiB, in turn"),
    (
        "20 steps of an MLP, loss asked for at end",
        "20 steps of an MLP, loss asked for at each step",
    ),
    (
        "50 norms of products, asked for at the end",
        "50 norms of products, each asked for",
    ),
)
