"""Names of hardware: this machine's processor, and cards in a sentence."""

import platform
import re
from pathlib import Path

VOWELS = ("A", "H", "L", "M", "RTX")  # names of cards that are said with "an"


def processor() -> str:
    """Return the model of this machine's processor."""
    path = Path("/proc/cpuinfo")  # Linux has it
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.M)
    if match:
        return match[1]
    return platform.processor() or platform.machine()


def with_article(card: str) -> str:
    """Return the name of a card with its article: 'a T4', 'an H100'."""
    return f"an {card}" if card.startswith(VOWELS) else f"a {card}"
