"""Sizes of memory, as a marker says them."""

import re

UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def parse_bytes(text: object) -> int:
    """The number of bytes that an int, or a text such as `512MiB`, means; else ValueError."""
    if isinstance(text, int) and not isinstance(text, bool) and text > 0:
        return text
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]iB|B)", str(text))
    number = int(float(found[1]) * UNITS[found[2]]) if found else 0
    if not number:
        raise ValueError(f"memory={text!r}: write a number of bytes, or a text such as '512MiB'")
    return number
