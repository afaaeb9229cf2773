"""The storages that CUDA graphs hold by aliases of the program's tensors.

A card's graph knows addresses and holds nothing. Here the graph's aliases keep its memory, so
whether the program still uses a storage takes counting.
"""

from dataclasses import dataclass

from torch import Tensor

from cudasim.torch_private.tensors import storage_use_count


@dataclass
class Held:
    """What all graphs have of one storage."""

    aliases: int = 0
    is_result: bool = False  # whether one of them has made it


_storages: dict[int, Held] = {}  # by the address of C++'s storage


def hold(key: int, is_result: bool) -> None:
    """Note one more alias of the storage at `key`."""
    held = _storages.setdefault(key, Held())
    held.aliases += 1
    held.is_result |= is_result


def let_go(key: int, aliases: int) -> None:
    """Note that so many `aliases` of the storage at `key` are gone."""
    held = _storages[key]
    held.aliases -= aliases
    if not held.aliases:
        del _storages[key]


def let_go_all(aliases: dict[int, list[Tensor]]) -> None:
    """Drop the `aliases` of a graph, by the storages that they hold."""
    for key, tensors in aliases.items():
        let_go(key, len(tensors))
    aliases.clear()


def is_held(key: int) -> bool:
    return key in _storages


def is_result(key: int) -> bool:
    """Return whether a graph has made the storage at `key`, which one holds."""
    return _storages[key].is_result


def other_users(key: int) -> int:
    """Return how many tensors, besides the aliases of graphs, use a storage that one holds.

    The Python object that carries the tag uses it too.
    """
    return storage_use_count(key) - _storages[key].aliases - 1
