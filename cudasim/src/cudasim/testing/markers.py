"""The markers `gpus` and `world` of a test."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import pytest

UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
PATIENCE = 300  # seconds for a test in a world, unless its marker has a `timeout`

Need = TypeVar("Need")


class GpusNeed(NamedTuple):
    """What `@pytest.mark.gpus(n, memory="1GiB")` asks for."""

    gpus: int
    memory: int | None  # bytes of each GPU, None for all


class WorldNeed(NamedTuple):
    """What `@pytest.mark.world(n)` asks for."""

    ranks: int
    gpus: int
    timeout: float  # seconds


def gpus(n: int = 1, memory: object = None) -> GpusNeed:
    """Read the arguments of the marker `gpus`."""
    number = _read_number("n", n, least=1)
    return GpusNeed(number, None if memory is None else _read_bytes(memory))


def world(n: Any = None, gpus: Any = None, timeout: Any = PATIENCE) -> WorldNeed:
    """Read the arguments of the marker `world`."""
    if n is None:
        raise ValueError("write @pytest.mark.world(2), for two ranks")
    ranks = _read_number("n", n, least=1)
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not (is_number and timeout > 0):
        raise ValueError(f"timeout={timeout!r}: write a number of seconds")
    number = ranks if gpus is None else _read_number("gpus", gpus, least=0)
    return WorldNeed(ranks, number, timeout)


def read(item: pytest.Item, reader: Callable[..., Need]) -> Need | None:
    """Return what the marker with the name of `reader` asks for; None without one.

    The test fails if the arguments make no sense.
    """
    marker = item.get_closest_marker(reader.__name__)
    if marker is None:
        return None
    try:
        return reader(*marker.args, **marker.kwargs)
    except (TypeError, ValueError) as error:
        pytest.fail(f"@pytest.mark.{marker.name}: {error}", pytrace=False)


def _read_number(name: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name}={value!r}: write a whole number from {least}")
    return value


def _read_bytes(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]iB|B)", str(value))
    size = int(float(match[1]) * UNITS[match[2]]) if match else 0
    if not size:
        rule = "write a number of bytes, or a text such as '512MiB'"
        raise ValueError(f"memory={value!r}: {rule}")
    return size
