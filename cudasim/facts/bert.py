"""BERT's encoder in torch alone, for its shapes and its calls (Devlin et al., arXiv:1810.04805).

Attention is spelled out, because the programs that were measured did so.
"""

import torch.nn.functional as F
from torch import Tensor, nn


class Layer(nn.Module):
    """(N, length, width) -> (N, length, width), in the modules of the library `transformers`.

    With `scripted` it runs as under TorchScript: the same operations, but no module is called.
    """

    def __init__(self, width: int, heads: int, scripted: bool) -> None:
        """Create the layer with fresh weights."""
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
        self.wrapper = nn.Identity()  # stands for a module that only calls others

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return the layer's result; `mask` is added to the scores of attention."""
        for _ in range(5):
            x = self._run(self.wrapper, x)

        attended = self._attention(x, mask)
        mixed = self._run(self.mix, attended)
        mixed = self._run(self.dropped, mixed)
        x = self._run(self.first, mixed + x)

        wide = self._run(self.widen, x)
        narrow = self._run(self.narrow, F.gelu(wide))
        narrow = self._run(self.dropped, narrow)
        return self._run(self.last, narrow + x)

    def _attention(self, x: Tensor, mask: Tensor) -> Tensor:
        query = self._heads(self.query, x)
        key = self._heads(self.key, x)
        value = self._heads(self.value, x)

        products = query @ key.transpose(-1, -2)
        width = query.shape[-1]
        scores = products / width**0.5 + mask
        weights = self._run(self.dropped, scores.softmax(-1))
        attended = weights @ value
        by_position = attended.permute(0, 2, 1, 3).contiguous()
        return by_position.flatten(2)

    def _heads(self, projection: nn.Module, x: Tensor) -> Tensor:
        """Return a projection of `x` as (N, heads, length, width of a head)."""
        batch, length, _ = x.shape
        projected = self._run(projection, x)
        split = projected.view(batch, length, self.heads, -1)
        return split.permute(0, 2, 1, 3)

    def _run(self, part: nn.Module, x: Tensor) -> Tensor:
        if self.scripted:
            return part.forward(x)
        return part(x)


class Encoder(nn.Module):
    """(N, length, width) and a mask -> (N, length, width), through a stack of layers."""

    def __init__(
        self, layers: int, width: int, heads: int, scripted: bool = False
    ) -> None:
        """Create the layers with fresh weights."""
        super().__init__()
        stack = [Layer(width, heads, scripted) for _ in range(layers)]
        self.layers = nn.ModuleList(stack)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return the result of the last layer."""
        for layer in self.layers:
            x = layer(x, mask)
        return x
