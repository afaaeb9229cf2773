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
        self.heads, self.scripted = heads, scripted
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.mix, self.dropped = nn.Linear(width, width), nn.Dropout(0.1)
        self.widen, self.narrow = (
            nn.Linear(width, 4 * width),
            nn.Linear(4 * width, width),
        )
        self.first, self.last = nn.LayerNorm(width), nn.LayerNorm(width)
        self.around = nn.Identity()  # for the modules that only call others

    def run(self, part: nn.Module, x: Tensor) -> Tensor:
        """What a part gives."""
        return part.forward(x) if self.scripted else part(x)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """The layer's result; `mask` is added to the scores of attention."""
        for _ in range(5):
            x = self.run(self.around, x)
        shape = (*x.shape[:2], self.heads, -1)
        query, key, value = (
            self.run(part, x).view(shape).permute(0, 2, 1, 3)
            for part in (self.query, self.key, self.value)
        )
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5 + mask
        found = self.run(self.dropped, scores.softmax(-1)) @ value
        found = self.run(self.mix, found.permute(0, 2, 1, 3).contiguous().flatten(2))
        x = self.run(self.first, self.run(self.dropped, found) + x)
        found = self.run(self.narrow, F.gelu(self.run(self.widen, x)))
        return self.run(self.last, self.run(self.dropped, found) + x)


class Encoder(nn.Module):
    """(N, length, width) and a mask -> (N, length, width), through so many layers."""

    def __init__(
        self, layers: int, width: int, heads: int, scripted: bool = False
    ) -> None:
        """Fresh weights."""
        super().__init__()
        self.layers = nn.ModuleList(
            Layer(width, heads, scripted) for _ in range(layers)
        )

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """What the last layer gives."""
        for layer in self.layers:
            x = layer(x, mask)
        return x
