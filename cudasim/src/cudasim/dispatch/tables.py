"""The tables of `tables.json`: names of PyTorch's operators and functions by what they do.

They follow PyTorch's sources. Each module that uses one says what it means.
"""

import json
from pathlib import Path

TABLES = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
