"""The library with its bugs. Each was reported for a public project, and none shows on a CPU."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss


class Distances(nn.Module):
    """Adds the distance from the first position to each of `length` scores."""

    def __init__(self, length: int) -> None:
        """https://github.com/ChaoningZhang/MobileSAM/pull/47"""
        super().__init__()
        # `to` does not move it.
        self.table = torch.arange(length, dtype=torch.float32)

    def forward(self, scores: Tensor) -> Tensor:
        """Return `scores`, (batch, length), less the distances."""
        return scores - self.table


def widen(classifier: nn.Linear, more: int) -> nn.Linear:
    """Return a classifier with the classes of `classifier` and `more` new ones.

    https://github.com/LAMDA-CL/PyCIL/issues/60
    """
    old = classifier.weight.detach()
    classes, width = old.shape
    zeros = torch.zeros(more, width).cuda()  # on the current GPU, not the classifier's
    wider = nn.Linear(width, classes + more, bias=False)
    wider.weight = nn.Parameter(torch.cat([old, zeros]))
    return wider


def accuracy(scores: Tensor, targets: Tensor) -> float:
    """Return the share of rows whose greatest score is that of their target.

    https://github.com/argilla-io/biome-text/issues/145
    """
    chosen = scores.detach().numpy().argmax(1)
    return float(np.mean(chosen == targets.numpy()))


class Meter:
    """The mean of losses."""

    def __init__(self) -> None:
        """https://github.com/BatsResearch/labelmodels/issues/4"""
        self.total = 0.0
        self.number = 0

    def add(self, loss: Tensor) -> None:
        """Count `loss`, a single number."""
        self.total = self.total + loss  # keeps the graph of each
        self.number += 1

    def mean(self) -> float:
        """Return the mean so far."""
        return float(self.total) / self.number


def step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    x: Tensor,
    y: Tensor,
    number: int,
) -> str | None:
    """Take step `number` of training; return a line for every tenth.

    https://github.com/meta-pytorch/torchtune/pull/522
    """
    loss = mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    value = loss.item()  # waits for the GPU at every step, for a line at every tenth
    if number % 10:
        return None
    return f"step {number}: loss {value:.3f}"


def restore(model: nn.Module, path: Path) -> None:
    """Load the state in `path` into `model`, on each rank.

    https://github.com/huggingface/accelerate/pull/299
    """
    # Every rank makes a copy on the GPU that saved it.
    model.load_state_dict(torch.load(path))


def epoch(
    model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], meter: Meter
) -> None:
    """Compute the gradients of all batches without a step; `meter` counts the losses."""
    for x, y in batches:
        loss = mse_loss(model(x), y)
        loss.backward()
        meter.add(loss)
    model.zero_grad()
