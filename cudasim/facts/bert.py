"""BERT's encoder in torch alone, for its shapes and its calls. Source: Devlin et al., 1810.04805.

Attention is spelled out, as programs had it when they were measured.
"""

import torch.nn.functional as F
from torch import Tensor, nn


class Layer(nn.Module):
    """(N, length, width) -> (N, length, width), in the modules of the library `transformers`.

    `scripted` as TorchScript runs it: the same operations, with no call of a module.
    """

    def __init__(self, width: int, heads: int, scripted: bool) -> None:
        """Fresh weights."""
        super().__init__()
        self.heads = heads
        self.scripted = scripted
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.mix = nn.Linear(width, width)
        self.dropped = nn.Dropout(0.1)
        self.widen = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)
        self.first = nn.LayerNorm(width)
        self.last = nn.LayerNorm(width)
        self.around = nn.Identity()  # for the modules that only call others

    def run(self, part: nn.Module, x: Tensor) -> Tensor:
        """Return what a part gives."""
        return part.forward(x) if self.scripted else part(x)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return the layer's result; `mask` is added to the scores of attention."""
        for _ in range(5):
            x = self.run(self.around, x)
        query = self._split(self.run(self.query, x))
        key = self._split(self.run(self.key, x))
        value = self._split(self.run(self.value, x))

        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5 + mask
        attended = self.run(self.dropped, scores.softmax(-1)) @ value
        attended = attended.permute(0, 2, 1, 3).contiguous().flatten(2)
        mixed = self.run(self.mix, attended)
        x = self.run(self.first, self.run(self.dropped, mixed) + x)

        wide = F.gelu(self.run(self.widen, x))
        narrow = self.run(self.narrow, wide)
        return self.run(self.last, self.run(self.dropped, narrow) + x)

    def _split(self, x: Tensor) -> Tensor:
        shape = *x.shape[:2], self.heads, -1
        return x.view(shape).permute(0, 2, 1, 3)


class Encoder(nn.Module):
    """(N, length, width) and a mask -> (N, length, width), through so many layers."""

    def __init__(
        self, layers: int, width: int, heads: int, scripted: bool = False
    ) -> None:
        """Fresh weights."""
        super().__init__()
        stack = [Layer(width, heads, scripted) for _ in range(layers)]
        self.layers = nn.ModuleList(stack)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return what the last layer gives."""
        for layer in self.layers:
            x = layer(x, mask)
        return x
