"""Texts of errors and warnings, whole: words of PyTorch, CUDA and NCCL, and long ones of ours."""

import json
from pathlib import Path

WORDS = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
