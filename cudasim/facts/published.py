"""The model against published measurements.

The measurements are in `timings/published.json`. Those with the use `fit` gave a sheet its figures,
those with `validate` did not. A measurement names a sheet, and `differs` overrides figures of it
where another form of the card was measured (a PCIe board, a larger memory). `compiled` names the
mode of `torch.compile` with which a workload ran. A ratio is modelled over published time: above
one, the model is too slow.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from cudasim.clock.estimate import Estimate, estimate
from cudasim.timing.formulas import copy_seconds
from cudasim.timing.sheets import Sheet, find_sheet, host_sheet
from facts.bert import Encoder
from facts.resnet import resnet50

PATH = Path(__file__).resolve().parents[1] / "timings" / "published.json"

Measurement = dict[str, Any]
Workload = dict[str, Any]
Amounts = dict[str, float]  # how much work was done, by the unit of its rate


def _attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scale = q.shape[-1] ** -0.5
    scores = q @ k.mT * scale
    return scores.softmax(-1) @ v


def _layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(x, weight.shape, weight, bias)


def _layer_norm_backward(x: Tensor, weight: Tensor, bias: Tensor, grad: Tensor) -> None:
    _layer_norm(x, weight, bias).backward(grad)


def _triad(a: Tensor, b: Tensor) -> Tensor:
    return torch.add(a, b, alpha=2.0)


def _scale(x: Tensor) -> Tensor:
    return x * 1.2


def _softmax(x: Tensor) -> Tensor:
    return x.softmax(-1)


def _cat(*tensors: Tensor) -> Tensor:
    return torch.cat(tensors)


def _geglu(gate: Tensor, up: Tensor) -> Tensor:
    return F.gelu(gate, approximate="tanh") * up


# What was measured, on tensors of the workload's shapes.
OPERATIONS: dict[str, Callable] = {
    "matmul": torch.matmul,
    "add": torch.add,
    "triad": _triad,
    "scale": _scale,
    "clone": torch.clone,
    "relu": torch.relu,
    "softmax": _softmax,
    "sum": torch.sum,
    "cat": _cat,
    "layer_norm": _layer_norm,
    "layer_norm_backward": _layer_norm_backward,
    "conv2d": F.conv2d,
    "flash_attention": torch.ops.aten._scaled_dot_product_flash_attention.default,
    "attention": _attention,
    "geglu": _geglu,
}
SECONDS = {"s": 1.0, "ms": 1e-3, "ms/step": 1e-3, "us": 1e-6}
NEAR = 1.5  # a factor
RATES = {"TFLOP/s": 1e12, "GB/s": 1e9, "images/s": 1.0}


@dataclass(frozen=True)
class Row:
    """A measurement, and what the model makes of it, both in seconds."""

    id: str
    card: str
    use: str
    published: float
    modelled: float

    @property
    def ratio(self) -> float:
        """Modelled over published time."""
        return self.modelled / self.published


def rows(path: Path = PATH) -> list[Row]:
    """Return every measurement of the file, modelled. Raises OSError if there is no file."""
    measurements = json.loads(path.read_text(encoding="utf-8"))
    return [row_of(measurement) for measurement in measurements]


def row_of(measurement: Measurement) -> Row:
    """Return a measurement, modelled. Raises ValueError for an unknown unit."""
    sheet = find_sheet(measurement["sheet"])
    if "differs" in measurement:
        sheet = replace(sheet, **measurement["differs"])
    modelled, amounts = model(measurement["workload"], sheet)

    unit = measurement["unit"]
    figure = measurement["figure"]
    if unit in SECONDS:
        published = figure * SECONDS[unit]
    elif unit in RATES:
        published = amounts[unit] / (figure * RATES[unit])
    else:
        raise ValueError(f"{measurement['id']}: unit {unit!r} is unknown")
    return Row(
        id=measurement["id"],
        card=measurement["card"],
        use=measurement["use"],
        published=published,
        modelled=modelled,
    )


def model(workload: Workload, sheet: Sheet) -> tuple[float, Amounts]:
    """Return the seconds that `workload` takes on a card, and its amounts."""
    settings = torch.backends.cuda.matmul
    tf32 = settings.allow_tf32
    settings.allow_tf32 = workload.get("tf32", False)
    try:
        return _model(workload, sheet)
    finally:
        settings.allow_tf32 = tf32


def _model(workload: Workload, sheet: Sheet) -> tuple[float, Amounts]:
    operation = workload["operation"]
    if "compiled" in workload:
        # All workloads run by the same lines, of which the compiler keeps eight versions.
        torch.compiler.reset()
    if operation == "copy":
        return _copy(workload, sheet)
    if operation in NETS:
        run = NETS[operation](workload)
        images = float(workload["batch"])
        seconds = estimate(run, sheet, compiled=workload.get("compiled"))
        return seconds, {"images/s": images}
    return _operation(workload, sheet)


def _copy(workload: Workload, sheet: Sheet) -> tuple[float, Amounts]:
    size = workload["bytes"]
    seconds = copy_seconds(size, sheet, workload["kind"], workload["way"])
    if workload.get("timed") == "synced":
        seconds += host_sheet(sheet).operation + sheet.launch + sheet.wait
    return seconds, {"GB/s": float(size)}


def _operation(workload: Workload, sheet: Sheet) -> tuple[float, Amounts]:
    """Model an operation: timed as a kernel, with a wait, or queued by PyTorch."""
    operation = OPERATIONS[workload["operation"]]
    tensors = _tensors(workload)
    arguments = workload.get("arguments", {})

    def run() -> Any:
        return operation(*tensors, **arguments)

    mode = Estimate(sheet)
    if "compiled" in workload:
        run = mode.compile(run, workload["compiled"])
        run()  # which compiles it
        mode.restart()
    with mode:
        run()
    flops = sum(work.flops for work in mode.works)
    bytes_moved = sum(work.bytes for work in mode.works)
    amounts = {"TFLOP/s": flops, "GB/s": bytes_moved}
    if workload["timed"] == "kernel":
        return mode.busy, amounts
    if workload["timed"] == "synced":
        return mode.seconds + sheet.wait, amounts
    return estimate(run, sheet, repeat=30), amounts


def _tensors(workload: Workload) -> list[Tensor]:
    """Return the operands of an operation; the first few require gradients."""
    dtype = getattr(torch, workload["dtype"])
    tensors = []
    for shape in workload["shapes"]:
        tensor = torch.empty(shape, dtype=dtype, device="meta")
        if workload.get("channels_last"):
            tensor = tensor.to(memory_format=torch.channels_last)
        tensors.append(tensor)

    differentiable = workload.get("gradients", 0)
    for tensor in tensors[:differentiable]:
        tensor.requires_grad_()
    return tensors


def _resnet(workload: Workload) -> Callable[[], None]:
    """Return a step of ResNet-50, training with momentum or inference, all in one type."""
    dtype = getattr(torch, workload["dtype"])
    batch = workload["batch"]
    layout = torch.contiguous_format
    if workload.get("channels_last"):
        layout = torch.channels_last
    with torch.device("meta"):
        net = resnet50().to(dtype=dtype, memory_format=layout)
        x = torch.empty(batch, 3, 224, 224, dtype=dtype).to(memory_format=layout)
        y = torch.empty(batch, dtype=torch.int64)

    if workload["operation"] == "resnet50_infer":
        net.eval().requires_grad_(False)
        return lambda: net(x)

    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, foreach=True)

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()

    return step


def _bert(workload: Workload) -> Callable[[], object]:
    """Return the inference of an encoder, on what its embedding gives."""
    dtype = getattr(torch, workload["dtype"])
    batch = workload["batch"]
    length = workload["length"]
    width = workload["width"]
    scripted = workload.get("scripted", False)
    with torch.device("meta"):
        net = Encoder(workload["layers"], width, workload["heads"], scripted)
        net.to(dtype)
        x = torch.empty(batch, length, width, dtype=dtype)
        mask = torch.empty(batch, 1, 1, length, dtype=dtype)
    net.eval().requires_grad_(False)
    return lambda: net(x, mask)


NETS = {"resnet50_train": _resnet, "resnet50_infer": _resnet, "bert_infer": _bert}


def summary(ratios: list[float]) -> tuple[float, float]:
    """Return the median of |ratio - 1|, and the share within a factor of `NEAR`."""
    errors = [abs(ratio - 1) for ratio in ratios]
    near = [ratio for ratio in ratios if 1 / NEAR <= ratio <= NEAR]
    return median(errors), len(near) / len(ratios)
