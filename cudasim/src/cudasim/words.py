"""Texts of errors and warnings: those of PyTorch, CUDA and NCCL, and long ones of ours.

A short text may also stand where it is raised, if that is a single place.
"""

import json
from pathlib import Path

WORDS = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
