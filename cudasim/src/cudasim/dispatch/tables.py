"""Names of PyTorch's operators and functions, by what happens to them: as in PyTorch's sources."""

import json
from pathlib import Path

TABLES = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
