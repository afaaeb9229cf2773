"""The collectives: which functions ask for each, and what NCCL does with its arguments."""

import json
from pathlib import Path
from typing import NamedTuple


class Collective(NamedTuple):
    """An operator of `torch.ops.c10d`; numbers are positions among its arguments."""

    word: str  # what timelines and the formulas of time call it
    compared: int | None = None  # the tensors that are of one size on every rank
    functions: str = ""  # those of torch.distributed that ask for it
    parts: int | None = None  # a list with a tensor for each rank
    verified: tuple[int, ...] = ()  # the tensors that PyTorch compares in detail
    contiguous: tuple[int, ...] = ()  # the tensors whose layout PyTorch checks for NCCL

    @property
    def moved(self) -> int:
        """The position of the tensors whose bytes travel: the input, where it is larger."""
        return 1 if self.word in ("reduce_scatter", "all_to_all", "gather") else 0


# Those that are made of NCCL's sends and receives, with checks of their own.
PAIRWISE = ("all_to_all", "gather", "scatter", "send", "recv")
# By the operator's name. What `all_gather` gets may be of different sizes, so that is compared.
_rows = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
COLLECTIVES = {name: Collective(**row) for name, row in _rows.items()}
FUNCTIONS: list[str] = []
for _collective in COLLECTIVES.values():
    FUNCTIONS += _collective.functions.split()
