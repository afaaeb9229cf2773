"""The model against published measurements.

The rows are in `timings/published.json`. Those of use `fit` gave a sheet its
figures, those of use `validate` did not. A row names the sheet, and with `differs` what the
measured form of the card has else (a PCIe board, a larger memory). A ratio is modelled time
over published time: above one, the model is too slow.
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

# What a measurement did, on tensors of the row's shapes.
OPERATIONS: dict[str, Callable] = {
    "matmul": torch.matmul,
    "add": torch.add,
    "triad": lambda a, b: torch.add(a, b, alpha=2.0),
    "scale": lambda x: x * 1.2,
    "clone": torch.clone,
    "relu": torch.relu,
    "softmax": lambda x: x.softmax(-1),
    "sum": torch.sum,
    "cat": lambda *tensors: torch.cat(tensors),
    "layer_norm_backward": lambda x, weight, bias, gradient: F.layer_norm(
        x, weight.shape, weight, bias
    ).backward(gradient),
    "layer_norm": lambda x, weight, bias: F.layer_norm(x, weight.shape, weight, bias),
    "conv2d": F.conv2d,
    "flash_attention": torch.ops.aten._scaled_dot_product_flash_attention.default,
    "attention": lambda q, k, v: (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v,
}
SECONDS = {"s": 1.0, "ms": 1e-3, "ms/step": 1e-3, "us": 1e-6}
NEAR = 1.5  # a factor
RATES = {"TFLOP/s": 1e12, "GB/s": 1e9, "images/s": 1.0}


@dataclass(frozen=True)
class Row:
    """One measurement, with what the model says of it, both in seconds."""

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
    """Every row of the file, modelled. Raises OSError where there is no such file."""
    return [row_of(each) for each in json.loads(path.read_text(encoding="utf-8"))]


def row_of(read: dict[str, Any]) -> Row:
    """A row of the file, modelled. Raises ValueError for a unit or an operation unknown."""
    sheet = replace(find_sheet(read["sheet"]), **read.get("differs", {}))
    modelled, amounts = model(read["workload"], sheet)
    unit, figure = read["unit"], read["figure"]
    if unit in SECONDS:
        published = figure * SECONDS[unit]
    elif unit in RATES:
        published = amounts[unit] / (figure * RATES[unit])
    else:
        raise ValueError(f"{read['id']}: unit {unit!r} is unknown")
    return Row(read["id"], read["card"], read["use"], published, modelled)


def model(workload: dict[str, Any], sheet: Sheet) -> tuple[float, dict[str, float]]:
    """(seconds that `workload` takes on a card, how much it is in the units of `RATES`)."""
    operation = workload["operation"]
    if operation == "copy":
        seconds = copy_seconds(
            workload["bytes"], sheet, workload["kind"], workload["way"]
        )
        if workload.get("timed") == "synced":
            seconds += host_sheet(sheet).operation + sheet.launch + sheet.wait
        return seconds, {"GB/s": float(workload["bytes"])}
    asked = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = workload.get("tf32", False)
    try:
        if operation in NETS:
            amounts = {"images/s": float(workload["batch"])}
            return estimate(NETS[operation](workload), sheet), amounts
        return _operation(operation, _tensors(workload), workload, sheet)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = asked


def _tensors(workload: dict[str, Any]) -> list[Tensor]:
    """What an operation is given; the first few ask for gradients."""
    with torch.device("meta"):
        dtype = getattr(torch, workload["dtype"])
        tensors = [torch.empty(shape, dtype=dtype) for shape in workload["shapes"]]
    if workload.get("channels_last"):
        tensors = [each.to(memory_format=torch.channels_last) for each in tensors]
    for each in tensors[: workload.get("gradients", 0)]:
        each.requires_grad_()
    return tensors


def _operation(
    name: str, tensors: list[Tensor], workload: dict[str, Any], sheet: Sheet
) -> tuple[float, dict[str, float]]:
    """`model` of operations on tensors: timed as a kernel, queued by PyTorch, or with a wait."""

    def run() -> None:
        OPERATIONS[name](*tensors, **workload.get("arguments", {}))

    with Estimate(sheet) as mode:
        run()
    amounts = {
        "TFLOP/s": sum(work.flops for work in mode.works),
        "GB/s": sum(work.bytes for work in mode.works),
    }
    if workload["timed"] == "kernel":
        return mode.busy, amounts
    if workload["timed"] == "synced":
        return mode.seconds + sheet.wait, amounts
    return estimate(run, sheet, repeat=30), amounts


def _resnet(workload: dict[str, Any]) -> Callable[[], None]:
    """A step of ResNet-50, training with momentum or inference, all in one type."""
    dtype = getattr(torch, workload["dtype"])
    layout = (
        torch.channels_last
        if workload.get("channels_last")
        else torch.contiguous_format
    )
    with torch.device("meta"):
        net = resnet50().to(dtype=dtype, memory_format=layout)
        x = torch.empty(workload["batch"], 3, 224, 224, dtype=dtype).to(
            memory_format=layout
        )
        y = torch.empty(workload["batch"], dtype=torch.int64)
    if workload["operation"] == "resnet50_infer":
        net.eval().requires_grad_(False)
        return lambda: net(x)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, foreach=True)

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()

    return step


def _bert(workload: dict[str, Any]) -> Callable[[], object]:
    """Inference of an encoder, on what its embedding gives."""
    dtype = getattr(torch, workload["dtype"])
    layers, width, heads = workload["layers"], workload["width"], workload["heads"]
    batch, length = workload["batch"], workload["length"]
    with torch.device("meta"):
        net = (
            Encoder(layers, width, heads, workload.get("scripted", False))
            .to(dtype)
            .eval()
        )
        x = torch.empty(batch, length, width, dtype=dtype)
        mask = torch.empty(batch, 1, 1, length, dtype=dtype)
    net.requires_grad_(False)
    return lambda: net(x, mask)


NETS = {"resnet50_train": _resnet, "resnet50_infer": _resnet, "bert_infer": _bert}


def summary(ratios: list[float]) -> tuple[float, float]:
    """(median of |ratio - 1|, share of the ratios that are within a factor of `NEAR`)."""
    within = [1 / NEAR <= ratio <= NEAR for ratio in ratios]
    return median(abs(ratio - 1) for ratio in ratios), sum(within) / len(within)
