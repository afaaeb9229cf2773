"""Small programs whose time with and without simulated GPUs is compared.

Each is a function of a device that prepares the work and returns one step of it. They train
small models on small batches, as tests do: large ones would drown the difference.
"""

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

Step = Callable[[], object]


def train(
    model: nn.Module, batch: tuple[Tensor, Tensor], device: str, **options: bool
) -> Step:
    """Return a step of Adam on one batch of inputs and classes."""
    model = model.to(device)
    inputs, classes = batch[0].to(device), batch[1].to(device)
    optimizer = torch.optim.Adam(model.parameters(), **options)

    def step() -> None:
        optimizer.zero_grad()
        outputs = model(inputs)
        F.cross_entropy(outputs.flatten(0, -2), classes.flatten()).backward()
        optimizer.step()

    return step


class Block(nn.Module):
    """(N, inputs, H, W) -> (N, outputs, H / stride, W / stride): a block of ResNet-18."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = _convolution(inputs, outputs, window=3, stride=stride)
        self.last = _convolution(outputs, outputs, window=3)
        self.shortcut = nn.Sequential()
        if stride > 1:
            self.shortcut = _convolution(inputs, outputs, window=1, stride=stride)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.last(F.relu(self.first(x))) + self.shortcut(x))


def _convolution(
    inputs: int, outputs: int, window: int, stride: int = 1
) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, window, stride, window // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs))


def resnet(device: str) -> Step:
    """ResNet-18 (He et al., arXiv:1512.03385), a training step on 8 images of 3 x 64 x 64"""
    layers = [_convolution(3, 64, window=7, stride=2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for outputs in (64, 128, 256, 512):
        layers.append(Block(inputs, outputs, stride=outputs // inputs))
        layers.append(Block(outputs, outputs, stride=1))
        inputs = outputs
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)]
    batch = torch.rand(8, 3, 64, 64), torch.arange(8)
    return train(nn.Sequential(*layers), batch, device)


class Transformer(nn.Module):
    """(N, length) of tokens -> (N, length, tokens), with two layers of 128 numbers."""

    def __init__(self, tokens: int, is_causal: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(tokens, 128)
        layer = nn.TransformerEncoderLayer(
            128, nhead=2, dim_feedforward=512, activation="gelu", batch_first=True
        )
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(128, tokens)
        self.is_causal = is_causal

    def forward(self, tokens: Tensor) -> Tensor:
        mask = None
        if self.is_causal:
            length = tokens.shape[1]
            make_mask = nn.Transformer.generate_square_subsequent_mask
            mask = make_mask(length, device=tokens.device)
        x = self.embedding(tokens)
        return self.head(self.layers(x, mask=mask, is_causal=self.is_causal))


def bert(device: str) -> Step:
    """BERT tiny (2 layers of 128), a training step on 4 texts of 32 tokens"""
    tokens = torch.arange(128).reshape(4, 32)
    return train(Transformer(1000, is_causal=False), (tokens, tokens), device)


def gpt(device: str) -> Step:
    """the same with causal attention, as GPT-2 has it"""
    tokens = torch.arange(128).reshape(4, 32)
    return train(Transformer(1000, is_causal=True), (tokens, tokens), device)


def mlp(device: str) -> Step:
    """an MLP 784-256-10, a training step on 8 rows"""
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    return train(model, (torch.rand(8, 784), torch.arange(8)), device)


class Recurrent(nn.Module):
    """(N, length, 32) -> (N, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(32, 64)
        self.head = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        state = x.new_zeros(len(x), 64)
        for column in x.unbind(1):
            state = self.cell(column, state)
        return self.head(state)


def rnn(device: str) -> Step:
    """a recurrent network written as a loop of 20 cells, a training step on 8 rows"""
    return train(Recurrent(), (torch.rand(8, 20, 32), torch.arange(8)), device)


def loop(device: str) -> Step:
    """a step of `Adam(foreach=False)`, for 20 parameters of 1,000 numbers"""
    parameters = []
    for _ in range(20):
        parameter = nn.Parameter(torch.ones(1000, device=device))
        parameter.grad = torch.ones_like(parameter)
        parameters.append(parameter)
    return torch.optim.Adam(parameters, foreach=False).step


def loader(device: str) -> Step:
    """a `DataLoader` of 512 rows in batches of 32, each moved and averaged"""
    data = DataLoader(TensorDataset(torch.rand(512, 100)), batch_size=32)

    def step() -> None:
        for (rows,) in data:
            rows.to(device).mean(0)

    return step


def _there_and_back(numbers: Tensor, device: str) -> Step:
    """Return a step that copies a tensor to a device and back; the CPU copies it twice."""

    def step() -> None:
        moved = numbers.to(device, copy=True) if device == "cpu" else numbers.to(device)
        moved.to("cpu", copy=True)

    return step


def moves(device: str) -> Step:
    """32 images of 3 x 32 x 32 to the GPU and back, against two copies on the CPU"""
    return _there_and_back(torch.rand(32, 3, 32, 32), device)


def small_moves(device: str) -> Step:
    """six numbers to the GPU and back, against two copies on the CPU"""
    return _there_and_back(torch.rand(2, 3), device)


PROGRAMS = (resnet, bert, gpt, mlp, rnn, loop, loader, moves, small_moves)

TESTS = """
import pytest, torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

@pytest.mark.parametrize("width", range(1, 101))
def test_layer(width):
    layer = torch.nn.Linear(width, width, device=DEVICE)
    x = torch.ones(4, width, device=DEVICE, requires_grad=True)
    loss = torch.nn.functional.gelu(layer(x)).square().mean()
    loss.backward()
    assert x.grad.shape == x.shape
    torch.testing.assert_close(x.detach() + 1, torch.full_like(x, 2.0))
"""


def processes() -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield programs that are processes: what they are, and both command lines."""
    pytest = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    simulated = ["-p", "cudasim.testing.plugin", "--simulated-gpus=2"]
    what = "100 small tests, a run of pytest with its start"
    yield what, pytest, [*pytest, *simulated]

    enable = "import torch, cudasim; cudasim.enable(force=True)"
    what = "the start of Python with `import torch`, and `cudasim.enable()`"
    yield what, ["-c", "import torch"], ["-c", enable]
