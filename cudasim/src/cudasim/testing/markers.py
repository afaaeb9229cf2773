"""What the markers `gpus` and `world` say of a test."""

import re
from collections.abc import Callable
from typing import Any

import pytest

UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
PATIENCE = (
    300  # seconds that a test of a world has, if its marker says no other `timeout`
)


def gpus(n: int = 1, memory: object = None) -> tuple[int, int | None]:
    """(GPUs, bytes of each or None for all) of `@pytest.mark.gpus(n, memory="1GiB")`."""
    return _whole("n", n, 1), None if memory is None else _bytes(memory)


def world(
    n: Any = None, gpus: Any = None, timeout: Any = PATIENCE
) -> tuple[int, int, float]:
    """(ranks, GPUs, seconds) of `@pytest.mark.world(n)`."""
    if n is None:
        raise ValueError("write @pytest.mark.world(2), for two ranks")
    size = _whole("n", n, 1)
    if (
        isinstance(timeout, bool)
        or not isinstance(timeout, int | float)
        or not timeout > 0
    ):
        raise ValueError(f"timeout={timeout!r}: write a number of seconds")
    return size, size if gpus is None else _whole("gpus", gpus, 0), timeout


def read(item: pytest.Item, says: Callable) -> Any:
    """What the marker named as `says` says of a test, which fails if that makes no sense."""
    marker = item.get_closest_marker(says.__name__)
    if marker is None:
        return None
    try:
        return says(*marker.args, **marker.kwargs)
    except (TypeError, ValueError) as error:
        pytest.fail(f"@pytest.mark.{marker.name}: {error}", pytrace=False)


def _whole(name: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name}={value!r}: write a whole number from {least}")
    return value


def _bytes(text: object) -> int:
    if isinstance(text, int) and not isinstance(text, bool) and text > 0:
        return text
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]iB|B)", str(text))
    number = int(float(found[1]) * UNITS[found[2]]) if found else 0
    if not number:
        raise ValueError(
            f"memory={text!r}: write a number of bytes, or a text such as '512MiB'"
        )
    return number
